//! Every machine of tests/hosts can be planned for and predicted, or is refused with a reason.

use crate::FAMILIES;
use bench::experiment::Preset;
use session::fixtures::{check_machine, trees};

#[test]
fn every_machine_has_a_plan_and_ranges_in_order_or_is_refused() {
    for (name, root) in trees() {
        println!("{name}");
        let other_arch = host::Host::read(&root).cpu.other_arch;
        let checked = check_machine(FAMILIES, &root, Preset::Standard).map_err(|why| why.0);
        match other_arch {
            Some(arch) => assert!(checked.is_err_and(|why| why.contains(&arch)), "{name}"),
            None => assert!(matches!(checked, Ok(100..)), "{name}: {checked:?}"),
        }
    }
}
