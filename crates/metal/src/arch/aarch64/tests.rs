//! The machine code of every timed body, read from memory as words. The
//! expected words are those of GNU as, not of the assembler that made the code.

mod chains;
mod gaps;
mod parties;

use super::timed;
use crate::arch::{Loop, tests::system_call_faces};
use crate::kernel::{ArgumentType, CallKind, ClockRead, Frame, MAX_ARGUMENTS, loop_of};

const RET: u32 = 0xd65f_03c0;
const ISB: u32 = 0xd503_3fdf;
const MRS_X1_CNTVCT: u32 = 0xd53b_e041;
const SUBS_X0_1: u32 = 0xf100_0400;
const ADD_X19_X0: u32 = 0x8b00_0273;
const ADD_D24_D0: u32 = 0x5ee0_8718;
const MOV_W0_1: u32 = 0x5280_0020;
const BLR_X21: u32 = 0xd63f_02a0;
const BR_X17: u32 = 0xd61f_0220;

/// The words of a function up to its return or its jump through x17.
fn words(address: usize) -> Vec<u32> {
    let mut words = vec![];
    loop {
        // SAFETY: every body ends in one of the two, so this stays inside it.
        let word = unsafe { (address as *const u32).add(words.len()).read() };
        words.push(word);
        if word == RET || word == BR_X17 {
            return words;
        }
        assert!(words.len() < 5000, "{address:#x} has no end");
    }
}

/// How many words a conditional branch goes back, if it does.
fn back(word: u32) -> Option<usize> {
    let conditional = word & 0xff00_0010 == 0x5400_0000;
    let offset = ((word << 8) as i32) >> 13;
    (conditional && offset < 0).then_some(-offset as usize)
}

/// The loops of a body without their branches, in order, and where they start.
fn turns(body: &[u32]) -> Vec<(usize, &[u32])> {
    body.iter()
        .enumerate()
        .filter_map(|(end, &word)| {
            let start = end - back(word)?;
            Some((start, &body[start..end]))
        })
        .collect()
}

fn check_loops(name: &str, body: *const (), turn: &[u32], single: Option<&[u32]>) {
    let code = words(body as usize);
    let turns = turns(&code);
    assert_eq!(turns.len(), 1 + usize::from(single.is_some()), "{name}");
    assert_eq!(turns[0].1, turn, "{name}");
    let head = body as usize + turns[0].0 * 4;
    assert_eq!(head % 64, 0, "{name} is not aligned");
    if let Some(single) = single {
        assert_eq!(turns[1].1, single, "{name}, one by one");
    }
}

#[test]
fn a_turn_of_a_chain_is_32_steps_or_256_loads_and_a_branch() {
    let chains: [(&str, *const (), u32, usize); 5] = [
        ("multiply", timed::chain_multiply as _, 0x9b02_7c21, 32),
        ("rotate", timed::chain_rotate as _, 0x93c1_1c21, 32),
        ("add", timed::chain_add as _, 0x8b02_0021, 32),
        ("pointer", timed::chase_pointer as _, 0xf940_0021, 256),
        ("index", timed::chase_index as _, 0xf861_7841, 256),
    ];
    for (name, body, step, steps) in chains {
        let mut turn = [step].repeat(steps);
        turn.push(0xf100_0463);
        check_loops(name, body, &turn, Some(&[step, SUBS_X0_1]));
    }
}

#[test]
fn a_step_through_the_stack_is_a_load_a_store_and_a_load_of_it() {
    // ldr x1, [x2, x1, lsl #3]; str x1, [sp]; ldr x1, [sp]
    let step = [0xf861_7841, 0xf900_03e1, 0xf940_03e1];
    let mut turn = step.repeat(256);
    turn.push(0xf100_0463);
    let single = [&step[..], &[SUBS_X0_1]].concat();
    check_loops("stored", timed::chase_stored as _, &turn, Some(&single));
}

#[test]
fn a_turn_of_independent_operations_is_16_into_each_of_eight_registers_and_a_branch() {
    // add xN, x9, x9
    let eight: Vec<u32> = (1..=8).map(|n| 0x8b09_0000 | 9 << 5 | n).collect();
    let mut turn = eight.repeat(16);
    turn.push(SUBS_X0_1);
    check_loops("independent", timed::independent as _, &turn, None);
}

