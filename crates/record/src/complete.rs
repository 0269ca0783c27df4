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
                        case.complete(&of.id, format);
                    }
                    of.derived.iter_mut().for_each(|case| case.complete(&of.id, format));
                }
            }
            Event::Prediction(of) => {
                of.case.complete(&of.experiment, format);
                complete_facts(&mut of.at);
                if format < KINDS_SINCE {
                    of.prediction.complete();
                }
            }
            Event::Samples(of) => {
                of.case.complete(experiment(&of.series), format);
                complete_facts(&mut of.at);
                if format < KINDS_SINCE {
                    of.notes.iter_mut().for_each(Note::complete);
                }
            }
            Event::Histogram(of) => of.case.complete(experiment(&of.series), format),
            Event::Trace(of) => of.case.complete(experiment(&of.series), format),
            Event::Round(round) => {
                for failed in &mut round.failed {
                    failed.case.complete(experiment(&round.series), format);
                }
            }
            Event::Derived(of) => of.case.complete(&of.experiment, format),
            Event::Outcome(of) => {
                if let Some(case) = &mut of.case {
                    case.complete(&of.experiment, format);
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
    fn keys_name_a_placement_only_if_a_thread_was_pinned() {
        let read = |experiment: &str, case: CaseId, format: u32| {
            let mut case = case;
            case.complete(experiment, format);
            case.to_string()
        };
        let io = |place: &str| CaseId::new().with("op", "read").with("placement", place);
        assert_eq!(read("fs.io", io("free"), 5), "op=read");
        assert_eq!(read("fs.io", io("interrupt"), 5), "op=read,placement=interrupt");
        let fault =
            |kind: &str, format| read("memory.fault", CaseId::new().with("fault", kind), format);
        assert_eq!(fault("page", 5), "fault=page");
        assert_eq!(fault("page", 4), "fault=page,placement=other");
        assert_eq!(fault("anonymous", 4), "fault=anonymous");
        let ping = |far: &str| read("net.ping", CaseId::new().with("far", far).with("ip", "v4"), 4);
        assert_eq!(ping("peer"), "far=peer,ip=v4,placement=other");
        assert_eq!(ping("loopback"), "far=loopback,ip=v4");
    }
}
