//! Model, features and names: `/proc/cpuinfo` and CPUID.

use record::order::{Gather, InOrder};
use std::collections::BTreeMap;

use super::Outside;
use crate::CpuidLeaf;
use crate::text::words;

/// `/proc/cpuinfo`, cut into processors.
pub(super) struct CpuInfo {
    /// Processor number -> field -> value. Fields before the first `processor` line and after the
    /// last blank line (old Arm kernels) belong to no processor and are kept in `common`.
    processors: BTreeMap<usize, BTreeMap<String, String>>,
    common: BTreeMap<String, String>,
}

pub(super) fn parse(text: &str) -> CpuInfo {
    let mut info = CpuInfo { processors: BTreeMap::new(), common: BTreeMap::new() };
    let mut current: Option<usize> = None;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            current = None;
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if name == "processor" {
            current = value.parse().ok();
        }
        let fields = match current {
            Some(id) => info.processors.entry(id).or_default(),
            None => &mut info.common,
        };
        fields.insert(name.to_string(), value.to_string());
    }
    info
}

impl CpuInfo {
    /// Numbers of the processors it lists: the online ones.
    pub(super) fn ids(&self) -> Vec<usize> {
        self.processors.keys().copied().collect()
    }

    pub(super) fn field(&self, id: usize, name: &str) -> Option<&str> {
        self.processors.get(&id)?.get(name).map(String::as_str)
    }

    /// Gives the processors the kernel's numbers where they have others: LXCFS counts those of a
    /// container from 0. Each is the CPU in its place among those that may be used; where there are
    /// more or fewer of these, all are as the first.
    pub(super) fn renumber(&mut self, usable: Vec<usize>) {
        if usable.iter().all(|id| self.processors.contains_key(id)) {
            return;
        }
        let mut shown: Vec<_> = std::mem::take(&mut self.processors).into_values().collect();
        if shown.len() != usable.len() {
            shown = shown.into_iter().take(1).cycle().take(usable.len()).collect();
        }
        self.processors = usable.into_iter().zip(shown).gather();
    }

    /// A field of the first processor that has it, not empty and not `unknown`.
    pub(super) fn first(&self, name: &str) -> Option<String> {
        let mut fields = self.processors.values().chain([&self.common]);
        let value = fields.find_map(|fields| fields.get(name))?;
        (!value.is_empty() && value != "unknown").then(|| value.clone())
    }

    /// Such a field as a decimal number.
    pub(super) fn first_number(&self, name: &str) -> Option<u32> {
        self.first(name)?.parse().ok()
    }
}

/// Features of the first processor, sorted.
pub(super) fn flags(info: &CpuInfo) -> Vec<String> {
    let text = info.first("flags").or_else(|| info.first("Features")).unwrap_or_default();
    let mut flags = words(&text);
    flags.order();
    flags.dedup();
    flags
}

/// Family, model and stepping as CPUID 1 EAX packs them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Signature {
    pub(super) family: u32,
    pub(super) model: u32,
    pub(super) stepping: u32,
}

/// Unpacks CPUID 1 EAX (Intel SDM 2A, CPUID; AMD APM 3, E.3.2).
pub(super) fn signature(eax: u32) -> Signature {
    let base_family = eax >> 8 & 0xf;
    let base_model = eax >> 4 & 0xf;
    let extended = base_family == 0xf || base_family == 6;
    Signature {
        family: if base_family == 0xf { base_family + (eax >> 20 & 0xff) } else { base_family },
        model: if extended { base_model | (eax >> 16 & 0xf) << 4 } else { base_model },
        stepping: eax & 0xf,
    }
}

/// Brand string of CPUID 80000002h to 80000004h.
pub(super) fn brand(outside: &Outside) -> Option<String> {
    let mut bytes = Vec::new();
    for leaf in 0x8000_0002..=0x8000_0004 {
        let leaf = outside.leaf(leaf, 0)?;
        bytes.extend([leaf.eax, leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat());
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(['\0', ' ']).to_string();
    (!text.is_empty()).then_some(text)
}

/// Rows of a subleaf's register and of what its bits stand for.
macro_rules! features {
    ($($subleaf:literal $register:ident: $($bit:literal $name:literal),*;)*) => {
        &[$($(($subleaf, |leaf| leaf.$register, $bit, $name),)*)*]
    };
}

/// Subleaf of leaf 7, register, bit, name.
type Feature = (u32, fn(CpuidLeaf) -> u32, u32, &'static str);

/// Features that distinguish designs and that older kernels do not print (Intel SDM 2A, CPUID;
/// Intel ISA extensions reference).
const FEATURES: &[Feature] = features! {
    0 ebx: 5 "avx2", 16 "avx512f", 29 "sha_ni";
    0 edx: 8 "avx512_vp2intersect", 15 "hybrid_cpu", 22 "amx_bf16", 23 "avx512_fp16",
        24 "amx_tile", 25 "amx_int8";
    1 eax: 0 "sha512", 4 "avx_vnni", 5 "avx512_bf16", 7 "cmpccxadd", 10 "fzrm", 11 "fsrs",
        12 "fsrc", 21 "amx_fp16", 23 "avx_ifma";
    1 edx: 4 "avx_vnni_int8", 5 "avx_ne_convert", 8 "amx_complex", 10 "avx_vnni_int16",
        14 "prefetchi", 19 "avx10";
};

/// The features of [`FEATURES`] that CPUID sets, sorted.
pub(super) fn cpuid_features(outside: &Outside) -> Vec<String> {
    let set = |&&(subleaf, register, bit, _): &&Feature| {
        outside.leaf(7, subleaf).is_some_and(|leaf| register(leaf) >> bit & 1 == 1)
    };
    let mut names: Vec<String> = FEATURES.iter().filter(set).map(|row| row.3.to_string()).collect();
    names.order();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_unpack() {
        let check = |eax, family, model, stepping| {
            assert_eq!(signature(eax), Signature { family, model, stepping });
        };
        check(0x000a_0671, 6, 167, 1);
        check(0x00a0_0f11, 0x19, 1, 1);
        check(0x0009_0672, 6, 0x97, 2);
    }

    #[test]
    fn cpuinfo_is_cut_into_processors() {
        let info =
            parse("processor\t: 0\nmodel\t\t: 1\n\nprocessor\t: 1030\nmodel : 2\n\nHardware : X\n");
        assert_eq!(info.ids(), [0, 1030]);
        assert_eq!(info.field(1030, "model"), Some("2"));
        assert_eq!(info.first_number("model"), Some(1));
        assert_eq!(info.first("Hardware").as_deref(), Some("X"));
    }
}
