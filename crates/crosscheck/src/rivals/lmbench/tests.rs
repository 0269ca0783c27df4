use super::absent::NOT_COMPARED;
use super::{LIMIT_S, RIVAL, SLEEP, pairings, parse, table};
use crate::bandwidth::tests::conditions;
use crate::table::Needs;
use crate::tests::{reads, refuses, testdata, text};
use crate::{Conditions, Output};
use bench::experiment::Preset;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Programs of intel/lmbench and of 3.0-a9, as they are installed.
const PROGRAMS: &str = "bw_file_rd bw_mem bw_mmap_rd bw_pipe bw_tcp bw_unix cache disk enough flushdisk hello \
    lat_cmd lat_connect lat_ctx lat_dram_page lat_fcntl lat_fifo lat_fs lat_http lat_mem_rd lat_mmap lat_ops \
    lat_pagefault lat_pipe lat_pmake lat_proc lat_rand lat_rpc lat_select lat_sem lat_sig lat_syscall lat_tcp \
    lat_udp lat_unix lat_unix_connect lat_usleep line lmdd lmhttp loop_o memsize mhz msleep par_mem par_ops \
    stream timing_o tlb";

fn said(text: &str) -> Output {
    Output { stderr: text.to_owned(), ..Output::default() }
}

#[test]
fn outputs_of_two_versions_are_read() {
    let told = [
        ("3.0-a9-syscall-null.txt", "Simple syscall: {measured}", 374.4),
        ("3.0-intel-syscall-null.txt", "Simple syscall: {measured}", 418.1),
        ("3.0-a9-syscall-open.txt", "Simple open/close: {measured}", 1790.1),
        ("3.0-intel-syscall-open.txt", "Simple open/close: {measured}", 3479.1),
        ("3.0-a9-ctx.txt", "2 {x*1e3}", 4150.0),
        ("3.0-intel-ctx.txt", "2 {x*1e3}", 3050.0),
        ("3.0-a9-ctx.txt", "8 {x*1e3}", 1230.0),
        ("3.0-intel-ctx.txt", "8 {x*1e3}", 6930.0),
        ("3.0-a9-pipe.txt", "Pipe latency: {measured}", 76_775.4),
        ("3.0-intel-pipe.txt", "Pipe latency: {measured}", 8626.5),
        ("3.0-a9-ops.txt", "double mul: {measured}", 30.47),
        ("3.0-intel-ops.txt", "double mul: {measured}", 1.84),
        ("3.0-a9-latency.txt", "0.01562 {x}", 5.564),
        ("3.0-intel-latency.txt", "0.01562 {x}", 4.828),
        ("3.0-a9-latency.txt", "1.00000 {x}", 5.305),
        ("3.0-intel-latency.txt", "1.00000 {x}", 1.776),
        ("3.0-a9-bw-mem-read.txt", "{n} {x*1e6}", 2048.75e6),
        ("3.0-intel-bw-mem-read.txt", "{n} {x*1e6}", 3068.62e6),
        ("3.0-a9-bw-tcp.txt", "{n} {measured}", 655.76e6),
        ("3.0-intel-bw-tcp.txt", "{n} {measured}", 765.14e6),
        ("3.0-a9-bw-pipe.txt", "Pipe bandwidth: {measured}", 775.5e6),
        ("3.0-intel-bw-pipe.txt", "Pipe bandwidth: {measured}", 1745.5e6),
        ("3.0-a9-stream.txt", "STREAM triad bandwidth: {measured}", 5153.05e6),
        ("3.0-intel-stream.txt", "STREAM triad bandwidth: {measured}", 6212.89e6),
        ("3.0-a9-usleep.txt", SLEEP, 200_215.7),
        ("3.0-intel-usleep.txt", SLEEP, 204_980.4),
        ("3.0-a9-pagefault.txt", "Pagefaults on {..} {measured}", 865.2),
        ("3.0-intel-pagefault.txt", "Pagefaults on {..} {measured}", 519.1),
        ("3.0-a9-tcp.txt", "TCP latency using 127.0.0.1: {measured}", 18_257.2),
        ("3.0-intel-tcp.txt", "TCP latency using 127.0.0.1: {measured}", 46_109.9),
        ("3.0-intel-bw-mem-rd.txt", "{n} {x*1e6}", 31_851.57e6),
        ("3.0-intel-bw-mem-wr.txt", "{n} {x*1e6}", 29_324.85e6),
        ("3.0-intel-bw-mem-rdwr.txt", "{n} {x*1e6}", 26_409.47e6),
        ("3.0-intel-bw-mem-cp.txt", "{n} {x*1e6}", 7982.53e6),
        ("3.0-intel-bw-mem-fwr.txt", "{n} {x*1e6}", 1985.89e6),
        ("3.0-intel-bw-mem-fcp.txt", "{n} {x*1e6}", 8242.07e6),
        ("3.0-intel-bw-mem-bzero.txt", "{n} {x*1e6}", 26_124.74e6),
        ("3.0-intel-bw-file-open.txt", "{n} {x*1e6}", 8479.77e6),
        ("3.0-intel-ctx-16k.txt", "16 {x*1e3}", 5820.0),
        ("3.0-intel-ctx-64k.txt", "16 {x*1e3}", 7210.0),
        ("3.0-intel-signal-prot.txt", "Protection fault: {measured}", 761.9),
        ("3.0-intel-exec.txt", "Process fork+execve: {measured}", 956_241.1),
        ("3.0-intel-shell.txt", "Process fork+/bin/sh -c: {measured}", 2_542_266.7),
        ("3.0-intel-thrash.txt", "1.00000 {x}", 12.094),
        ("3.0-intel-ops.txt", "float add: {measured}", 1.99),
        ("3.0-intel-ops.txt", "int64 div: {measured}", 146.10),
        ("3.0-intel-fs.txt", "0k {n} {1e9/x} {n}", 1e9 / 66_354.0),
        ("3.0-intel-fs.txt", "0k {n} {n} {1e9/x}", 1e9 / 93_708.0),
    ];
    reads(&RIVAL, &told);
    // It was ended before its second half.
    refuses(&RIVAL, "0k {n} {1e9/x} {n}", &[&text(&RIVAL, "3.0-a9-fs.txt")]);
}

