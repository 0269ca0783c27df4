//! The unbroken reading of the counter.

use super::{ISB, SUBS_X0_1, check_loops};
use crate::arch::aarch64::gaps;

const MRS_X12_CNTVCT: u32 = 0xd53b_e04c;
const MOV_X13_X9: u32 = 0xaa09_03ed;
const MOV_X9_X12: u32 = 0xaa0c_03e9;
const SUB_X12_X13: u32 = 0xcb0d_018c;
const CMP_X12_X1: u32 = 0xeb01_019f;
/// To the first store, four words on.
const B_HS: u32 = 0x5400_0082;
const B_NE_BACK: u32 = 0x54ff_ff01;
const B: u32 = 0x1400_0005;
const STP_X13_X9_X10: u32 = 0xa881_254d;
const CMP_X10_X11: u32 = 0xeb0b_015f;

#[test]
fn a_turn_is_one_read_and_one_compare_and_stores_stand_beside_it() {
    let turn =
        [ISB, MRS_X12_CNTVCT, MOV_X13_X9, MOV_X9_X12, SUB_X12_X13, CMP_X12_X1, B_HS, SUBS_X0_1];
    // What a gap adds, from the loop's decrement to the way back to it.
    let gap = [SUBS_X0_1, B_NE_BACK, B, STP_X13_X9_X10, CMP_X10_X11];
    check_loops("gaps", gaps::gaps_turns as _, &turn, Some(&gap));
}
