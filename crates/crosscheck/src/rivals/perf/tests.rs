use super::{RIVAL, parse};
use crate::Goal;
use crate::tests::{conditions, reads, refuses, said, text, versions};
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;

const PER_OPERATION: &str = "{x*1e3} usecs/op";
const MESSAGING: &str = "# 1 groups == 40 processes run\nTotal time: {4000000/x} [sec]";

#[test]
fn operations_messages_and_copies_of_three_versions_are_read() {
    // Bytes of all senders; both ways, of the function or the best of them.
    let (bytes, gib) = (100.0 * 20.0 * 20.0 * 100.0, 2.0 * 1024.0 * 1024.0 * 1024.0);
    let told = [
        ("5.10-syscall.txt", PER_OPERATION, 282.86),
        ("6.1-syscall.txt", PER_OPERATION, 149.575),
        ("6.12-syscall.txt", PER_OPERATION, 317.715),
        ("5.10-pipe-processes.txt", PER_OPERATION, 7376.05),
        ("6.1-pipe-processes.txt", PER_OPERATION, 2277.35),
        ("6.12-pipe-processes.txt", PER_OPERATION, 7532.8),
        ("5.10-pipe-threads.txt", PER_OPERATION, 7704.05),
        ("6.1-pipe-threads.txt", PER_OPERATION, 2098.7),
        ("6.12-pipe-threads.txt", PER_OPERATION, 6567.3),
        ("5.10-messaging.txt", MESSAGING, bytes / 0.360),
        ("6.1-messaging.txt", MESSAGING, bytes / 0.064),
        ("6.12-messaging.txt", MESSAGING, bytes / 0.348),
        ("6.1-memcpy.txt", "memcpy default", 27.255442 * gib),
        ("6.1-memcpy.txt", "memcpy best", 28.167364 * gib),
        ("6.12-memcpy.txt", "memcpy best", 12.638314 * gib),
        ("5.10-memcpy.txt", "memcpy default", 6.100084 * gib),
        ("5.10-memcpy.txt", "memcpy best", 8.482259 * gib),
    ];
    reads(&RIVAL, &told);
    let slow = "# function 'default' (x)\n# Copying 1MB bytes ...\n\n     512.000000 MB/sec\n";
    assert_eq!(parse(&said(slow), "memcpy best"), Ok(gib / 2.0));
}

#[test]
fn what_is_broken_is_an_error() {
    for (file, what) in [
        ("6.1-syscall.txt", PER_OPERATION),
        ("6.1-pipe-processes.txt", PER_OPERATION),
        ("6.1-messaging.txt", MESSAGING),
        ("6.1-memcpy.txt", "memcpy default"),
    ] {
        let whole = text(&RIVAL, file);
        refuses(&RIVAL, what, &["", &whole[..whole.len() / 6], &whole.replace('.', "x")]);
        refuses(&RIVAL, "ops/sec", &[&whole]);
    }
    let threads = "# 1 groups == 40 threads run\n\n     Total time: 0.015 [sec]\n";
    refuses(&RIVAL, MESSAGING, &[threads]);
    refuses(&RIVAL, "Total time: {many/x} [sec]", &[&text(&RIVAL, "6.1-messaging.txt")]);
    refuses(&RIVAL, "memcpy quickest", &[&text(&RIVAL, "6.1-memcpy.txt")]);
}

#[test]
fn versions_are_told() {
    let told = [
        ("perf version 6.1.192\n", Some("6.1.192")),
        ("perf version 5.10.223\n", Some("5.10.223")),
        ("perf: not found", None),
    ];
    versions(&RIVAL, &[], &told);
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
    assert_eq!(two.ours.setting("pair"), Some("llc"));
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
