use super::{Live, Rules, Stop, Work};
use record::case::{Case, Order, Series};
use record::event::{Ending, FailedCase, Round, RoundStatus};
use record::key::CaseId;
use stats::alone::{Alone, Basis};
use stats::rounds::Rounds;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const RULES: Rules<'static> =
    Rules { looks: &[6, 9, 12], asked_from: 9, ahead_until: 15, goal: 0.02 };

fn size(bytes: u64) -> CaseId {
    CaseId::new().with("footprint", bytes)
}

fn work() -> Work {
    let cases = [1, 2, 4].map(|bytes| Case::new(size(bytes)));
    Work {
        in_quick: BTreeSet::new(),
        experiment: catalogue::find("memory.latency").expect("in the catalogue"),
        series: Series::new("memory.latency", Order::Ladder, cases.to_vec()),
        stage: 0,
        cost: Duration::from_secs(1),
        preparation: Duration::ZERO,
    }
}

fn failed(bytes: u64) -> FailedCase {
    FailedCase { case: size(bytes), reason: format!("{bytes} are too many") }
}

fn round(n: u32, status: RoundStatus, failed: Vec<FailedCase>) -> Round {
    Round {
        series: work().series.label(),
        n,
        segment: 0,
        at_s: 1.0,
        window_ns: 1.0,
        status,
        disturbed: Vec::new(),
        others: Vec::new(),
        waited_s: None,
        cpus: Vec::new(),
        environment: BTreeMap::new(),
        failed,
    }
}

fn live_series<'run>(work: &'run Work, rounds: &[Round]) -> Live<'run> {
    Live::new(work, work.series.clone(), rounds, &BTreeMap::new(), RULES)
}

fn cases(live: &Live<'_>) -> Vec<CaseId> {
    let series = live.in_order(1, 1);
    series.cases.into_iter().map(|case| case.id).collect()
}

#[test]
fn what_a_void_round_gives_up_is_left_out_and_the_rest_goes_on() {
    let work = work();
    let mut live = live_series(&work, &[]);
    let void = RoundStatus::Void("killed".to_owned());
    let took = Duration::from_secs(1);
    live.ended(&RoundStatus::Ok, &[], took);
    for bytes in [4, 2] {
        live.ended(&void, &[failed(bytes)], took);
        assert!(!live.failed() && live.wants(6));
    }
    assert_eq!(cases(&live), [size(1)]);
    live.ended(&RoundStatus::Ok, &[], took);
    let (ending, reason) = live.ending_of(&size(4), Stop::Done);
    assert_eq!(ending, Ending::Measured);
    assert!(reason.ends_with("4 are too many"), "{reason}");
    assert_eq!(live.ending_of(&size(1), Stop::Done).0, Ending::Measured);
    // Nothing is left to measure.
    live.ended(&void, &[failed(1)], took);
    assert!(live.failed() && !live.wants(6));
}

#[test]
fn a_void_round_without_a_culprit_counts_towards_the_end() {
    let work = work();
    let mut live = live_series(&work, &[]);
    let void = RoundStatus::Void("killed".to_owned());
    for round in 1..=3 {
        assert!(!live.failed());
        live.ended(&void, &[], Duration::from_secs(1));
        assert_eq!(live.failed(), round == 3);
    }
    assert_eq!(cases(&live).len(), 3);
}

#[test]
fn a_run_that_is_continued_remembers_what_was_given_up() {
    let work = work();
    let rounds = [
        round(1, RoundStatus::Void("killed".to_owned()), vec![failed(4)]),
        round(2, RoundStatus::Void("another".to_owned()), Vec::new()),
        round(3, RoundStatus::Ok, Vec::new()),
    ];
    let live = live_series(&work, &rounds);
    assert_eq!((live.tally, live.tried), (1, 3));
    assert_eq!(cases(&live), [size(1), size(2)]);
    let (ending, reason) = live.ending_of(&size(4), Stop::Done);
    assert_eq!((ending, reason.as_str()), (Ending::Failed, "4 are too many"));
}

#[test]
fn cases_of_the_quick_preset_have_more_rounds_by_themselves_and_the_others_go_on() {
    let work = Work { in_quick: [size(2)].into(), ..work() };
    let mut live = live_series(&work, &[]);
    let mut measured = Vec::new();
    for _ in 0..18 {
        measured.push(cases(&live).len());
        live.ended(&RoundStatus::Ok, &[], Duration::from_secs(1));
    }
    assert_eq!(measured, [vec![3; 6], vec![1; 9], vec![2; 3]].concat());
    assert_eq!((live.rounds(), live.tally), (9, 18));
    let rounds = |bytes| live.ending_of(&size(bytes), Stop::Budget).1;
    assert!(rounds(1).ends_with("9 rounds") && rounds(2).ends_with("15 rounds"));
    // A run that goes on finds itself at the same place.
    let rounds: Vec<Round> = (1..=11).map(|n| round(n, RoundStatus::Ok, Vec::new())).collect();
    let live = live_series(&work, &rounds);
    assert_eq!((live.rounds(), cases(&live)), (11, vec![size(2)]));
}

#[test]
fn cases_that_lack_rounds_alone_get_some_by_themselves_before_others_go_on() {
    let work = Work { in_quick: [size(2)].into(), ..work() };
    let mut live = live_series(&work, &[]);
    let ok = |live: &mut Live<'_>| live.ended(&RoundStatus::Ok, &[], Duration::from_secs(1));
    (0..6).for_each(|_| ok(&mut live));
    let figures = |alone: [usize; 3]| {
        let of_case = |(bytes, alone)| {
            let basis = Basis { rounds: alone, samples: 3 * alone, stretches: alone };
            let figure =
                Rounds { alone: (alone == 6).then_some(Alone::Rounds), basis, ..Rounds::default() };
            ((size(bytes), "latency".to_owned()), figure)
        };
        [1, 2, 4].into_iter().zip(alone).map(of_case).collect()
    };
    // Never alone, alone in five of six rounds, always.
    live.judge(&figures([0, 6, 5]));
    assert_eq!((cases(&live), live.claim().lacks_alone), (vec![size(4)], true));
    let rounds: Vec<Round> = (1..=7).map(|n| round(n, RoundStatus::Ok, Vec::new())).collect();
    ok(&mut live);
    assert_eq!(live.rounds(), 7);
    // One more was enough.
    live.judge(&figures([0, 6, 6]));
    assert_eq!((cases(&live), live.rounds()), (vec![size(2)], 6));
    // A neighbour that stays does not keep the others waiting.
    live.judge(&figures([0, 6, 5]));
    (0..2).for_each(|_| ok(&mut live));
    live.judge(&figures([0, 6, 5]));
    assert_eq!((cases(&live), live.rounds()), (vec![size(2)], 6));
    // A run that goes on knows which cases had the seventh round.
    let data = BTreeMap::from([(7, [size(4)].into())]);
    let mut live = Live::new(&work, work.series.clone(), &rounds, &data, RULES);
    assert_eq!((cases(&live), live.rounds(), live.tally), (vec![size(2)], 6, 7));
    live.judge(&figures([0, 6, 4]));
    assert_eq!((cases(&live), live.rounds()), (vec![size(4)], 7));
}
