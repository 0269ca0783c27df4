//! The ladder on the machine as it is.

use metal::gaps::{Gap, Tracer};

use super::super::spans::{EDGE_NS, Span};
use super::super::{By, Cause, Held, Level, Watch};
use bench::measure::Clock;

/// The counter's rate in ticks per ns against the kernel's clock, roughly.
fn clock() -> Clock {
    let tie = || (metal::clock::ticks_start(), metal::clock::monotonic_raw_ns());
    let (ticks, ns) = tie();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let (later, later_ns) = tie();
    Clock::Counter { tick_ns: (later_ns - ns) as f64 / (later - ticks) as f64 }
}

#[test]
fn every_level_is_reached_or_says_why_not() {
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    for &level in Level::ALL {
        let evidence = Watch::begin(level, &[cpu], clock()).end();
        println!("{level:?}: {}", evidence.reached());
        assert!(evidence.level == level || evidence.why_not_higher.is_some());
        assert!(evidence.level <= level && evidence.cpus.len() == 1);
    }
}

/// What the kernel says is what the loop sees: every interrupt of the timer while the loop had the
/// CPU lies in a gap, and the gap is not nobody's for want of an event.
#[test]
fn every_tick_that_the_kernel_saw_lies_in_a_gap() {
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    let clock = clock();
    let mut tracer = Tracer::with_room(50_000).expect("memory is there");
    let watch = Watch::begin(Level::Tracepoints, &[cpu], clock);
    tracer.begin();
    tracer.until(clock.ticks(1_000.0), tracer.first() + clock.ticks(60e6));
    let evidence = watch.end();
    if evidence.level != Level::Tracepoints {
        return skips::part("perf", evidence.reached());
    }
    let gaps = tracer.gaps();
    let found = evidence.attribute(cpu, gaps, &vec![false; gaps.len()], Held::ALL);
    let timeline = evidence.cpus[&cpu].timeline.as_ref().expect("it was traced");
    let edge = clock.ticks(EDGE_NS);
    let is_inside =
        |span: &Span| span.start > tracer.first() + edge && span.end + edge < tracer.last();
    let ticks = timeline.spans.iter().filter(|span| span.cause == Cause::Timer);
    let ticks: Vec<_> = ticks.filter(|span| is_inside(span)).collect();
    println!("{} ticks, {} gaps; {}", ticks.len(), gaps.len(), evidence.reached());
    for tick in ticks {
        let around = |gap: &Gap| gap.start <= tick.start + edge && gap.end + edge >= tick.end;
        let Some(at) = gaps.iter().position(around) else {
            panic!("no gap around {tick:?}");
        };
        let distance_ns = clock.between_ns(gaps[at].start, tick.start);
        println!("{distance_ns:.0} ns before {tick:?}: {:?}", found[at]);
        assert!(found[at].beside_ns.is_some(), "{:?}", found[at]);
    }
}

#[test]
fn a_sleep_of_the_loop_is_found_at_its_time() {
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    let clock = clock();
    for level in [Level::Switches, Level::Tracepoints] {
        let mut tracer = Tracer::with_room(10_000).expect("memory is there");
        let watch = Watch::begin(level, &[cpu], clock);
        tracer.begin();
        tracer.run(clock.ticks(2_000.0), 1_000);
        std::thread::sleep(std::time::Duration::from_millis(3));
        tracer.run(clock.ticks(2_000.0), 1_000);
        let evidence = watch.end();
        if evidence.level != level {
            skips::part("perf", format!("{}: {}", level.text(), evidence.reached()));
            continue;
        }
        let gaps = tracer.gaps();
        let longest = (0..gaps.len()).max_by_key(|gap| gaps[*gap].ticks()).expect("it slept");
        let found = evidence.attribute(cpu, gaps, &vec![false; gaps.len()], Held::ALL);
        println!("{}: {:?}", evidence.reached(), found[longest]);
        let is_told = match level {
            Level::Switches => found[longest].by == By::Time,
            // Idle, or another thread that ran meanwhile: either is known by an event.
            _ => found[longest].beside_ns.is_some(),
        };
        assert!(is_told, "{found:?}");
    }
}
