use super::{Ended, Kept, MARGIN, Part, Rotation, SAVING_MAX_S, Turn, selectors_of};

const SHARE: f64 = 0.005;

fn rotation(costs: &[(&str, f64)]) -> Rotation {
    let part = |(id, cost): &(&str, f64)| Part {
        id: (*id).to_owned(),
        selectors: vec![(*id).to_owned()],
        stated_s: *cost,
    };
    Rotation { parts: costs.iter().map(part).collect(), share: SHARE, every_s: 600.0 }
}

/// Ticks for so many seconds of parts that take so much; the order in which they were measured.
fn watched(
    rotation: &Rotation,
    kept: &mut Kept,
    until_s: f64,
    takes: impl Fn(&str) -> f64,
) -> Vec<String> {
    let mut order = Vec::new();
    let mut now = kept.at_s;
    while now < until_s {
        now += rotation.every_s;
        rotation.save(kept, now);
        while let Turn::Measure(part) = rotation.turn(kept) {
            let part = part.clone();
            // As a child that is stopped when it has used what was saved.
            let (used, ended) = match takes(&part.id) {
                takes if takes > kept.saved_s => (kept.saved_s, Ended::Stopped),
                takes => (takes, Ended::Complete),
            };
            rotation.measured(kept, &part, ended, used, ("record", now));
            order.push(part.id);
            assert!(kept.used_s <= SHARE * (now - kept.began_s) + 1e-9, "{kept:?}");
        }
    }
    order
}

#[test]
fn every_part_gets_its_turn_and_the_share_is_never_exceeded() {
    let rotation = rotation(&[("a", 2.0), ("b", 20.0), ("c", 0.5)]);
    let mut kept = Kept::new(1000.0);
    let takes = |id: &str| if id == "b" { 16.0 } else { 1.0 };
    let order = watched(&rotation, &mut kept, 1000.0 + 7.0 * 24.0 * 3600.0, takes);
    let [a, b, c] = ["a", "b", "c"].map(|id| order.iter().filter(|of| *of == id).count());
    // 3024 CPU seconds in a week, 18 a rotation.
    assert!((140..=168).contains(&b), "{b}");
    assert!(a.abs_diff(b) <= 1 && c.abs_diff(b) <= 1, "{a} {b} {c}");
    assert_eq!(kept.rotations, c as u64);
    let share = kept.share(kept.at_s).unwrap();
    assert!((0.8 * SHARE..=SHARE).contains(&share), "{share}");
}

#[test]
fn nothing_is_measured_before_it_is_saved() {
    let rotation = rotation(&[("a", 2.0)]);
    let mut kept = Kept::new(0.0);
    assert_eq!(rotation.turn(&kept), Turn::Save(&rotation.parts[0], 2.0));
    rotation.save(&mut kept, 399.0);
    assert!(matches!(rotation.turn(&kept), Turn::Save(..)));
    rotation.save(&mut kept, 401.0);
    assert_eq!(rotation.turn(&kept), Turn::Measure(&rotation.parts[0]));
}

#[test]
fn a_machine_that_was_off_does_not_catch_up_and_a_clock_set_back_saves_nothing() {
    let rotation = rotation(&[("a", 2.0), ("b", 8.0)]);
    let mut kept = Kept::new(0.0);
    rotation.save(&mut kept, 1e6);
    assert_eq!(kept.saved_s, 600.0 * SHARE);
    rotation.save(&mut kept, 5e5);
    assert_eq!((kept.saved_s, kept.at_s), (600.0 * SHARE, 5e5));
    // For a part that costs more, more is saved.
    kept.next = Some("b".to_owned());
    rotation.save(&mut kept, 1e6);
    assert_eq!(kept.saved_s, 8.0);
    rotation.save(&mut kept, -5.0);
    assert_eq!(kept.began_s, -5.0);
}

