use super::{Account, Log, Member, NeverTogether, TeamWindow};
use crate::measure::CoreClock;
use crate::measure::clock::Clock;
use anyhow::{Result, bail};
use std::sync::atomic::{AtomicU32, Ordering};

fn team(cpus: Vec<usize>) -> TeamWindow {
    TeamWindow::new(Clock::Monotonic, cpus, 2e6, true)
}

fn allowed() -> Vec<usize> {
    let mut cpus = metal::place::allowed().expect("CPUs");
    cpus.truncate(2);
    cpus
}

/// A busy machine may take a CPU away for a whole window: what the first of ten attempts gives that
/// does not fail.
fn of_ten<T>(mut attempt: impl FnMut() -> Result<T>) -> T {
    (0..10).find_map(|_| attempt().ok()).expect("one of ten windows is held")
}

#[test]
fn every_member_works_on_its_cpu_in_the_shared_window() {
    let cpus = allowed();
    let shared = of_ten(|| {
        team(cpus.clone()).run(|_| {
            Ok(|| {
                std::hint::black_box(metal::kernel::chain_add(10_000));
                Ok(10_000)
            })
        })
    });
    let found: Vec<usize> = shared.members.iter().map(|member| member.cpu).collect();
    assert_eq!(found, cpus);
    assert!(shared.kernel_clock);
    assert!(shared.overlap > 0.0 && shared.overlap <= 1.0, "{shared:?}");
    assert!(shared.members.iter().all(|member| member.units > 0.0));
    assert!(shared.rate() > 0.0);
}

#[test]
fn members_may_take_the_core_clock_their_own_way() {
    let cpu = allowed()[0];
    let shared = of_ten(|| {
        let looks = AtomicU32::new(0);
        team(vec![cpu]).run_probed(|_| {
            let looks = &looks;
            let probe =
                move |_: &mut CoreClock| Some(f64::from(looks.fetch_add(1, Ordering::Relaxed)));
            Ok((|| Ok(metal::kernel::chain_add(10_000)), probe))
        })
    });
    let member = &shared.members[0];
    // One look before the window, one after.
    assert_eq!(member.core_hz_before, Some(0.0));
    assert_eq!(member.core_hz_after, Some(1.0));
}

#[test]
fn the_way_that_all_together_are_fastest_at_is_worked_in() {
    let cpus = allowed();
    let shared = of_ten(|| {
        team(cpus.clone()).run_ways(3, |_| {
            // The same work, and the second way claims a thousand times as much.
            let step = |way: usize| {
                std::hint::black_box(metal::kernel::chain_add(10_000));
                Ok([1, 1000, 1][way])
            };
            Ok((step, |_: &mut CoreClock| None))
        })
    });
    assert_eq!(shared.way, 1);
    // Only the way that was chosen counts in the window.
    let units = shared.members[0].units;
    let one = of_ten(|| team(cpus.clone()).run(|_| Ok(|| Ok(1))));
    assert!(units > 1.0 && one.way == 0);
}

#[test]
fn one_members_reason_ends_all_at_every_stage() {
    let cpus = allowed();
    let reason = |stage: &'static str| {
        let outcome = team(cpus.clone()).run(|index| {
            if stage == "panic" && index == 0 {
                panic!("a panic that the team must survive");
            }
            if stage == "enlist" && index == 0 {
                bail!("no apparatus");
            }
            let mut steps = 0;
            Ok(move || -> Result<u64> {
                steps += 1;
                if stage == "step" && index == 0 && steps == 3 {
                    bail!("third step");
                }
                std::hint::black_box(metal::kernel::chain_add(1000));
                Ok(1)
            })
        });
        format!("{:#}", outcome.expect_err("member 0 fails"))
    };
    assert!(reason("enlist").contains("no apparatus"));
    assert!(reason("step").contains("third step"));
    assert!(reason("panic").contains("thread 0"));
}

#[test]
fn members_that_were_never_together_are_told_from_those_that_failed() {
    let account = |first_tick| {
        let mut log = Log::with_room(4);
        log.push(first_tick, 0);
        Ok(Account { log, start: 1000, way: 0, member: Member::default() })
    };
    let team = team(vec![0, 1]);
    let apart = team.settle(vec![account(1000), account(u64::MAX / 2)]);
    assert!(apart.expect_err("one was late").is::<NeverTogether>());
    let failed = team.settle(vec![account(1000), Err(anyhow::anyhow!("its own reason"))]);
    assert!(!failed.expect_err("one failed").is::<NeverTogether>());
}

#[test]
fn a_team_of_nobody_or_nowhere_is_refused() {
    let step = |_| Ok(|| Ok(1));
    team(vec![]).run(step).expect_err("nobody");
    let nowhere = team(vec![100_000]).run(step).expect_err("nowhere");
    assert!(format!("{nowhere:#}").contains("100000"), "{nowhere:#}");
}
