//! The first line of a record.

use crate::session::{Setup, round};
use anyhow::{Context, Result};
use record::event::{Calibration, Header, PeerHeader};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// The header of a record in which nothing is measured by this session itself.
///
/// # Errors
/// The clocks cannot be calibrated; a signal came.
pub fn header_alone(setup: &Setup, stop: &AtomicBool) -> Result<Header> {
    let calibration = round::calibrate(setup, stop).context("the clocks cannot be calibrated")?;
    let environment = crate::host::environment::tags(&setup.site.host);
    header(setup, environment, &calibration)
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

/// The header of a run.
pub(super) fn header(
    setup: &Setup,
    environment: BTreeMap<String, String>,
    calibration: &Calibration,
) -> Result<Header> {
    Ok(Header {
        format: record::FORMAT,
        plumb: env!("CARGO_PKG_VERSION").to_owned(),
        rustc: env!("PLUMB_RUSTC").to_owned(),
        profile: env!("PLUMB_PROFILE").to_owned(),
        target: env!("PLUMB_TARGET").to_owned(),
        target_features: env!("PLUMB_TARGET_FEATURES").to_owned(),
        build: env!("PLUMB_MEASURING").to_owned(),
        run: setup.name.clone(),
        started: now(),
        seed: setup.seed,
        options: setup.options.clone(),
        cpus: setup.site.cpus.clone(),
        identity: setup.site.host.identity.hash.clone(),
        host: serde_json::to_value(&setup.site.host).context("the host does not serialise")?,
        peers: peers(setup),
        environment,
        calibration: calibration.clone(),
    })
}
