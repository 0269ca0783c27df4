//! The parent with its resident memory, and the programs that its children become.

use super::LEAST_EVENTS;
use super::reports::{Given, count_areas};
use bench::measure::placed::verify_pages;
use bench::prelude::*;
use host::refused;
use laws::os::process::Call;
use metal::clock::{monotonic_ns, monotonic_raw_ns, ticks_start};
use metal::elf::{Machine, dynamic_program, linkage, static_program};
use metal::memory::{Mapping, Pages};
use metal::process::{Moments, Program, STATUS, Then, Watch};
use std::io;
use std::path::{Path, PathBuf};

/// Creations of a case, at most and in a rehearsal.
const EVENTS_MAX: usize = 10_000;
const REHEARSAL_EVENTS: usize = 2;
/// The shell, as system(3) calls it.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// The worker as a parent: its memory, its clock, and what its children execute.
pub(super) struct Parent {
    /// Held, and not written to: what fork copies the tables of.
    _memory: Mapping,
    given: Given,
    areas: usize,
    /// For how long processes are made before those that are timed, and at least while they are.
    lead_in_ns: u64,
    window_ns: u64,
    watch: Watch,
    programs: Programs,
    /// The first fork after the memory was written, in ns until it returned.
    first_fork_ns: f64,
}

impl Parent {
    /// Touches the resident memory, verifies its pages, makes the first fork of it, which is dearer
    /// than the others, and writes the programs that the series needs.
    pub(super) fn new(series: &Series, bench: &Bench) -> Result<Parent> {
        let bytes = series.setting("bytes").context("a size of the memory")?;
        let pages = match series.settings.get("kind").and_then(Value::text) {
            Some("huge") => Pages::Huge,
            _ => Pages::Base,
        };
        let memory = resident(usize::try_from(bytes)?, pages)?;
        let given = Given::new(series)?;
        let now = match bench.order().clock() {
            Clock::Counter { .. } => ticks_start,
            Clock::Monotonic => monotonic_ns,
        };
        let watch = Watch::new(now).context("memory that parent and child share")?;
        let first = watch.fork(Then::Exit).map_err(refused::explained)?;
        Ok(Parent {
            _memory: memory,
            given,
            areas: count_areas().context("the worker's own areas")?,
            lead_in_ns: series.setting("lead_in").unwrap_or(0),
            window_ns: series.setting("window").unwrap_or(0),
            first_fork_ns: bench.order().clock().ns(first.returned.wrapping_sub(first.called)),
            programs: Programs::default(),
            watch,
        })
    }

    /// Makes processes for the case's time; the first, which fills caches, is not recorded.
    pub(super) fn measure(&mut self, case: &Case, call: Call, bench: &mut Bench) -> Result<()> {
        self.programs.prepare(call, &self.watch, bench.order().dir.as_deref())?;
        let (least, most) = if bench.order().rehearsal {
            (REHEARSAL_EVENTS, REHEARSAL_EVENTS)
        } else {
            (LEAST_EVENTS, EVENTS_MAX)
        };
        self.create(call)?;
        let (lead_in_ns, window_ns) =
            if bench.order().rehearsal { (0, 0) } else { (self.lead_in_ns, self.window_ns) };
        let (mut led_in, from) = (0_u64, monotonic_raw_ns());
        let mut until = from;
        while until - from < lead_in_ns {
            self.write_and_create(call, 0)?;
            led_in += 1;
            until = monotonic_raw_ns();
        }
        let lead_in = (led_in > 0).then(|| (until - from) as f64 / led_in as f64);
        // At a microsecond each, which none reaches, all of a long window find room.
        let most = most.max((window_ns / 1000) as usize);
        let until = monotonic_raw_ns() + bench.order().case_ns.max(window_ns);
        let mut events = Vec::with_capacity(most);
        let clock = bench.order().clock();
        let begin = clock.start();
        while events.len() < least || (events.len() < most && monotonic_raw_ns() < until) {
            events.push(self.write_and_create(call, events.len() as u8)?);
        }
        let whole_ns = clock.between_ns(begin, clock.end());
        self.record(case, call, &events, bench)?;
        let count = events.len() as u64;
        let sequence = vec![whole_ns / count as f64];
        let samples = bench.record(case, "in_sequence", Values::batches(count, sequence))?;
        let lead_in = lead_in.map(|ns| ("lead_in_ns".to_owned(), ns));
        samples.quantities.extend(lead_in);
        Ok(())
    }

    /// One process, after what the parent writes before each.
    fn write_and_create(&mut self, call: Call, value: u8) -> Result<Moments> {
        self.given.write(value);
        self.create(call)
    }

    fn create(&mut self, call: Call) -> Result<Moments> {
        let Programs { fixed, dynamic, shell, .. } = &self.programs;
        let watch = &mut self.watch;
        let made = match (call, fixed, dynamic, shell) {
            (Call::Fork, ..) => watch.fork(Then::Exit),
            (Call::ForkCalls, ..) => watch.fork(Then::Calls),
            (Call::Clone3, ..) => watch.clone3(),
            (Call::Vfork, ..) => watch.vfork(),
            (Call::ForkExecStatic, Some(program), ..) => watch.fork(Then::Exec(program)),
            (Call::PosixSpawnStatic, Some(program), ..) => watch.spawn(program),
            (Call::ForkExecDynamic, _, Some(program), _) => watch.fork(Then::Exec(program)),
            (Call::PosixSpawnDynamic, _, Some(program), _) => watch.spawn(program),
            (Call::Sh, .., Some(program)) => watch.spawn(program),
            _ => bail!("{} has no program to execute", call.text()),
        };
        made.map_err(refused::explained)
    }

