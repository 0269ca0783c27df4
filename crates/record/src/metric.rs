//! What a case yields.

use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Which direction is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller is better: latencies.
    Lower,
    /// Larger is better: rates.
    Higher,
    /// Neither: sizes, frequencies, descriptions.
    None,
}

/// What decides a metric: it sets default spreads and the goal for prediction widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Processor and memory hardware.
    Hardware,
    /// The operating system's services.
    Os,
    /// Devices and links.
    Io,
}

impl Kind {
    /// The spelling in files and reports.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Hardware => "hardware",
            Kind::Os => "os",
            Kind::Io => "io",
        }
    }

    /// Default between-run standard deviation of the log ratio, until three stored runs of the
    /// machine give a measured one (METHOD §3): 1.5 % hardware, 4 % os and io.
    pub fn default_between_run_sd(self) -> f64 {
        match self {
            Kind::Hardware => 0.015,
            Kind::Os | Kind::Io => 0.04,
        }
    }
}

/// Which rounds a metric speaks of, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The median of the undisturbed rounds, where there are enough.
    #[default]
    Undisturbed,
    /// The median of all rounds: what disturbs is what is measured.
    All,
    /// The greatest of all rounds.
    Greatest,
}

impl Over {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
    fn is_default(&self) -> bool {
        *self == Over::default()
    }
}

/// A metric: static in a card, owned in a plan that was read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// Name; it says per what (`latency_per_block`), never the unit.
    pub name: Cow<'static, str>,
    /// One line: what it is.
    pub doc: Cow<'static, str>,
    /// Unit in files.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
    /// Class.
    pub kind: Kind,
    /// Yielded by `derive` from several cases, not by samples.
    pub derived: bool,
    /// Which rounds it speaks of.
    #[serde(default, skip_serializing_if = "Over::is_default")]
    pub over: Over,
    /// What the figures of some of its cases were called until the version before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formerly: Option<Cow<'static, str>>,
}

impl Metric {
    /// A measured metric for a static card.
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        unit: Unit,
        better: Better,
        kind: Kind,
    ) -> Self {
        Metric {
            name: Cow::Borrowed(name),
            doc: Cow::Borrowed(doc),
            unit,
            better,
            kind,
            derived: false,
            over: Over::Undisturbed,
            formerly: None,
        }
    }

    /// The unit in which people read its values: a share in percent.
    pub fn shown_unit(&self) -> Unit {
        match self.unit {
            Unit::Ratio if self.doc.starts_with("share ") => Unit::Percent,
            unit => unit,
        }
    }

    /// A measured time in ns; less is better.
    pub const fn time(name: &'static str, doc: &'static str, kind: Kind) -> Self {
        Metric::new(name, doc, Unit::Ns, Better::Lower, kind)
    }

    /// A metric that `derive` yields from several cases.
    pub const fn derived(
        name: &'static str,
        doc: &'static str,
        unit: Unit,
        better: Better,
        kind: Kind,
    ) -> Self {
        let mut metric = Metric::new(name, doc, unit, better, kind);
        metric.derived = true;
        metric
    }

    /// The same, which an earlier version called otherwise.
    #[must_use]
    pub const fn formerly(mut self, name: &'static str) -> Self {
        let none = self.formerly.replace(Cow::Borrowed(name));
        // A static's initialiser may not drop.
        std::mem::forget(none);
        self
    }

    #[must_use]
    pub const fn over(mut self, over: Over) -> Self {
        self.over = over;
        self
    }
}
