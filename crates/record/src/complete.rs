//! Keys of older records, as they are named now.

use crate::event::Event;

impl Event {
    /// Names the cases of an event as they are named now ([`crate::key::CaseId::complete`]).
    pub(crate) fn complete(&mut self) {
        match self {
            Event::Plan(plan) => {
                for planned in &mut plan.experiments {
                    let series = planned.series.iter_mut().flat_map(|series| &mut series.cases);
                    series.chain(&mut planned.derived).for_each(|case| case.complete());
                }
            }
            Event::Prediction(event) => event.case.complete(),
            Event::Samples(event) => event.case.complete(),
            Event::Histogram(event) => event.case.complete(),
            Event::Trace(event) => event.case.complete(),
            Event::Round(round) => {
                round.failed.iter_mut().for_each(|failed| failed.case.complete())
            }
            Event::Derived(event) => event.case.complete(),
            Event::Outcome(event) => event.case.iter_mut().for_each(|case| case.complete()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::key::CaseId;

    #[test]
    fn keys_name_a_placement_only_if_a_thread_was_pinned() {
        let read = |place: &str| {
            let mut case = CaseId::new().with("op", "read").with("placement", place);
            case.complete();
            case.to_string()
        };
        assert_eq!(read("free"), "op=read");
        assert_eq!(read("interrupt"), "op=read,placement=interrupt");
    }
}
