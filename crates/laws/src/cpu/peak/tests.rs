use super::units::starts;
use super::{Arithmetic, Element, Op, Width, peak_bound};
use bench::experiment::fixtures::{bare_site, sites};
use host::Core;

#[test]
fn units_that_a_kernel_needs_exist_in_every_row() {
    for core in Core::ALL {
        for arithmetic in Arithmetic::all() {
            let Some((range, _)) = starts(*core, arithmetic) else { continue };
            assert!(range.low > 0.0 && range.likely <= 8.0, "{}", core.name());
        }
    }
    let bare = bare_site();
    let scalar = Arithmetic::widest(&bare, Op::Add, Element::F64).unwrap();
    assert_eq!(peak_bound(&bare, scalar, 1), None);
    // The widths that a recorded machine has, its row has too.
    for site in sites() {
        if starts(crate::cpu::core(&site), scalar).is_none() {
            continue;
        }
        for arithmetic in Arithmetic::all().filter(|kernel| kernel.is_at(&site)) {
            let row = starts(crate::cpu::core(&site), arithmetic);
            assert!(row.is_some(), "{arithmetic:?}");
        }
    }
}

/// What fills a row of 6 additions and 5 multiplications: a unit, both kinds' units, a chain's step.
#[test]
fn a_mix_is_as_fast_as_what_fills_its_row() {
    for (core, element, starts_a_cycle) in [
        (Core::Haswell, Element::F64, 11.0 / 6.0),
        (Core::SkylakeServer, Element::F64, 2.0),
        (Core::RedwoodCove, Element::F64, 3.0),
        (Core::Zen3, Element::F64, 11.0 / 3.0),
        (Core::SkylakeServer, Element::I64, 2.2),
        (Core::Zen5, Element::I64, 11.0 / 3.0),
    ] {
        let mix = Arithmetic { op: Op::Mix, element, width: Width::Scalar };
        let (range, is_firm) = starts(core, mix).expect("it is in the table");
        assert!((range.likely - starts_a_cycle).abs() < 1e-9, "{}: {range:?}", core.name());
        assert!(range.low <= range.likely && range.likely <= range.high && !is_firm);
    }
    let wide = Arithmetic { op: Op::Mix, element: Element::F64, width: Width::Avx2 };
    assert!(!wide.exists());
}

/// Cannon Lake and later clients have one unit at 64 bytes, servers mostly two; additions of
/// integers need neither.
#[test]
fn clients_have_one_wide_unit() {
    let fma = Arithmetic { op: Op::Fma, element: Element::F64, width: Width::Avx512 };
    let add = Arithmetic { op: Op::Add, element: Element::I64, width: Width::Avx512 };
    let likely = |core, arithmetic| starts(core, arithmetic).map(|(range, _)| range.likely);
    for (core, units) in [
        (Core::PalmCove, 1.0),
        (Core::WillowCove, 1.0),
        (Core::CypressCove, 1.0),
        (Core::SkylakeServer, 2.0),
        (Core::SunnyCove, 2.0),
    ] {
        assert_eq!((likely(core, fma), likely(core, add)), (Some(units), Some(2.0)), "{core:?}");
    }
}
