//! One session at the agent, from its first message to its end, however it arrived: its clocks, its
//! rounds, its worker, which dies with it.

use super::channel::{Channel, FRAME_BYTES_MAX, Lost};
use super::check::check;
use super::hired::Hand;
use super::message::{Facts, FromAgent, Open, ToAgent, printable};
use super::office::{Office, Way, has_address, site};
use crate::is_interrupt;
use crate::machine::{Machine, UNSEEN};
use anyhow::{Context, Result, bail};
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
pub struct Served<'agent> {
    office: &'agent Office<'agent>,
    channel: Channel,
    by: String,
    until: SystemTime,
    begun: Instant,
    expected: Duration,
    /// Its next word comes within so long, as it said last.
    within: Option<Duration>,
    heard: Instant,
    site: Site,
    address: IpAddr,
    interface: Option<String>,
    calibration: Option<Calibration>,
    work: Work,
    /// The session's place among the plumbs of this machine.
    _machine: Option<Machine>,
}

/// What its worker does.
enum Work {
    Calibrates { worker: Hand, deadline: Instant },
    Nothing,
    Serves { round: u64, worker: Hand, is_drained: bool },
}

impl Work {
    fn worker(&mut self) -> Option<&mut Hand> {
        match self {
            Work::Calibrates { worker, .. } | Work::Serves { worker, .. } => Some(worker),
            Work::Nothing => None,
        }
    }
}

/// A session that is not served; it got the reason.
pub struct Refused {
    /// Its connection.
    pub channel: Channel,
    /// Why.
    pub reason: String,
}

