//! The lab itself: what its cables do is true before anything of plumb is held against it.

use crate::frames::{Kind, echoes};
use crate::lab::{End, FAR, Lab};
use crate::plumb::prelude::*;
use crate::{attempts, near};

/// Delay of each direction in these labs.
pub const EACH_WAY: Duration = Duration::from_millis(20);

#[test]
fn ping_takes_as_long_as_the_relay_says() {
    let lab = Lab::delayed(EACH_WAY);
    attempts("ping", || {
        lab.log().take();
        let said = lab.in_net(End::Near, "ping", &["-q", "-c", "9", "-i", "0.01", FAR]);
        let trips = echoes(&lab.log().take(), Kind::Icmp);
        assert_eq!(trips.len(), 9, "{said}");
        let held_ns = 2.0 * EACH_WAY.as_nanos() as f64;
        assert!(trips.iter().all(|echo| echo.round_trip_ns() >= held_ns));
        // rtt min/avg/max/mdev = 40.2/40.4/…
        let (_, figures) = said.rsplit_once("mdev = ").unwrap();
        let mean_ms: f64 = figures.split('/').nth(1).unwrap().parse().unwrap();
        let relay_ns = trips.iter().map(|echo| echo.round_trip_ns()).sum::<f64>() / 9.0;
        near("mean of ping", mean_ms * 1e6, relay_ns, 0.03)
    });
    lab.is_left_clean();
}

#[test]
fn a_lab_leaves_nothing() {
    let namespaces = || {
        let told = Command::new("ip").args(["netns", "list"]).output().unwrap();
        String::from_utf8(told.stdout).unwrap()
    };
    let (cable, relay) = (Lab::new(), Lab::delayed(EACH_WAY));
    let names = [&cable, &relay].map(|lab| lab.name().to_owned());
    let there = namespaces();
    assert!(names.iter().all(|name| there.contains(name)), "{there}");
    let program = relay.start(End::Far, "sleep", &["100"]);
    // It is there once it has become what was started.
    wait_for("a program at the far end", || {
        (relay.processes(End::Far) == [program.pid()]).then_some(())
    });
    drop((program, cable, relay));
    let left = namespaces();
    assert!(!names.iter().any(|name| left.contains(name)), "{left}");
}
