use super::sentences;
use crate::analysis::figure::Figure;
use crate::analysis::{figures, sample};
use record::event::{Event, PlannedExperiment};
use record::run::Run;

fn told(run: &Run, experiment: &str) -> Vec<String> {
    let all = figures(run);
    let plan = run.plan.as_ref().expect("the sample has a plan");
    let planned = plan.experiments.iter().find(|one| one.id == experiment);
    let own: Vec<&Figure> = all
        .iter()
        .filter(|one| one.experiment == experiment)
        .collect();
    sentences(run, planned.expect("is in the sample"), &own)
}

#[test]
fn show() {
    for experiment in [
        "memory.latency",
        "os.syscall",
        "os.pipe",
        "clock.rate",
        "memory.numa",
    ] {
        println!("{experiment}: {:#?}", told(&sample::run(), experiment));
    }
    let _ = |event: &Event, planned: &PlannedExperiment| (event.clone(), planned.clone());
}
