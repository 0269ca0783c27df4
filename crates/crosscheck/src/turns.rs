//! Both sides in turns: A B, B A, A B … on the same CPUs, one at a time.

use super::load::Before;
use super::ports::is_listening;
use super::process::{Call, Endless, Running, text};
use super::ready::{Ready, ready};
use super::{Conditions, Output, Pairing, Rival, Server, estimate, ours, probe};
use anyhow::{Context, Error, Result, anyhow, bail};
use bench::experiment::{Site, Skip};
use record::crosscheck::{self as events, Load};
use record::event::{Ending, Event};
use record::plain::line;
use session::is_interrupt;
use session::node::Interrupted;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A far end listens in this time.
const LISTENING: Duration = Duration::from_secs(10);
/// What was written is on the disk in this time.
const SETTLING: Duration = Duration::from_secs(60);
/// What lays out files may take so long.
const PREPARING: Duration = Duration::from_secs(120);
const REASON_MOST: usize = 300;

pub struct Setting {
    /// What both sides have alike; directories are those of the whole crosscheck.
    pub conditions: Conditions,
    /// Where plumb's side is planned.
    pub site: Site,
    /// The store: in its journal plumb's side writes what it makes, so that it goes even where both
    /// are killed.
    pub store: PathBuf,
    /// What plumb's side shares with this crosscheck among the plumbs of the machine; empty where
    /// that has no place there.
    pub token: String,
    pub rivals: Vec<(&'static Rival, Wanted)>,
    pub pairs: u32,
    /// A rival is ended after this time of a turn, whatever its own limit is.
    pub limit: Option<Duration>,
}

/// Whether a pairing of a rival is wanted, by its name.
pub type Wanted = Box<dyn Fn(&str) -> bool>;

/// The receiver of progress messages, between turns.
pub trait Observer {
    /// An event happened; it is to be stored.
    fn event(&mut self, event: &Event) -> Result<()>;

    /// All rivals have been looked for, and the first turn begins: how many comparisons and turns
    /// of them there are, and how long they take, about.
    fn begins(&mut self, pairings: usize, turns: u64, expected: Duration);

