//! Clocks: what they cost, how fine and how true they are.

bench::family!("clock", "cost and accuracy of reading the clocks, and the overhead of a loop", hidden: false, [
    read,
    rate,
    r#loop,
]);
