//! One session at the agent, from its first message to its end, however it arrived: its clocks, its
//! rounds, its worker, which dies with it.

use super::channel::{Channel, FRAME_BYTES_MAX, Lost};
use super::check::check;
use super::message::{Facts, FromAgent, Open, ToAgent, printable};
use super::options::{Addresses, Options, require_address, site};
use super::worker_process::WorkerProcess;
use crate::is_interrupt;
use crate::machine::{Machine, UNSEEN};
use anyhow::{Context, Error, Result, anyhow, bail};
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

/// A session that is served.
pub struct ServedSession<'agent> {
    options: &'agent Options<'agent>,
    channel: Channel,
    client: String,
    until: SystemTime,
    begun: Instant,
    expected: Duration,
    /// Its next word comes within so long, as it said last.
    within: Option<Duration>,
    last_message: Instant,
    site: Site,
    address: IpAddr,
    interface: Option<String>,
    calibration: Option<Calibration>,
    work: Option<Work>,
    /// The session's place among the plumbs of this machine.
    _machine: Option<Machine>,
}

/// A worker, and what it does.
struct Work {
    worker: WorkerProcess,
    task: Task,
}

#[derive(Clone, Copy)]
enum Task {
    Calibrates { deadline: Instant },
    Serves { round: u64, is_drained: bool },
}