    /// A turn begins: its pairing (`rival: name`), how many pairings and turns of them are done,
    /// and how many there are.
    fn progress(&mut self, pairing: &str, done: u64, all: u64);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub pairings: usize,
    pub measured: usize,
    pub failed: usize,
}

/// The commands that would be run, as they can be typed: plumb's, then the rival's, by pairing.
///
/// # Errors
/// As [`run`].
pub fn commands(setting: &Setting, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<()> {
    for ready in ready(setting, observer, stop)? {
        for pairing in &ready.pairings {
            observer.event(&Event::Pairing(ready.event(pairing)))?;
            if let Some(skip) = &pairing.skip {
                observer.event(&end(&ready, pairing, Ending::Skipped, skip.clone()))?;
            }
        }
    }
    Ok(())
}

/// Runs every pairing in turns.
///
/// # Errors
/// [`Interrupted`]; an event cannot be stored. What fails in a pairing is its end, not an error.
pub fn run(setting: &Setting, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Made> {
    let all = ready(setting, observer, stop)?;
    let turns = |pairing: &Pairing| match (&pairing.skip, pairing.is_once) {
        (Some(_), _) => 0,
        (None, true) => 1,
        (None, false) => setting.pairs,
    };
    let pairings = all.iter().flat_map(|ready| &ready.pairings);
    let wanted: Vec<(&Pairing, u32)> =
        pairings.map(|pairing| (pairing, turns(pairing))).filter(|(_, turns)| *turns > 0).collect();
    let total = wanted.iter().map(|(_, turns)| u64::from(*turns)).sum();
    let rival = Duration::from_secs_f64(setting.conditions.seconds);
    let expected = wanted
        .iter()
        .map(|(pairing, turns)| estimate::turn(pairing, &setting.site, rival) * *turns)
        .sum();
    observer.begins(wanted.len(), total, expected);
    let (mut done, mut made) = (0, Made::default());
    for ready in &all {
        for pairing in &ready.pairings {
            let pairing = &ready.now(pairing)?;
            observer.event(&Event::Pairing(ready.event(pairing)))?;
            let mut bout = Bout {
                ready,
                pairing,
                store: &setting.store,
                token: &setting.token,
                stop,
                observer: &mut *observer,
            };
            let outcome = bout.all(turns(pairing), done, total);
            done += u64::from(turns(pairing));
            let (ending, why) = match outcome {
                Ok(None) => (Ending::Measured, None),
                Ok(Some(skip)) => (Ending::Skipped, Some(skip)),
                Err(error) if is_interrupt(&error) || error.is::<Unstored>() => return Err(error),
                Err(error) => (Ending::Failed, Some(Skip::because(reason(&error)))),
            };
            made.pairings += 1;
            made.measured += usize::from(ending == Ending::Measured);
            made.failed += usize::from(ending == Ending::Failed);
            let why = why.unwrap_or_else(|| Skip::because(""));
            observer.event(&end(ready, pairing, ending, why))?;
        }
        let dirs = [
            Some(&ready.conditions.scratch),
            ready.conditions.files.as_ref(),
            ready.conditions.in_memory.as_ref(),
        ];
        for dir in dirs.into_iter().flatten() {
            // What stays goes with the directory above, whose removal reports the reason.
            let _ = fs::remove_dir_all(dir);
        }
    }
    Ok(made)
}

/// An event could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the record: {0}")]
struct Unstored(String);

fn reason(error: &Error) -> String {
    let text = line(&format!("{error:#}"));
    match text.char_indices().nth(REASON_MOST) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text,
    }
}

fn end(ready: &Ready, pairing: &Pairing, outcome: Ending, why: Skip) -> Event {
    Event::PairingEnd(events::PairingEnd {
        rival: ready.rival.name.to_owned(),
        pairing: pairing.name.clone(),
        outcome,
        reason: Some(why.reason).filter(|reason| !reason.is_empty()),
        needed: why.needed,
    })
}

/// A pairing under way.
struct Bout<'a> {
    ready: &'a Ready,
    pairing: &'a Pairing,
    store: &'a Path,
    token: &'a str,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer,
}

impl Bout<'_> {
    /// All turns; why it was skipped.
    fn all(&mut self, turns: u32, done: u64, total: u64) -> Result<Option<Skip>> {
        if let Some(skip) = &self.pairing.skip {
            return Ok(Some(skip.clone()));
        }
        let theirs = &self.pairing.theirs;
        let mut programs = theirs.programs();
        if let Some(lacking) = programs.find(|name| probe::find(name).is_none()) {
            return Ok(Some(Skip::because(format!("no {lacking} in PATH"))));
        }
        let (program, _) = found(&[theirs.program.to_owned()])?;
        for (name, text) in &theirs.inputs {
            fs::write(self.dir().join(name), text)
                .with_context(|| format!("cannot write {name}"))?;
        }
        for command in &theirs.prepare {
            self.prepare(command)?;
        }
        let server = theirs.server.as_ref().map(|server| self.serve(server)).transpose()?;
        let label = format!("{}: {}", self.ready.rival.name, self.pairing.name);
        for n in 1..=turns {
            self.observer.progress(&label, done + u64::from(n - 1), total);
            let pair = match self.turn(n, &program) {
                // Chance may spoil one; what does not end would not end again.
                Err(error)
                    if !is_interrupt(&error) && error.downcast_ref::<Endless>().is_none() =>
                {
                    self.turn(n, &program)?
                }
                done => done?,
            };
            self.observer
                .event(&Event::Pair(pair))
                .map_err(|error| anyhow!(Unstored(format!("{error:#}"))))?;
        }
        drop(server);
        Ok(None)
    }

    /// One turn: the first side changes from turn to turn.
    fn turn(&self, n: u32, program: &Path) -> Result<events::Pair> {
        let ours_first = n % 2 == 1;
        let ((ours, ours_load), (theirs, theirs_load)) = if ours_first {
            let ours = self.ours()?;
            (ours, self.theirs(program)?)
        } else {
            let theirs = self.theirs(program)?;
            (self.ours()?, theirs)
        };
        Ok(events::Pair {
            rival: self.ready.rival.name.to_owned(),
            pairing: self.pairing.name.clone(),
            n,
            ours_first,
            ours,
            theirs,
            ours_load: Some(ours_load),
            theirs_load: Some(theirs_load),
        })
    }

    fn dir(&self) -> &Path {
        &self.ready.conditions.scratch
    }

