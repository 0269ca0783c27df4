use super::{EXPERIMENT, ID, loaders};
use bench::experiment::AnyExperiment;
use bench::experiment::fixtures::{bare_site, recorded};
use bench::prelude::*;
use session::fixtures::{refused, smoke};

#[test]
fn one_cpu_is_a_reason() {
    assert!(refused(&EXPERIMENT, &bare_site(), Preset::Standard, &[]).needed.is_some());
}

#[test]
fn loaders_are_of_the_chaser_s_node_and_not_of_its_core() {
    let site = recorded("epyc-7763-2s");
    let cpus = loaders(&site, false).expect("many");
    let chaser = site.cpus[0];
    let cpu = |id: usize| site.host.cpu.cpu(id).expect("a CPU");
    assert!(cpus.len() > 4 && !cpus.contains(&chaser));
    for other in &cpus {
        assert_eq!(cpu(*other).node, cpu(chaser).node);
        assert!(!cpu(chaser).smt_siblings.contains(other));
    }
    let all = loaders(&site, true).expect("more");
    assert_eq!(all.len(), cpus.len() + cpu(chaser).smt_siblings.len() - 1);
    // A machine of one core with two threads.
    let mut small = recorded("epyc-7763-2s");
    small.cpus = cpu(chaser).smt_siblings.clone();
    let skip = loaders(&small, false).expect_err("siblings only");
    assert!(skip.needed.is_some_and(|needed| needed.contains("sibling=in")));
    assert_eq!(loaders(&small, true).expect("the sibling").len(), 1);
}

#[test]
fn a_rehearsal_yields_latency_and_bandwidth_that_rises_with_the_load() {
    if metal::place::allowed().expect("CPUs").len() < 2 {
        return skips::test("one-cpu");
    }
    let samples = smoke(&EXPERIMENT);
    let value = |metric: &str, load: u64| {
        let of = samples
            .iter()
            .find(|samples| samples.metric == metric && samples.case.int("load") == Some(load));
        of.expect("a sample").raw.samples()[0]
    };
    assert!((0..=2).all(|step| value("latency", 50 * step) > 0.0));
    // Without a load only the chaser's lines are moved.
    let lines = 64e9 / value("latency", 0);
    assert!(value("bandwidth", 0) < 3.0 * lines);
    assert!(value("bandwidth", 100) > value("bandwidth", 0));
}

#[test]
fn idle_is_compared_with_the_ladder() {
    let id = CaseId::new().with("op", "read").with("stores", "regular").with("load", 0);
    let (mut known, mut values) = (Known::default(), Known::default());
    values.insert(Key::new(ID, &id, "latency"), 110.0);
    assert!(EXPERIMENT.derive(&bare_site(), &known, &values).is_empty());
    let level = CaseId::new().with("level", "DRAM");
    known.insert(Key::new("memory.latency", &level, "level_latency"), 100.0);
    let found = EXPERIMENT.derive(&bare_site(), &known, &values);
    assert!((found[0].value - 1.1).abs() < 1e-12 && found[0].case == id);
}
