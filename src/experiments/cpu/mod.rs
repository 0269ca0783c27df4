//! The processor: what its instructions and its procedure calls cost, and what it reaches.

crate::family!("cpu", "what the processor core does: procedure calls, arithmetic at full rate", hidden: false, [
    call,
    peak,
    sustained,
]);
