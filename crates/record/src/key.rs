//! The identity of a figure: experiment, case and metric, all symbolic and host-independent.

use crate::shared::Shared;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// A parameter's value: an integer in base units (bytes, count, ns) or a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// An integer in base units.
    Int(u64),
    /// A symbol such as `huge`, `L2` or `all`.
    Text(String),
}

impl Value {
    pub fn int(&self) -> Option<u64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Text(_) => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Int(_) => None,
            Value::Text(text) => Some(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(out, "{value}"),
            Value::Text(text) => out.write_str(text),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

/// Named values: what symbols resolved to, settings, quantities.
pub trait Put<T> {
    fn put(&mut self, name: &str, value: impl Into<T>);

    fn put_known(&mut self, name: &str, value: Option<impl Into<T>>);
}

impl<T> Put<T> for BTreeMap<String, T> {
    fn put(&mut self, name: &str, value: impl Into<T>) {
        self.insert(name.to_owned(), value.into());
    }

    fn put_known(&mut self, name: &str, value: Option<impl Into<T>>) {
        self.extend(value.map(|value| (name.to_owned(), value.into())));
    }
}

/// The parameter by which older records say where a thread ran that waits for a device: where the
/// scheduler placed it (`free`, now the only way, which keys no longer name), on the CPU that takes
/// the device's interrupts (`interrupt`), or on another (`other`).
const PLACEMENT: &str = "placement";

/// The parameter that says which far end a case is measured against.
pub const FAR: &str = "far";
/// Its value for a far end on this host.
pub const LOOPBACK: &str = "loopback";

/// Experiments whose cases all wait for a device.
const WAITING: [&str; 7] =
    ["fs.cache_size", "fs.contention", "fs.io", "fs.metadata", "fs.read", "fs.remote", "fs.sync"];
/// Experiments whose cases against another host do.
const WAITING_AFAR: [&str; 6] =
    ["net.bandwidth", "net.connect", "net.loaded", "net.ping", "net.request", "net.rtt"];
/// Experiment, parameter and values: only the cases with one of these values do.
const WAITING_CASES: (&str, &str, [&str; 3]) =
    ("memory.fault", "fault", ["page", "random", "window"]);

/// The symbolic parameters of a case, in the card's order. Written as a JSON object, or as the
/// canonical text `pattern=random,pages=huge,footprint=65536`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseId(pub Shared<Vec<(String, Value)>>);

impl CaseId {
    /// An empty identity: an experiment's only case.
    pub fn new() -> Self {
        CaseId::default()
    }

    /// Adds one parameter, builder style.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, value)| value)
    }

    /// The key of a case as it is named now: where the scheduler placed a thread, it says nothing.
    pub fn complete(&mut self) {
        if self.text(PLACEMENT) == Some("free") {
            *self = self.unplaced();
        }
    }

    /// The case without the placement that older records name.
    #[must_use]
    pub fn unplaced(&self) -> CaseId {
        let others = self.0.iter().filter(|(name, _)| name != PLACEMENT);
        CaseId(others.cloned().collect())
    }

    /// Whether threads of a case of an experiment wait for a device. The scheduler places them, on
    /// any CPU of the run; migrations are expected.
    pub fn waits_for_device(&self, experiment: &str) -> bool {
        let (id, name, values) = WAITING_CASES;
        let is_one = || self.text(name).is_some_and(|value| values.contains(&value));
        // Where the far end alone is named, all of its cases are meant.
        let is_afar = || self.0.len() > 1 && self.text(FAR).is_some_and(|far| far != LOOPBACK);
        WAITING.contains(&experiment)
            || WAITING_AFAR.contains(&experiment) && is_afar()
            || experiment == id && is_one()
    }

    pub fn int(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::int)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::text)
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(out, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for CaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for CaseId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = CaseId;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of parameters")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CaseId, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(CaseId(entries.into()))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CaseId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Case".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <BTreeMap<String, Value>>::json_schema(generator)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Key {
    /// Experiment id, `family.file`.
    pub experiment: String,
    /// The case's symbolic parameters.
    pub case: CaseId,
    /// Metric name.
    pub metric: String,
}

impl Key {
    pub fn new(experiment: &str, case: &CaseId, metric: &str) -> Self {
        Key { experiment: experiment.to_owned(), case: case.clone(), metric: metric.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.case.0.is_empty() {
            write!(out, "{} {}", self.experiment, self.metric)
        } else {
            write!(out, "{}:{} {}", self.experiment, self.case, self.metric)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CaseId, Key};

    #[test]
    fn a_case_keeps_its_order_through_json() {
        let case = CaseId::new().with("pattern", "random").with("footprint", 65536).with("a", "b");
        let json = serde_json::to_string(&case).expect("serialises");
        assert_eq!(json, r#"{"pattern":"random","footprint":65536,"a":"b"}"#);
        let back: CaseId = serde_json::from_str(&json).expect("parses");
        assert_eq!(back, case);
        assert_eq!(back.to_string(), "pattern=random,footprint=65536,a=b");
        assert_eq!(back.int("footprint"), Some(65536));
        assert_eq!(back.text("footprint"), None);
        let key = Key::new("memory.latency", &case, "latency");
        assert_eq!(key.to_string(), "memory.latency:pattern=random,footprint=65536,a=b latency");
    }
}
