//! Facts given by the user with `--set host.<path>=value`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Facts given by the user, as a data sheet would state them. Values are in the base unit of the
/// fact's [`Fact::unit`]. What is read of a file is checked as what is typed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, GivenFact>", try_from = "BTreeMap<String, GivenFact>")]
pub struct Given {
    facts: BTreeMap<String, GivenFact>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GivenFact {
    pub text: String,
    /// In the base unit.
    pub value: f64,
}

impl From<Given> for BTreeMap<String, GivenFact> {
    fn from(given: Given) -> Self {
        given.facts
    }
}

impl TryFrom<BTreeMap<String, GivenFact>> for Given {
    type Error = GivenError;

    fn try_from(facts: BTreeMap<String, GivenFact>) -> Result<Given, GivenError> {
        let mut given = Given::default();
        for (name, fact) in facts {
            given.set(&name, &fact.text)?;
        }
        Ok(given)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// Name after `host.`, as `disk.read`.
    pub name: &'static str,
    pub unit: Unit,
    /// Least and greatest value that any machine has, in the base unit.
    pub range: (f64, f64),
    pub doc: &'static str,
}

/// Units with their name, a value that each accepts, and others.
macro_rules! units {
    ($($unit:ident $name:literal $example:literal $doc:literal,)*) => {
        /// Base unit of a given fact.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Unit {
            $(#[doc = $doc] $unit,)*
        }

        impl Unit {
            /// Name of the base unit.
            pub fn name(self) -> &'static str {
                match self { $(Unit::$unit => $name,)* }
            }

            /// A value that it accepts.
            pub fn example(self) -> &'static str {
                match self { $(Unit::$unit => $example,)* }
            }
        }
    };
}

units! {
    BytesPerSecond "B/s" "550MB/s" "Bytes per second; accepts `1.2GB/s`, `900MiB/s` too.",
    BitsPerSecond "bit/s" "10Gbit/s" "Bits per second; accepts `2.5Gb/s`, `1000Mbps` too.",
    Hertz "Hz" "4.2GHz" "Hertz.",
    Bytes "B" "32KiB" "Bytes; accepts `1MB` too.",
    Nanoseconds "ns" "80us" "Nanoseconds; accepts `80ns`, `0.1ms` too.",
    PerSecond "op/s" "90k" "Operations per second; accepts `90000/s`, `90kIOPS` too.",
    MegaTransfers "MT/s" "3200" "Millions of transfers per second; accepts `3200MT/s` too.",
    Count "count" "8" "A plain number.",
}

/// Rows of name, base unit, least and greatest value, and what it is.
macro_rules! facts {
    ($($name:literal $unit:ident $least:literal $most:literal $doc:literal,)*) => {
        &[$(Fact { name: $name, unit: Unit::$unit, range: ($least, $most), doc: $doc },)*]
    };
}

/// Every name that `--set host.<name>=value` accepts.
pub const FACTS: &[Fact] = facts! {
    "cpu.base_hz" Hertz 1e8 1e10 "base frequency of a core",
    "cpu.max_hz" Hertz 1e8 1e10 "highest core frequency (single-core turbo)",
    "cpu.all_core_hz" Hertz 1e8 1e10 "core frequency when all cores work",
    "cpu.cores" Count 1.0 1e5 "physical cores behind this system's CPUs",
    "cpu.tenants" Count 1.0 8.0 "programs or guests at work on one core, this run included",
    "cpu.fma_units" Count 1.0 64.0 "vector fused multiply-add units per core",
    "cpu.vector_bits" Count 32.0 65_536.0 "width of one vector unit, in bits",
    // The largest sold: 192 KiB (Apple), 36 MiB (IBM Telum II), and 2 GiB, the virtual level 4 of an IBM z16's drawer.
    "cache.l1d" Bytes 1024.0 1.1e6 "level 1 data cache of one core",
    "cache.l2" Bytes 4096.0 6.8e7 "level 2 cache of one core",
    "cache.l3" Bytes 16_384.0 2.2e9 "last-level cache that one core can fill",
    "memory.mts" MegaTransfers 50.0 1e5 "configured transfer rate of the memory modules",
    "memory.channels" Count 1.0 1e4 "populated memory channels (64-bit) in all sockets",
    "memory.latency" Nanoseconds 1.0 1e6 "load-to-use latency of local memory",
    "memory.bandwidth" BytesPerSecond 1e7 1e15 "peak memory bandwidth of all sockets",
    "disk.read" BytesPerSecond 1e4 1e13 "sequential read rate of the disk under --dir",
    "disk.write" BytesPerSecond 1e4 1e13 "sequential write rate of the disk under --dir",
    "disk.read_iops" PerSecond 1.0 1e10 "random 4 KiB reads per second at full queue",
    "disk.write_iops" PerSecond 1.0 1e10 "random 4 KiB writes per second at full queue",
    "disk.read_latency" Nanoseconds 100.0 1e11 "one random 4 KiB read, queue depth 1",
    "disk.write_latency" Nanoseconds 100.0 1e11 "one 4 KiB write, queue depth 1",
    "disk.flush_latency" Nanoseconds 100.0 1e11 "one cache flush",
    "disk.cache" Bytes 512.0 1e14 "cache in the disk or its controller",
    "disk.rpm" Count 100.0 1e5 "revolutions per minute of a rotating disk",
    "net.rate" BitsPerSecond 1e3 1e14 "rate of the link to the peer",
    "net.shaped_rate" BitsPerSecond 1e3 1e14
        "rate of a shaper on the way (tbf, htb), which counts frames without preamble, check sum and gap",
    "net.mtu" Bytes 68.0 1e6 "smallest MTU on the way to the peer",
    "net.rtt" Nanoseconds 10.0 1e12 "round trip to the peer",
};

