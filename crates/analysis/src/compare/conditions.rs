//! What differs around the figures of two runs: plumb itself, what it was asked, the machine, its
//! settings, and how quiet it was.

use crate::health::{Health, health};
use crate::names::around;
use record::event::End;
use record::order::{Gather, InOrder};
use record::quantity::{digits, render};
use record::run::Run;
use record::unit::Unit;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A difference in the conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Condition {
    /// The kind of difference.
    pub class: Class,
    /// Its name, as the record has it.
    pub name: String,
    /// In the base run; `not recorded` if that run lacks it.
    pub base: String,
    /// In the new run.
    pub new: String,
}

/// The kind of a difference, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The machine itself.
    Machine,
    /// Settings and software of the machine.
    Setting,
    /// The build of plumb.
    Plumb,
    /// The options of the run.
    Options,
    /// The clocks as calibrated.
    Clocks,
    /// Conditions during the measurement.
    State,
}

impl Class {
    pub fn text(self) -> &'static str {
        match self {
            Class::Machine => "machine",
            Class::Setting => "setting",
            Class::Plumb => "plumb",
            Class::Options => "options",
            Class::Clocks => "clocks",
            Class::State => "state",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FlatRun"))]
pub struct About {
    /// Name.
    pub run: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Version of plumb that measured.
    pub plumb: String,
    /// Preset; `published` for a published machine.
    pub preset: String,
    /// The processor and its hypervisor.
    pub machine: String,
    /// Identity of the machine.
    pub identity: String,
    /// Why the run is incomplete; null if it is complete.
    pub unfinished: Option<&'static str>,
}

pub fn about(run: &Run) -> About {
    let header = &run.header;
    let text = |pointer: &str| header.host.pointer(pointer).and_then(Value::as_str);
    let model = text("/cpu/model_name").or_else(|| text("/cpu/microarchitecture/core"));
    let hypervisor = text("/kernel/virtualisation/hypervisor");
    let under = hypervisor.map_or_else(String::new, |name| format!(" under {name}"));
    About {
        run: header.run.clone(),
        started: header.started.clone(),
        plumb: header.plumb.clone(),
        preset: header.options.preset.clone(),
        identity: header.identity.clone(),
        machine: format!("{}{under}", model.unwrap_or("unknown processor")),
        unfinished: match run.footer.as_ref().map(|footer| footer.end) {
            Some(End::Complete | End::Budget) => None,
            Some(End::Interrupted) => Some("interrupted"),
            None if run.header.is_published() => None,
            None => Some("killed, or still running"),
        },
    }
}

/// What differs, the most telling class first.
pub fn differences(base: &Run, new: &Run, same_machine: bool) -> Vec<Condition> {
    let mut all = Found(Vec::new());
    all.options(base, new);
    all.plumb(base, new);
    all.machine(base, new, same_machine);
    if same_machine {
        all.host(base, new);
    }
    all.environment("", &base.header.environment, &new.header.environment);
    for peer in &base.header.peers {
        let same = new.header.peers.iter().find(|other| other.name == peer.name);
        if let Some(other) = same {
            let prefix = format!("{}: ", peer.name);
            all.add(Class::Machine, &format!("{prefix}identity"), &peer.identity, &other.identity);
            all.environment(&prefix, &peer.environment, &other.environment);
        }
    }
    if !(base.header.is_published() || new.header.is_published()) {
        all.clocks(base, new);
        all.state(&health(base), &health(new));
    }
    let mut all = all.0;
    all.order_by_key(|condition| condition.class);
    all
}

/// What of an environment is set, not moving by itself: runs of one machine in which it is the same
/// were measured under one condition.
pub fn settings(environment: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let moves = |name: &str| MOVING.iter().any(|(ending, _)| name.ends_with(ending));
    environment
        .iter()
        .filter(|(name, _)| !moves(name))
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .gather()
}

/// Shares of rounds or of time that differ by less are no news.
const LEAST_SHARE: f64 = 0.02;

/// Smallest reported difference of core clocks, as a ratio.
const CORE_CLOCK: f64 = 0.01;

/// Smallest reported difference of the counter's frequency, as a ratio.
const COUNTER: f64 = 100e-6;

/// A part of the environment that moves by itself: reported if it more than doubles or halves,
/// counted from this floor up.
const MOVING: &[(&str, f64)] = &[
    ("load_1m", 0.5),
    ("cpu_pressure_avg10_percent", 5.0),
    ("memory_available_bytes", 1e9),
    ("swap_used_bytes", 1e8),
    ("_free_bytes", 1e9),
];

/// Names in the description of the host that change by themselves, or that the environment covers.
const UNTOLD: &[&str] = &[
    "count",
    "counted",
    "load",
    "pressure",
    "uptime_s",
    "available_bytes",
    "free_bytes",
    "idle_file_bytes",
    "dirty_bytes",
    "swap_used_bytes",
    "swap_total_bytes",
    "current_hz",
    "free",
    "memory_place",
    "memory_used_bytes",
    "memory_left_bytes",
    "sharing_pages",
    "mitigations",
    "release",
    "distribution",
    "command_line",
    "current",
    "microcode",
    "governor",
    "identity",
    "evidence",
    "given",
    "number",
];

/// Reported facts of different machines: name, place in the description of the host, unit.
const FACTS: &[(&str, &str, Option<Unit>)] = &[
    ("processor", "/cpu/model_name", None),
    ("core", "/cpu/microarchitecture/core", None),
    ("architecture", "/cpu/arch", None),
    ("CPUs", "/cpu/cpus", None),
    ("NUMA nodes", "/numa/nodes", None),
    ("memory", "/memory/total_bytes", Some(Unit::B)),
    ("base pages", "/memory/page_bytes", Some(Unit::B)),
];

struct Found(Vec<Condition>);

impl Found {
    fn add(&mut self, class: Class, name: &str, base: &str, new: &str) {
        if base != new {
            let told = |text: &str| match text.is_empty() {
                true => "not recorded".to_owned(),
                false => text.to_owned(),
            };
            self.0.push(Condition {
                class,
                name: name.to_owned(),
                base: told(base),
                new: told(new),
            });
        }
    }

    fn options(&mut self, base: &Run, new: &Run) {
        // What was not asked for is known, too.
        let or = |text: String, usual: &str| match text.is_empty() {
            true => usual.to_owned(),
            false => text,
        };
        let stated = |run: &Run| {
            let (header, of) = (&run.header, &run.header.options);
            let cpus: Vec<String> = header.cpus.iter().map(usize::to_string).collect();
            [
                ("preset", of.preset.clone()),
                ("selected", or(of.selectors.join(" "), "everything")),
                ("set", or(of.set.join(" "), "nothing")),
                ("precision", digits(of.precision)),
                ("directory", or(of.dir.clone().unwrap_or_default(), "the default")),
                ("peers", or(of.peers.join(" "), "none")),
                ("CPUs measured on", cpus.join(",")),
            ]
        };
        for ((name, base), (_, new)) in stated(base).iter().zip(&stated(new)) {
            self.add(Class::Options, name, base, new);
        }
    }

    fn plumb(&mut self, base: &Run, new: &Run) {
        let (b, n) = (&base.header, &new.header);
        for (name, base, new) in [
            ("version", &b.plumb, &n.plumb),
            ("profile", &b.profile, &n.profile),
            ("compiler", &b.rustc, &n.rustc),
            ("target", &b.target, &n.target),
            ("target features", &b.target_features, &n.target_features),
        ] {
            self.add(Class::Plumb, name, base, new);
        }
        // Older records lack it.
        if !b.build.is_empty() && !n.build.is_empty() {
            self.add(Class::Plumb, "measuring code", &b.build, &n.build);
        }
    }

    fn machine(&mut self, base: &Run, new: &Run, same: bool) {
        if same {
            return;
        }
        let (b, n) = (&base.header, &new.header);
        self.add(Class::Machine, "identity", &b.identity, &n.identity);
        for (name, pointer, unit) in FACTS {
            let text = |run: &Run| fact(&run.header.host, pointer, *unit);
            self.add(Class::Machine, name, &text(base), &text(new));
        }
    }

    /// Differences between descriptions of one host, besides those in the environment.
    fn host(&mut self, base: &Run, new: &Run) {
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        leaves(&base.header.host, "", &mut before);
        leaves(&new.header.host, "", &mut after);
        for (name, value) in &before {
            // A part that only one run has comes from another version of plumb.
            if let Some(other) = after.get(name) {
                self.add(Class::Setting, name, value, other);
            }
        }
    }

    fn environment(
        &mut self,
        prefix: &str,
        base: &BTreeMap<String, String>,
        new: &BTreeMap<String, String>,
    ) {
        let mut names: Vec<&String> = base.keys().chain(new.keys()).collect();
        names.order();
        names.dedup();
        for name in names {
            let of = |map: &BTreeMap<String, String>| map.get(name).cloned().unwrap_or_default();
            let (from, to) = (of(base), of(new));
            let label = format!("{prefix}{name}");
            match MOVING.iter().find(|(ending, _)| name.ends_with(ending)) {
                None => self.add(Class::Setting, &label, &from, &to),
                Some((_, floor)) => self.moving(&label, &from, &to, *floor),
            }
        }
    }

    fn moving(&mut self, name: &str, from: &str, to: &str, floor: f64) {
        let (Ok(before), Ok(after)) = (from.parse::<f64>(), to.parse::<f64>()) else {
            return;
        };
        let ratio = before.max(floor) / after.max(floor);
        if !(0.5..=2.0).contains(&ratio) {
            self.add(Class::State, name, from, to);
        }
    }

    fn clocks(&mut self, base: &Run, new: &Run) {
        let (b, n) = (&base.header.calibration, &new.header.calibration);
        self.add(Class::Clocks, "timer", &b.source, &n.source);
        let falls = |falls: bool| if falls { "a system call" } else { "vDSO" };
        let (from, to) = (falls(b.vdso_falls_back), falls(n.vdso_falls_back));
        self.add(Class::Clocks, "clock_gettime", from, to);
        self.add(Class::Clocks, "core clock from", &b.core_source, &n.core_source);
        for (name, from, to, least) in [
            ("counter", b.counter_hz, n.counter_hz, COUNTER),
            ("core clock", b.core_hz, n.core_hz, CORE_CLOCK),
        ] {
            if (to / from - 1.0).abs() > least {
                self.add(Class::Clocks, name, &render(from, Unit::Hz), &render(to, Unit::Hz));
            }
        }
    }

    fn state(&mut self, base: &Health, new: &Health) {
        for (name, from, to) in [
            ("rounds disturbed", base.disturbed_share(), new.disturbed_share()),
            ("time stolen", base.steal, new.steal),
            ("CPU taken by other programs (run delay)", base.run_delay, new.run_delay),
            ("time throttled", base.throttled, new.throttled),
        ] {
            if let (Some(from), Some(to)) = (from, to)
                && (to - from).abs() >= LEAST_SHARE
            {
                let [from, to] = [from, to].map(|share| render(share, Unit::Percent));
                self.add(Class::State, name, &from, &to);
            }
        }
        let most = |health: &Health| {
            let reason = health.reasons.first().filter(|_| health.disturbed > 0);
            reason.map_or_else(|| "nothing".to_owned(), |(reason, _)| reason.clone())
        };
        let is_much = |health: &Health| health.disturbed_share().is_some_and(|s| s >= 0.1);
        if is_much(base) || is_much(new) {
            self.add(Class::State, "disturbed most by", &most(base), &most(new));
        }
    }
}

fn fact(host: &Value, pointer: &str, unit: Option<Unit>) -> String {
    match (host.pointer(pointer), unit) {
        (Some(Value::Array(entries)), _) if !entries.is_empty() => entries.len().to_string(),
        (Some(Value::String(text)), _) => text.clone(),
        (Some(Value::Number(number)), Some(unit)) => {
            number.as_f64().map_or_else(String::new, |value| render(value, unit))
        }
        (Some(Value::Number(number)), None) => number.to_string(),
        _ => String::new(),
    }
}

/// The single values of a description, by their place, but for those that move by themselves.
fn leaves(value: &Value, place: &str, found: &mut BTreeMap<String, String>) {
    let below = |name: &str| format!("{}{name}", around("", place, "."));
    match value {
        Value::Object(entries) => {
            for (name, entry) in entries.iter().filter(|(name, _)| !UNTOLD.contains(&name.as_str()))
            {
                leaves(entry, &below(name), found);
            }
        }
        Value::Array(entries) if entries.iter().any(|one| one.is_object() || one.is_array()) => {
            for (at, entry) in entries.iter().enumerate() {
                // Entries that have a name, or a place, keep it when others come and go.
                let name = entry.get("name").or_else(|| entry.get("target"));
                let name = name.and_then(Value::as_str);
                leaves(entry, &below(name.unwrap_or(&at.to_string())), found);
            }
        }
        Value::Array(entries) => {
            let texts: Vec<String> = entries.iter().map(value_text).collect();
            found.insert(place.to_owned(), texts.join(", "));
        }
        single => {
            found.insert(place.to_owned(), value_text(single));
        }
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "not recorded".to_owned(),
        other => other.to_string(),
    }
}
