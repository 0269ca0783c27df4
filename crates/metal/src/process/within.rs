//! What may hang in the kernel is done by a child, which is left behind where it does.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::Child;
use crate::wait::{readable, readable_unless};

/// A child that is over, or was killed, is waited for so long before it is left behind.
const GRACE: Duration = Duration::from_millis(500);
/// Descriptors that are closed one by one where the kernel has no close_range(2) (before 5.9).
const DESCRIPTORS_MAX: RawFd = 1 << 16;

/// What the child sends: any number of signs, then how it went.
const SIGN: u8 = b'.';
const DONE: u8 = b'+';
const FAILED: u8 = b'-';

/// Signals whose handlers set the flag that ends a wait.
const STOPPING: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// How long a child may show no progress, and what else ends the wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'flag> {
    silence: Duration,
    stop: Option<&'flag AtomicBool>,
}

impl<'flag> Patience<'flag> {
    /// Ends also when a handler of SIGINT or SIGTERM sets this flag. The process must handle both,
    /// and no other thread of it may take them.
    pub fn unless(silence: Duration, stop: &'flag AtomicBool) -> Self {
        Patience { silence, stop: Some(stop) }
    }
}

impl From<Duration> for Patience<'_> {
    fn from(silence: Duration) -> Self {
        Patience { silence, stop: None }
    }
}

/// Shows the waiting parent that the child goes on.
#[derive(Debug)]
pub struct Signs {
    pipe: PipeWriter,
}

impl Signs {
    /// Gives one: the parent's patience begins anew.
    pub fn give(&self) {
        self.send(&[SIGN]);
    }

    /// A parent that has gone takes nothing more, and needs nothing.
    fn send(&self, bytes: &[u8]) {
        let _ = (&self.pipe).write_all(bytes);
    }
}

/// Runs `body` in a forked child and returns its bytes. Where it neither ends nor gives a sign in
/// time, or is not to be waited for any longer, the child is killed; one that cannot be (it waits
/// in the kernel for a device or server that does not answer) is left behind, and holds nothing of
/// this process but its memory: its standard streams are /dev/null, all other descriptors are
/// closed, locks included. `body` may therefore use no descriptor that was open before. Errors:
/// what `body` reports, with its number; `TimedOut`; `Interrupted` where the flag was set; a child
/// that ended otherwise; those of fork(2) and pipe(2).
pub fn within<'flag>(
    patience: impl Into<Patience<'flag>>,
    body: impl FnOnce(&Signs) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<u8>> {
    let (reader, writer) = io::pipe()?;
    let signs = Signs { pipe: writer };
    let child = Child::fork(|| {
        let answer = keep_only(&signs.pipe).and_then(|()| body(&signs));
        signs.send(&encode(answer));
        0
    })?;
    // The child's is then the only other end.
    drop(signs);
    let sent = listen(reader, patience.into());
    // It may hang also where it closes what it had open.
    child.end_within(GRACE);
    decode(&sent?)
}

/// Everything that the child sends, up to its end.
fn listen(mut reader: PipeReader, patience: Patience<'_>) -> io::Result<Vec<u8>> {
    let silence = patience.silence;
    let stopped = || patience.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    let mut sent = Vec::new();
    let mut piece = [0; 4096];
    let mut deadline = Instant::now() + silence;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let ready = match patience.stop {
            Some(_) => readable_unless(reader.as_fd(), left, &STOPPING, stopped),
            None => readable(reader.as_fd(), left),
        };
        match ready {
            Ok(true) => {}
            Ok(false) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no answer in {} s", silence.as_secs_f64()),
                ));
            }
            // The flag is looked at again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !stopped() => continue,
            Err(error) => return Err(error),
        }
        match reader.read(&mut piece)? {
            0 => return Ok(sent),
            read => sent.extend(&piece[..read]),
        }
        deadline = Instant::now() + silence;
    }
}

fn encode(answer: io::Result<Vec<u8>>) -> Vec<u8> {
    match answer {
        Ok(bytes) => [&[DONE], &bytes[..]].concat(),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0).to_le_bytes();
            [&[FAILED], &number[..], error.to_string().as_bytes()].concat()
        }
    }
}