/// Why a fact was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    #[error("unknown fact host.{name}; similar: {}", near.join(", "))]
    UnknownName {
        /// What the user wrote after `host.`.
        name: String,
        /// Accepted names that look alike, nearest first.
        near: Vec<String>,
    },
    /// The value does not fit the unit.
    #[error("host.{name}={text} has the wrong kind of value; write it like {example}")]
    BadValue {
        name: String,
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// No machine has that value.
    #[error("host.{name}={text} is {text} {}; did you mean {meant}?", unit.name())]
    OutOfRange {
        name: String,
        /// What the user wrote, without a unit.
        text: String,
        unit: Unit,
        /// A value that would be accepted: the same number with a prefix, else an example.
        meant: String,
    },
}

impl Given {
    /// Takes one fact. `name` with or without the leading `host.`. Errors: when the name is not in
    /// [`FACTS`] or the value does not parse in its unit.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), GivenError> {
        let name = name.strip_prefix("host.").unwrap_or(name);
        let Some(fact) = FACTS.iter().find(|fact| fact.name == name) else {
            return Err(GivenError::UnknownName { name: name.to_string(), near: near(name) });
        };
        let Some(value) = fact.unit.parse(text) else {
            let (name, text) = (name.to_string(), text.to_string());
            return Err(GivenError::BadValue { name, text, example: fact.unit.example() });
        };
        if !(fact.range.0..=fact.range.1).contains(&value) {
            let (name, text) = (name.to_string(), fact.number(text).to_owned());
            let meant = fact.meant(&text);
            return Err(GivenError::OutOfRange { name, text, unit: fact.unit, meant });
        }
        self.facts.insert(name.to_string(), GivenFact { text: text.to_string(), value });
        Ok(())
    }

    /// A given value in the base unit of its fact.
    pub fn value(&self, name: &str) -> Option<f64> {
        debug_assert!(FACTS.iter().any(|fact| fact.name == name), "{name} is not in the table");
        self.facts.get(name).map(|fact| fact.value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &GivenFact)> {
        self.facts.iter().map(|(name, fact)| (name.as_str(), fact))
    }
}

impl Fact {
    /// What was typed without the base unit.
    fn number<'text>(&self, text: &'text str) -> &'text str {
        text.trim().trim_end_matches(self.unit.name()).trim_end()
    }

    /// The same number with the prefix that puts it into the range, else an example.
    fn meant(&self, number: &str) -> String {
        let with = |prefix: &&str| match self.unit {
            Unit::Nanoseconds => format!("{number}{prefix}"),
            unit => format!("{number}{prefix}{}", unit.name()),
        };
        let is_in = |text: &String| {
            let value = self.unit.parse(text);
            value.is_some_and(|value| (self.range.0..=self.range.1).contains(&value))
        };
        let prefixes: &[&str] = match self.unit {
            Unit::Nanoseconds => &["ns", "us", "ms", "s"],
            Unit::Bytes => &["Ki", "Mi", "Gi"],
            Unit::BytesPerSecond => &["M", "G", "k"],
            _ => &["G", "M", "k"],
        };
        let found = prefixes.iter().map(with).find(is_in);
        found.unwrap_or_else(|| self.unit.example().to_owned())
    }
}

impl Unit {
    /// Text in the base unit; positive and finite, else `None`.
    fn parse(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..end].parse().ok()?;
        let factor = self.factor(text[end..].trim())?;
        let value = number * factor;
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// What a suffix multiplies by. An empty suffix is the base unit.
    fn factor(self, suffix: &str) -> Option<f64> {
        if suffix.is_empty() {
            return Some(1.0);
        }
        let stripped = |ends: &[&str]| ends.iter().find_map(|end| suffix.strip_suffix(end));
        match self {
            Unit::BytesPerSecond => prefix(stripped(&["B/s"])?),
            Unit::BitsPerSecond => prefix(stripped(&["bit/s", "b/s", "bps"])?),
            Unit::Hertz => prefix(stripped(&["Hz"])?),
            Unit::Bytes => prefix(stripped(&["B"])?),
            Unit::PerSecond => prefix(stripped(&["IOPS", "op/s", "/s"]).unwrap_or(suffix)),
            Unit::MegaTransfers => (suffix == "MT/s").then_some(1.0),
            Unit::Count => None,
            Unit::Nanoseconds => match suffix {
                "ns" => Some(1.0),
                "us" | "µs" => Some(1e3),
                "ms" => Some(1e6),
                "s" => Some(1e9),
                _ => None,
            },
        }
    }
}

