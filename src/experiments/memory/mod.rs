//! Memory: latency, bandwidth, nodes, faults.

crate::family!(
    "memory",
    "Latency, bandwidth, nodes and faults of main memory and its caches",
    hidden: false,
    [latency]
);
