use super::{RIVAL, STREAM_OPS, grids, input, parse};
use crate::bandwidth::tests::{check, conditions, everywhere};
use crate::{Goal, Output};
use bench::experiment::Preset;

/// Of two ranks, HPL's eight solves of n = 100: Debian 12 (Open MPI 4.1.4), Debian 13 (Open MPI
/// 5.0.7).
const OLD: &str = include_str!("../../testdata/hpcc/1.5.0-debian12-two-ranks.txt");
const NEW: &str = include_str!("../../testdata/hpcc/1.5.0-debian13-two-ranks.txt");

fn said(answer: &str) -> Output {
    Output {
        stderr: "Core: SkylakeX\nCore: SkylakeX\n".to_owned(),
        answer: answer.to_owned(),
        ..Output::default()
    }
}

#[test]
fn the_best_solve_and_the_ranks_bandwidths_are_read() {
    let close = |value: Result<f64, String>, wanted: f64| {
        let value = value.expect("a rate");
        assert!((value / wanted - 1.0).abs() < 1e-12, "{value} instead of {wanted}");
    };
    for (text, hpl, stream) in [
        (OLD, 4.342, [109.695, 55.5333, 69.057, 61.8947]),
        (NEW, 0.7022, [105.36, 57.3247, 69.057, 64.8039]),
    ] {
        close(parse(&said(text), "HPL of 8"), hpl * 1e9);
        for (op, gb) in STREAM_OPS.into_iter().zip(stream) {
            close(parse(&said(text), &format!("{op} of 2")), 2.0 * gb * 1e9);
        }
    }
}

#[test]
fn what_failed_or_is_broken_is_an_error() {
    let failed = OLD.replacen("PASSED", "FAILED", 1);
    let unlike = OLD.replace("Solution Validates", "Solution");
    let garbled = OLD.replace("StarSTREAM_Triad=", "StarSTREAM_Triad=x");
    let cut = OLD.split_once("Begin of HPL").expect("HPL ran").0;
    for (text, what, told) in [
        (OLD, "HPL of 4", "8 rates"),
        (&failed, "HPL of 8", "residual"),
        (cut, "HPL of 8", "0 rates"),
        (OLD, "copy of 1", "2 processes"),
        (cut, "copy of 2", "CommWorldProcs"),
        (&unlike, "copy of 2", "validated"),
        (&garbled, "triad of 2", "not a number"),
        (OLD, "sum of 2", "StarSTREAM_Sum"),
        (OLD, "HPL", "not a part"),
        ("", "HPL of 8", "hpccoutf.txt"),
    ] {
        let error = parse(&said(text), what).expect_err(told);
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn hpl_without_openblas_is_not_compared() {
    let other = Output { stderr: String::new(), ..said(OLD) };
    let error = parse(&other, "HPL of 8").expect_err("another BLAS");
    assert!(error.contains("libopenblas0"), "{error}");
    parse(&other, "copy of 2").expect("STREAM needs none");
}

#[test]
fn both_sides_have_the_same_bytes_everywhere() {
    for conditions in everywhere() {
        let pairings = (RIVAL.pairings)(&conditions);
        for (pairing, footprint) in pairings.iter().zip(check(&conditions, &pairings)) {
            let (name, text) = &pairing.theirs.inputs[0];
            assert_eq!(*name, "hpccinf.txt");
            let n = text.lines().nth(5).and_then(|line| line.strip_suffix(" Ns"));
            let n: u64 = n.expect("sizes").parse().expect("a number");
            if pairing.ours.experiment == "cpu.linpack" {
                assert_eq!(pairing.ours.setting("n"), Some(n.to_string().as_str()));
                continue;
            }
            let theirs = (8 * n * n) as f64;
            let ours = footprint.expect("main memory is everywhere") as f64;
            assert!((theirs / ours - 1.0).abs() < 0.01, "{}: {theirs} beside {ours}", pairing.name);
        }
    }
}

#[test]
fn presets_have_what_they_are_to_have() {
    let names = |cpus: usize, preset: Preset| -> Vec<String> {
        let pairings = (RIVAL.pairings)(&conditions("vm-granite-rapids", cpus, preset));
        assert!(pairings.iter().all(|pairing| pairing.skip.is_none()));
        pairings.into_iter().map(|pairing| pairing.name).collect()
    };
    assert_eq!(names(2, Preset::Rehearsal), ["hpl", "stream"]);
    assert_eq!(names(2, Preset::Quick), ["hpl"]);
    assert_eq!(names(1, Preset::Standard), ["hpl", "stream"]);
    assert_eq!(names(2, Preset::Standard), ["hpl", "hpl-all", "stream-all"]);
    assert_eq!(names(2, Preset::Thorough), ["hpl", "hpl-all", "stream", "stream-all"]);
}

#[test]
fn arrays_are_main_memory_s_in_a_standard_comparison() {
    for host in ["vm-granite-rapids", "alder-lake-hybrid", "epyc-7763-2s"] {
        for cpus in [1, 2] {
            let pairings = (RIVAL.pairings)(&conditions(host, cpus, Preset::Standard));
            let stream = pairings.last().expect("the last is STREAM");
            // A sum of what several processes had at different times is nothing to reach.
            let goal = match stream.name.as_str() {
                "stream" => Goal::AtLeast,
                _ => Goal::Explained,
            };
            assert!(stream.rows.iter().all(|row| row.goal == goal), "{host}");
        }
    }
}

#[test]
fn each_rank_is_pinned_to_a_cpu_of_its_own_and_keeps_its_files_where_they_are_removed() {
    let pairings = (RIVAL.pairings)(&conditions("epyc-7763-2s", 256, Preset::Standard));
    let all = &pairings[1].theirs;
    assert_eq!(all.program, "mpirun");
    let ranks: Vec<String> = all.cpus.iter().map(usize::to_string).collect();
    assert!(all.args.ends_with(&ranks) && all.args.contains(&format!("localhost:{}", ranks.len())));
    assert!(all.environment.contains(&("TMPDIR", "/tmp/scratch".to_owned())));
    assert!(
        all.environment
            .contains(&("OMPI_MCA_btl_sm_backing_directory", "/dev/shm/memory".to_owned()))
    );
}

#[test]
fn inputs_try_every_grid_and_block() {
    assert_eq!(grids(1), [(1, 1)]);
    assert_eq!(grids(4), [(1, 4), (2, 2), (4, 1)]);
    let text = input(100, &[64, 96], &grids(4));
    for line in ["100 Ns", "2 NBs", "64 96 NBs", "3 process grids", "1 2 4 Ps", "4 2 1 Qs"] {
        assert!(text.lines().any(|one| one == line), "{line} in {text}");
    }
}
