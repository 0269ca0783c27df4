//! What two threads, or a thread and the kernel, do with each other.

use super::{turns, words};
use crate::arch::aarch64::{fault, line};

const MOV_X13_X9: u32 = 0xaa09_03ed;
const CASAL_X13_X12_X0: u32 = 0xc8ed_fc0c;
const CMP_X13_X9: u32 = 0xeb09_01bf;
const LDAXR_X13_X0: u32 = 0xc85f_fc0d;
const STLXR_W14_X12_X0: u32 = 0xc80e_fc0c;
const CLREX: u32 = 0xd503_3f5f;
const SUBS_X11_1: u32 = 0xf100_056b;
const STRB_W8_X1: u32 = 0x3900_0028;
const ADD_X8_1: u32 = 0x9100_0508;
const CMP_X8_X0: u32 = 0xeb00_011f;

/// A word that is a branch forward of any kind, whose offset is the assembler's.
fn is_branch(word: u32) -> bool {
    word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000
}

/// The inner loop of a game, without its branches.
fn look(body: *const ()) -> Vec<u32> {
    let code = words(body as usize);
    let turns = turns(&code);
    assert_eq!(turns.len(), 2);
    assert_eq!((body as usize + turns[1].0 * 4) % 64, 0, "not aligned");
    let look = turns[0].1.iter().copied();
    look.filter(|word| !is_branch(*word)).collect()
}

#[test]
fn a_look_at_a_line_is_one_compare_and_swap() {
    assert_eq!(
        look(line::turns_casal as *const ()),
        [MOV_X13_X9, CASAL_X13_X12_X0, CMP_X13_X9, SUBS_X11_1]
    );
    assert_eq!(
        look(line::turns_exclusive as *const ()),
        [LDAXR_X13_X0, CMP_X13_X9, STLXR_W14_X12_X0, CLREX, SUBS_X11_1]
    );
}

#[test]
fn a_fault_is_one_store() {
    let code = words(fault::fault_stores as *const () as usize);
    let turns = turns(&code);
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].1, [STRB_W8_X1, ADD_X8_1, CMP_X8_X0]);
}
