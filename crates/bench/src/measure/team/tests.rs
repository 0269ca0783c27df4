use super::{Fault, Seat, Team, all_of};
use anyhow::{Result, bail, ensure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn first_cpu() -> usize {
    metal::place::allowed().expect("CPUs")[0]
}

/// What became of three threads, by what their conductor does.
fn run(work: fn(usize) -> Result<usize>, conduct: fn(&Team)) -> Vec<Result<usize>> {
    let cpu = Some(first_cpu());
    let prepare = |member: usize| {
        ensure!(member != 1, "unprepared");
        Ok(member + 10)
    };
    let conduct = |team: &Team| {
        team.gather();
        assert_eq!(team.ended(), 0, "none begins before the team is opened");
        conduct(team);
    };
    let members = vec![(cpu, 0), (cpu, 1), (None, 2)];
    Team::beside(members, prepare, work, conduct).expect("threads are made").1
}

#[test]
fn threads_work_once_the_team_is_open_and_report_what_became_of_them() {
    let found = run(Ok, Team::open);
    assert!(matches!(found.as_slice(), [Ok(10), Err(_), Ok(12)]), "{found:?}");
    let found = run(|_| panic!("a panic that is survived"), Team::open);
    assert!(found.iter().all(Result::is_err), "{found:?}");
}

#[test]
fn none_works_where_the_team_stays_closed() {
    let found = run(|_| panic!("it worked"), |_| ());
    assert!(found.iter().all(Result::is_err), "{found:?}");
}

#[test]
fn work_done_by_each_keeps_its_order_and_ends_with_the_first_failure() {
    let cpus = metal::place::allowed().expect("CPUs");
    let squares = Team::each(&cpus, (0..9).collect(), |n: usize| Ok(n * n));
    let wanted: Vec<usize> = (0..9).map(|n| n * n).collect();
    assert_eq!(squares.expect("none fails"), wanted);
    let failed = Team::each(&cpus, vec![1, 2, 3], |n| match n {
        2 => bail!("the second"),
        _ => Ok(n),
    });
    assert_eq!(failed.expect_err("one fails").to_string(), "the second");
    let panicked =
        Team::each(&cpus, vec![()], |()| -> Result<()> { panic!("a panic that is survived") });
    panicked.expect_err("one panics");
}

/// Meets at three gates. In each the last to come adds one before any goes on.
fn gates(seat: &Seat<'_>) -> Result<(), Fault> {
    for gate in 1..=3 {
        seat.meet_then(|| _ = seat.team.common(0).fetch_add(1, Ordering::AcqRel))?;
        let found = seat.team.common(0).load(Ordering::Acquire);
        if found != gate {
            return Err(Fault::Body(found as u32));
        }
        seat.meet()?;
    }
    seat.set(2, 7);
    seat.count();
    Ok(())
}

#[test]
fn members_of_every_kind_meet_at_gates_and_write_down_what_was_counted() {
    let places = || [Some(first_cpu()), None, None];
    let check = |team: &Team| {
        for number in 0..3 {
            assert_eq!(team.get(number, 2), 7);
        }
        assert_eq!(team.report(0).cpu, first_cpu());
        assert!(team.report(1).faults + team.report(1).voluntary > 0);
        assert_eq!(team.ended(), 3);
    };
    for is_awake in [false, true] {
        let team = || {
            let team = Team::new(places()).expect("memory").patient(Duration::from_secs(10));
            if is_awake { team.awake() } else { team }
        };
        let made = team().processes([(); 3], |seat, _| gates(seat)).expect("are made");
        check(&made.end().expect("all end well"));
        let made = team().spawned([(); 3], |seat, _| gates(seat)).expect("are made");
        check(&made.end().expect("all end well"));
        let scoped = team();
        let work = |seat: &Seat<'_>, ()| Ok(gates(seat)?);
        let ((), done) = scoped.threads([(); 3], |_, ()| Ok(()), work, Team::open).expect("made");
        all_of(done).expect("all end well");
        check(&scoped);
    }
}

#[test]
fn one_that_is_ahead_opens_no_gate_for_the_others() {
    let team = Team::new([None; 2]).expect("memory");
    let (ahead, behind) = (team.seat(0), team.seat(1));
    for turn in 0..20 {
        let gates = [ahead.arrive(), ahead.arrive(), ahead.arrive()];
        for (passed, gate) in gates.into_iter().enumerate() {
            assert!(!ahead.is_over(gate), "turn {turn}: {passed} passed by the other");
            assert!(behind.is_over(behind.arrive()));
            assert!(ahead.is_over(gate));
        }
    }
}

#[test]
fn the_calling_thread_is_the_first_member_of_a_team_that_it_leads() {
    let team = Team::new([None; 3]).expect("memory").led();
    let sum = AtomicU64::new(0);
    let add = |seat: &Seat<'_>| {
        seat.meet()?;
        sum.fetch_add(10 + seat.number as u64, Ordering::AcqRel);
        Ok::<_, anyhow::Error>(seat.meet()?)
    };
    let conduct = |team: &Team| {
        team.open();
        team.lead(add)
    };
    let (led, others) =
        team.threads([(); 2], |_, ()| Ok(()), |seat, ()| add(seat), conduct).expect("are made");
    led.expect("the first ends well");
    assert_eq!(all_of(others).expect("all end").len(), 2);
    assert_eq!(sum.into_inner(), 33);
}

