//! The core clock under instructions of a width.
//!
//! A core may lower its clock for wide instructions and raise it again microseconds later, so the
//! scalar chains of [`CoreClock`] do not see it. A chain of the same width does, whose step takes a
//! whole number of cycles: the published latency where the core's design is known. Otherwise the
//! step's time in cycles of the scalar clock gives the number, if it is unambiguous (see
//! [`cycles_of_step`]).

use bench::measure::{Clock, CoreClock};
use laws::cpu::peak::Arithmetic;
use metal::peak::Peak;

/// Instructions of the two chains of a look at the clock: 3 µs to 15 µs, and five times that.
const CHAIN_INSTRUCTIONS: [u64; 2] = [12_000, 60_000];
/// Looks, each after a step of the kernel, and how many at most until they agree.
const LOOKS: usize = 5;
const LOOKS_MAX: usize = 40;
/// Distance in which the two fastest runs of each chain agree, as a share of the time that the
/// longer takes beyond the shorter. What surrounds a chain varies by 70 ns on a Zen 4 guest,
/// whatever its length.
const AGREEMENT: f64 = 0.005;
/// The clock under wide instructions is above the scalar one only by the uncertainty of both.
const SHARE_MAX: f64 = 1.05;
/// It is no lower than this share of the scalar one: the least of Skylake's server parts reach
/// 0.45.
const SHARE_MIN: f64 = 0.4;
/// Nor, nearly everywhere, than this; below it, an unpublished number of cycles does not count.
const USUAL_SHARE_MIN: f64 = 0.6;
/// Relative distance from a whole number of scalar cycles at which the clocks count as equal.
const WHOLE: f64 = 0.02;

/// A short and a long chain of one instruction, and the cycles of its step if they are published.
pub struct Chains {
    short: Peak,
    long: Peak,
    cycles: Option<u64>,
}

impl Chains {
    /// The chains at the width of `arithmetic`. None for scalars, whose clock the core's own chains
    /// give.
    pub fn at_width(arithmetic: Arithmetic, cycles: Option<u64>) -> Option<Self> {
        let kernel = arithmetic.chain()?.kernel();
        Some(Chains {
            short: Peak::chain(kernel, CHAIN_INSTRUCTIONS[0])?,
            long: Peak::chain(kernel, CHAIN_INSTRUCTIONS[1])?,
            cycles,
        })
    }
}

/// The core clock under work at a width, in Hz: `work` is done before each look.
pub fn clock_at_width(
    core: &mut CoreClock,
    clock: Clock,
    mut work: impl FnMut(),
    chains: Option<&Chains>,
) -> Option<f64> {
    let scalar_hz = core.estimate().hz?;
    let Some(chains) = chains else { return Some(scalar_hz) };
    // The fastest two runs of the short chain, and of the long one.
    let mut fastest = [[f64::INFINITY; 2]; 2];
    let mut between_ns = f64::INFINITY;
    for look in 1..=LOOKS_MAX {
        for ([first, second], chain) in fastest.iter_mut().zip([&chains.short, &chains.long]) {
            work();
            // The first stretch after the kernel waits for its last instructions.
            chain.run();
            let start = clock.start();
            chain.run();
            let time_ns = clock.between_ns(start, clock.end());
            *second = second.min(first.max(time_ns));
            *first = first.min(time_ns);
        }
        // What surrounds a chain goes away in the difference of two lengths.
        between_ns = (fastest[1][0] - fastest[0][0]).max(1.0);
        if look >= LOOKS && agree(&fastest, between_ns) {
            break;
        }
    }
    if !agree(&fastest, between_ns) {
        return None;
    }
    let steps = chains.long.instructions() - chains.short.instructions();
    let step_hz = steps as f64 * 1e9 / between_ns;
    Some(step_hz * cycles_of_step(scalar_hz / step_hz, chains.cycles)?)
}

/// Whether the two fastest runs of each chain are close enough to determine `between_ns`.
fn agree(fastest: &[[f64; 2]; 2], between_ns: f64) -> bool {
    fastest.iter().all(|[first, second]| second - first <= AGREEMENT * between_ns)
}

/// Cycles of a chain's step that takes `scalar` cycles of the scalar clock: the published number,
/// if the clock is then between [`SHARE_MIN`] and [`SHARE_MAX`] of the scalar one (else a virtual
/// machine shows another design than it has). A number that lowers the clock below
/// [`USUAL_SHARE_MIN`] gives way to a whole one that makes the clocks equal: Zen 5 adds integers of
/// 64 bytes in one cycle by the tables and in two in a chain. Where none is published, the one that
/// leads to [`USUAL_SHARE_MIN`] to [`SHARE_MAX`]; of several, the one that makes the clocks equal
/// to [`WHOLE`]; else none, because 5.64 may be four cycles of a much lower clock or five of a
/// little lower one.
fn cycles_of_step(scalar: f64, published: Option<u64>) -> Option<f64> {
    let fits = |cycles: f64, least: f64| (least..=SHARE_MAX).contains(&(cycles / scalar));
    let whole = scalar.round();
    let is_whole = (scalar / whole - 1.0).abs() <= WHOLE;
    if let Some(published) = published.map(|cycles| cycles as f64) {
        let is_doubtful = is_whole && !fits(published, USUAL_SHARE_MIN);
        let cycles = if is_doubtful { whole } else { published };
        return fits(published, SHARE_MIN).then_some(cycles);
    }
    let from = (USUAL_SHARE_MIN * scalar).floor().max(1.0) as u64;
    let mut fitting = (from..=scalar.ceil() as u64)
        .map(|cycles| cycles as f64)
        .filter(|cycles| fits(*cycles, USUAL_SHARE_MIN));
    match (fitting.next(), fitting.next()) {
        (only, None) => only,
        _ => is_whole.then_some(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_latency_tells_a_clock_that_is_far_lower() {
        // Skylake-SP: 3.1 GHz scalar, 2.2 GHz under 64-byte fused operations of four cycles.
        let scalar = 4.0 * 3.1 / 2.2;
        assert_eq!(cycles_of_step(scalar, Some(4)), Some(4.0));
        // Nothing published: four or five.
        assert_eq!(cycles_of_step(scalar, None), None);
        // A latency that cannot be: the design is another one.
        assert_eq!(cycles_of_step(2.0, Some(4)), None);
        // A clock that would be halved exactly: the latency is twice the published one.
        assert_eq!(cycles_of_step(2.01, Some(1)), Some(2.0));
        assert_eq!(cycles_of_step(11.0, Some(4)), None);
    }

    #[test]
    fn without_one_only_a_number_beyond_doubt_counts() {
        for (scalar, cycles) in [
            (1.0, Some(1.0)),
            // One cycle of 0.8 of the clock: two would be a higher clock.
            (1.25, Some(1.0)),
            (0.99, Some(1.0)),
            // Two: one would be half the clock.
            (2.3, Some(2.0)),
            // Clocks that are equal, of several that could be.
            (4.03, Some(4.0)),
            (3.98, Some(4.0)),
            // Four of 0.95, or three of 0.71.
            (4.2, None),
            (0.5, None),
        ] {
            assert_eq!(cycles_of_step(scalar, None), cycles, "{scalar}");
        }
    }
}
