//! Core designs by number: `models.txt` (x86) and `parts.txt` (Arm).

use super::{Core, Cpu};

/// A row of `models.txt`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) core: Core,
    /// Small designs of the same chip, the low-power ones last.
    pub(super) small: Vec<Core>,
    pub(super) platform: Option<&'static str>,
}

/// A row of `parts.txt`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) core: Core,
    /// Beside other cores of a chip: 1 small, 2 middle, 3 big.
    pub(super) rank: u64,
}

fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(';').map(str::trim).collect::<Vec<_>>().try_into().ok())
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether a number is in `N` or `FIRST-LAST`.
fn spans(text: &str, value: u64) -> bool {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    number(first).zip(number(last)).is_some_and(|(first, last)| (first..=last).contains(&value))
}

/// The design of a machine's x86 model.
pub(super) fn model_of(cpu: &Cpu) -> Option<Model> {
    model(cpu.vendor.as_deref()?, cpu.family?, cpu.model?, cpu.stepping)
}

/// The design of an x86 model; `None` for a number that no row has.
fn model(vendor: &str, family: u32, model: u32, stepping: Option<u32>) -> Option<Model> {
    let holds = |word: &str| match word.split_once('/') {
        Some((one, steppings)) => {
            spans(one, model.into()) && stepping.is_some_and(|step| spans(steppings, step.into()))
        }
        None => spans(word, model.into()),
    };
    let mut all = rows(include_str!("models.txt"));
    let [.., core, small, platform] = all.find(|row: &[&str; 6]| {
        row[0] == vendor && spans(row[1], family.into()) && row[2].split(' ').any(holds)
    })?;
    Some(Model {
        core: Core::named(core),
        small: small.split(", ").filter(|name| !name.is_empty()).map(Core::named).collect(),
        platform: Some(platform).filter(|name| !name.is_empty()),
    })
}

/// The design of an Arm part; `None` for a number that no row has.
pub(super) fn part(implementer: u64, part: u64) -> Option<Part> {
    let mut all = rows(include_str!("parts.txt"));
    let [.., rank, core] = all.find(|row: &[&str; 5]| {
        spans(row[0], implementer) && row[2].split(' ').any(|word| spans(word, part))
    })?;
    Some(Part { core: Core::named(core), rank: number(rank)? })
}

/// The name of an Arm implementer.
pub(super) fn implementer(code: u64) -> Option<&'static str> {
    let mut all = rows(include_str!("parts.txt"));
    all.find(|row: &[&str; 5]| spans(row[0], code)).map(|row| row[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_designs_and_every_design_has_a_row() {
        let models = include_str!("models.txt");
        let parts = include_str!("parts.txt");
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows::<6>(models).count(), lines(models));
        assert_eq!(rows::<5>(parts).count(), lines(parts));
        let mut named: Vec<&str> = Vec::new();
        for [.., core, small, _] in rows::<6>(models) {
            named.push(core);
            named.extend(small.split(", "));
        }
        named.extend(rows::<5>(parts).map(|[.., core]| core));
        named.retain(|name| !name.is_empty());
        for name in &named {
            assert_ne!(Core::named(name), Core::Unknown, "{name}");
        }
        for core in Core::ALL.iter().filter(|core| **core != Core::Unknown) {
            assert!(named.contains(&core.name()), "{}", core.name());
        }
    }
}
