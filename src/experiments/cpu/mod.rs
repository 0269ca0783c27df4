//! The processor: what its instructions and its procedure calls cost.

crate::family!("cpu", "what the processor core does: procedure calls, hand-over of cache lines", hidden: false, [
    call,
    core_to_core,
]);
