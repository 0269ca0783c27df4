use super::*;
use bench::experiment::AnyExperiment as _;
use bench::experiment::fixtures::sites;
use metal::kernel::Frame as Stack;
use record::key::Key;
use session::fixtures::offered;

#[test]
fn every_case_names_a_call_of_the_instruments() {
    let offer = offered(&EXPERIMENT, &sites()[0], Preset::Thorough, &[]);
    for case in &offer.series[0].cases {
        let kind = kind(&Called::decode(case).unwrap());
        assert_eq!(call(kind, 9), Some(call_sum(kind, 9)), "{}", case.id);
    }
}

#[test]
fn arguments_cost_instructions_and_the_stack_costs_stores() {
    let of = |arguments, argument, frame| direct_work(arguments, argument, frame, Arch::X86_64);
    let none = of(0, ArgumentType::I64, Stack::Registers);
    assert_eq!((none.instructions, none.stores, none.loads), (2.0, 1.0, 1.0));
    // mov x6, push; mov, add x6; sub and add of the stack pointer; the caller's add.
    let seven = of(7, ArgumentType::I64, Stack::Registers);
    assert_eq!((seven.instructions, seven.stores, seven.loads), (17.0, 2.0, 2.0));
    let floats = of(7, ArgumentType::F64, Stack::Registers);
    assert_eq!((floats.stores, floats.loads), (1.0, 8.0));
    let spilled = of(7, ArgumentType::I64, Stack::Spilled);
    assert_eq!((spilled.stores, spilled.loads, spilled.frame), (9.0, 9.0, true));
    assert_eq!(direct_work(7, ArgumentType::I32, Stack::Registers, Arch::Aarch64).stores, 1.0);
}

#[test]
fn the_line_is_derived_per_type_and_frame_from_direct_calls_only() {
    let mut values = Known::default();
    for count in 0..=12 {
        // A step at the stack, which must not bend the line.
        let ns = if count <= 7 { 1.0 + 0.25 * count as f64 } else { 50.0 };
        let frame = Frame::Spilled;
        let id = Called { argument: Argument::I32, frame, arguments: count, ..ONE_ARGUMENT }.id();
        values.insert(Key::new(CARD.id, &id, "call"), ns);
    }
    let plt = Called { way: Way::Plt, ..ONE_ARGUMENT }.id();
    values.insert(Key::new(CARD.id, &plt, "call"), 9.0);
    for count in [0, 1] {
        let id = Called { argument: Argument::F64, arguments: count, ..ONE_ARGUMENT }.id();
        values.insert(Key::new(CARD.id, &id, "call"), 1.0);
    }
    let derived = EXPERIMENT.derive(&sites()[0], &Known::default(), &values);
    let told: Vec<_> = derived.iter().map(|value| (value.case.to_string(), value.metric)).collect();
    let case = "type=i32,frame=spilled".to_owned();
    assert_eq!(told, [(case.clone(), "slope"), (case, "linearity")]);
    assert!((derived[0].value - 0.25).abs() < 1e-12 && (derived[1].value - 1.0).abs() < 1e-12);
}
