//! Clocks: what they cost, how fine and how true they are.

bench::family!("clock", "what reading a clock costs, how true the clocks are, what a loop adds", hidden: false, [
    read,
    rate,
    r#loop,
]);
