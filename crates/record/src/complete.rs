//! What records of earlier formats lack, completed as they are read: parameters of keys, conditions
//! of predictions, kinds of notes.

use crate::event::{Condition, Event, Prediction};
use crate::key::Value;
use crate::note::{Note, NoteKind};
use std::collections::BTreeMap;

/// The format since which a prediction has its conditions, and a note its kind.
const KINDS_SINCE: u32 = 3;
/// What the sentences of earlier formats call them.
const WORDS: [(&str, Condition); 10] = [
    ("page-table isolation", Condition::PageTableIsolation),
    ("seccomp", Condition::Seccomp),
    ("hypervisor", Condition::Hypervisor),
    ("nested", Condition::NestedPaging),
    ("virtual disk", Condition::VirtualDisk),
    ("write cache", Condition::WriteCache),
    ("outlive", Condition::WriteCache),
    ("journal", Condition::Journal),
    ("core clock", Condition::CoreClock),
    ("clock source", Condition::ClockSource),
];

/// Facts that were sentences in records of before 2026-11-25: the fact, what its sentences contain,
/// and the word that stands for them.
const FACTS: [(&str, &str, &str); 8] = [
    ("promise", "in memory", "memory"),
    ("promise", "on another", "stacked"),
    ("promise", "a process serves", "daemon"),
    ("promise", "another machine serves", "server"),
    ("promise", "remote server serves", "server"),
    ("promise", "stacked on", "stacked"),
    ("medium", "hard disk", "spinning"),
    ("medium", "flash", "flash"),
];

/// Facts of records of before have today's words.
fn complete_facts(at: &mut BTreeMap<String, Value>) {
    for (fact, contained, word) in FACTS {
        if let Some(value) = at.get_mut(fact)
            && value.text().is_some_and(|text| text.contains(contained))
        {
            *value = word.into();
        }
    }
}

impl Prediction {
    fn complete(&mut self) {
        let said = WORDS.iter().filter(|(words, _)| self.because.contains(words));
        self.conditions = said.map(|(_, condition)| *condition).collect();
    }
}

/// How the notes of earlier formats begin.
const BEGINNINGS: [(&str, NoteKind); 5] = [
    ("cache:", NoteKind::Cache),
    ("power:", NoteKind::Power),
    ("the core clock moved over the case", NoteKind::NoClock),
    ("no core clock before the case", NoteKind::NoClock),
    ("no core clock after the case", NoteKind::NoClock),
];

impl Note {
    fn complete(&mut self) {
        let of = BEGINNINGS.iter().find(|(words, _)| self.text.starts_with(words));
        self.kind = of.map_or(self.kind, |(_, kind)| *kind);
    }
}

impl Event {
    /// Completes an event of a record of this format ([`crate::key::CaseId::complete`]).
    pub(crate) fn complete(&mut self, format: u32) {
        match self {
            Event::Plan(plan) => {
                for of in &mut plan.experiments {
                    let series = of.series.iter_mut().flat_map(|series| &mut series.cases);
                    for case in series {
                        case.complete(&of.id);
                    }
                    of.derived.iter_mut().for_each(|case| case.complete(&of.id));
                }
            }
            Event::Prediction(of) => {
                of.case.complete(&of.experiment);
                complete_facts(&mut of.at);
                if format < KINDS_SINCE {
                    of.prediction.complete();
                }
            }
            Event::Samples(of) => {
                of.case.complete(experiment(&of.series));
                complete_facts(&mut of.at);
                if format < KINDS_SINCE {
                    of.notes.iter_mut().for_each(Note::complete);
                }
            }
            Event::Histogram(of) => of.case.complete(experiment(&of.series)),
            Event::Trace(of) => of.case.complete(experiment(&of.series)),
            Event::Round(round) => {
                for failed in &mut round.failed {
                    failed.case.complete(experiment(&round.series));
                }
            }
            Event::Derived(of) => of.case.complete(&of.experiment),
            Event::Outcome(of) => {
                if let Some(case) = &mut of.case {
                    case.complete(&of.experiment);
                }
            }
            _ => {}
        }
    }
}

/// The experiment of a series' label.
fn experiment(series: &str) -> &str {
    series.split('/').next().unwrap_or(series)
}

#[cfg(test)]
mod tests {
    use super::{FACTS, complete_facts};
    use crate::key::{CaseId, Value};
    use std::collections::BTreeMap;

    #[test]
    fn facts_that_were_sentences_read_as_their_words() {
        let read = |fact: &str, text: &str| {
            let mut at = BTreeMap::from([(fact.to_owned(), Value::from(text))]);
            complete_facts(&mut at);
            at[fact].to_string()
        };
        for (fact, text, word) in [
            ("promise", "the file system lies in memory: a sync does nothing there", "memory"),
            ("promise", "the file system lies on another one, which it hands syncs to", "stacked"),
            ("promise", "the file system is stacked on another one and passes syncs on", "stacked"),
            ("promise", "a process serves the file system (FUSE)", "daemon"),
            ("promise", "another machine serves the file system", "server"),
            ("promise", "a remote server serves the file system", "server"),
            ("medium", "a hard disk: its sector does not come by so soon", "spinning"),
            ("medium", "flash over NVMe: flash is not programmed so soon", "flash"),
            ("ground", "flash", "flash"),
        ] {
            assert_eq!(read(fact, text), word, "{text}");
        }
        for (fact, _, word) in FACTS {
            assert_eq!(read(fact, word), word);
        }
    }

    #[test]
    fn keys_of_before_the_parameter_read_as_other() {
        let told = |experiment: &str, case: CaseId| {
            let mut case = case;
            case.complete(experiment);
            case.to_string()
        };
        let read = || CaseId::new().with("op", "read");
        assert_eq!(told("fs.io", read()), "op=read,placement=other");
        let free = read().with("placement", "free");
        assert_eq!(told("fs.io", free), "op=read,placement=free");
        let to = |far: &str| CaseId::new().with("far", far).with("ip", "v4");
        let of_peer = told("net.ping", to("peer"));
        assert_eq!(of_peer, "far=peer,ip=v4,placement=other");
        assert_eq!(told("net.ping", to("loopback")), "far=loopback,ip=v4");
        let whole = CaseId::new().with("far", "peer");
        assert_eq!(told("net.ping", whole), "far=peer");
        let fault = |kind: &str| told("memory.fault", CaseId::new().with("fault", kind));
        assert_eq!(fault("page"), "fault=page,placement=other");
        assert_eq!(fault("anonymous"), "fault=anonymous");
    }
}
