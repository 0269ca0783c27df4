//! A browser process, and the DevTools protocol over two pipes: commands go in by descriptor 3,
//! answers and events come out by descriptor 4, each ended by a zero byte.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No answer takes longer; drawing everything in a debug build on a busy host takes a few seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a browser that was asked to end may take before it is killed.
const FAREWELL: Duration = Duration::from_secs(3);

/// What keeps it from asking anybody anything, and from looking different on another day.
const OPTIONS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--lang=en-US",
    "--remote-debugging-pipe",
];

/// A running browser; it ends when the last test that uses it does.
pub struct Browser {
    child: Child,
    profile: TempDir,
    input: Mutex<ChildStdin>,
    heard: Arc<Heard>,
    last_id: AtomicU64,
    /// Whether it has a network namespace of its own, in which there is nobody.
    is_apart: bool,
}

#[derive(Default)]
struct Heard {
    messages: Mutex<Messages>,
    news: Condvar,
}

#[derive(Default)]
struct Messages {
    answers: HashMap<u64, Value>,
    events: HashMap<String, Vec<Value>>,
    has_ended: bool,
}

impl Browser {
    /// The browser that all tests share while one of them runs.
    pub fn shared() -> Arc<Browser> {
        static SHARED: Mutex<Weak<Browser>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(browser) = shared.upgrade().filter(|browser| !browser.has_ended()) {
            return browser;
        }
        let browser = Arc::new(Browser::start());
        *shared = Arc::downgrade(&browser);
        browser
    }

    fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let errors = fs::File::create(profile.path().join("stderr")).unwrap();
        let is_apart = Command::new("unshare")
            .args(["--net", "--pid", "--fork", "--mount-proc", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        let line = format!(
            "exec chromium {} \"--user-data-dir=$0/profile\" 3<&0 4>&1 0</dev/null 1>/dev/null",
            OPTIONS.join(" ")
        );
        let mut command = match is_apart {
            true => {
                // The first process of a process namespace: all others in it end with it.
                let mut command = Command::new("unshare");
                command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        let mut child = command
            .args(["-c", &line])
            .arg(profile.path())
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("sh is there; scripts/test installs chromium");
        let heard = Arc::new(Heard::default());
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let ears = Arc::clone(&heard);
        std::thread::spawn(move || ears.listen(output.expect("its output is a pipe")));
        let browser = Browser {
            child,
            profile,
            input: Mutex::new(input.expect("its input is a pipe")),
            heard,
            last_id: AtomicU64::new(0),
            is_apart,
        };
        browser.call(None, "Browser.getVersion", json!({}));
        browser
    }

    /// Asks a session of a page, or the browser itself, and waits for the answer.
    #[track_caller]
    pub fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        match self.ask(session, method, params) {
            Ok(answer) => answer,
            Err(error) => panic!("{method}: {error}"),
        }
    }

    fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut line = message.to_string().into_bytes();
        line.push(0);
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = input.write_all(&line).and_then(|()| input.flush());
        drop(input);
        sent.map_err(|error| format!("{error}; {}", self.last_words()))?;
        let answer = self.heard.wait(|messages| messages.answers.remove(&id));
        let mut answer = answer.ok_or_else(|| format!("no answer; {}", self.last_words()))?;
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"].take()),
        }
    }

    /// The events of a session so far (of the browser itself where it is empty).
    pub fn events(&self, session: &str) -> Vec<Value> {
        let messages = self.heard.lock();
        messages.events.get(session).cloned().unwrap_or_default()
    }

    fn has_ended(&self) -> bool {
        self.heard.lock().has_ended
    }

    /// What it wrote to its standard error, the end of it.
    fn last_words(&self) -> String {
        let text = fs::read(self.profile.path().join("stderr")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n");
        let state = if self.has_ended() { "ended" } else { "runs" };
        format!("the browser {state}, and said last:\n{last}")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already; then this cannot be sent.
        let _ = self
            .input
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Nothing to do about one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts messages until the pipe ends.
    fn listen(&self, output: ChildStdout) {
        for message in BufReader::new(output).split(0) {
            let Ok(message) = message else { break };
            let message: Value = serde_json::from_slice(&message).expect("the protocol is JSON");
            let mut messages = self.lock();
            match message["id"].as_u64() {
                Some(id) => {
                    messages.answers.insert(id, message);
                }
                None => {
                    let session = message["sessionId"].as_str().unwrap_or_default().to_owned();
                    messages.events.entry(session).or_default().push(message);
                }
            }
            drop(messages);
            self.news.notify_all();
        }
        self.lock().has_ended = true;
        self.news.notify_all();
    }

    /// Looks after every message; `None` once patience is over or the browser has ended.
    fn wait<T>(&self, look: impl Fn(&mut Messages) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + PATIENCE;
        let mut messages = self.lock();
        loop {
            if let Some(found) = look(&mut messages) {
                return Some(found);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            if messages.has_ended {
                return None;
            }
            let waited = self.news.wait_timeout(messages, left);
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[test]
fn the_browser_has_no_network() {
    let browser = Browser::shared();
    println!("in a network namespace of its own: {}", browser.is_apart);
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
    let (own, its) = (network("self"), network(&browser.child.id().to_string()));
    assert_eq!(browser.is_apart, its != own);
    // Not every user may make one; scripts/test asks for it as root.
    let wanted = std::env::var("PLUMB_BROWSER_APART").is_ok_and(|wanted| !wanted.is_empty());
    assert!(browser.is_apart || !wanted, "unshare gave it no namespace");
}
