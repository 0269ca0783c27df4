//! One session at the agent, from its first message to its end, however it arrived: its clocks, its
//! rounds, its worker, which dies with it.

use super::check::check;
use super::message::{Facts, FromAgent, Open, ToAgent, printable};
use super::options::{Addresses, Options, require_address, site};
use super::{EVENT_BYTES_MAX, ORDER_BYTES_MAX};
use crate::is_interrupt;
use crate::machine::{Machine, UNSEEN};
use crate::node::Node as _;
use crate::node::channel::Channel;
use crate::node::worker::Worker;
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use bench::experiment::placement::far_cpu;
use bench::experiment::{self, Site};
use bench::link::{CalibrateOrder, FromWorker, RoundOrder, ToWorker};
use host::{environment, format_cpus};
use metal::wait::Want;
use record::event::Calibration;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

/// Calibration windows that a session may ask for, and how long each may be, in ns.
const WINDOWS_MAX: u32 = 100;
const WINDOW_NS_MAX: u64 = 1_000_000_000;
/// A calibration takes this much longer than its windows at most.
const CALIBRATION_TIME: Duration = Duration::from_secs(30);
/// Longest time that a session is taken to expect.
const EXPECTED_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest frame of a worker, in bytes: with what is said around it it is an event of the agent's.
const WORKER_BYTES_MAX: usize = EVENT_BYTES_MAX - (4 << 10);

pub struct ServedSession<'agent> {
    options: &'agent Options<'agent>,
    pub channel: Channel,
    /// What it calls itself ([`Open::session`]).
    pub id: u64,
    client: String,
    until: SystemTime,
    /// Its next word comes within so long …
    within: Duration,
    /// … and by then.
    silent_at: Instant,
    here: Here,
    calibration: Option<Calibration>,
    work: Option<Work>,
    /// The session's place among the plumbs of this machine.
    _machine: Option<Machine>,
}

struct Here {
    site: Site,
    address: IpAddr,
    interface: Option<String>,
}

/// What a session needs before its clocks are known: its place here and the worker that calibrates.
pub struct Prepared {
    here: Here,
    work: Work,
}

struct Work {
    worker: Worker,
    task: Task,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Calibrates { deadline: Instant },
    Serves { round: u64 },
}

impl Work {
    fn start(options: &Options<'_>, task: Task, order: &ToWorker) -> Result<Work> {
        let mut worker = (options.start_worker)()?;
        worker.channel.set_limit(WORKER_BYTES_MAX);
        worker.order(order)?;
        Ok(Work { worker, task })
    }
}

