//! The rivals: a line each.

use super::Rival;

mod loopback;

/// Declares the list: each module is a file that exports `RIVAL`.
macro_rules! rivals {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        pub static RIVALS: &[&Rival] = &[$(&$module::RIVAL),*];
    };
}

rivals![
    hpcc, stream, likwid, multichase, perf, stress_ng, iperf3, sockperf, ping, fio, iozone,
    cyclictest, lmbench,
];

/// What of a rival nothing of plumb's stands beside: a program or what it can be asked, and why.
pub fn not_compared(rival: &Rival) -> &'static [(&'static str, &'static str)] {
    match rival.name {
        "lmbench" => lmbench::NOT_COMPARED,
        _ => &[],
    }
}
