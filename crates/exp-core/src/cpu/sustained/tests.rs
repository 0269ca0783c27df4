use super::{EXPERIMENT, blocks, window_ns};
use bench::experiment::Preset;
use bench::experiment::fixtures::{case, recorded};
use session::fixtures::{here_with, ids, offered, refused, rehearse_in, smoke};

#[test]
fn quick_skips_with_a_way_out_that_leads_out() {
    let site = recorded("vm-granite-rapids");
    let skip = refused(&EXPERIMENT, &site, Preset::Quick, &[]);
    assert!(skip.needed.is_some_and(|needed| needed.contains("duration=20s")));
    let offer = offered(&EXPERIMENT, &site, Preset::Quick, &[("duration", "20s")]);
    assert_eq!(offer.series.len(), 2);
    assert_eq!(blocks(&offer.series[0], false), (1_000_000_000, 20));
    let window = window_ns(1_000_000_000);
    assert!(window * 1.1 + super::AROUND_NS <= 1e9 && window > 0.85e9);
}

#[test]
fn thorough_has_four_threads_and_the_mix_whatever_the_number_of_cpus() {
    let four = ["threads=1", "threads=4", "threads=all", "threads=4,op=mix"].as_slice();
    for (host, cpus, expected) in [
        ("vm-granite-rapids", 1, four),
        ("epyc-7763-2s", 256, four),
        ("epyc-7763-2s", 4, &["threads=1", "threads=all", "threads=all,op=mix"]),
    ] {
        let mut site = recorded(host);
        site.cpus.truncate(cpus);
        let offer = offered(&EXPERIMENT, &site, Preset::Thorough, &[]);
        let of =
            |element: &'static str| expected.iter().map(move |id| format!("type={element},{id}"));
        assert_eq!(ids(&offer), of("f64").chain(of("i64")).collect::<Vec<_>>(), "{cpus} CPUs");
        let mix = offer.series.iter().filter(|series| series.name.starts_with("mix-"));
        let lasts: Vec<Option<u64>> = mix.map(|series| series.setting("duration")).collect();
        // R3's ten minutes, a point a second.
        assert_eq!(lasts, [Some(600_000_000_000); 2]);
    }
}

/// R3's load: four threads at the mix on one CPU, which take turns.
#[test]
fn more_threads_than_cpus_are_measured_at_the_mix() {
    let mut site = here_with(&std::env::temp_dir());
    site.cpus.truncate(1);
    let set = [("op", "mix"), ("threads", "4")];
    let rehearsed = rehearse_in(&EXPERIMENT, &site, Preset::Rehearsal, &set);
    for (element, metric) in [("f64", "flop_rate"), ("i64", "rate")] {
        let case = case(&format!("type={element},threads=4,op=mix"));
        let samples = rehearsed.samples_of(&case, metric).expect("it was measured");
        assert_eq!(samples.raw.samples().len() as u64, super::REHEARSAL.1);
    }
    assert!(rehearsed.failed.is_empty(), "{:?}", rehearsed.failed);
}

#[test]
fn it_measures() {
    let samples = smoke(&EXPERIMENT);
    assert_eq!(samples.len(), 2);
    for one in &samples {
        assert_eq!(one.raw.samples().len() as u64, super::REHEARSAL.1);
        assert!(one.at.contains_key("changes"));
    }
}
