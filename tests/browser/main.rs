//! The page of a report in a real browser: Debian's chromium, headless, without a network, driven
//! by the DevTools protocol. Records are real (a rehearsal of everything on this host) or made from
//! a real one by changing its lines.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod beside;
mod chromium;
mod crosscheck;
mod drawn;
mod finder;
mod fleet;
mod looks;
mod odd;
mod pages;
mod plots;
#[expect(dead_code, reason = "the other binary's tests use all of it")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod print;
mod reading;
#[path = "../harness/records.rs"]
mod records;
mod tab;