#[test]
fn a_part_that_does_not_fit_is_left_out_with_the_share_that_it_needs() {
    let day = SHARE * SAVING_MAX_S;
    let rotation = rotation(&[("a", 1.0), ("huge", 2.0 * day)]);
    let mut kept = Kept::new(0.0);
    let huge = &rotation.parts[1];
    assert!(!rotation.fits(&kept, huge));
    assert!((rotation.share_for(&kept, huge) - 2.0 * SHARE).abs() < 1e-12);
    let order = watched(&rotation, &mut kept, 86_400.0, |_| 1.0);
    assert!(order.len() > 100 && order.iter().all(|id| id == "a"), "{order:?}");
    let none = Rotation { parts: vec![huge.clone()], ..rotation.clone() };
    assert_eq!(none.turn(&kept), Turn::Nothing);
}

#[test]
fn costs_are_learned_and_one_that_was_stopped_saves_more() {
    let rotation = rotation(&[("a", 1.0), ("b", 1.0)]);
    let mut kept = Kept::new(0.0);
    let [a, b] = [&rotation.parts[0], &rotation.parts[1]];
    rotation.measured(&mut kept, a, Ended::Complete, 4.0, ("one", 50.0));
    assert_eq!(rotation.cost_s(&kept, a), 4.0 * MARGIN);
    assert_eq!(kept.parts["a"].record.as_deref(), Some("one"));
    assert_eq!(kept.next.as_deref(), Some("b"));
    rotation.measured(&mut kept, b, Ended::Stopped, 3.0, ("two", 60.0));
    assert_eq!(rotation.cost_s(&kept, b), 6.0 * MARGIN);
    assert_eq!((kept.parts["b"].failures, kept.parts["b"].record.clone()), (1, None));
    assert_eq!((kept.rotations, kept.next.as_deref()), (1, Some("a")));
    rotation.measured(&mut kept, a, Ended::Interrupted, 1.0, ("three", 70.0));
    assert_eq!((kept.used_s, kept.next.as_deref()), (8.0, Some("a")));
    assert_eq!(kept.parts["a"].record.as_deref(), Some("one"));
    rotation.measured(&mut kept, a, Ended::Failed, 1.0, ("four", 80.0));
    assert_eq!(kept.parts["a"].failures, 1);
}

#[test]
fn a_restart_goes_on_and_another_selection_begins_at_its_start() {
    let rotation = rotation(&[("a", 1.0), ("b", 1.0)]);
    let mut kept = Kept::new(0.0);
    rotation.measured(&mut kept, &rotation.parts[0], Ended::Complete, 1.0, ("one", 1.0));
    let text = serde_json::to_string(&kept).unwrap();
    let mut again: Kept = serde_json::from_str(&text).unwrap();
    assert_eq!(again, kept);
    again.saved_s = 10.0;
    assert_eq!(rotation.turn(&again), Turn::Measure(&rotation.parts[1]));
    let other = Rotation { parts: vec![Part::new("c", &[], 1.0)], ..rotation };
    assert_eq!(other.turn(&again), Turn::Measure(&other.parts[0]));
}

#[test]
fn a_part_is_selected_as_the_user_selected_it() {
    for (selectors, id, expected) in [
        (&[][..], "os.syscall", &["os.syscall"][..]),
        (&["!fs"], "os.syscall", &["os.syscall"]),
        (&["os"], "os.syscall", &["os.syscall"]),
        (&["memory.latency:pages=huge", "os"], "os.syscall", &["os.syscall"]),
        (&["memory.latency:pages=huge"], "memory.latency", &["memory.latency:pages=huge"]),
        (&["memory.latency:pages=huge", "memory"], "memory.latency", &["memory.latency"]),
        (
            &["os", "!os.syscall:call=getpid"],
            "os.syscall",
            &["os.syscall", "!os.syscall:call=getpid"],
        ),
    ] {
        let selectors: Vec<String> = selectors.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(selectors_of(id, &selectors), expected, "{selectors:?}");
    }
}