impl<'agent> ServedSession<'agent> {
    /// Begins a session: its clocks are calibrated.
    pub fn new(
        options: &'agent Options<'agent>,
        mut channel: Channel,
        open: &Open,
        Prepared { here, work }: Prepared,
    ) -> ServedSession<'agent> {
        channel.set_limit(ORDER_BYTES_MAX);
        let expected = time(open.expected_s);
        let within = expected.max(options.silence);
        ServedSession {
            options,
            channel,
            id: open.session,
            client: printable(&open.host_name),
            until: SystemTime::now() + expected,
            within,
            silent_at: Instant::now() + within,
            here,
            calibration: None,
            work: Some(work),
            _machine: machine(options, open),
        }
    }

    pub fn client(&self) -> &str {
        &self.client
    }

    /// Why another session is not served meanwhile.
    pub fn busy(&self) -> Error {
        let until = humantime::format_rfc3339_seconds(self.until);
        let until = match SystemTime::now() > self.until {
            true => format!("it ends (expected at {until}),"),
            false => until.to_string(),
        };
        anyhow!(
            "it is busy until {until} with a run of {}; an agent serves one session at a time: \
             wait, or name another host",
            self.client
        )
    }

    /// What to wait for: the session, and its worker where there is one.
    pub fn wants(&self) -> impl Iterator<Item = Want<'_>> {
        let worker = self.work.iter().map(|work| work.worker.channel.fd());
        std::iter::once(self.channel.fd()).chain(worker).map(Want::Readable)
    }

    /// Until when to wait at most.
    pub fn deadline(&self) -> Instant {
        let of_worker = self.work.as_ref().and_then(|work| work.worker.channel.slow_at());
        let others = [self.calibrates_until(), of_worker, self.channel.slow_at()];
        others.into_iter().flatten().fold(self.silent_at, Instant::min)
    }

    fn calibrates_until(&self) -> Option<Instant> {
        match self.work.as_ref()?.task {
            Task::Calibrates { deadline } => Some(deadline),
            Task::Serves { .. } => None,
        }
    }

    /// Does what there is to do. Errors: the session is over, and why.
    pub fn advance(&mut self) -> Result<()> {
        self.read_worker()?;
        self.channel.read_some()?;
        while let Some(message) = self.channel.taken::<ToAgent>()? {
            self.handle(message)?;
            self.silent_at = Instant::now() + self.within;
        }
        if self.calibrates_until().is_some_and(|deadline| Instant::now() >= deadline) {
            return self.refuse("the agent's clocks were not calibrated in time".to_owned());
        }
        ensure!(Instant::now() < self.silent_at, "it was silent for longer than it had announced");
        Ok(())
    }

    fn send(&mut self, message: &FromAgent) -> Result<()> {
        self.channel.send(message, self.options.stop)
    }

    fn handle(&mut self, message: ToAgent) -> Result<()> {
        match message {
            ToAgent::Open(_) | ToAgent::Clock => bail!("the session opened twice"),
            ToAgent::Order { round, order } => self.order(round, *order),
            ToAgent::Alive { within_s } => {
                self.within = time(within_s).max(self.options.silence);
                Ok(())
            }
            ToAgent::Stop { round } => {
                self.work.take_if(|work| work.task == Task::Serves { round });
                Ok(())
            }
        }
    }

    fn order(&mut self, round: u64, order: ToWorker) -> Result<()> {
        let done = match order {
            ToWorker::Serve(order) => self.serve(round, *order),
            // A worker that has ended has said so.
            ToWorker::Drain => match &mut self.work {
                Some(work) if work.task == Task::Serves { round } => {
                    work.worker.order(&ToWorker::Drain)
                }
                _ => Ok(()),
            },
            _ => bail!("the session sent an order that is not a far end's"),
        };
        match done {
            Err(error) => self.end_round(round, error),
            Ok(()) => Ok(()),
        }
    }

    /// Has a fresh worker serve a round, with what is this host's own. One of an earlier round is
    /// ended first.
    fn serve(&mut self, round: u64, order: RoundOrder) -> Result<()> {
        let calibration = self.calibration.clone();
        let calibration = calibration.context("the agent's clocks are not calibrated")?;
        self.work = None;
        let site = &self.here.site;
        let experiment = experiment::find(self.options.catalogue, &order.series.experiment);
        if let Err(reason) = check(&order, experiment) {
            bail!("the agent refused: {reason}");
        }
        let mut cpus = site.cpus.clone();
        let first = order.series.cases.first().and_then(far_cpu);
        if let Some(at) = first.and_then(|first| cpus.iter().position(|cpu| *cpu == first)) {
            // Turned, so that where this is the near end's machine each of several threads here
            // has another CPU than its partner there.
            cpus.rotate_left(at);
        }
        let order = ToWorker::Serve(Box::new(RoundOrder {
            cpus,
            calibration,
            dir: None,
            far: None,
            far_address: Some(self.here.address),
            ..order
        }));
        self.work = Some(Work::start(self.options, Task::Serves { round }, &order)?);
        Ok(())
    }

    /// The worker of a round is gone, or never existed; a signal ends more than the round.
    fn end_round(&mut self, round: u64, why: Error) -> Result<()> {
        self.work = None;
        if is_interrupt(&why) {
            return Err(why);
        }
        let reason = format!("{why:#}");
        self.send(&FromAgent::Ended { round, reason })
    }

    fn read_worker(&mut self) -> Result<()> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let mut read = work.worker.channel.read_some();
        while let Some(Work { worker, task }) = &mut self.work {
            match (read.and_then(|()| worker.channel.taken()), *task) {
                (Ok(Some(event)), Task::Calibrates { .. }) => self.calibrated(event)?,
                (Ok(Some(event)), Task::Serves { round }) => {
                    if matches!(event, FromWorker::Done(_) | FromWorker::Failed(_)) {
                        self.work = None;
                    }
                    self.send(&FromAgent::Event { round, event: Box::new(event) })?;
                }
                (Ok(None), _) => break,
                (Err(lost), task) => {
                    let why = worker.explained(lost.into());
                    return match task {
                        Task::Calibrates { .. } => self.uncalibrated(&why),
                        Task::Serves { round } => self.end_round(round, why),
                    };
                }
            }
            read = Ok(());
        }
        Ok(())
    }

    fn calibrated(&mut self, event: FromWorker) -> Result<()> {
        self.work = None;
        let calibration = match event {
            FromWorker::Calibrated(calibration) => calibration,
            FromWorker::Failed(chain) => return self.uncalibrated(&Error::msg(chain.join(": "))),
            other => return self.uncalibrated(&anyhow!("the worker answered with {other:?}")),
        };
        self.calibration = Some(calibration.clone());
        let Here { site, address, interface } = &self.here;
        let facts = Facts {
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            environment: environment::tags(&site.host),
            host: site.host.clone(),
            cpus: site.cpus.clone(),
            calibration,
            address: *address,
            interface: interface.clone(),
        };
        self.send(&FromAgent::Welcome(Box::new(facts)))
    }

    fn uncalibrated(&mut self, why: &Error) -> Result<()> {
        self.refuse(format!("cannot calibrate the agent's clocks: {why:#}"))
    }

    /// Ends a session that cannot be served after all, with the reason.
    fn refuse(&mut self, reason: String) -> Result<()> {
        self.send(&FromAgent::Refused { reason: reason.clone() })?;
        bail!(reason)
    }
}

