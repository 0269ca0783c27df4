use super::windows::slices;
use super::*;
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;
use record::event::Raw;
use session::fixtures::{ids, offered, skipped, smoke};

#[test]
fn what_a_site_lacks_is_skipped_with_its_reason() {
    let mut site = recorded("vm-granite-rapids");
    let set = [("pair", "same,llc,remote"), ("stack", "bare"), ("count", "none")];
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &set);
    assert_eq!(ids(&offer), ["pair=same,stack=bare"]);
    assert_eq!(skipped(&offer), ["pair=llc,stack=bare", "pair=remote,stack=bare"]);
    site.cpus.truncate(1);
    let alone = offered(&EXPERIMENT, &site, Preset::Standard, &[]);
    assert_eq!(ids(&alone).len(), 5, "one CPU: the same alone");
}

#[test]
fn a_limit_is_told_with_the_way_out() {
    let reached = std::io::Error::from_raw_os_error(11);
    let text = format!("{:#}", advised(reached.into(), 8 << 20));
    for word in ["may be made", "ulimit -v", "8388608 bytes", "os.thread.alive"] {
        assert!(text.contains(word), "{text}");
    }
    let other = advised(anyhow::anyhow!("another"), 1);
    assert_eq!(format!("{other:#}"), "another");
}

#[test]
fn a_crowd_is_forgiven_the_switches_of_its_own_cpu_time() {
    assert_eq!([0, 1, 750_000, 750_001].map(slices), [0, 1, 1, 2]);
    assert_eq!(slices(7_500_000), 10);
}

#[test]
fn it_measures_lives_in_order_and_sequences_whole() {
    let samples = smoke(&EXPERIMENT);
    let values = |id: &str, metric: &str| -> Vec<f64> {
        let found = samples
            .iter()
            .find(|samples| samples.case.to_string() == id && samples.metric == metric);
        found.expect("measured").raw.samples()
    };
    for id in ["pair=same,stack=cached", "pair=same,stack=fresh"] {
        let [returned, first, joined] =
            ["return", "first_instruction", "create_join"].map(|metric| values(id, metric));
        assert_eq!((returned.len(), joined.len()), (EVENTS.rehearsal, first.len()));
        for at in 0..joined.len() {
            assert!(0.0 < returned[at] && returned[at] <= joined[at]);
            assert!(0.0 < first[at] && first[at] < joined[at]);
        }
    }
    let faults = |samples: &[Samples], stack: &str| {
        let of_stack = |samples: &&Samples| {
            samples.case.text("stack") == Some(stack) && samples.case.int("count").is_none()
        };
        samples.iter().find(of_stack).expect("measured").quantities["faults_per_thread"]
    };
    assert!(faults(&samples, "fresh") >= 1.0);
    // The kernel counts those of the whole process, in which other tests run.
    let is_kept = |samples: &[Samples]| faults(samples, "cached") < 1.0;
    assert!(is_kept(&samples) || (0..10).any(|_| is_kept(&smoke(&EXPERIMENT))));
    let of_sequence = |samples: &&Samples| samples.case.int("count") == Some(1000);
    let sequence = samples.iter().find(of_sequence).expect("measured");
    let Raw::Batch { k: 1000, values } = &sequence.raw else {
        panic!("{:?}", sequence.raw);
    };
    assert!(values.iter().all(|mean| *mean > 0.0));
}
