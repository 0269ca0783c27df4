//! The processor: what its instructions and its procedure calls cost.

crate::family!("cpu", "what the processor core does: procedure calls", hidden: false, [
    call,
    peak,
    sustained,
]);
