//! What does a signal cost?
//!
//! ## Question
//!
//! What does it cost to install a handler, to send a signal to the own thread and catch it, and to
//! catch a protection fault?
//!
//! ## Method
//!
//! System calls are made by their instruction, repeated n against 2n in ABBA quartets on one pinned
//! thread. The handler of all signals adds one to a counter and returns; the kernel builds its
//! frame, and the C library's return code returns with `rt_sigreturn`.
//!
//! - `install`: `rt_sigaction` gives SIGUSR1 the handler that it has; the disposition is read back
//!   at the end.
//! - `mask`: one `rt_sigprocmask`; calls block and unblock SIGUSR1 in turn.
//! - `ignored`: `tgkill` sends the own thread SIGUSR1 while that is ignored: the cost of sending
//!   alone, without queueing. No signal may be caught.
//! - `catch`: the same while the handler is installed: send, deliver, handle, return. The kernel
//!   delivers before `tgkill` returns.
//! - `self_kill`: `kill` of the own process number, as lmbench's `lat_sig catch` has it: the kernel
//!   looks the process up and chooses a thread. Each signal must be caught before the next is sent.
//! - `fault`: a store (one instruction of a loop in assembly) to a page that may only be read.
//!   SIGSEGV's handler checks the address of the data and of the instruction and continues the
//!   program after the store: lmbench's `lat_sig prot`. The protection stays, so each store faults.
//!
//! The handler's count must equal the operations in every batch. Dispositions, the thread's mask
//! and the page are restored when the round ends, also after an error.
//!
//! ## Prediction
//!
//! Ways into the kernel (two for `catch` and `self_kill`: the call and the return from the handler;
//! an exception and a call for `fault`), the kernel's work, and a frame by the bytes of the
//! processor's state (AVX-512 makes it three times as large). Before the run the way follows from
//! processor and mitigations, afterwards from `getpid`; os.syscall's figures correct the work.
//!
//! ## Reading the result
//!
//! `catch` less `ignored` is delivery and return. `fault` against `catch` is the exception in place
//! of the call. A garbage collector or a user-space pager that works by protection faults pays
//! `fault` and a call that changes the protection each time.
//!
//! ## Pitfalls
//!
//! The C library's `sigaction` copies structures besides; lmbench's `install` includes that and
//! asks for the old disposition. A process that has used AMX tiles pays 8 KiB more of frame, this
//! one has not. Sandboxes (gVisor) catch the faults and signals themselves. In a process with
//! several threads `self_kill` may reach another one, and then includes a wake-up: the worker has
//! one. Mitigations add to each way in.
//!
//! ## Sources
//!
//! [lmbench] `lat_sig` (`install`, `catch`, `prot`); [linux] kernel/signal.c,
//! arch/x86/kernel/signal.c and fpu/signal.c; [man] signal(7), sigreturn(2).

use bench::prelude::*;
use laws::os::says_more;
use laws::os::signal::{self, Operation};
use metal::signal::{Catcher, Faults};

bench::experiment!(Signal);

/// The signal that is sent: SIGUSR1, which is free for a program's own use.
const SIGUSR1: i32 = 10;

case! {
    /// An operation.
    pub struct Repeated {
        /// what is repeated: a handler installed, the mask changed, a signal to the own thread
        /// ignored or caught, one to the own process caught, a forbidden store caught
        operation: Operation,
    }
}

static CARD: Card = Card {
    id: "os.signal",
    title: "Signals",
    metrics: metrics! {
        "latency" => Ns Lower Os:
            "one operation, including delivery and return if the signal is caught";
    },
    params: Repeated::PARAMS,
    after: &["clock.rate", "os.syscall"],
    views: &[ViewCard::bars("latency")],
    keys: &[KeyFigure::new("signal caught", "", "latency", "operation=catch")],
    ..Card::PLAIN
};

impl Experiment for Signal {
    type Case = Repeated;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("signal.rs");

    fn cases(_: &Site, preset: Preset) -> Vec<Repeated> {
        let is_wanted = |operation: &Operation| {
            preset >= Preset::Standard || !matches!(operation, Operation::Mask | Operation::Ignored)
        };
        let all = Operation::ALL.iter().copied().filter(is_wanted);
        all.map(|operation| Repeated { operation }).collect()
    }

    fn law(facts: Facts, case: &Repeated, _: &Case, _: &Metric) -> Option<Prediction> {
        says_more(facts).then(|| signal::signal(facts, case.operation).prediction())
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        // Each has an apparatus of its own: a case leaves nothing to the next.
        bench.each_of::<Repeated>(series, |bench, case, repeated| match repeated.operation {
            Operation::Fault => time_faults(case, bench),
            operation => time_signals(case, operation, bench),
        });
        Ok(())
    }
}

fn time_faults(case: &Case, bench: &mut Bench) -> Result<()> {
    let faults = Faults::new().context("a page that may only be read")?;
    bench.time(case, "latency", |n| {
        let delivered = faults.store(n);
        ensure!(delivered == n, "{delivered} of {n} faults were delivered to the handler");
        Ok(())
    })?;
    Ok(())
}

/// Operations with SIGUSR1, each in a loop of its own, into which the call is inlined.
fn time_signals(case: &Case, operation: Operation, bench: &mut Bench) -> Result<()> {
    let catcher = Catcher::new(SIGUSR1).context("catching SIGUSR1")?;
    match operation {
        Operation::Install => {
            repeat(bench, case, &catcher, 0, || catcher.install())?;
            ensure!(catcher.is_installed()?, "the handler is not installed");
        }
        Operation::Mask => {
            let mut blocked = false;
            repeat(bench, case, &catcher, 0, || {
                blocked = !blocked;
                catcher.block(blocked)
            })?;
            ensure!(
                catcher.is_blocked()? == blocked,
                "the signal mask differs from the last \
                                                       call's"
            );
            catcher.block(false)?;
        }
        Operation::Ignored => {
            catcher.ignore()?;
            repeat(bench, case, &catcher, 0, || catcher.send_to_thread())?;
        }
        Operation::Catch => repeat(bench, case, &catcher, 1, || catcher.send_to_thread())?,
        Operation::SelfKill => repeat(bench, case, &catcher, 1, || catcher.send_to_process())?,
        Operation::Fault => return time_faults(case, bench),
    }
    Ok(())
}

/// Times `once`; after each, the handler must have run `caught` times.
fn repeat(
    bench: &mut Bench,
    case: &Case,
    catcher: &Catcher,
    caught: u64,
    mut once: impl FnMut() -> std::io::Result<()>,
) -> Result<()> {
    bench.time(case, "latency", |n| {
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
