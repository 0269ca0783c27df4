//! What records of earlier formats lack, completed as they are read: parameters of keys, conditions
//! of predictions, kinds of notes.

use crate::event::{Condition, Event, Prediction};
use crate::note::{Note, NoteKind};

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
                if format < KINDS_SINCE {
                    of.prediction.complete();
                }
            }
            Event::Samples(of) => {
                of.case.complete(experiment(&of.series));
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
    use crate::key::CaseId;

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