impl<'agent> Served<'agent> {
    /// Begins a session: reads the machine anew and has its clocks calibrated. Errors: it was
    /// refused, with a message; the channel is to be closed.
    pub fn begin(
        office: &'agent Office<'agent>,
        channel: Channel,
        open: &Open,
        way: Way,
    ) -> Result<Served<'agent>, Box<Refused>> {
        match prepare(office, open, way) {
            Ok((site, address, interface, worker)) => {
                let mut served = Served {
                    office,
                    channel,
                    by: printable(&open.host_name),
                    until: SystemTime::now() + expected(open),
                    begun: Instant::now(),
                    expected: expected(open),
                    within: None,
                    heard: Instant::now(),
                    site,
                    address,
                    interface,
                    calibration: None,
                    work: Work::Calibrates {
                        worker,
                        deadline: Instant::now() + calibration_time(open),
                    },
                    _machine: machine(office, open),
                };
                served.channel.set_limit(FRAME_BYTES_MAX);
                Ok(served)
            }
            Err(error) => Err(refuse(office, channel, format!("{error:#}"))),
        }
    }

    /// Whose it is.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The answer to another session meanwhile.
    pub fn busy(&self) -> FromAgent {
        let until = humantime::format_rfc3339_seconds(self.until);
        let is_over = SystemTime::now() > self.until;
        FromAgent::Busy {
            until: if is_over {
                format!("it ends (expected at {until}),")
            } else {
                until.to_string()
            },
            by: self.by.clone(),
        }
    }

    /// Whether it makes room for another one: it is silent, or took twice as long as it expected
    /// to, and has nothing served just now.
    pub fn is_forsaken(&self) -> bool {
        let is_late = self.begun.elapsed() > self.expected * 2 + self.office.silence;
        self.is_silent() || is_late && matches!(self.work, Work::Nothing)
    }

    /// Whether it said nothing for longer than it said it would.
    pub fn is_silent(&self) -> bool {
        Instant::now() > self.silent_at()
    }

    /// When it will have been silent for that long.
    pub fn silent_at(&self) -> Instant {
        self.heard + self.within.unwrap_or(self.expected).max(self.office.silence)
    }

    /// What to wait for: the session, and its worker where there is one.
    pub fn wants(&self) -> (Want<'_>, Option<Want<'_>>) {
        let worker = match &self.work {
            Work::Calibrates { worker, .. } | Work::Serves { worker, .. } => Some(worker.fd()),
            Work::Nothing => None,
        };
        (Want::Readable(self.channel.fd()), worker.map(Want::Readable))
    }

    /// Until when to wait at most.
    pub fn deadline(&self) -> Option<Instant> {
        let (calibrated, said) = match &self.work {
            Work::Calibrates { worker, deadline } => (Some(*deadline), worker.slow_at()),
            Work::Serves { worker, .. } => (None, worker.slow_at()),
            Work::Nothing => (None, None),
        };
        let heard = self.channel.slow_at();
        [calibrated, said, heard].into_iter().flatten().min()
    }

    /// Does what there is to do, by which of [`Served::wants`] is ready. `false` once the session
    /// is over. Errors: why it ended before it said so.
    pub fn attend(&mut self, session: bool, worker: bool) -> Result<bool> {
        if worker {
            self.hear_worker()?;
        }
        if session {
            self.channel.read_some()?;
        }
        while let Some(message) = self.channel.taken::<ToAgent>()? {
            self.heard = Instant::now();
            if !self.obey(message)? {
                return Ok(false);
            }
        }
        let now = Instant::now();
        if self.channel.slow_at().is_some_and(|slow| now >= slow) {
            bail!(Lost::Slow);
        }
        let said = self.work.worker().and_then(|worker| worker.slow_at());
        if said.is_some_and(|slow| now >= slow) {
            self.lose_worker(Lost::Slow.into())?;
        }
        if let Work::Calibrates { deadline, .. } = &self.work
            && now >= *deadline
        {
            self.give_up("the agent's clocks were not calibrated in time".to_owned())?;
        }
        Ok(true)
    }

    fn say(&mut self, message: &FromAgent) -> Result<()> {
        self.channel.send(message, self.office.stop)
    }

    /// Does what the session says; `false` for its end.
    fn obey(&mut self, message: ToAgent) -> Result<bool> {
        match message {
            ToAgent::Open(_) => bail!("the session opened twice"),
            ToAgent::Serve { round, order } => {
                // A worker of an earlier round is ended first.
                self.work = match std::mem::replace(&mut self.work, Work::Nothing) {
                    Work::Calibrates { .. } => bail!(
                        "the session sent an order before it was \
                                                      opened"
                    ),
                    Work::Serves { .. } | Work::Nothing => Work::Nothing,
                };
                match self.hire(*order) {
                    Ok(worker) => self.work = Work::Serves { round, worker, is_drained: false },
                    Err(error) => self.ended(round, error)?,
                }
            }
            ToAgent::Drain { round } => self.drain(round)?,
            ToAgent::Alive { within_s } => {
                let within = Duration::try_from_secs_f64(within_s).unwrap_or_default();
                self.within = Some(within.min(EXPECTED_MAX));
            }
            ToAgent::Stop { round } => {
                if matches!(&self.work, Work::Serves { round: now, .. } if *now == round) {
                    self.work = Work::Nothing;
                }
            }
            ToAgent::End => return Ok(false),
        }
        Ok(true)
    }

    /// Reports to the worker of a round, if it still exists, that the near end is done. It is
    /// reported once: one that does not listen takes no more than its pipe.
    fn drain(&mut self, round: u64) -> Result<()> {
        let (worker, is_drained) = match &mut self.work {
            Work::Serves { round: now, worker, is_drained } if *now == round => {
                (worker, is_drained)
            }
            _ => return Ok(()),
        };
        if std::mem::replace(is_drained, true) {
            bail!("the session ended round {round} twice");
        }
        match worker.order(&ToWorker::Drain, self.office.stop) {
            Err(error) => self.ended(round, error),
            Ok(()) => Ok(()),
        }
    }

    /// A worker that serves an order, with what is this host's own.
    fn hire(&mut self, order: RoundOrder) -> Result<Hand> {
        let experiment = experiment::find(self.office.catalogue, &order.series.experiment);
        if let Err(reason) = check(&order, experiment, &self.site) {
            bail!("the agent refused: {reason}");
        }
        let calibration = self.calibration.clone();
        let mut worker = Hand::new((self.office.start)()?)?;
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
        worker.order(&order, self.office.stop)?;
        Ok(worker)
    }

    /// The worker of a round is gone, or never existed; a signal ends more than the round.
    fn ended(&mut self, round: u64, why: anyhow::Error) -> Result<()> {
        self.work = Work::Nothing;
        if is_interrupt(&why) {
            return Err(why);
        }
        let reason = format!("{why:#}");
        self.say(&FromAgent::Ended { round, reason })
    }

    fn hear_worker(&mut self) -> Result<()> {
        if let Some(Err(error)) = self.work.worker().map(Hand::read) {
            return self.lose_worker(error);
        }
        while let Some(worker) = self.work.worker() {
            match worker.next() {
                Ok(Some(message)) => self.take(message)?,
                Ok(None) => break,
                Err(error) => return self.lose_worker(error),
            }
        }
        Ok(())
    }

    /// What a worker said.
    fn take(&mut self, message: FromWorker) -> Result<()> {
        match &self.work {
            Work::Nothing => Ok(()),
            Work::Calibrates { .. } => {
                self.work = Work::Nothing;
                match message {
                    FromWorker::Calibrated(calibration) => self.welcome(calibration),
                    FromWorker::Failed(chain) => self.uncalibrated(&chain.join(": ")),
                    other => self.uncalibrated(&format!("the worker answered with {other:?}")),
                }
            }
            Work::Serves { round, .. } => {
                let round = *round;
                if matches!(message, FromWorker::Done(_) | FromWorker::Failed(_)) {
                    self.work = Work::Nothing;
                }
                self.relay(round, message)
            }
        }
    }

    /// The worker is of no more use.
    fn lose_worker(&mut self, why: anyhow::Error) -> Result<()> {
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Nothing => Ok(()),
            Work::Calibrates { .. } => self.uncalibrated(&format!("{why:#}")),
            Work::Serves { round, .. } => self.ended(round, why),
        }
    }

    fn relay(&mut self, round: u64, message: FromWorker) -> Result<()> {
        let message = FromAgent::Worker { round, message: Box::new(message) };
        let sent = self.say(&message);
        match &sent {
            // Nothing of it was sent: the round is lost, and not the session.
            Err(error) if matches!(error.downcast_ref(), Some(Lost::TooLong(_))) => {
                self.ended(round, anyhow::anyhow!("{error:#}"))
            }
            _ => sent,
        }
    }

    fn welcome(&mut self, calibration: Calibration) -> Result<()> {
        self.calibration = Some(calibration.clone());
        let host = self.site.host.clone();
        self.say(&FromAgent::Welcome(Box::new(Facts {
            plumb: env!("CARGO_PKG_VERSION").to_owned(),
            environment: environment::tags(&host),
            host,
            cpus: self.site.cpus.clone(),
            calibration,
            address: self.address,
            interface: self.interface.clone(),
        })))
    }

    fn uncalibrated(&mut self, why: &str) -> Result<()> {
        self.give_up(format!("cannot calibrate the agent's clocks: {why}"))
    }

    /// Ends a session that cannot be served after all, with the reason.
    fn give_up(&mut self, reason: String) -> Result<()> {
        self.say(&FromAgent::Refused { reason: reason.clone() })?;
        bail!(reason)
    }
}

