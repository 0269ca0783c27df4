//! The processor: what its instructions and its procedure calls cost.

crate::family!("cpu", "calls, arithmetic and what the cores exchange", hidden: false, [
    call,
]);