#[test]
fn the_one_at_fault_is_named_and_none_waits_for_it() {
    let cpu = Some(first_cpu());
    let ended = |places: [Option<usize>; 3], body: fn(&Seat<'_>) -> Result<(), Fault>| {
        let team = Team::new(places).expect("memory").patient(Duration::from_secs(10));
        let made = team.processes([(); 3], |seat, _| body(seat)).expect("are made");
        made.end().err().expect("one fails")
    };
    let failed = ended([cpu; 3], |seat| match seat.number {
        1 => Err(Fault::Body(42)),
        _ => seat.meet(),
    });
    assert_eq!((failed.number, failed.fault), (1, Fault::Body(42)));
    let failed = ended([cpu, cpu, Some(100_000)], |seat| seat.meet());
    assert_eq!(failed.number, 2);
    assert!(matches!(failed.fault, Fault::Unplaced(_)), "{failed}");
    assert!(failed.to_string().contains("CPU 100000"), "{failed}");
    let text = |error: std::io::Error| Fault::from(error).to_string();
    assert!(text(std::io::Error::from_raw_os_error(5)).contains("os error 5"));
    assert!(text(std::io::ErrorKind::UnexpectedEof.into()).contains("end of file"));
}

#[test]
fn patience_ends_the_wait_for_a_member_that_does_not_come() {
    let team = || Team::new([None; 2]).expect("memory").patient(Duration::from_millis(20));
    let body = |seat: &Seat<'_>, _: &mut ()| match seat.number {
        0 => seat.meet(),
        _ => {
            std::thread::sleep(Duration::from_millis(200));
            Ok(())
        }
    };
    let failed = team().processes([(); 2], body).expect("are made").end().err().expect("one waits");
    assert_eq!((failed.number, failed.fault), (0, Fault::Lost));
    let made = team().processes([(); 2], body).expect("are made");
    assert!(made.ready().is_err());
    let ready = |seat: &Seat<'_>, _: &mut ()| {
        seat.ready();
        Ok(())
    };
    let made = team().processes([(); 2], ready).expect("are made");
    made.ready().expect("both are ready");
    made.end().expect("and end well");
}

#[test]
fn a_process_holds_only_its_own_thing_and_until_its_fault_is_known() {
    let (mut first, into) = std::io::pipe().expect("a pipe");
    let (_out, second) = std::io::pipe().expect("a pipe");
    let team = Team::new([None; 2]).expect("memory");
    let made = team.processes([into, second], |seat, _| match seat.number {
        0 => Err(Fault::Body(7)),
        _ => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
    });
    let made = made.expect("are made");
    // The second lives on, and does not hold the first's end.
    let read = std::io::Read::read(&mut first, &mut [0]).expect("reads");
    assert_eq!((read, made.seat(0).fault()), (0, Some(Fault::Body(7))));
}
