//! The engine of laws that are rows ([`parse`]): it sums the terms of each scale, turns them into
//! the time that they take on this machine, and shifts that by what relatives were measured at.
//!
//! What is common to the terms of a scale, the core's clock and instructions per cycle and the
//! residual of the relatives, is counted in once for their sum.

pub mod parse;
pub mod table;

use crate::cpu::{clocked, usual_in_kernel};
use crate::os::learnt::learnt;
use crate::os::process::in_memory_management;
use crate::os::work::nested;
use crate::os::{VERSIONS, Work};
use crate::{Facts, Law, range, scaled, sum as both};
pub use parse::Scale;
use parse::{Addend, Part, Rows};
use record::event::Range;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All rows. The build has read each file of them.
static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let text = concat!(
        include_str!("os.rows"),
        include_str!("memory.rows"),
        include_str!("net.rows"),
        include_str!("fs.rows"),
    );
    Rows::read(text).unwrap_or_else(|why| panic!("rows of laws, line {why}"))
});

/// The sums of a section by what its law's code gives.
pub struct Section<'a> {
    pub facts: Facts<'a>,
    pub name: &'static str,
    /// How many: nothing of it where it is zero.
    pub count: &'a dyn Fn(&str) -> f64,
    /// The times of the sum's terms, in ns.
    pub time: &'a dyn Fn(&str) -> Law,
}

impl Section<'_> {
    /// Several sums of the section as one, in ns.
    pub fn law(&self, sums: &[&str]) -> Law {
        self.sum(sums, true)
    }

    /// The same as it usually is: without what relatives say.
    pub fn usual(&self, sums: &[&str]) -> Law {
        self.sum(sums, false)
    }

    fn sum(&self, sums: &[&str], is_learnt: bool) -> Law {
        let facts = self.facts;
        let here = |scale, law| {
            let law = timed(facts, scale, law);
            if is_learnt { of_version(facts, scale, learnt(facts, scale, law)) } else { law }
        };
        let mut groups: BTreeMap<Scale, Law> = BTreeMap::new();
        let mut whole = None;
        for addend in sums.iter().flat_map(|sum| addends(self.name, sum)) {
            let count: f64 = addend.counts.iter().map(|name| (self.count)(name)).product();
            let times = |law| times(law, count, addend.factor);
            match &addend.part {
                _ if count == 0.0 => {}
                Part::Given(name) => whole = plus(whole, times((self.time)(name))),
                Part::Term(place) => match stated(*place) {
                    // Of a thread's steps each errs by itself.
                    (Scale::Tasks, law) => {
                        let law = here(Scale::Tasks, code(facts, Scale::Tasks, law));
                        whole = plus(whole, times(law));
                    }
                    (scale, law) => {
                        let is_spaces = scale == Scale::Spaces;
                        let law = if is_spaces { code(facts, scale, law) } else { law };
                        let sum = plus(groups.remove(&scale), times(law));
                        groups.extend(sum.map(|sum| (scale, sum)));
                    }
                },
            }
        }
        let stalls = groups.remove(&Scale::Stall);
        for (scale, law) in groups {
            let law = if scale == Scale::Spaces { law } else { code(facts, scale, law) };
            let stalls = stalls.clone().filter(|_| scale == Scale::Steady);
            whole = plus(whole, here(scale, law + stalls));
        }
        whole.unwrap_or_else(|| Law::software(range(0.0, 0.0, 0.0), ""))
    }
}

pub fn names(section: &str) -> impl Iterator<Item = &'static str> {
    ROWS.sums.keys().filter(move |(of, _)| of == section).map(|(_, name)| &**name)
}

/// What the terms of a scale are learnt from.
pub fn relatives(scale: Scale) -> impl Iterator<Item = &'static str> {
    ROWS.relatives.get(&scale).into_iter().flatten().map(String::as_str)
}

/// A sum of terms alone by the counts that its law's code gives, in the terms' unit.
pub fn range_of(section: &str, sum: &str, count: impl Fn(&str) -> f64) -> Range {
    let nothing = range(0.0, 0.0, 0.0);
    addends(section, sum).iter().fold(nothing, |all, addend| match addend.part {
        Part::Term(place) => {
            let [low, likely, high] = ROWS.terms[place].ends;
            let times = addend.counts.iter().map(|name| count(name)).product();
            both(all, scaled(range(low, likely, high), times))
        }
        Part::Given(_) => all,
    })
}

fn addends(section: &str, sum: &str) -> &'static [Addend] {
    let found = ROWS.sums.get(&(section.to_owned(), sum.to_owned()));
    found.unwrap_or_else(|| panic!("rows of laws: [{section}] has no sum {sum}"))
}

fn stated(place: usize) -> (Scale, Law) {
    let term = &ROWS.terms[place];
    let [low, likely, high] = term.ends;
    let range = range(low, likely, high);
    let law = match term.scale {
        Scale::Stall | Scale::Core | Scale::Ns => Law::hardware(range, &term.reason),
        _ => Law::software(range, &term.reason),
    };
    (term.scale, law.unsourced_if(!term.is_sourced))
}

fn times(law: Law, count: f64, [low, likely, high]: [f64; 3]) -> Law {
    match low == high {
        true => law.counted(count * likely),
        false => law.counted(count * likely).by(range(low / likely, 1.0, high / likely)),
    }
}

fn plus(sum: Option<Law>, law: Law) -> Option<Law> {
    Some(match sum {
        Some(sum) => sum + law,
        None => law,
    })
}

/// Code of the reference core in cycles of this one.
fn code(facts: Facts, scale: Scale, law: Law) -> Law {
    let here = |work: fn(Range) -> Work| move |cycles: Range| work(cycles).cycles(facts.site);
    match scale {
        Scale::Kernel | Scale::Steady => law.reshaped(here(Work::of_call)),
        Scale::Tasks | Scale::Spaces | Scale::Pages => law.reshaped(here(Work::on_pages)),
        Scale::Plain => law.reshaped(here(Work::from)),
        Scale::Stall | Scale::Core | Scale::Ns => law,
    }
}

/// Cycles of this core as ns.
fn timed(facts: Facts, scale: Scale, law: Law) -> Law {
    match scale {
        Scale::Kernel | Scale::Steady | Scale::Stall | Scale::Tasks => usual_in_kernel(facts, law),
        Scale::Spaces => in_memory_management(facts, law),
        Scale::Pages => clocked(facts, law).unsourced().times(nested(facts.site)),
        Scale::Plain => clocked(facts, law).unsourced(),
        Scale::Core => clocked(facts, law),
        Scale::Ns => law,
    }
}

/// The kernel's work where its version is unknown.
fn of_version(facts: Facts, scale: Scale, law: Law) -> Law {
    match (scale, &facts.site.host.kernel.release) {
        (Scale::Kernel, None) => law.widened(VERSIONS, VERSIONS, "the kernel's version is unknown"),
        _ => law,
    }
}