impl<'agent> ServedSession<'agent> {
    /// Begins a session: reads the machine anew and has its clocks calibrated. Errors: it was
    /// refused, with a message: why.
    pub fn begin(
        options: &'agent Options<'agent>,
        mut channel: Channel,
        open: &Open,
        addresses: Addresses,
    ) -> Result<ServedSession<'agent>, String> {
        let (site, address, interface, worker) = match prepare(options, open, addresses) {
            Ok(prepared) => prepared,
            Err(error) => {
                let reason = format!("{error:#}");
                // One that is gone needs no reason.
                let _ = channel.send(&FromAgent::Refused { reason: reason.clone() }, options.stop);
                return Err(reason);
            }
        };
        channel.set_limit(FRAME_BYTES_MAX);
        let deadline = Instant::now() + calibration_time(open);
        Ok(ServedSession {
            options,
            channel,
            client: printable(&open.host_name),
            until: SystemTime::now() + expected(open),
            begun: Instant::now(),
            expected: expected(open),
            within: None,
            last_message: Instant::now(),
            site,
            address,
            interface,
            calibration: None,
            work: Some(Work { worker, task: Task::Calibrates { deadline } }),
            _machine: machine(options, open),
        })
    }

    pub fn client(&self) -> &str {
        &self.client
    }

    /// The answer to another session meanwhile.
    pub fn busy_message(&self) -> FromAgent {
        let until = humantime::format_rfc3339_seconds(self.until);
        let is_over = SystemTime::now() > self.until;
        FromAgent::Busy {
            until: if is_over {
                format!("it ends (expected at {until}),")
            } else {
                until.to_string()
            },
            by: self.client.clone(),
        }
    }

    /// Whether it makes room for another one: it is silent, or took twice as long as it expected
    /// to, and has nothing served just now.
    pub fn is_expired(&self) -> bool {
        let is_late = self.begun.elapsed() > self.expected * 2 + self.options.silence;
        self.is_silent() || is_late && self.work.is_none()
    }

    /// Whether it said nothing for longer than it said it would.
    pub fn is_silent(&self) -> bool {
        Instant::now() > self.silent_at()
    }

    /// When it will have been silent for that long.
    pub fn silent_at(&self) -> Instant {
        self.last_message + self.within.unwrap_or(self.expected).max(self.options.silence)
    }

    /// What to wait for: the session, and its worker where there is one.
    pub fn wants(&self) -> impl Iterator<Item = Want<'_>> {
        let worker = self.work.iter().map(|work| work.worker.channel.fd());
        std::iter::once(self.channel.fd()).chain(worker).map(Want::Readable)
    }

    /// Until when to wait at most.
    pub fn deadline(&self) -> Option<Instant> {
        let said = self.work.as_ref().and_then(|work| work.worker.channel.slow_at());
        [self.calibrates_until(), said, self.channel.slow_at()].into_iter().flatten().min()
    }

    fn calibrates_until(&self) -> Option<Instant> {
        match self.work.as_ref()?.task {
            Task::Calibrates { deadline } => Some(deadline),
            Task::Serves { .. } => None,
        }
    }

    /// Does what there is to do. `false` once the session is over. Errors: why it ended before it
    /// said so.
    pub fn advance(&mut self) -> Result<bool> {
        self.read_worker()?;
        self.channel.read_some()?;
        while let Some(message) = self.channel.taken::<ToAgent>()? {
            self.last_message = Instant::now();
            if !self.handle(message)? {
                return Ok(false);
            }
        }
        if self.calibrates_until().is_some_and(|deadline| Instant::now() >= deadline) {
            self.refuse("the agent's clocks were not calibrated in time".to_owned())?;
        }
        Ok(true)
    }

    fn send(&mut self, message: &FromAgent) -> Result<()> {
        self.channel.send(message, self.options.stop)
    }

    /// Does what the session says; `false` for its end.
    fn handle(&mut self, message: ToAgent) -> Result<bool> {
        match message {
            ToAgent::Open(_) | ToAgent::Clock => bail!("the session opened twice"),
            ToAgent::Serve { round, order } => {
                if self.calibrates_until().is_some() {
                    bail!("the session sent an order before it was opened");
                }
                // A worker of an earlier round is ended first.
                self.work = None;
                match self.start_round(*order) {
                    Ok(worker) => {
                        let task = Task::Serves { round, is_drained: false };
                        self.work = Some(Work { worker, task });
                    }
                    Err(error) => self.end_round(round, error)?,
                }
            }
            ToAgent::Drain { round } => self.drain(round)?,
            ToAgent::Alive { within_s } => {
                let within = Duration::try_from_secs_f64(within_s).unwrap_or_default();
                self.within = Some(within.min(EXPECTED_MAX));
            }
            ToAgent::Stop { round: over } => {
                let is_over = |task| matches!(task, Task::Serves { round, .. } if round == over);
                self.work.take_if(|work| is_over(work.task));
            }
            ToAgent::End => return Ok(false),
        }
        Ok(true)
    }

    /// Reports to the worker of a round, if it still exists, that the near end is done. It is
    /// reported once: one that does not listen takes no more than its pipe.
    fn drain(&mut self, over: u64) -> Result<()> {
        let (worker, is_drained) = match &mut self.work {
            Some(Work { worker, task: Task::Serves { round, is_drained } }) if *round == over => {
                (worker, is_drained)
            }
            _ => return Ok(()),
        };
        if std::mem::replace(is_drained, true) {
            bail!("the session ended round {over} twice");
        }
        match worker.order(&ToWorker::Drain, self.options.stop) {
            Err(error) => self.end_round(over, error),
            Ok(()) => Ok(()),
        }
    }

    /// A worker that serves an order, with what is this host's own.
    fn start_round(&self, order: RoundOrder) -> Result<WorkerProcess> {
        let experiment = experiment::find(self.options.catalogue, &order.series.experiment);
        if let Err(reason) = check(&order, experiment, &self.site) {
            bail!("the agent refused: {reason}");
        }
        let calibration = self.calibration.clone();
        let mut worker = (self.options.start_worker)()?;
        let mut cpus = self.site.cpus.clone();
        let first = order.series.cases.first().and_then(far_cpu);
        if let Some(at) = first.and_then(|first| cpus.iter().position(|cpu| *cpu == first)) {
            // Turned, so that where this is the near end's machine each of several threads here
            // has another CPU than its partner there.
            cpus.rotate_left(at);
        }
        let order = ToWorker::Serve(Box::new(RoundOrder {
            cpus,
            calibration: calibration.context("the agent's clocks are not calibrated")?,
            dir: None,
            far: None,
            far_address: Some(self.address),
            ..order
        }));
        worker.order(&order, self.options.stop)?;
        Ok(worker)
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
        if let Some(Err(error)) = self.work.as_mut().map(|work| work.worker.read()) {
            return self.end_worker(error);
        }
        while let Some(Work { worker, task }) = &mut self.work {
            match (worker.channel.taken(), *task) {
                (Ok(Some(message)), Task::Calibrates { .. }) => self.calibrated(message)?,
                (Ok(Some(message)), Task::Serves { round, .. }) => self.relay(round, message)?,
                (Ok(None), _) => break,
                (Err(lost), _) => return self.end_worker(lost.into()),
            }
        }
        Ok(())
    }

    fn calibrated(&mut self, message: FromWorker) -> Result<()> {
        match message {
            FromWorker::Calibrated(calibration) => self.welcome(calibration),
            FromWorker::Failed(chain) => self.end_worker(Error::msg(chain.join(": "))),
            other => self.end_worker(anyhow!("the worker answered with {other:?}")),
        }
    }

    /// The worker is of no more use.
    fn end_worker(&mut self, why: Error) -> Result<()> {
        match self.work.take().map(|work| work.task) {
            None => Ok(()),
            Some(Task::Calibrates { .. }) => {
                self.refuse(format!("cannot calibrate the agent's clocks: {why:#}"))
            }
            Some(Task::Serves { round, .. }) => self.end_round(round, why),
        }
    }

    fn relay(&mut self, round: u64, message: FromWorker) -> Result<()> {
        if matches!(message, FromWorker::Done(_) | FromWorker::Failed(_)) {
            self.work = None;
        }
        match self.send(&FromAgent::Worker { round, message: Box::new(message) }) {
            // Nothing of it was sent: the round is lost, and not the session.
            Err(error) if matches!(error.downcast_ref(), Some(Lost::TooLong(_))) => {
                self.end_round(round, error)
            }
            sent => sent,
        }
    }

    fn welcome(&mut self, calibration: Calibration) -> Result<()> {
        self.work = None;
        self.calibration = Some(calibration.clone());
        let host = self.site.host.clone();
        self.send(&FromAgent::Welcome(Box::new(Facts {
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            environment: environment::tags(&host),
            host,
            cpus: self.site.cpus.clone(),
            calibration,
            address: self.address,
            interface: self.interface.clone(),
        })))
    }

    /// Ends a session that cannot be served after all, with the reason.
    fn refuse(&mut self, reason: String) -> Result<()> {
        self.send(&FromAgent::Refused { reason: reason.clone() })?;
        bail!(reason)
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

/// What a session needs before its clocks are known: its place here, the address of its data
/// connections and their interface, and the worker that calibrates. Errors: why it is refused.
fn prepare(
    options: &Options<'_>,
    open: &Open,
    addresses: Addresses,
) -> Result<(Site, IpAddr, Option<String>, WorkerProcess)> {
    let ours = env!("CARGO_PKG_VERSION");
    if open.plumb != ours || open.format != record::FORMAT {
        bail!(
            "the session runs plumb {} (record format {}), the agent plumb {ours} (record format \
             {}): install the same version at both ends",
            printable(&open.plumb),
            open.format,
            record::FORMAT
        );
    }
    if open.windows > WINDOWS_MAX || open.window_ns > WINDOW_NS_MAX {
        bail!(
            "{} windows of {} ns to calibrate the clocks over: at most {WINDOWS_MAX} of {WINDOW_NS_MAX} ns",
            open.windows,
            open.window_ns
        );
    }
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
    let mut worker = (options.start_worker)()?;
    let order = ToWorker::Calibrate(CalibrateOrder {
        cpu,
        windows: open.windows,
        window_ns: open.window_ns,
    });
    worker.order(&order, options.stop)?;
    Ok((site, address, interface, worker))
}

/// What a session expects to take; an invalid time is not a time.
fn expected(open: &Open) -> Duration {
    Duration::try_from_secs_f64(open.expected_s).unwrap_or_default().min(EXPECTED_MAX)
}

fn calibration_time(open: &Open) -> Duration {
    CALIBRATION_TIME + Duration::from_nanos(open.window_ns) * open.windows * 2
}

#[cfg(test)]
impl ServedSession<'_> {
    /// The time of what the session has begun to say is over.
    pub(super) fn expire_frame(&mut self) {
        self.channel.expire_frame();
    }
}
