//! The processor: what its instructions, its procedure calls and its caches' hand-overs cost, and
//! what it does at most.

bench::family!("cpu", "the processor core: procedure calls, peak and sustained rates, linear \
                       algebra, instructions, hand-over of cache lines", hidden: false, [
    call,
    peak,
    sustained,
    linpack,
    instruction,
    core_to_core,
]);

#[cfg(test)]
mod tests;
