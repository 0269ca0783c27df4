//! The built binary on two hosts: network namespaces joined by cables that are slow, long, lossy or
//! cut, with agents in them. Needs root; scripts/test installs the programs. Figures are held
//! against what the cable is known to do, and only where plumb is not the noise.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::print_stdout, reason = "figures stand with a test, whether it fails or not")]

mod agents;
mod cable;
mod delayed;
mod faults;
mod frames;
mod lab;
mod launchers;
mod lossy;
#[path = "../harness/namespace.rs"]
mod namespace;
#[expect(dead_code, reason = "the other binary's tests use all of it")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod relay;
mod shaped;

/// Times that a figure is looked at: other programs share the machine.
const ATTEMPTS: u32 = 3;

/// Tries up to three times; each says what it saw.
#[track_caller]
fn attempts(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut seen = Vec::new();
    for number in 1..=ATTEMPTS {
        match attempt() {
            Ok(()) => return,
            Err(why) => {
                println!("{what}, attempt {number}: {why}");
                seen.push(why);
            }
        }
    }
    panic!("{what}: {seen:#?}");
}

/// Whether a figure is within a share of what it should be; both are printed.
fn near(what: &str, found: f64, expected: f64, share: f64) -> Result<(), String> {
    let ratio = found / expected;
    let said = format!("{what}: {found:.6e}, expected {expected:.6e}, ratio {ratio:.4}");
    println!("{said}");
    if (ratio - 1.0).abs() <= share { Ok(()) } else { Err(said) }
}
