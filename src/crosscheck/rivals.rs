//! The rivals: a line each.

use super::Rival;

/// Declares the list: each module is a file that exports `RIVAL`.
macro_rules! rivals {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        /// All rivals, in the order of a report.
        pub(crate) static RIVALS: &[&Rival] = &[$(&$module::RIVAL),*];
    };
}

rivals![
    perf,
    sysbench,
    multichase,
    tinymembench,
    core_to_core_latency,
    mlc,
];
