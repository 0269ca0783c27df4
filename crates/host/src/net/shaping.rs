//! Traffic shaping: queueing disciplines that let out no more than so much, as the kernel lists
//! them by rtnetlink (linux/pkt_sched.h), or as a recorded machine's bytes of those lists do.

use metal::netlink::{self, List, attributes, messages};
use record::order::InOrder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A queueing discipline that shapes, delays or filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shaper {
    /// Its kind: `tbf`, `htb`, `clsact`.
    pub kind: String,
    /// Where it stands.
    pub place: Place,
    /// What it lets out at most, in bit/s, of whole frames without preamble, check sum and gap. Of
    /// `htb` what the class of unclassified packets may take, by its own ceiling and those above;
    /// none where they are not shaped. None of kinds whose rate is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_second: Option<u64>,
    /// At what rate a burst goes, where that has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bits_per_second: Option<u64>,
    /// What may go at once after a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_bytes: Option<u64>,
    /// Classes of `htb`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
}

/// Where a queueing discipline stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// All that goes out passes it.
    Root,
    /// Below another discipline or a class: some of what goes out passes it.
    Below,
    /// It filters what comes in, and what goes out in the case of `clsact`.
    Filter,
}

/// A class of `htb`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// `1:10`, in hexadecimal as tc(8) spells it.
    pub id: String,
    /// The class above; none at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it is granted, in bit/s.
    pub bits_per_second: u64,
    /// What it may borrow up to, in bit/s.
    pub ceiling_bits_per_second: u64,
    /// What may go at once at the rate granted.
    pub burst_bytes: u64,
    /// Takes what no filter classified.
    pub is_default: bool,
}

/// Kinds that shape, delay or drop on purpose; others share out what there is.
const SHAPING: [&str; 6] = ["tbf", "htb", "hfsc", "cake", "netem", "cbs"];
/// Kinds that only hold filters.
const FILTERING: [&str; 2] = ["ingress", "clsact"];

/// Attributes of a discipline or class, and of the kinds' own options.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_PEAK64: u16 = 5;
const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
/// Invalid parents.
const ROOT: u32 = 0xffff_ffff;
/// A tick of burst times (PSCHED_SHIFT of include/net/pkt_sched.h).
const TICK_NS: u64 = 64;

/// A discipline or class of a list.
struct Entry<'bytes> {
    interface: u32,
    handle: u32,
    parent: u32,
    kind: String,
    options: &'bytes [u8],
}

/// What shapes the traffic of this process's network namespace, by the interface's index.
pub(super) fn live() -> BTreeMap<u32, Vec<Shaper>> {
    let disciplines = netlink::list(List::Queueing).unwrap_or_default();
    let with_classes = entries(&disciplines).filter(|entry| entry.kind == "htb");
    let mut interfaces: Vec<u32> = with_classes.map(|entry| entry.interface).collect();
    interfaces.dedup();
    let classes: Vec<u8> = interfaces
        .into_iter()
        .flat_map(|interface| netlink::list(List::Classes(interface)).unwrap_or_default())
        .collect();
    of(&disciplines, &classes)
}

/// The same of the bytes of both lists.
pub(super) fn of(disciplines: &[u8], classes: &[u8]) -> BTreeMap<u32, Vec<Shaper>> {
    let classes: Vec<Entry> = entries(classes).collect();
    let mut found: BTreeMap<u32, Vec<Shaper>> = BTreeMap::new();
    for entry in entries(disciplines) {
        let kind = entry.kind.as_str();
        if SHAPING.contains(&kind) || FILTERING.contains(&kind) {
            let shaper = entry.shaper(&classes);
            found.entry(entry.interface).or_default().push(shaper);
        }
    }
    found
}

