//! Experiments that try the way through: every kind that the contract knows, in miniature.

crate::family! {
    "selftest",
    "the way through, in miniature: its figures mean nothing",
    hidden: true,
    [echo, pulse, sweep, file, fault]
}