    fn call<'call>(&'call self, program: &'call Path, args: &'call [String]) -> Call<'call> {
        Call {
            program,
            args,
            environment: &self.pairing.theirs.environment,
            cpus: &self.pairing.theirs.cpus,
            dir: self.dir(),
        }
    }

    fn prepare(&self, command: &[String]) -> Result<()> {
        let (program, args) = found(command)?;
        let (status, said) = self
            .call(&program, args)
            .run(PREPARING, self.stop)
            .with_context(|| format!("{} (which prepares)", command[0]))?;
        match status.success() {
            true => Ok(()),
            false => {
                bail!("{} (which prepares): {status}: {}", command[0], last(&command[0], &said))
            }
        }
    }

    /// Starts the far end and waits until it listens.
    fn serve(&self, server: &Server) -> Result<Running> {
        let (program, args) = found(&server.command)?;
        let call = Call { cpus: &server.cpus, ..self.call(&program, args) };
        if let Some(port) = server.ports.iter().find(|port| is_listening(**port)) {
            bail!("port {port}, which its server takes, is another's already");
        }
        let running = call.start("server")?;
        let deadline = Instant::now() + LISTENING;
        while !server.ports.iter().all(|port| is_listening(*port)) {
            if running.has_ended() {
                let said = last(&server.command[0], &running.output());
                bail!("its server ended: {said}");
            }
            if self.stop.load(Ordering::Relaxed) {
                bail!(Interrupted);
            }
            if Instant::now() > deadline {
                bail!("its server did not listen in {} s", LISTENING.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    fn theirs(&self, program: &Path) -> Result<(Vec<f64>, Load)> {
        let theirs = &self.pairing.theirs;
        self.settle()?;
        let left = theirs.answer.map(|name| self.dir().join(name));
        if let Some(file) = &left {
            let _ = fs::remove_file(file);
        }
        let before = Before::now(&theirs.cpus);
        let (status, said) = self
            .call(program, &theirs.args)
            .run(self.ready.limit.unwrap_or(theirs.limit), self.stop)
            .with_context(|| theirs.program.to_owned())?;
        let load = before.load(&theirs.cpus, theirs.server.is_none());
        if !status.success() {
            bail!("{}: {status}: {}", theirs.program, last(theirs.program, &said));
        }
        let said = Output { answer: left.map(|file| text(&file)).unwrap_or_default(), ..said };
        let rows = self.pairing.rows.iter();
        let values =
            rows.map(|row| self.ready.rival.read(&said, &row.what).map_err(|why| anyhow!(why)));
        let values = values.collect::<Result<_>>();
        let unknown = || format!("{} said something unknown", theirs.program);
        Ok((values.with_context(unknown)?, load))
    }

    fn ours(&self) -> Result<(Vec<f64>, Load)> {
        let ours = &self.pairing.ours;
        let before = Before::now(&ours.cpus);
        let run = ours::run(ours, self.dir(), self.store, self.token, self.stop);
        let run = run.context("plumb")?;
        let load = before.load(&ours.cpus, self.pairing.theirs.server.is_none());
        let rows = self.pairing.rows.iter().map(|row| ours::value(&run, ours, row));
        Ok((rows.collect::<Result<_>>().context("plumb")?, load))
    }

    /// What was written before is on the disk: as plumb does before each round.
    fn settle(&self) -> Result<()> {
        let Some(dir) = self.pairing.ours.dir.clone() else {
            return Ok(());
        };
        let synced = metal::process::within(SETTLING, move |_| {
            metal::storage::sync_file_system(&fs::File::open(&dir)?)?;
            Ok(Vec::new())
        });
        match synced {
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                bail!("the directory for files does not answer for {} s", SETTLING.as_secs())
            }
            _ => Ok(()),
        }
    }
}

fn found(command: &[String]) -> Result<(PathBuf, &[String])> {
    let (name, args) = command.split_first().context("an empty command")?;
    let program = probe::find(name).with_context(|| format!("no {name} in PATH"))?;
    Ok((program, args))
}

/// The line with the reason for a program's failure: the last that begins with its name, as
/// messages do (fio has them before an answer on standard output), else the last on standard error,
/// else of what it said.
fn last(program: &str, said: &Output) -> String {
    let texts = [&said.stderr, &said.stdout];
    let own = format!("{}: ", program.rsplit('/').next().unwrap_or(program));
    let of = |is_meant: &dyn Fn(&str) -> bool| {
        let mut lines = texts.iter().map(|text| text.lines().rev().map(str::trim));
        lines.find_map(|mut lines| lines.find(|line| is_meant(line)))
    };
    let line = of(&|line| line.starts_with(&own)).or_else(|| of(&|line| !line.is_empty()));
    line.unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::last;
    use crate::Output;

    #[test]
    fn a_failure_is_told_by_the_program_s_own_message_or_its_last_line() {
        let said = |stdout: &str, stderr: &str| Output {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            answer: String::new(),
        };
        let own = "fio: pid=1, err=1, func=io_queue_init, error=Operation not permitted";
        let json = said(&format!("{own}\n{{\n}}\n"), "");
        assert_eq!([last("fio", &json), last("/usr/bin/fio", &json)], [own, own]);
        let both = said("half an answer\n", "usage\nno such option\n\n");
        assert_eq!(last("tool", &both), "no such option");
        let own = said("tool: cannot\n", "at line 3\n");
        assert_eq!(last("tool", &own), "tool: cannot");
        assert_eq!(last("tool", &said("", " \n")), "it said nothing");
    }
}
