use super::{Catalogue, KEPT_MOST, Tie, Tracefs, ticks_at};
use crate::noise::attribution::Cause;
use crate::noise::attribution::spans::{Kind, What};
use host::Root;

const FIELD: &str = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

fn tree() -> Root {
    let event = |name: &str, id: u64, fields: &str| {
        format!("== t/events/{name}/id\n{id}\n== t/events/{name}/format\nID: {id}\n{FIELD}{fields}")
    };
    let handler = "\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n";
    let switch = "\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:24;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:40;\tsize:4;\tsigned:1;\n";
    let nmi = "\tfield:s64 delta_ns;\toffset:8;\tsize:8;\tsigned:1;\n";
    Root::tree(
        &[
            event("irq/irq_handler_entry", 5, handler),
            event("irq/irq_handler_exit", 6, ""),
            event("irq/softirq_raise", 7, ""),
            event("irq_vectors/local_timer_entry", 8, ""),
            event("irq_vectors/local_timer_exit", 9, ""),
            event("irq_vectors/irq_work_exit", 10, ""),
            event("irq_vectors/reschedule_entry", 13, ""),
            event("nmi/nmi_handler", 11, nmi),
            event("sched/sched_switch", 12, switch),
            "== proc/interrupts\n  CPU0 CPU1\nNMI:  0 1  Non-maskable interrupts\n".to_owned(),
        ]
        .concat(),
    )
}

fn record(id: u16, words: &[i64]) -> Vec<u8> {
    let mut bytes = id.to_ne_bytes().to_vec();
    bytes.resize(8, 0);
    words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

fn handler(name: &[u8]) -> Vec<u8> {
    let mut bytes = record(5, &[0]);
    bytes[8..12].copy_from_slice(&27i32.to_ne_bytes());
    let place = u32::try_from(name.len()).expect("short") << 16 | 16;
    bytes[12..16].copy_from_slice(&place.to_ne_bytes());
    bytes.extend(name);
    bytes
}

fn switch(from: i64, state: i64, to: i64) -> Vec<u8> {
    let name = i64::from_ne_bytes(*b"other\0\0\0");
    record(12, &[from, state, name, 0, to])
}

/// Two ticks a ns, from tick 1000 at 100 ns.
const TIES: (Tie, Tie) = ((1_000, 100), (3_000, 1_100));

fn whats(records: &[(u64, u32, Vec<u8>)]) -> Vec<(u64, What)> {
    let catalogue = Catalogue::read(&tree(), "t").expect("it has what is needed");
    catalogue.events(records, TIES)
}

#[test]
fn times_lie_on_the_line_through_two_moments() {
    let ticks = [100, 600, 1_100, 50].map(|ns| ticks_at(ns, TIES));
    assert_eq!(ticks, [1_000, 2_000, 3_000, 900]);
}

#[test]
fn records_become_events() {
    let found = whats(&[
        (2_000, 9, record(8, &[])),
        (2_010, 9, record(9, &[])),
        (2_020, 9, handler(b"arch_timer\0")),
        (2_030, 9, record(6, &[])),
        (2_040, 9, handler(b"eth0\0")),
        (2_050, 9, record(99, &[])),
        (2_100, 9, record(11, &[20])),
    ]);
    let enter = |kind, cause, who: &str| What::Enter(kind, cause, who.into());
    let expected = [
        (2_000, enter(Kind::Vector, Cause::Timer, "local_timer")),
        (2_010, What::Leave(Kind::Vector)),
        (2_020, enter(Kind::Handler, Cause::Timer, "arch_timer (interrupt 27)")),
        (2_030, What::Leave(Kind::Handler)),
        (2_040, enter(Kind::Handler, Cause::Interrupt, "eth0 (interrupt 27)")),
        (2_060, enter(Kind::NonMaskable, Cause::Interrupt, "non-maskable interrupt")),
        (2_100, What::Leave(Kind::NonMaskable)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_namespace_of_its_own_has_its_own_numbers() {
    // Preempted while it could run (bit 8), then asleep. Here 4711 is thread 3; 4712 is nobody's.
    let found = whats(&[
        (2_000, 3, switch(4_711, 0x100, 4_712)),
        (2_100, 0, switch(4_712, 1, 4_711)),
        (2_200, 3, switch(4_711, 0, 0)),
    ]);
    let told: Vec<(u32, bool, u32)> = found
        .iter()
        .filter_map(|(_, what)| match what {
            What::Switch { from, is_runnable, to, .. } => Some((*from, *is_runnable, *to)),
            _ => None,
        })
        .collect();
    let nobody = 1 << 31 | 4_712;
    assert_eq!(told, [(3, true, nobody), (nobody, false, 3), (3, true, 0)]);
}

#[test]
fn what_never_comes_is_not_kept() {
    let names = |tree: &Root| -> Vec<String> {
        let catalogue = Catalogue::read(tree, "t").expect("it has what is needed");
        let points = catalogue.0.values();
        points.map(|(point, _)| point.name.clone()).collect()
    };
    let mut expected = vec![
        "irq/irq_handler_entry",
        "irq/irq_handler_exit",
        "irq_vectors/local_timer_entry",
        "irq_vectors/local_timer_exit",
        "nmi/nmi_handler",
        "sched/sched_switch",
    ];
    assert_eq!(names(&tree()), expected);
    let none = "  CPU0 CPU1\nNMI:  0 0  Non-maskable interrupts\n";
    expected.remove(4);
    assert_eq!(names(&tree().with("proc/interrupts", none)), expected);
    // This machine's.
    let root = Root::live(Default::default());
    match Tracefs::find(&root).and_then(|tracefs| Catalogue::read(&root, &tracefs.path)) {
        Ok(catalogue) => assert!(catalogue.0.len() <= KEPT_MOST as usize),
        Err(error) => skips::part("perf", format!("{error:#}")),
    }
}

#[test]
fn a_kernel_without_switches_is_refused() {
    let tree = Root::tree("== t/events/irq/irq_handler_entry/id\n5\n");
    assert!(Catalogue::read(&tree, "t").is_err());
}
