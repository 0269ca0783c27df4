use super::{RIVAL, parse};
use crate::tests::{close, conditions, said};
use crate::{Goal, Output};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;

/// A recorded output by version and command.
macro_rules! output {
    ($version:literal, $command:literal) => {
        said(include_str!(concat!("../../testdata/perf/", $version, "-", $command, ".txt")))
    };
}

#[test]
fn operations_of_three_versions_are_read() {
    close(parse(&output!("5.10", "syscall"), "usecs/op"), 282.86);
    close(parse(&output!("6.1", "syscall"), "usecs/op"), 149.575);
    close(parse(&output!("6.12", "syscall"), "usecs/op"), 317.715);
    close(parse(&output!("5.10", "pipe-processes"), "usecs/op"), 7376.05);
    close(parse(&output!("6.1", "pipe-processes"), "usecs/op"), 2277.35);
    close(parse(&output!("6.12", "pipe-processes"), "usecs/op"), 7532.8);
    close(parse(&output!("5.10", "pipe-threads"), "usecs/op"), 7704.05);
    close(parse(&output!("6.1", "pipe-threads"), "usecs/op"), 2098.7);
    close(parse(&output!("6.12", "pipe-threads"), "usecs/op"), 6567.3);
}

#[test]
fn messages_are_bytes_of_all_senders_over_the_whole_time() {
    let bytes = 100.0 * 20.0 * 20.0 * 100.0;
    close(parse(&output!("5.10", "messaging"), "rounds 100"), bytes / 0.360);
    close(parse(&output!("6.1", "messaging"), "rounds 100"), bytes / 0.064);
    close(parse(&output!("6.12", "messaging"), "rounds 100"), bytes / 0.348);
}

#[test]
fn copies_count_both_ways_and_the_best_function_is_found() {
    let gib = 2.0 * 1024.0 * 1024.0 * 1024.0;
    close(parse(&output!("6.1", "memcpy"), "memcpy default"), 27.255442 * gib);
    close(parse(&output!("6.1", "memcpy"), "memcpy best"), 28.167364 * gib);
    close(parse(&output!("6.12", "memcpy"), "memcpy best"), 12.638314 * gib);
    close(parse(&output!("5.10", "memcpy"), "memcpy default"), 6.100084 * gib);
    close(parse(&output!("5.10", "memcpy"), "memcpy best"), 8.482259 * gib);
    let slow = "# function 'default' (x)\n# Copying 1MB bytes ...\n\n     512.000000 MB/sec\n";
    close(parse(&said(slow), "memcpy best"), gib / 2.0);
}

#[test]
fn what_is_broken_is_an_error() {
    let whole = [
        (output!("6.1", "syscall"), "usecs/op"),
        (output!("6.1", "pipe-processes"), "usecs/op"),
        (output!("6.1", "messaging"), "rounds 100"),
        (output!("6.1", "memcpy"), "memcpy default"),
    ];
    for (output, what) in whole {
        assert!(parse(&output, what).is_ok());
        assert!(parse(&Output::default(), what).is_err(), "{what}");
        let cut = said(&output.stdout[..output.stdout.len() / 6]);
        assert!(parse(&cut, what).is_err(), "{what}");
        let garbled = said(&output.stdout.replace('.', "x"));
        assert!(parse(&garbled, what).is_err(), "{what}");
    }
    let threads = said(
        "# 20 sender and receiver threads per group\n# 1 groups == 40 threads run\n\n     Total time: 0.015 [sec]\n",
    );
    assert!(parse(&threads, "rounds 100").is_err());
    assert!(parse(&output!("6.1", "memcpy"), "memcpy quickest").is_err());
    assert!(parse(&output!("6.1", "syscall"), "ops/sec").is_err());
    assert!(parse(&output!("6.1", "messaging"), "rounds many").is_err());
}

#[test]
fn versions_are_told() {
    let of = |text: &str| (RIVAL.version)(&said(text));
    assert_eq!(of("perf version 6.1.192\n").as_deref(), Some("6.1.192"));
    assert_eq!(of("perf version 5.10.223\n").as_deref(), Some("5.10.223"));
    assert_eq!(of("perf: not found"), None);
}

#[test]
fn one_cpu_has_all_but_the_far_pipe() {
    let far = |host: &str, cpus: usize| {
        let conditions = conditions(&recorded(host), Preset::Thorough, cpus);
        let all = (RIVAL.pairings)(&conditions);
        let found = all.iter().find(|pairing| pairing.name.ends_with("far"));
        found.expect("thorough has it").clone()
    };
    assert!(far("vm-granite-rapids", 1).skip.is_some());
    let two = far("vm-granite-rapids", 2);
    assert!(two.skip.is_none());
    assert_eq!((two.ours.cpus.len(), two.theirs.cpus.len()), (2, 1));
    assert_eq!(two.rows[0].times, 2.0);
    assert!(two.ours.set.contains(&("pair", "llc".to_owned())), "{:?}", two.ours.set);
    assert_eq!(
        two.theirs.args.last().map(String::as_str),
        Some(two.ours.cpus[1].to_string().as_str())
    );
}

#[test]
fn each_preset_has_its_number() {
    for host in ["vm-granite-rapids", "epyc-7763-2s", "graviton3"] {
        for (preset, number) in [
            (Preset::Rehearsal, 2),
            (Preset::Quick, 2),
            (Preset::Standard, 5),
            (Preset::Thorough, 6),
        ] {
            let all = (RIVAL.pairings)(&conditions(&recorded(host), preset, 2));
            assert_eq!(all.len(), number, "{host} {}", preset.name());
            let explained = |goal| matches!(goal, Goal::Explained);
            let rows = || all.iter().flat_map(|pairing| &pairing.rows);
            assert_eq!(rows().filter(|row| explained(row.goal)).count(), usize::from(number > 2));
        }
    }
}

#[test]
fn both_sides_copy_as_much_as_the_second_cache_holds() {
    let conditions = conditions(&recorded("epyc-7763-2s"), Preset::Standard, 1);
    let all = (RIVAL.pairings)(&conditions);
    let copy = all.iter().find(|one| one.name == "mem-memcpy").expect("standard has it");
    // 512 KiB of which plumb takes a half, for two arrays.
    assert!(copy.theirs.args.contains(&"131072B".to_owned()), "{:?}", copy.theirs.args);
    let mut bare = conditions.clone();
    bare.host.cache.levels.clear();
    let all = (RIVAL.pairings)(&bare);
    let copy = all.iter().find(|one| one.name == "mem-memcpy").expect("standard has it");
    assert!(copy.skip.is_some());
}
