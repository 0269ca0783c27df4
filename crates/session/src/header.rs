//! The first line of a record, and the last one.

use crate::setup::Setup;
use anyhow::{Context, Result};
use record::event::{Calibration, End, Footer, Header, PeerHeader};
use std::time::{Instant, SystemTime};

/// What built the binary that runs.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    pub rustc: &'static str,
    pub profile: &'static str,
    pub target: &'static str,
    pub target_features: &'static str,
    /// A digest of the sources that measure.
    pub measuring: &'static str,
}

/// Now, RFC 3339 in UTC.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// What the header says of the far ends.
pub(super) fn peers(setup: &Setup) -> Vec<PeerHeader> {
    let remotes = setup.remotes.values();
    remotes.map(|remote| remote.header()).collect()
}

/// The last line of a record whose last part began then, and what the process took for it.
pub fn footer(began: Instant, end: End) -> Footer {
    let usage = metal::process::rusage_self();
    Footer {
        finished: now(),
        elapsed_s: began.elapsed().as_secs_f64(),
        end,
        counter_drift: None,
        eta_after_first_pass_s: None,
        session_cpu_s: (usage.utime_ns + usage.stime_ns) as f64 * 1e-9,
        // Not `ru_maxrss` where it can be helped: it survives exec, so it would show the peak of the
        // program that started plumb.
        session_peak_bytes: metal::process::peak_resident_bytes().unwrap_or(usage.maxrss),
        synced: Default::default(),
        programs: Vec::new(),
    }
}

/// The header of a record, which is written before the clocks are calibrated.
pub fn header(setup: &Setup) -> Result<Header> {
    Ok(Header {
        format: record::FORMAT,
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        rustc: setup.build.rustc.to_owned(),
        profile: setup.build.profile.to_owned(),
        target: setup.build.target.to_owned(),
        target_features: setup.build.target_features.to_owned(),
        build: setup.build.measuring.to_owned(),
        run: setup.name.clone(),
        started: now(),
        seed: setup.seed,
        options: setup.options.clone(),
        cpus: setup.site.cpus.clone(),
        identity: setup.site.host.identity.hash.clone(),
        host: setup.site.host.to_json().context("the host does not serialise")?,
        peers: peers(setup),
        environment: host::environment::tags(&setup.site.host),
        estimates: setup.estimates.clone(),
        calibration: Calibration::default(),
    })
}
