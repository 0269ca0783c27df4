//! Which threads are measured where.

use super::{CARD, STACK_BYTES};
use bench::experiment::{Offer, Params, Preset, Site, Skip, shared_round_cost};
use bench::pair;
use laws::os::thread::{Company, Stack, Thread};
use record::case::{Case, Order, Series};
use record::key::{CaseId, Value};
use std::time::Duration;

/// What a thread in a sequence and in a crowd is planned with, in ns.
const SEQUENCE_NS: u64 = 25_000;
const CROWD_NS: u64 = 60_000;
/// The same with the rival's calls.
const STRESS_NS: u64 = 250_000;

/// The series here: single lives, sequences, crowds.
pub(super) fn offer(site: &Site, params: &Params) -> Offer {
    let mut offer = Offer::default();
    let bytes = params.ints("stack_bytes").first().copied();
    let mut add = |name: &str, cases: Vec<Case>| {
        if !cases.is_empty() {
            offer.series.push(Series {
                experiment: CARD.id.to_owned(),
                name: name.to_owned(),
                order: Order::Shuffled,
                cases,
                settings: [(
                    "stack_bytes".to_owned(),
                    Value::Int(bytes.unwrap_or(STACK_BYTES)),
                )]
                .into(),
            });
        }
    };
    let (singles, skipped) = singles(site, params);
    add("single", singles);
    let with_maker = || CaseId::new().with("pair", "same");
    let many = |name: &'static str, id: CaseId| -> Vec<Case> {
        let counts = params.ints(name).into_iter();
        counts
            .map(|count| Case::new(id.clone().with(name, count)))
            .collect()
    };
    add(
        "sequence",
        many("count", with_maker().with("stack", "cached")),
    );
    let mut crowds = Vec::new();
    for work in params.texts("work") {
        for case in many("alive", with_maker()) {
            match (work, case.int("alive")) {
                ("none", _) => crowds.push(case),
                // Alone, a thread that sleeps a millisecond leaves its CPU idle.
                (_, Some(alive)) if alive > 1 => {
                    crowds.push(Case::new(case.id.with("work", work)));
                }
                _ => {}
            }
        }
    }
    add("crowd", crowds);
    offer.skipped = skipped;
    offer
}

/// Cases of one thread at a time, and those that are not there.
fn singles(site: &Site, params: &Params) -> (Vec<Case>, Vec<(CaseId, Skip)>) {
    let chosen = params.chosen("pair").is_some();
    let pairs: Vec<&str> = match chosen {
        true => params.texts("pair"),
        false => pair::present(site).iter().map(|pair| pair.symbol).collect(),
    };
    let stacks = params.texts("stack");
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for symbol in pairs.into_iter().filter(|symbol| *symbol != "auto") {
        for (place, stack) in stacks.iter().enumerate() {
            let id = CaseId::new().with("pair", symbol).with("stack", *stack);
            if *stack == "bare" && symbol != "same" {
                let skip = Skip::because(
                    "a bare thread begins on its maker's CPU: only the library moves one before its first instruction",
                );
                skipped.extend(chosen.then_some((id, skip)));
            } else if let Err(skip) = pair::of(site, symbol) {
                skipped.push((id, skip));
            } else if chosen || symbol == "same" || place == 0 || params.preset == Preset::Thorough
            {
                cases.push(Case::new(id));
            }
        }
    }
    (cases, skipped)
}

/// What a round takes: windows over many threads are as long as their threads, at least one each.
pub(super) fn round_cost(site: &Site, series: &Series) -> Duration {
    let threads: u64 = series
        .cases
        .iter()
        .map(|case| match (case.int("count"), case.int("alive")) {
            (Some(count), _) => count.saturating_mul(SEQUENCE_NS),
            // Once more, before those that are timed.
            (_, Some(count)) if case.text("work").is_some() => count.saturating_mul(2 * STRESS_NS),
            (_, Some(count)) => count.saturating_mul(2 * CROWD_NS),
            _ => 0,
        })
        .fold(0, u64::saturating_add);
    shared_round_cost(site, series).max(Duration::from_nanos(threads))
}

/// The case as its law takes it.
pub(super) fn thread_of(case: &Case) -> Thread<'_> {
    let stack = match case.text("stack") {
        Some("fresh") => Stack::Fresh,
        Some("bare") => Stack::Bare,
        _ => Stack::Cached,
    };
    let company = match (case.int("count"), case.int("alive")) {
        (Some(_), _) => Company::Sequence,
        (_, Some(alive)) if case.text("work").is_some() => Company::Stress(alive),
        (_, Some(alive)) => Company::Crowd(alive),
        _ => Company::Alone,
    };
    Thread {
        pair: case.text("pair").unwrap_or("same"),
        stack,
        company,
    }
}
