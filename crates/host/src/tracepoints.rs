//! The kernel's tracepoints: their numbers and the layout of their records, from tracefs.

use record::order::Gather;
use std::collections::BTreeMap;

use super::Root;
use super::mountinfo::mounts;
use super::text::number;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its number, as perf events name it, and as the first two bytes of its records.
    pub id: u64,
    /// Written like this: `system/name`.
    pub name: String,
    fields: BTreeMap<String, Field>,
    symbols: BTreeMap<i64, String>,
}

/// Where a value lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset: usize,
    bytes: usize,
    is_signed: bool,
    /// The four bytes there say where the value lies: offset in the lower half, length in the
    /// upper.
    is_located: bool,
}

/// Where a tracefs can be read on this machine, without a leading slash: a mount of its own, or the
/// one inside debugfs. `None` where none is mounted or permissions forbid it.
pub fn mounted(root: &Root) -> Option<String> {
    let mountinfo = root.read("proc/self/mountinfo").unwrap_or_default();
    let points = mounts(&mountinfo).filter_map(|mount| {
        let point = mount.target.trim_start_matches('/');
        match mount.fs {
            "tracefs" => Some(point.to_owned()),
            "debugfs" => Some(format!("{point}/tracing")),
            _ => None,
        }
    });
    { points }.find(|point| Tracepoint::read(root, point, "sched/sched_switch").is_some())
}

impl Tracepoint {
    /// The tracepoint `name` (`sched/sched_switch`) of the tracefs at `tracefs`; `None` where the
    /// kernel has none of that name or permissions forbid it.
    pub fn read(root: &Root, tracefs: &str, name: &str) -> Option<Tracepoint> {
        let text = root.read(&format!("{tracefs}/events/{name}/format"))?;
        Some(Tracepoint {
            id: number(&text, "ID:")?,
            name: name.to_owned(),
            fields: text.lines().filter_map(field).collect(),
            symbols: symbols(&text),
        })
    }

    /// The number of the tracepoint that wrote a record.
    pub fn id_of(record: &[u8]) -> Option<u64> {
        let bytes = record.get(..2)?.try_into().ok()?;
        Some(u64::from(u16::from_ne_bytes(bytes)))
    }

    /// A number of a record; `None` where it has no such field.
    pub fn number(&self, record: &[u8], field: &str) -> Option<i64> {
        let field = self.fields.get(field)?;
        let bytes = record.get(field.offset..field.offset + field.bytes)?;
        if bytes.is_empty() || bytes.len() > 8 {
            return None;
        }
        // The lowest byte is the first on both architectures.
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let above = 64 - 8 * bytes.len();
        let is_negative = field.is_signed && number << above >> 63 == 1;
        Some(if is_negative { (number << above) as i64 >> above } else { number as i64 })
    }

    /// A text of a record, up to its first zero byte.
    pub fn text(&self, record: &[u8], field: &str) -> Option<String> {
        let place = self.fields.get(field)?;
        let (from, bytes) = match place.is_located {
            true => {
                let place = u32::try_from(self.number(record, field)?).ok()?;
                ((place & 0xffff) as usize, (place >> 16) as usize)
            }
            false => (place.offset, place.bytes),
        };
        let bytes = record.get(from..from + bytes)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// The kernel's own word for a value, where the layout has a list of them.
    pub fn symbol(&self, value: i64) -> Option<&str> {
        self.symbols.get(&value).map(String::as_str)
    }
}

/// Written like this: `\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;`
fn field(line: &str) -> Option<(String, Field)> {
    let line = line.trim().strip_prefix("field:")?;
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut value =
        |name: &str| -> Option<usize> { parts.next()?.strip_prefix(name)?.parse().ok() };
    let (offset, bytes) = (value("offset:")?, value("size:")?);
    let is_signed = value("signed:").is_some_and(|signed| signed != 0);
    let name = declaration.split_whitespace().last()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    let field =
        Field { offset, bytes, is_signed, is_located: declaration.starts_with("__data_loc") };
    Some((name.to_owned(), field))
}

/// `__print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })`: the only list of a format that has
/// one.
fn symbols(text: &str) -> BTreeMap<i64, String> {
    let list = text.split_once("__print_symbolic(").map_or("", |(_, list)| list);
    let pairs = list.split('{').skip(1).filter_map(|pair| {
        let (value, rest) = pair.split_once(',')?;
        let name = rest.split('"').nth(1)?;
        Some((value.trim().parse().ok()?, name.to_owned()))
    });
    pairs.gather()
}

#[cfg(test)]
mod tests {
    use super::{Tracepoint, mounted};
    use crate::Root;

    const TREE: &str = "== proc/self/mountinfo\n1 2 0:1 / /proc rw - proc p rw\n\
        3 2 0:7 / /sys/kernel/debug rw - debugfs d rw\n\
        == sys/kernel/debug/tracing/events/sched/sched_switch/format\nname: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        == sys/kernel/debug/tracing/events/irq/irq_handler_entry/format\nID: 225\n\
        \tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\
        == sys/kernel/debug/tracing/events/irq/softirq_entry/format\nID: 223\n\
        \tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\
        print fmt: \"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 7, \"SCHED\" })\n";

    fn read(name: &str) -> Tracepoint {
        let root = Root::tree(TREE);
        let tracefs = mounted(&root).expect("debugfs has it");
        assert_eq!(tracefs, "sys/kernel/debug/tracing");
        Tracepoint::read(&root, &tracefs, name).expect("it is there")
    }

    #[test]
    fn numbers_and_texts_lie_where_the_format_says() {
        let switch = read("sched/sched_switch");
        let mut record = vec![0u8; 28];
        record[..2].copy_from_slice(&372u16.to_ne_bytes());
        record[8..14].copy_from_slice(b"plumb\0");
        record[14] = b'x';
        record[24..28].copy_from_slice(&(-7i32).to_ne_bytes());
        assert_eq!(Tracepoint::id_of(&record), Some(switch.id));
        assert_eq!(switch.text(&record, "prev_comm").as_deref(), Some("plumb"));
        assert_eq!(switch.number(&record, "prev_pid"), Some(-7));
        assert_eq!(switch.number(&record, "common_type"), Some(372));
        assert_eq!(switch.number(&record, "next_pid"), None);
        assert_eq!(switch.number(&record[..26], "prev_pid"), None);
    }

    #[test]
    fn a_located_text_is_followed() {
        let entry = read("irq/irq_handler_entry");
        let mut record = vec![0u8; 16];
        record[12..16].copy_from_slice(&(5u32 << 16 | 16).to_ne_bytes());
        record.extend(b"eth0\0pad");
        assert_eq!(entry.text(&record, "name").as_deref(), Some("eth0"));
        record[12..16].copy_from_slice(&(500u32 << 16 | 16).to_ne_bytes());
        assert_eq!(entry.text(&record, "name"), None);
    }

    #[test]
    fn values_have_the_kernels_words() {
        let softirq = read("irq/softirq_entry");
        assert_eq!(softirq.symbol(7), Some("SCHED"));
        assert_eq!(softirq.symbol(3), None);
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        let root = Root::tree(TREE);
        assert_eq!(mounted(&Root::tree("")), None);
        assert_eq!(Tracepoint::read(&root, "sys/kernel/debug/tracing", "irq/none"), None);
    }
}