#[test]
fn an_empty_loop_is_its_control_and_nothing_else() {
    let by_one = [0x9100_0421, 0xeb00_003f];
    let by_16 = [0x9100_4021, 0xeb02_003f];
    check_loops("empty", timed::loop_empty as _, &by_one, None);
    check_loops("unrolled", timed::loop_unrolled as _, &by_16, Some(&by_one));
    let (load, store) = (0xf940_07e1, 0xf900_07e1);
    let volatile = [load, by_one[0], store, load, by_one[1]];
    check_loops("volatile", timed::loop_volatile as _, &volatile, None);
}

#[test]
fn a_turn_of_clock_reads_is_eight_reads_with_their_fences() {
    let reads: [(ClockRead, &[u32]); 3] = [
        (ClockRead::Cntvct, &[MRS_X1_CNTVCT]),
        (ClockRead::CntvctIsb, &[ISB, MRS_X1_CNTVCT]),
        (ClockRead::FencedPair, &[ISB, MRS_X1_CNTVCT, ISB, ISB, MRS_X1_CNTVCT, ISB]),
    ];
    for (kind, step) in reads {
        let mut turn = step.repeat(8);
        turn.push(0xf100_0442);
        let mut single = step.to_vec();
        single.push(SUBS_X0_1);
        let body = timed::clock_loop(kind).unwrap() as *const ();
        check_loops(&format!("{kind:?}"), body, &turn, Some(&single));
    }
}

#[test]
fn fences_stand_beside_the_reads_of_the_counter() {
    #[inline(never)]
    fn start() -> u64 {
        super::ticks_start()
    }
    #[inline(never)]
    fn end() -> u64 {
        super::ticks_end()
    }
    #[inline(never)]
    fn raw() -> u64 {
        super::ticks_raw()
    }
    let expected: [(&str, *const (), &str); 3] = [
        ("start", start as _, "isb mrs isb"),
        ("end", end as _, "isb mrs isb"),
        ("raw", raw as _, "mrs"),
    ];
    for (name, function, expected) in expected {
        let found: Vec<(usize, &str)> = words(function as usize)
            .into_iter()
            .enumerate()
            .filter_map(|(at, word)| match word {
                ISB => Some((at, "isb")),
                // Into any register.
                _ if word & !0x1f == MRS_X1_CNTVCT & !0x1f => Some((at, "mrs")),
                _ => None,
            })
            .collect();
        let order: Vec<&str> = found.iter().map(|&(_, text)| text).collect();
        assert_eq!(order.join(" "), expected, "{name}");
        assert_eq!(found[found.len() - 1].0 - found[0].0 + 1, found.len(), "{name}");
    }
}

#[test]
fn a_system_call_is_made_in_a_function_that_returns() {
    let expected = [
        0xaa00_03e8,
        0xaa01_03e0,
        0xaa02_03e1,
        0xaa03_03e2,
        0xaa04_03e3,
        0xaa05_03e4,
        0xaa06_03e5,
        0xd400_0001,
        RET,
    ];
    assert_eq!(words(super::system_call as *const () as usize), expected);
}

#[test]
fn every_face_of_a_system_call_calls_the_one_function() {
    let one = super::system_call as *const () as usize;
    for (name, face) in system_call_faces() {
        let code = words(face as usize);
        assert!(!code.contains(&0xd400_0001), "{name}");
        let at = |index: usize| face as usize + 4 * index;
        let calls = (0..code.len()).filter(|&index| target(code[index], at(index)) == Some(one));
        assert_eq!(calls.count(), 1, "{name}");
    }
}

/// Where a `bl` at `address` goes.
fn target(word: u32, address: usize) -> Option<usize> {
    let offset = (((word << 6) as i32) >> 6) as isize * 4;
    (word >> 26 == 0b10_0101).then(|| address.wrapping_add_signed(offset))
}

/// Whether a word is a load or a store: bits 27 and 25 say so (Arm ARM C4.1).
fn is_memory(word: u32) -> bool {
    word >> 25 & 0b0101 == 0b0100
}