    fn record(&self, case: &Case, call: Call, events: &[Moments], bench: &mut Bench) -> Result<()> {
        let clock = bench.order().clock();
        let since = |of: fn(&Moments) -> Option<u64>| -> Vec<f64> {
            let ends = events.iter().filter_map(|event| Some((event.called, of(event)?)));
            ends.map(|(start, end)| clock.between_ns(start, end)).collect()
        };
        let early = |event: &&Moments| event.first.is_some_and(|first| first < event.returned);
        let early = events.iter().filter(early).count();
        if call != Call::Vfork {
            // Such a child took the CPU from its parent, which is what the case makes on purpose.
            bench.declare(Declared::Switches(early as u64));
        }
        let first = since(|event| event.first);
        let returned = since(|event| Some(event.returned));
        let samples = bench.record(case, "return", returned)?;
        let share = early as f64 / events.len() as f64;
        samples
            .set_quantities([("first_fork_ns", self.first_fork_ns), ("areas", self.areas as f64)]);
        samples.set_quantities((!first.is_empty()).then_some(("child_first", share)));
        samples.notes.extend(self.programs.note(call));
        if !first.is_empty() {
            bench.record(case, "first_instruction", first)?;
        }
        bench.record(case, "reaped", since(|event| Some(event.reaped)))?;
        Ok(())
    }
}

/// Memory with all pages present, of the requested kind.
pub(super) fn resident(bytes: usize, pages: Pages) -> Result<Mapping> {
    let mut memory = Mapping::new(bytes, pages).context("the parent's memory")?;
    memory.touch();
    verify_pages(&memory, None)?;
    Ok(memory)
}

/// What children execute, as far as it was needed.
#[derive(Default)]
struct Programs {
    fixed: Option<Program>,
    dynamic: Option<Program>,
    shell: Option<Program>,
    /// Where the first of them lies, once one was made.
    home: Option<Home>,
}

#[derive(Clone, Debug)]
enum Home {
    Memory,
    Directory(PathBuf),
}

impl Programs {
    /// Makes what a call executes, if it executes anything.
    fn prepare(&mut self, call: Call, watch: &Watch, dir: Option<&Path>) -> Result<()> {
        match call {
            Call::ForkExecStatic | Call::PosixSpawnStatic if self.fixed.is_none() => {
                let bytes = static_program(Machine::HERE, STATUS);
                self.fixed = Some(self.written(&bytes, watch, dir)?);
            }
            Call::ForkExecDynamic | Call::PosixSpawnDynamic if self.dynamic.is_none() => {
                let own = std::fs::read("/proc/self/exe").context("plumb's own program file")?;
                let linkage = linkage(&own)
                    .context("plumb's own program file")?
                    .context("this plumb is statically linked and has no dynamic linker")?;
                let bytes = dynamic_program(Machine::HERE, &linkage, STATUS);
                self.dynamic = Some(self.written(&bytes, watch, dir)?);
            }
            Call::Sh if self.shell.is_none() => {
                ensure!(Path::new("/bin/sh").exists(), "there is no /bin/sh on this machine");
                self.shell = Some(Program::at_path(SHELL, &[c"sh", c"-c", c"exit 42"]));
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes a program where it can be executed, which is tried once.
    fn written(&mut self, bytes: &[u8], watch: &Watch, dir: Option<&Path>) -> Result<Program> {
        let directories = dir.map(Path::to_owned).into_iter().chain([std::env::temp_dir()]);
        let homes = [Home::Memory].into_iter().chain(directories.map(Home::Directory));
        let homes: Vec<Home> = match &self.home {
            Some(home) => vec![home.clone()],
            None => homes.collect(),
        };
        let mut reasons = Vec::new();
        for home in homes {
            let program = match &home {
                Home::Memory => Program::in_memory(bytes),
                Home::Directory(directory) => Program::in_directory(bytes, directory),
            };
            match program.and_then(|program| watch.spawn(&program).map(|_| program)) {
                Ok(program) => {
                    self.home = Some(home);
                    return Ok(program);
                }
                // A limit on processes is no property of the file.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(refused::explained(error));
                }
                Err(error) => reasons.push(format!("{}: {error}", home.name())),
            }
        }
        bail!(
            "a program in --dir cannot be executed ({}); name a --dir on a file system that is not \
             mounted noexec",
            reasons.join("; ")
        )
    }

    /// Where the program of a call lies, for those that were made here.
    fn note(&self, call: Call) -> Option<String> {
        let home = self
            .home
            .as_ref()
            .filter(|_| call.text().contains("exec") || call.text().contains("spawn"))?;
        Some(format!("the program is in {}", home.name()))
    }
}

impl Home {
    fn name(&self) -> String {
        match self {
            Home::Memory => "a file in memory (memfd)".to_owned(),
            Home::Directory(path) => format!("a file of {}", path.display()),
        }
    }
}
