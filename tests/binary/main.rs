//! The built binary, end to end: bad input, processes that die, records that are continued.

mod input;
mod output;
mod plumb;
mod process;
mod resume;
mod rounds;