/// Takes a place for a session among the plumbs of this machine: a run here sees it.
fn machine(office: &Office<'_>, open: &Open) -> Option<Machine> {
    let token = open.token.as_deref()?;
    let what = format!("plumb agent for {}", printable(&open.host_name));
    let entered = Machine::look(&what, Some(token)).and_then(|machine| {
        machine.enter()?;
        Ok(machine)
    });
    entered.inspect_err(|why| (office.tell)(&format!("{UNSEEN}: {why:#}"))).ok()
}

/// Refuses a session.
fn refuse(office: &Office<'_>, mut channel: Channel, reason: String) -> Box<Refused> {
    let message = FromAgent::Refused { reason: reason.clone() };
    // One that is gone needs no reason.
    let _ = channel.send(&message, office.stop);
    Box::new(Refused { channel, reason })
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
    office: &Office<'_>,
    open: &Open,
    way: Way,
) -> Result<(Site, IpAddr, Option<String>, Hand)> {
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
    let address = office
        .data
        .or(way.here)
        .context("cannot tell which address peers use to reach this agent; set --data ADDR")?;
    has_address(address)?;
    let mut site = site(office)?;
    let there = way.there.or(open.near_address);
    let interface = there
        .and_then(|there| site.host.net.way_to(there))
        .map(|(interface, _)| interface.name.clone());
    if let Some(then) = &open.cpus {
        keep_cpus(&mut site, then)?;
    }
    let cpu = *site.cpus.first().context("the agent has no CPU")?;
    let mut worker = Hand::new((office.start)()?)?;
    let order = ToWorker::Calibrate(CalibrateOrder {
        cpu,
        windows: open.windows,
        window_ns: open.window_ns,
    });
    worker.order(&order, office.stop)?;
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
impl Served<'_> {
    /// The time of what the session has begun to say is over.
    pub(super) fn frame_time_passes(&mut self) {
        self.channel.frame_time_passes();
    }
}
