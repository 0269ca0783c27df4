//! Several data connections of one line, told apart by their numbers.

use super::Door;
use anyhow::{Result, ensure};
use std::net::TcpStream;
use std::time::Instant;

impl Door {
    /// So many data connections of the present line, in the order in which the near end made them, whatever
    /// order they came in: one whose preamble was lost on the way comes after those that were made later.
    ///
    /// # Errors
    /// They did not all come before the deadline, the near end is gone, or one has no TCP_NODELAY.
    pub(crate) fn admit_all(&mut self, count: usize, deadline: Instant) -> Result<Vec<TcpStream>> {
        let mut numbered = Vec::new();
        for _ in 0..count {
            numbered.push(self.admit(deadline)?);
        }
        numbered.sort_by_key(|(_, number)| *number);
        let streams: Vec<TcpStream> = numbered.into_iter().map(|(stream, _)| stream).collect();
        for stream in &streams {
            ensure!(stream.nodelay()?, "TCP_NODELAY was not to be had");
        }
        Ok(streams)
    }
}
