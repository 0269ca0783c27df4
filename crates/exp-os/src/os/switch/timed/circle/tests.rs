use super::{Circle, Parties, Plan, Via};
use metal::place;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ALL: [Via; 4] = [Via::Pipe, Via::Futex, Via::Eventfd, Via::Yield];

/// Runs `check` with circles of two on one CPU, in a thread of its own because it is pinned.
fn with_circles(kind: Parties, check: impl Fn(Via, Circle) + Send + Sync + 'static) {
    let work = thread::spawn(move || {
        let cpu = place::allowed().expect("CPUs")[0];
        place::pin(cpu).expect("pins");
        for via in ALL {
            let plan =
                Plan { via, kind, cpus: vec![cpu; 2], patient: via == Via::Yield, working_set: 0 };
            check(via, Circle::form(&plan).expect("forms"));
        }
    });
    work.join().expect("does not panic");
}

#[test]
fn a_party_that_died_is_missed_in_time_and_by_name() {
    with_circles(Parties::Processes, |via, mut circle| {
        circle.laps(2).expect("goes round");
        // Kills the other.
        circle.others = None;
        circle.wait_until(Duration::from_millis(5)).expect("a deadline");
        let error = circle.laps(1).expect_err("nobody answers").to_string();
        match via {
            // The next party's end of the pipe is closed.
            Via::Pipe => assert!(error.contains("ipe"), "{error}"),
            _ => {
                let told = format!("did not come back by {via:?} from process 1");
                assert!(error.contains(&told), "{error}");
            }
        }
    });
}

#[test]
fn threads_end_with_their_circle_whatever_they_wait_for() {
    with_circles(Parties::Threads, |via, mut circle| {
        circle.laps(2).expect("goes round");
        let team = Arc::downgrade(&circle.team);
        drop(circle);
        // Each thread has the team until it ends.
        assert!(team.upgrade().is_none(), "{via:?}: a thread is left");
    });
}
