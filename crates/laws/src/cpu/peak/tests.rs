use super::units::{starts, units};
use super::{Arithmetic, Element, Op, peak_bound};
use bench::experiment::fixtures::{bare_site, sites};
use host::Core;

#[test]
fn units_that_a_kernel_needs_exist_in_every_row() {
    for core in Core::ALL {
        for arithmetic in Arithmetic::all() {
            let Some((range, _)) = starts(*core, arithmetic) else { continue };
            assert!(range.low > 0.0 && range.likely <= 6.0, "{}", core.name());
        }
    }
    let bare = bare_site();
    let scalar = Arithmetic::widest(&bare, Op::Add, Element::F64).unwrap();
    assert_eq!(peak_bound(&bare, scalar, 1), None);
    // The widths that a recorded machine has, its row has too.
    for site in sites() {
        if units(crate::cpu::core(&site)).is_none() {
            continue;
        }
        for arithmetic in Arithmetic::all().filter(|kernel| kernel.is_at(&site)) {
            let row = starts(crate::cpu::core(&site), arithmetic);
            assert!(row.is_some(), "{arithmetic:?}");
        }
    }
}