impl Prepared {
    /// Reads the machine anew and has its clocks calibrated. Errors: why the session is refused.
    pub fn new(options: &Options<'_>, open: &Open, addresses: Addresses) -> Result<Prepared> {
        let ours = env!("CARGO_PKG_VERSION");
        if open.plumb != ours || open.format != record::FORMAT {
            bail!(
                "the session runs plumb {} (record format {}), the agent plumb {ours} (record \
                 format {}): install the same version at both ends",
                printable(&open.plumb),
                open.format,
                record::FORMAT
            );
        }
        let Open { windows, window_ns, .. } = *open;
        ensure!(
            windows <= WINDOWS_MAX && window_ns <= WINDOW_NS_MAX,
            "{windows} windows of {window_ns} ns to calibrate the clocks over: at most {WINDOWS_MAX} \
             of {WINDOW_NS_MAX} ns"
        );
        let address = options
            .data
            .or(addresses.local)
            .context("cannot tell which address peers use to reach this agent; set --data ADDR")?;
        require_address(address)?;
        let mut site = site(options)?;
        let there = addresses.remote.or(open.near_address);
        let interface = there
            .and_then(|there| site.host.net.way_to(there))
            .map(|(interface, _)| interface.name.clone());
        if let Some(then) = &open.cpus {
            keep_cpus(&mut site, then)?;
        }
        let cpu = *site.cpus.first().context("the agent has no CPU")?;
        let takes = CALIBRATION_TIME + Duration::from_nanos(window_ns) * windows * 2;
        let task = Task::Calibrates { deadline: Instant::now() + takes };
        let order = ToWorker::Calibrate(CalibrateOrder { cpu, windows, window_ns });
        let work = Work::start(options, task, &order)?;
        Ok(Prepared { here: Here { site, address, interface }, work })
    }
}

/// Takes a place for a session among the plumbs of this machine: a run here sees it.
fn machine(options: &Options<'_>, open: &Open) -> Option<Machine> {
    let token = open.token.as_deref()?;
    let what = format!("plumb agent for {}", printable(&open.host_name));
    let entered = Machine::look(&what, Some(token)).and_then(|machine| {
        machine.enter()?;
        Ok(machine)
    });
    entered.inspect_err(|why| (options.log)(&format!("{UNSEEN}: {why:#}"))).ok()
}

/// Has a site use the CPUs that a session's earlier rounds used: its figures stay where they began.
fn keep_cpus(site: &mut Site, then: &[usize]) -> Result<()> {
    if let Some(gone) = then.iter().find(|cpu| !site.cpus.contains(cpu)) {
        bail!(
            "earlier rounds of this session used CPU {gone} of the agent, which now uses only {}: \
             start the agent with those CPUs, or begin a new run",
            format_cpus(&site.cpus)
        );
    }
    site.cpus = then.to_vec();
    Ok(())
}

/// A time that a session states, in seconds; an invalid one is none.
fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default().min(EXPECTED_MAX)
}
