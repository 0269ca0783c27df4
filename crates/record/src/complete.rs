//! Keys of records that are older than a parameter, completed as they are read.

use crate::event::Event;

impl Event {
    /// Completes the keys in an event ([`crate::key::CaseId::complete`]).
    pub(crate) fn complete(&mut self) {
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
            Event::Prediction(of) => of.case.complete(&of.experiment),
            Event::Samples(of) => of.case.complete(experiment(&of.series)),
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
        assert_eq!(told("fs.remote", read()), "op=read");
        let fault = |kind: &str| told("memory.fault", CaseId::new().with("fault", kind));
        assert_eq!(fault("page"), "fault=page,placement=other");
        assert_eq!(fault("anonymous"), "fault=anonymous");
    }
}
