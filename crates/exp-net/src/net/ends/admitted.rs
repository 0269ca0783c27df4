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
    pub fn admit_all(&mut self, count: usize, deadline: Instant) -> Result<Vec<TcpStream>> {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{dial, plain_order, with_far};
    use super::super::{Door, PATIENCE};
    use anyhow::Result;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    #[test]
    fn connections_are_dealt_out_in_the_order_in_which_they_were_made() {
        let order = plain_order();
        let serve = |far: &mut bench::measure::FarEnd| {
            Door::open(far)?.serve(far, |door, _, call| {
                for mut stream in door.admit_all(3, Instant::now() + PATIENCE)? {
                    let mut said = [0];
                    stream.read_exact(&mut said)?;
                    call.line.tell(&said[0])?;
                }
                Ok(())
            })
        };
        let (served, told) = with_far(&order, serve, |far| -> Result<Vec<u8>> {
            let mut dial = dial(&order, &far);
            let case = order.series.cases[0].clone();
            let mut line = dial.call(&case, &0)?;
            let preambles: Vec<Vec<u8>> = (0..3).map(|_| dial.preamble()).collect();
            let mut open = Vec::new();
            // The first one's preamble comes last, as after a loss on the way.
            for at in [2, 1, 0] {
                let mut stream = TcpStream::connect(dial.address())?;
                stream.write_all(&preambles[at])?;
                stream.write_all(&[at as u8])?;
                open.push(stream);
            }
            (0..3).map(|_| line.hear(PATIENCE)).collect()
        });
        served.expect("drains");
        assert_eq!(told.expect("is told"), [0, 1, 2]);
    }
}
