//! Memory: latency, bandwidth, nodes, faults.

mod levels;
mod place;

crate::family!(
    "memory",
    "main memory and its caches: load latency, levels, translation",
    hidden: false,
    [latency, bandwidth, numa, loaded, mlp]
);
