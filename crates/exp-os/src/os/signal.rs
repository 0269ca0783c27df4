//! What does a signal cost?
//!
//! ## Question
//!
//! What does it cost to install a handler, to send a signal to oneself and catch it, and to have a
//! forbidden store caught?
//!
//! ## Method
//!
//! System calls are made by their instruction, repeated n against 2n in ABBA quartets on one pinned
//! thread. The handler of all signals adds one to a counter and returns; the kernel builds its frame,
//! and the C library's return code goes back by `rt_sigreturn`.
//!
//! - `install`: `rt_sigaction` gives SIGUSR1 the handler that it has; the disposition is read back at the end.
//! - `mask`: one `rt_sigprocmask`; calls block and unblock SIGUSR1 in turn.
//! - `ignored`: `tgkill` sends the own thread SIGUSR1 while that is ignored: the price of sending
//!   alone, less the queue. None may be caught.
//! - `catch`: the same while the handler is installed: send, deliver, handle, return. The kernel
//!   delivers before `tgkill` returns.
//! - `self_kill`: `kill` of the own process number, as lmbench's `lat_sig catch` has it: the kernel
//!   looks the process up and chooses a thread. Each signal is seen caught before the next is sent, so
//!   none can merge with another.
//! - `fault`: a store (one instruction of a loop in assembly) to a page that is mapped and present but
//!   may only be read. SIGSEGV's handler checks the address of the data and of the instruction and moves the
//!   interrupted program behind the store: fault, frame, handler, return; lmbench's `lat_sig prot`.
//!   Nothing is mended, so each store faults.
//!
//! The handler's count must equal the operations in every batch. Dispositions, the thread's mask and the
//! page are put back when the round ends, whichever way. A fault of any other place ends the
//! process as always.
//!
//! ## Prediction
//!
//! Ways into the kernel and back (two for `catch` and `self_kill`: the call and the return from
//! the handler; an exception and one for `fault`) by processor and mitigations; the kernel's work in
//! cycles; the frame by the bytes of the processor's state that go to the stack and back (AVX-512
//! makes it three times as large). The derived prediction takes the way from os.syscall's measured
//! `getpid`.
//!
//! ## Parameters
//!
//! - `operation`: what is repeated; see Method.
//!
//! ## Reading the result
//!
//! `catch` less `ignored` is delivery and return. `fault` against `catch` is the exception in place
//! of the call. A garbage collector or a user-space pager that works by protection faults pays
//! `fault` and a call that mends each time.
//!
//! ## Pitfalls
//!
//! The C library's `sigaction` copies structures besides; lmbench's `install` includes that and asks
//! for the old disposition. State in use makes frames larger: a process that has used AMX tiles pays
//! 8 KiB more, this one has not. Sandboxes (gVisor) catch the faults and signals themselves. In a process
//! with several threads `self_kill` may reach another one, and then includes a wake-up: the worker has
//! one. Mitigations add to each way in.
//!
//! ## Sources
//!
//! lmbench `lat_sig` (`install`, `catch`, `prot`); Linux kernel/signal.c, arch/x86/kernel/signal.c and
//! fpu/signal.c; signal(7), sigreturn(2). The intervals' sources stand in `predict/os/signal.rs`.

use anyhow::{Context, Result, bail, ensure};
use bench::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, unknown,
};
use bench::measure::Bench;
use laws::Estimate;
use laws::os::measured_call;
use laws::os::signal::{self, SignalWork};
use metal::signal::{Catcher, Faults};
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::CaseId;
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::time::Duration;

/// The experiment.
pub static EXPERIMENT: Signal = Signal;

/// `os.signal`.
pub struct Signal;

/// The signal that is sent: SIGUSR1, which is free for a program's own use.
const SIGUSR1: i32 = 10;