/// Checks that a turn is eight times the call of the second loop, which ends by adding the result;
/// returns the callee, if the call is a `bl`.
fn check_calls(name: &str, calls: Loop, sum: u32) -> Option<usize> {
    let body = words(calls as usize);
    let turns = turns(&body);
    assert_eq!(turns.len(), 2, "{name}");
    let (start, turn) = turns[0];
    assert_eq!((calls as usize + start * 4) % 64, 0, "{name} is not aligned");
    // The last word counts.
    let (_, single) = turns[1].1.split_last().expect("a loop has its control");
    let length = single.len();
    assert_eq!(turn.len(), 8 * length + 1, "{name}");
    let mut callees = vec![];
    let calls_of = |start: usize, words: &[u32]| -> Vec<Option<usize>> {
        let address = |at: usize| calls as usize + (start + at) * 4;
        (0..words.len()).map(|at| target(words[at], address(at))).collect()
    };
    for (index, call) in turn[..8 * length].chunks(length).enumerate() {
        assert_eq!(call[length - 1], sum, "{name}");
        let targets = calls_of(start + index * length, call);
        callees.extend(targets.iter().flatten().copied());
        for (at, (&word, &expected)) in call.iter().zip(single).enumerate() {
            assert!(targets[at].is_some() || word == expected, "{name}: word {at}");
        }
    }
    callees.extend(calls_of(turns[1].0, single).into_iter().flatten());
    let direct = !single.contains(&BLR_X21);
    assert_eq!(callees.len(), if direct { 9 } else { 0 }, "{name}");
    callees.dedup();
    assert!(callees.len() <= 1, "{name} calls several procedures");
    assert!(callees.iter().all(|callee| callee % 64 == 0), "{name}: {callees:#x?}");
    callees.first().copied()
}

#[test]
fn a_direct_call_passes_arguments_in_registers_and_its_callee_loads_what_its_frame_says() {
    for argument in [ArgumentType::I32, ArgumentType::I64, ArgumentType::F32, ArgumentType::F64] {
        let sum = match argument {
            ArgumentType::I32 | ArgumentType::I64 => ADD_X19_X0,
            ArgumentType::F32 | ArgumentType::F64 => ADD_D24_D0,
        };
        for arguments in 0..=MAX_ARGUMENTS {
            let in_registers = arguments.min(8);
            let on_stack = arguments - in_registers;
            for frame in [Frame::Registers, Frame::Spilled] {
                let kind = CallKind::Direct { arguments, argument, frame };
                let name = format!("{kind:?}");
                let callee = check_calls(&name, loop_of(kind).unwrap(), sum).unwrap();
                let touches = words(callee).into_iter().filter(|word| is_memory(*word)).count();
                // What came in a register is stored and read again, or stays there.
                let in_frame = if frame == Frame::Spilled { 2 * in_registers } else { 0 };
                assert_eq!(touches, on_stack + in_frame, "{name}");
            }
        }
    }
}

#[test]
fn the_other_calls_take_the_way_that_they_are_named_after() {
    let plain = check_calls(
        "direct",
        loop_of(CallKind::Direct {
            arguments: 1,
            argument: ArgumentType::I64,
            frame: Frame::Registers,
        })
        .unwrap(),
        ADD_X19_X0,
    )
    .unwrap();
    let indirect = loop_of(CallKind::Indirect).unwrap();
    assert_eq!(check_calls("indirect", indirect, ADD_X19_X0), None);
    let turn = &words(indirect as usize);
    assert_eq!(turns(turn)[0].1[..3], [MOV_W0_1, BLR_X21, ADD_X19_X0]);

    let linkage = loop_of(CallKind::Plt).unwrap();
    let stub = check_calls("linkage", linkage, ADD_X19_X0).unwrap();
    assert_ne!(stub, plain);
    let stub = words(stub);
    assert_eq!((stub.len(), stub[3]), (4, BR_X17));

    let structure = loop_of(CallKind::Struct).unwrap();
    let callee = check_calls("structure", structure, ADD_X19_X0).unwrap();
    assert_eq!(words(callee).len(), 5);
}

mod peak;
mod stream;
