//! The built binary, end to end: bad input, processes that die, records that are continued.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ab;
mod agent;
mod author;
mod beside;
mod blowup;
mod cache_size;
mod compare;
mod connect;
mod container;
mod cpu_os;
mod crosscheck;
mod data;
mod fleet;
mod imported;
mod input;
mod limits;
mod memory;
mod networks;
mod output;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod process;
mod quota;
#[expect(dead_code, reason = "the browser's tests use all of it")]
#[path = "../harness/records.rs"]
mod records;
mod reports;
mod resume;
mod rounds;
mod runs;
mod shipped;
mod store;
mod team;
mod versions;