/// Every row of every entry is in some recorded output, so that no label is misspelt.
#[test]
fn every_row_is_in_a_recorded_output() {
    let texts: Vec<Output> = testdata(&RIVAL).iter().map(|(_, text)| said(text)).collect();
    for row in table().flat_map(|entry| entry.readings) {
        let is_read =
            texts.iter().any(|text| parse(text, row.pattern).is_ok_and(|value| value > 0.0));
        assert!(is_read, "{}", row.pattern);
    }
}

#[test]
fn what_is_not_what_was_asked_for_is_refused() {
    let refused = [
        ("Simple syscall: 0.3744 milliseconds\n", "Simple syscall: {measured}"),
        ("Simple syscall: much microseconds\n", "Simple syscall: {measured}"),
        (
            "Simple syscall: 1 microseconds\nSimple syscall: 2 microseconds\n",
            "Simple syscall: {measured}",
        ),
        // A switch that came out negative is not printed.
        ("\n\"size=0k ovr=1.41\n2 4.15\n", "8 {x*1e3}"),
        ("16.78 inf\n", "{n} {x*1e6}"),
        ("0.065536 655.76 KB/sec\n", "{n} {measured}"),
        ("0k\t-1\t-1\t-1\n", "0k {n} {1e9/x} {n}"),
        ("Usage: lat_syscall [-P <parallelism>] null|read\n", "Simple syscall: {measured}"),
    ];
    for (text, what) in refused {
        refuses(&RIVAL, what, &[text]);
    }
}

#[test]
fn every_program_is_compared_or_has_a_reason() {
    let compared: BTreeSet<&str> = table().map(|entry| entry.program).collect();
    let names = || NOT_COMPARED.iter().map(|(name, _)| *name);
    let absent: BTreeSet<&str> = names().filter(|name| !name.contains(' ')).collect();
    // The rest of what a compared program can be asked, or that every one can.
    let asked: BTreeSet<&str> = names().filter(|name| name.contains(' ')).collect();
    assert_eq!(absent.len() + asked.len(), NOT_COMPARED.len());
    for name in asked {
        let program = name.split(' ').next().unwrap();
        assert!(program == "-P" || compared.contains(program), "{name}");
    }
    assert!(NOT_COMPARED.is_sorted());
    assert!(compared.is_disjoint(&absent));
    let all: BTreeSet<&str> = PROGRAMS.split_whitespace().collect();
    assert_eq!(compared.union(&absent).copied().collect::<BTreeSet<_>>(), all);
    assert!(NOT_COMPARED.iter().all(|(_, reason)| reason.len() > 20));
}

#[test]
fn presets_offer_three_and_twenty() {
    let names = |preset| pairings(&conditions("vm-granite-rapids", 2, preset)).len();
    assert_eq!([Preset::Rehearsal, Preset::Quick].map(names), [1, 3]);
    assert!(names(Preset::Standard) <= 20, "{}", names(Preset::Standard));
    assert_eq!(names(Preset::Thorough), table().count());
}

#[test]
fn commands_are_whole() {
    let conditions = Conditions {
        files: None,
        in_memory: Some(PathBuf::from("/dev/shm/here")),
        ..conditions("vm-granite-rapids", 2, Preset::Thorough)
    };
    for (pairing, entry) in pairings(&conditions).into_iter().zip(table()) {
        assert_eq!(pairing.name, entry.name);
        assert_eq!(pairing.skip.is_some(), matches!(entry.needs, Needs::File), "{}", entry.name);
        assert_eq!(pairing.theirs.limit, Duration::from_secs(LIMIT_S));
        if pairing.skip.is_some() {
            continue;
        }
        assert!(pairing.theirs.args.iter().all(|word| !word.contains("{value}")), "{}", entry.name);
        let has_link = pairing.theirs.args.concat().contains("/tmp/hello");
        assert_eq!(has_link, matches!(entry.needs, Needs::Hello), "{}", entry.name);
        let server = pairing.theirs.server.is_some();
        assert_eq!(server, matches!(entry.needs, Needs::Listener { .. }), "{}", entry.name);
    }
    assert_eq!(RIVAL.programs, ["lat_syscall"]);
}
