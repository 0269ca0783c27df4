//! The built binary on machines that nobody here owns, as software. Their figures mean nothing;
//! what is asked, bound, verified, found, derived and refused is real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::namespace::Namespace;
use crate::plumb::prelude::*;
use tempfile::TempDir;

mod card;
mod guest;
#[expect(dead_code, reason = "the labs use the rest")]
#[path = "../harness/namespace.rs"]
mod namespace;
mod nfs;
mod nodes;
#[expect(dead_code, reason = "the other crates' tests use the rest")]
#[path = "../harness/plumb.rs"]
mod plumb;
mod slices;
mod smb;
mod tickless;

const PATIENCE: Duration = Duration::from_secs(30);

/// What stands between the lines `[name` and `name]`.
fn part<'printed>(printed: &'printed str, name: &str) -> &'printed str {
    let (_, after) = printed
        .split_once(&format!("[{name}\n"))
        .unwrap_or_else(|| panic!("no {name} in:\n{printed}"));
    let (part, _) = after
        .split_once(&format!("{name}]\n"))
        .unwrap_or_else(|| panic!("no end of {name} in:\n{printed}"));
    part
}

/// The events of a record that stands between such lines.
fn events(printed: &str, name: &str) -> Vec<Value> {
    part(printed, name).lines().map(event).collect()
}

/// A program in a network namespace; it ends with its value.
struct Served {
    child: Child,
    dir: TempDir,
}

impl Served {
    /// Starts a program there, once `make` has made what it needs in a directory, and waits until
    /// something listens at a port.
    fn start(
        namespace: &Namespace,
        name: &str,
        port: u16,
        make: impl FnOnce(&Path) -> Vec<String>,
    ) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let program = make(dir.path());
        let log = File::create(dir.path().join("log")).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &namespace.0])
            .args(program)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("scripts/test installs iproute2");
        let served = Served { child, dir };
        let said = || fs::read_to_string(served.dir.path().join("log")).unwrap();
        let begin = Instant::now();
        while !listens(namespace, port) {
            assert!(begin.elapsed() < PATIENCE, "{name} does not listen: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        served
    }
}

fn listens(namespace: &Namespace, port: u16) -> bool {
    let mut look = Command::new("ip");
    look.args(["netns", "exec", &namespace.0, "cat", "/proc/net/tcp", "/proc/net/tcp6"]);
    let told = look.output().unwrap();
    // State 0A: it listens.
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let of_port = |line: &&str| line.contains(&format!(":{port:04X} "));
    told.lines().filter(of_port).any(|line| line.contains(" 0A "))
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