/// Decimal and binary prefixes.
fn prefix(text: &str) -> Option<f64> {
    let prefixes = [("", 1.0), ("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    let binary = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let binary = binary.map(|(name, bits)| (name, (1_u64 << bits) as f64));
    let mut all = prefixes.iter().chain(&binary);
    all.find(|(name, _)| *name == text).map(|(_, factor)| *factor)
}

/// The three accepted names nearest by edit distance, preferring those of the same group.
fn near(name: &str) -> Vec<String> {
    let group = name.split('.').next().unwrap_or(name);
    let rank = |fact: &Fact| {
        let same_group = fact.name.split('.').next() == Some(group);
        (strsim::levenshtein(name, fact.name) + if same_group { 0 } else { 4 }, fact.name)
    };
    let mut ranked: Vec<(usize, &str)> = FACTS.iter().map(rank).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(3).map(|(_, name)| format!("host.{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (n, fact) in FACTS.iter().enumerate() {
            assert!(fact.name.contains('.') && !fact.doc.is_empty());
            assert!(FACTS[..n].iter().all(|other| other.name != fact.name), "{} twice", fact.name);
            assert!(fact.unit.parse(fact.unit.example()).is_some(), "{}", fact.name);
        }
    }

    #[test]
    fn values_reach_the_base_unit() {
        let check = |name: &str, text: &str, value: f64| {
            let mut given = Given::default();
            assert_eq!(given.set(name, text), Ok(()), "{name}={text}");
            let found = given.value(name.trim_start_matches("host.")).expect("it was set");
            assert!((found - value).abs() <= value * 1e-12, "{name}={text}: {found}");
        };
        check("host.disk.read", "550MB/s", 550e6);
        check("disk.write", "1.5GiB/s", 1.5 * f64::from(1u32 << 30));
        check("cpu.max_hz", "4.2GHz", 4.2e9);
        check("cpu.max_hz", "4200000000", 4.2e9);
        check("memory.mts", "3200MT/s", 3200.0);
        check("memory.channels", "8", 8.0);
        check("net.rate", "2.5Gbit/s", 2.5e9);
        check("net.rtt", "0.1 ms", 1e5);
        check("disk.read_iops", "90k", 9e4);
        check("disk.read_iops", "90kIOPS", 9e4);
        check("cache.l2", "2MiB", 2_097_152.0);
    }

    #[test]
    fn refusals_help() {
        let mut given = Given::default();
        let unknown = given.set("host.disk.reads", "1").expect_err("there is no such fact");
        let GivenError::UnknownName { near, .. } = unknown else { panic!("{unknown}") };
        assert_eq!(near[0], "host.disk.read");
        for text in ["", "fast", "-1GHz", "4.2GB/s", "0", "1..2GHz", "inf"] {
            let (name, text, example) = ("cpu.max_hz".to_owned(), text.to_owned(), "4.2GHz");
            let refused = given.set(&name, &text);
            assert_eq!(refused, Err(GivenError::BadValue { name, text, example }));
        }
        for (name, text, unit, meant) in [
            ("cpu.max_hz", "4.2", Unit::Hertz, "4.2GHz"),
            ("cache.l1d", "32", Unit::Bytes, "32KiB"),
            ("disk.read_latency", "80", Unit::Nanoseconds, "80us"),
            ("disk.read", "550", Unit::BytesPerSecond, "550MB/s"),
            ("memory.mts", "3", Unit::MegaTransfers, "3200"),
        ] {
            let refused = given.set(name, text);
            let (name, text, meant) = (name.to_owned(), text.to_owned(), meant.to_owned());
            assert_eq!(refused, Err(GivenError::OutOfRange { name, text, unit, meant }));
        }
        assert_eq!(given, Given::default());
    }

    #[test]
    fn facts_of_a_file_have_the_same_ranges() {
        let read = |text: &str| {
            let file = format!(r#"{{"cpu.max_hz": {{"text": "{text}", "value": 4.2e9}}}}"#);
            serde_json::from_str::<Given>(&file).map(|given| given.value("cpu.max_hz"))
        };
        assert_eq!(read("4.2GHz").unwrap(), Some(4.2e9));
        assert!(read("4.2").is_err());
    }
}
