use super::{Life, Maker, Stack, Watch, Work};
use crate::{clock, place};

const STACKS: [Stack; 3] = [Stack::Cached, Stack::Fresh, Stack::Bare];
const STACK_BYTES: usize = 8 << 20;

const WATCH: Watch = Watch { start: clock::monotonic_ns, end: clock::monotonic_ns };

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_life_is_in_order_on_every_stack() {
    for stack in STACKS {
        let mut maker = Maker::new(stack, STACK_BYTES, None).unwrap();
        for _ in 0..20 {
            let Life { call, returned, first, joined } = maker.one(WATCH).unwrap();
            assert!(call < first && call < returned, "{stack:?}");
            assert!(first < joined && returned <= joined, "{stack:?}");
        }
    }
}

#[test]
fn sequences_and_crowds_run_every_thread() {
    for stack in STACKS {
        let mut maker = Maker::new(stack, 64 * 1024, None).unwrap();
        maker.in_sequence(50).unwrap();
        if stack == Stack::Bare {
            maker.together(2, Work::Nothing).expect_err("one stack");
            maker.together(1, Work::Nothing).unwrap();
        } else {
            maker.together(100, Work::Nothing).unwrap();
            maker.together(100, Work::Stress).unwrap();
        }
        maker.in_sequence(0).unwrap();
    }
}

#[test]
fn a_thread_begins_on_the_cpu_that_it_is_made_for() {
    for cpu in place::allowed().unwrap() {
        for stack in [Stack::Cached, Stack::Fresh] {
            let mut maker = Maker::new(stack, STACK_BYTES, Some(cpu)).unwrap();
            assert_eq!(maker.cpu_of_one().unwrap(), cpu);
        }
    }
    let mut nowhere = Maker::new(Stack::Cached, STACK_BYTES, Some(5000)).unwrap();
    nowhere.one(WATCH).expect_err("no such CPU");
    Maker::new(Stack::Bare, STACK_BYTES, Some(0)).expect_err("it would move itself");
}

#[test]
fn a_bare_thread_inherits_the_cpu() {
    std::thread::spawn(|| {
        let cpu = *place::allowed().unwrap().last().unwrap();
        place::pin(cpu).unwrap();
        let mut maker = Maker::new(Stack::Bare, STACK_BYTES, None).unwrap();
        assert_eq!(maker.cpu_of_one().unwrap(), cpu);
    })
    .join()
    .unwrap();
}

#[test]
fn a_stack_that_is_too_small_is_refused() {
    Maker::new(Stack::Cached, 100, None).expect_err("below the least");
}

/// In a child, because limits are of the process and what is counted must be its own.
#[test]
fn a_limit_that_is_reached_is_an_error_and_no_thread_is_left() {
    let child = crate::process::Child::fork(|| {
        let mut room = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // The limit on processes does not bind root: address space does. SAFETY: `room` is ours.
        unsafe {
            libc::getrlimit(libc::RLIMIT_AS, &mut room);
            let held = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = held.split(' ').next().unwrap().parse().unwrap();
            room.rlim_cur = pages * crate::memory::base_page_bytes() as u64 + (64 << 20);
            libc::setrlimit(libc::RLIMIT_AS, &room);
        }
        let mut maker = Maker::new(Stack::Cached, STACK_BYTES, None).unwrap();
        let error = maker.together(1000, Work::Nothing).expect_err("8 stacks have room");
        let told = error.to_string();
        // Joined threads leave the list of tasks a moment after their joiner goes on.
        let mut tries = 0;
        while threads() > 1 && tries < 1000 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            tries += 1;
        }
        match told.contains("of 1000 at once") && error.raw_os_error().is_none() {
            true if threads() == 1 => 0,
            true => 2,
            false => 3,
        }
    });
    child.unwrap().succeed().unwrap();
}
