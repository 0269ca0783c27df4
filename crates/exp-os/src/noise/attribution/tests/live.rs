//! The ladder on the machine as it is.

use metal::gaps::{Gap, Tracer};

use super::super::spans::{EDGE_NS, Span};
use super::super::{Attributed, By, Cause, Evidence, Held, Level, Watch, thread_number};
use bench::measure::Clock;

/// The counter's rate in ticks per ns against the kernel's clock, roughly.
fn clock() -> Clock {
    let tie = || (metal::clock::ticks_start(), metal::clock::monotonic_raw_ns());
    let (ticks, ns) = tie();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let (later, later_ns) = tie();
    Clock::Counter { tick_ns: (later_ns - ns) as f64 / (later - ticks) as f64 }
}

struct Seen {
    cpu: usize,
    tracer: Tracer,
    evidence: Evidence,
}

/// What is seen of this thread, pinned, while it traces.
fn watched(level: Level, clock: Clock, trace: impl FnOnce(&mut Tracer)) -> Seen {
    let cpu = metal::place::current_cpu();
    metal::place::pin(cpu).expect("it runs there");
    let mut tracer = Tracer::with_room(50_000).expect("memory is there");
    let watch = Watch::begin(level, &[(cpu, thread_number().expect("/proc"))], clock);
    tracer.begin();
    trace(&mut tracer);
    let evidence = watch.end();
    println!("{level:?}: {}", evidence.reached());
    Seen { cpu, tracer, evidence }
}

impl Seen {
    fn attributed(&self) -> Vec<Attributed> {
        let gaps = self.tracer.gaps();
        self.evidence.attribute(self.cpu, gaps, &vec![false; gaps.len()], Held::ALL)
    }
}

#[test]
fn every_level_is_reached_or_says_why_not() {
    for &level in Level::ALL {
        let evidence = watched(level, clock(), |_| {}).evidence;
        assert!(evidence.level == level || evidence.why_not_higher.is_some());
        assert!(evidence.level <= level && evidence.cpus.len() == 1);
    }
}

/// What the kernel says is what the loop sees: every interrupt of the timer while the loop had the
/// CPU lies in a gap, and the gap is not nobody's for want of an event.
#[test]
fn every_tick_that_the_kernel_saw_lies_in_a_gap() {
    let clock = clock();
    let seen = watched(Level::Tracepoints, clock, |tracer| {
        tracer.until(clock.ticks(1_000.0), tracer.first() + clock.ticks(60e6));
    });
    if seen.evidence.level != Level::Tracepoints {
        return skips::part("perf", seen.evidence.reached());
    }
    let (tracer, found) = (&seen.tracer, seen.attributed());
    let timeline = seen.evidence.cpus[&seen.cpu].timeline.as_ref().expect("it was traced");
    let edge = clock.ticks(EDGE_NS);
    let is_inside =
        |span: &&Span| span.start > tracer.first() + edge && span.end + edge < tracer.last();
    let ticks = timeline.spans.iter().filter(|span| span.cause == Cause::Timer).filter(is_inside);
    for tick in ticks {
        let around = |gap: &Gap| gap.start <= tick.start + edge && gap.end + edge >= tick.end;
        let Some(at) = tracer.gaps().iter().position(around) else {
            panic!("no gap around {tick:?}");
        };
        println!("{tick:?}: {:?}", found[at]);
        assert!(found[at].beside_ns.is_some(), "{:?}", found[at]);
    }
}

#[test]
fn a_sleep_of_the_loop_is_found_at_its_time() {
    let clock = clock();
    for level in [Level::Switches, Level::Tracepoints] {
        let seen = watched(level, clock, |tracer| {
            tracer.run(clock.ticks(2_000.0), 1_000);
            std::thread::sleep(std::time::Duration::from_millis(3));
            tracer.run(clock.ticks(2_000.0), 1_000);
        });
        if seen.evidence.level != level {
            skips::part("perf", format!("{}: {}", level.text(), seen.evidence.reached()));
            continue;
        }
        let (gaps, found) = (seen.tracer.gaps(), seen.attributed());
        let longest = (0..gaps.len()).max_by_key(|gap| gaps[*gap].ticks()).expect("it slept");
        let is_told = match level {
            Level::Switches => found[longest].by == By::Time,
            // Idle, or another thread that ran meanwhile: either is known by an event.
            _ => found[longest].beside_ns.is_some(),
        };
        assert!(is_told, "{found:?}");
    }
}