fn decode(sent: &[u8]) -> io::Result<Vec<u8>> {
    let signs = sent.iter().take_while(|byte| **byte == SIGN).count();
    match sent[signs..].split_first() {
        Some((&DONE, bytes)) => Ok(bytes.to_vec()),
        Some((&FAILED, rest)) => {
            let (number, text) = rest.split_at_checked(4).unwrap_or_default();
            let number = number.try_into().map_or(0, i32::from_le_bytes);
            Err(match number {
                0 => io::Error::other(String::from_utf8_lossy(text).into_owned()),
                number => io::Error::from_raw_os_error(number),
            })
        }
        _ => Err(io::Error::other("the child ended without an answer")),
    }
}

/// Leaves nothing open but this pipe, with /dev/null for the standard streams: whoever waits for
/// the end of what this process writes to must not wait for the child.
fn keep_only(pipe: &PipeWriter) -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    drop(null);
    let kept = pipe.as_raw_fd();
    close(3, kept - 1);
    close(kept + 1, RawFd::MAX);
    Ok(())
}

/// Closes the descriptors from `first` to `last`, where there are any.
fn close(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: plain numbers. The child runs `body` and nothing else, which uses no descriptor of
    // its parent's; it ends without running destructors of its parent's values.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed != 0 {
        for descriptor in first..=last.min(DESCRIPTORS_MAX) {
            // SAFETY: as above.
            unsafe { libc::close(descriptor) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Patience, within};
    use std::io::{self, ErrorKind, Read};
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn an_answer_comes_back_whole() {
        let long = vec![b'.'; 100_000];
        for bytes in [Vec::new(), b"...+-".to_vec(), long] {
            let answer = within(LONG, |signs| {
                signs.give();
                signs.give();
                Ok(bytes.clone())
            });
            assert_eq!(answer.expect("answers"), bytes);
        }
    }

    #[test]
    fn an_error_keeps_its_number_and_others_their_text() {
        let error = within(LONG, |_| Err(io::Error::from_raw_os_error(libc::ENOSPC)));
        assert_eq!(error.expect_err("fails").kind(), ErrorKind::StorageFull);
        let error = within(LONG, |_| Err(io::Error::other("no place")));
        assert_eq!(error.expect_err("fails").to_string(), "no place");
        // Not by `panic!`, whose lock another test's thread may hold in the moment of the fork.
        let error = within(LONG, |_| std::panic::resume_unwind(Box::new(())));
        assert!(error.expect_err("fails").to_string().contains("without"));
    }

    #[test]
    fn silence_ends_it_and_signs_put_the_end_off() {
        let error = within(Duration::from_millis(50), |_| {
            std::thread::sleep(LONG);
            Ok(Vec::new())
        });
        assert_eq!(error.expect_err("is ended").kind(), ErrorKind::TimedOut);
        let silence = Duration::from_millis(1500);
        let begun = Instant::now();
        within(silence, |signs| {
            while begun.elapsed() < silence * 2 {
                signs.give();
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Vec::new())
        })
        .expect("is waited for");
    }

    #[test]
    fn a_flag_that_is_set_ends_the_wait() {
        let stop = AtomicBool::new(true);
        let error = within(Patience::unless(LONG, &stop), |_| {
            std::thread::sleep(LONG);
            Ok(Vec::new())
        });
        assert_eq!(error.expect_err("is ended").kind(), ErrorKind::Interrupted);
        let stop = AtomicBool::new(false);
        let answer = within(Patience::unless(LONG, &stop), |_| Ok(vec![1]));
        assert_eq!(answer.expect("answers"), [1]);
    }

    #[test]
    fn what_was_open_is_not_kept_open() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let open = within(LONG, |_| {
            let open = std::fs::read_dir("/proc/self/fd")?.count();
            Ok(vec![u8::try_from(open).unwrap_or(u8::MAX)])
        });
        // Three streams, the answer's pipe, and the directory that is being read.
        assert_eq!(open.expect("answers"), [5]);
        drop(writer);
        assert_eq!(reader.read(&mut [0]).expect("reads"), 0);
    }
}
