//! Memory: latency, bandwidth, nodes, faults.

crate::family!(
    "memory",
    "main memory and its caches: load latency, levels, translation",
    hidden: false,
    [latency]
);
