//! Keys from before a parameter existed, completed as they are read with the value that they had.

use crate::event::Event;

impl Event {
    /// Completes the keys of an event ([`crate::key::CaseId::complete`]).
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
