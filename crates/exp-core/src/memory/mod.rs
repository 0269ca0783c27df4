//! Memory: latency, bandwidth, nodes, faults.

mod levels;
mod probe;
mod quickest;

bench::family!(
    "memory",
    "main memory and its caches: load latency, bandwidth, both under load and between nodes, page faults",
    hidden: false,
    [
        latency,
        bandwidth,
        loaded,
        mlp,
        numa,
        fault,
    ]
);