fn entries(list: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    messages(list).filter_map(|(_, body)| {
        let attribute = |wanted: u16| {
            let mut all = attributes(body.get(20..)?);
            all.find(|(kind, _)| *kind == wanted).map(|(_, body)| body)
        };
        let kind = String::from_utf8_lossy(attribute(KIND)?);
        Some(Entry {
            interface: word(body, 4)?,
            handle: word(body, 8)?,
            parent: word(body, 12)?,
            kind: kind.trim_end_matches('\0').to_owned(),
            options: attribute(OPTIONS).unwrap_or_default(),
        })
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A rate in B/s: of a `struct tc_ratespec`, or in 64 bits where it is too high for that.
fn rate(parameters: &[u8], at: usize, wide: Option<&[u8]>) -> Option<u64> {
    let wide = wide.and_then(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)));
    let rate = wide.or_else(|| word(parameters, at + 8).map(u64::from));
    rate.filter(|rate| *rate > 0)
}

/// Bytes that go in so many ticks.
fn burst(rate: u64, ticks: u32) -> u64 {
    let bytes = u128::from(rate) * u128::from(u64::from(ticks) * TICK_NS) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn id(handle: u32) -> String {
    format!("{:x}:{:x}", handle >> 16, handle & 0xffff)
}

impl Entry<'_> {
    fn option(&self, wanted: u16) -> Option<&[u8]> {
        attributes(self.options).find(|(kind, _)| *kind == wanted).map(|(_, body)| body)
    }

    fn shaper(&self, classes: &[Entry<'_>]) -> Shaper {
        let place = match self.parent {
            _ if FILTERING.contains(&self.kind.as_str()) => Place::Filter,
            ROOT => Place::Root,
            _ => Place::Below,
        };
        let bare = Shaper {
            kind: self.kind.clone(),
            place,
            bits_per_second: None,
            peak_bits_per_second: None,
            burst_bytes: None,
            classes: Vec::new(),
        };
        let told = match self.kind.as_str() {
            "tbf" => self.bucket(&bare),
            "htb" => self.hierarchy(&bare, classes),
            _ => None,
        };
        told.unwrap_or(bare)
    }

    /// `struct tc_tbf_qopt`: rate, peak rate, limit, burst and peak burst.
    fn bucket(&self, bare: &Shaper) -> Option<Shaper> {
        let parameters = self.option(TBF_PARMS)?;
        let limit = rate(parameters, 0, self.option(TBF_RATE64))?;
        let peak = rate(parameters, 12, self.option(TBF_PEAK64));
        Some(Shaper {
            bits_per_second: Some(8 * limit),
            peak_bits_per_second: peak.map(|peak| 8 * peak),
            burst_bytes: Some(burst(limit, word(parameters, 28)?)),
            ..bare.clone()
        })
    }

    /// `struct tc_htb_glob` has the minor number of the class for packets that nothing classified.
    fn hierarchy(&self, bare: &Shaper, classes: &[Entry<'_>]) -> Option<Shaper> {
        let default = word(self.option(HTB_INIT)?, 8)?;
        let default = self.handle & 0xffff_0000 | default & 0xffff;
        let own = classes.iter().filter(|class| {
            class.interface == self.interface && class.handle >> 16 == self.handle >> 16
        });
        let mut classes: Vec<Class> = own.filter_map(|class| class.class(default)).collect();
        classes.order_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
        let mut above: Vec<&Class> = Vec::new();
        let mut next = classes.iter().find(|class| class.is_default);
        while let Some(class) = next.filter(|_| above.len() < classes.len()) {
            above.push(class);
            next = class.parent.as_ref().and_then(|parent| {
                let mut all = classes.iter();
                all.find(|class| class.id == *parent)
            });
        }
        Some(Shaper {
            bits_per_second: above.iter().map(|class| class.ceiling_bits_per_second).min(),
            burst_bytes: above.first().map(|class| class.burst_bytes),
            classes,
            ..bare.clone()
        })
    }

    /// `struct tc_htb_opt`: rate, ceiling, and the bursts of both.
    fn class(&self, default: u32) -> Option<Class> {
        let parameters = self.option(HTB_PARMS)?;
        let granted = rate(parameters, 0, self.option(HTB_RATE64))?;
        let ceiling = rate(parameters, 12, self.option(HTB_CEIL64))?;
        Some(Class {
            id: id(self.handle),
            parent: (self.parent != ROOT && self.parent & 0xffff != 0).then(|| id(self.parent)),
            bits_per_second: 8 * granted,
            ceiling_bits_per_second: 8 * ceiling,
            burst_bytes: burst(granted, word(parameters, 24)?),
            is_default: self.handle == default,
        })
    }
}

impl Shaper {
    /// As a sentence names it: `tbf 1000 Mbit/s`.
    pub fn name(&self) -> String {
        let rate = |bits: u64| format!("{} Mbit/s", (bits as f64 / 1e6 * 1e3).round() / 1e3);
        let mut text = self.kind.clone();
        if let Some(bits) = self.bits_per_second {
            text.push_str(&format!(" {}", rate(bits)));
        }
        if let Some(bits) = self.peak_bits_per_second {
            text.push_str(&format!(", bursts at {}", rate(bits)));
        }
        if let Some(class) = self.classes.iter().find(|class| class.is_default) {
            text.push_str(&format!(" (class {})", class.id));
        }
        text
    }
}

#[cfg(test)]
mod tests;
