//! Facts given by the user with `--set host.<path>=value`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Facts given by the user, as a data sheet would state them. Values are in the base unit of the
/// fact's [`Fact::unit`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Given {
    facts: BTreeMap<String, GivenFact>,
}

/// One given fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GivenFact {
    /// As the user wrote it.
    pub text: String,
    /// In the base unit.
    pub value: f64,
}

/// An accepted name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// Name after `host.`, as `disk.read`.
    pub name: &'static str,
    /// Base unit.
    pub unit: Unit,
    /// What it is.
    pub doc: &'static str,
}

/// Base unit of a given fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes per second; accepts `550MB/s`, `1.2GB/s`, `900MiB/s`.
    BytesPerSecond,
    /// Bits per second; accepts `10Gb/s`, `2.5Gbit/s`, `1000Mbps`.
    BitsPerSecond,
    /// Hertz; accepts `4.2GHz`.
    Hertz,
    /// Bytes; accepts `32KiB`, `1MB`.
    Bytes,
    /// Nanoseconds; accepts `80ns`, `0.1ms`.
    Nanoseconds,
    /// Operations per second; accepts `90k`, `1.2M`, `90000/s`, `90kIOPS`.
    PerSecond,
    /// Millions of transfers per second; accepts `3200`, `3200MT/s`.
    MegaTransfers,
    /// A plain number.
    Count,
}