static CARD: Card = Card {
    id: "os.signal",
    title: "Signals",
    metrics: &[Metric::new(
        "latency",
        "one operation, with delivery and return where the signal is caught",
        Unit::Ns,
        Better::Lower,
        Kind::Os,
    )],
    params: &[Param {
        name: "operation",
        doc: "what is repeated: a handler installed, the mask changed, a signal to the own thread \
              ignored or caught, one to the own process caught, a forbidden store caught",
        domain: Domain::Symbols(&["install", "mask", "ignored", "catch", "self_kill", "fault"]),
        defaults: [
            "install,catch,self_kill,fault",
            "install,mask,ignored,catch,self_kill,fault",
            "install,mask,ignored,catch,self_kill,fault",
        ],
        role: Role::Case,
    }],
    after: &["clock.rate", "os.syscall"],
    repeat: Repeat::Rounds,
    isolation: Isolation::Shared,
    needs: &[],
    views: &[ViewCard::bars("latency")],
};

impl Experiment for Signal {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("signal.rs")
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let case = |operation| Case::new(CaseId::new().with("operation", operation));
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Shuffled,
                cases: params.texts("operation").into_iter().map(case).collect(),
                settings: BTreeMap::new(),
            }],
            skipped: Vec::new(),
        })
    }

    fn round_cost(&self, site: &Site, series: &Series) -> Duration {
        bench::experiment::shared_round_cost(site, series)
    }

    fn predict(
        &self,
        site: &Site,
        known: Option<&Known>,
        case: &Case,
        _metric: &Metric,
    ) -> Option<Prediction> {
        if let Some(known) = known {
            // Without the measured way into the kernel, earlier figures add next to nothing.
            measured_call(known, "getpid")?;
        }
        let work = match case.text("operation").unwrap_or_default() {
            "install" => SignalWork::Install,
            "mask" => SignalWork::Mask,
            "ignored" => SignalWork::Ignored,
            "catch" => SignalWork::Catch,
            "self_kill" => SignalWork::SelfKill,
            "fault" => SignalWork::Fault,
            other => return Some(unknown(format!("unknown: no operation `{other}`"))),
        };
        Some(Estimate::prediction(signal::signal(site, known, work)))
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        // Each has an apparatus of its own: a case leaves nothing to the next.
        bench.each(series, |bench, case| match case.text("operation") {
            Some("fault") => time_faults(case, bench),
            operation => time_signals(case, operation.unwrap_or_default(), bench),
        });
        Ok(())
    }
}

/// Stores that fault.
fn time_faults(case: &Case, bench: &mut Bench) -> Result<()> {
    let faults = Faults::new().context("a page that may only be read")?;
    bench.try_time(case, "latency", |n| {
        let delivered = faults.store(n);
        ensure!(
            delivered == n,
            "{delivered} of {n} faults were delivered to the handler"
        );
        Ok(())
    })?;
    Ok(())
}

/// Everything that is done with SIGUSR1. Each has a loop of its own, into which the call is inlined.
fn time_signals(case: &Case, operation: &str, bench: &mut Bench) -> Result<()> {
    let catcher = Catcher::new(SIGUSR1).context("catching SIGUSR1")?;
    match operation {
        "install" => {
            repeat(bench, case, &catcher, 0, || catcher.install())?;
            ensure!(catcher.is_installed()?, "the handler is not installed");
        }
        "mask" => {
            let mut blocked = false;
            repeat(bench, case, &catcher, 0, || {
                blocked = !blocked;
                catcher.block(blocked)
            })?;
            ensure!(
                catcher.is_blocked()? == blocked,
                "the mask is not what the last call made it"
            );
            catcher.block(false)?;
        }
        "ignored" => {
            catcher.ignore()?;
            repeat(bench, case, &catcher, 0, || catcher.send_to_thread())?;
        }
        "catch" => repeat(bench, case, &catcher, 1, || catcher.send_to_thread())?,
        "self_kill" => repeat(bench, case, &catcher, 1, || catcher.send_to_process())?,
        other => bail!("there is no operation `{other}`"),
    }
    Ok(())
}

/// Times `once`, after each of which the handler must have run `caught` times.
fn repeat(
    bench: &mut Bench,
    case: &Case,
    catcher: &Catcher,
    caught: u64,
    mut once: impl FnMut() -> std::io::Result<()>,
) -> Result<()> {
    bench.try_time(case, "latency", |n| {
        let before = catcher.caught();
        for _ in 0..n {
            once()?;
        }
        let delivered = catcher.caught() - before;
        ensure!(
            delivered == caught * n,
            "{delivered} signals were caught in {n} operations, not {}",
            caught * n
        );
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
