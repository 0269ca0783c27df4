//! A strict reader of the text: what both formats ask for, and nothing else.

use record::plain::steers;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    /// Its unit; empty for counts.
    pub unit: String,
    pub help: String,
    pub samples: Vec<(BTreeMap<String, String>, f64)>,
}

/// Reads a text of gauges, or says what is wrong with it: lines in the order `TYPE`, `UNIT`,
/// `HELP`, samples; every family once; every series once; names and labels of the alphabet; escapes
/// that both formats know; no time stamps; finite values; `# EOF` at the end and nowhere else.
///
/// # Errors
/// What is wrong, with its line.
pub fn read(text: &str) -> Result<BTreeMap<String, Family>, String> {
    if let Some(at) = text.find(|letter| letter != '\n' && steers(letter)) {
        return Err(format!("a character that steers, after {} bytes", at));
    }
    let body = text.strip_suffix("# EOF\n").ok_or("does not end in # EOF")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut series = BTreeSet::new();
    let mut current = String::new();
    for line in body.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(comment) = line.strip_prefix("# ") {
            let (keyword, rest) = comment.split_once(' ').ok_or_else(|| wrong("comment"))?;
            let (name, value) = rest.split_once(' ').ok_or_else(|| wrong("comment"))?;
            if keyword == "TYPE" {
                if families.contains_key(name) || !is_name(name) {
                    return Err(wrong("family"));
                }
                current = name.to_owned();
            }
            let family = families.entry(name.to_owned()).or_default();
            if name != current || !family.samples.is_empty() {
                return Err(wrong("not with its family"));
            }
            let has_order = match keyword {
                "TYPE" => value == "gauge",
                "UNIT" => name.ends_with(&format!("_{value}")) && family.help.is_empty(),
                "HELP" => family.help.is_empty() && is_help(value),
                _ => false,
            };
            if !has_order || value.is_empty() {
                return Err(wrong("comment"));
            }
            let field = match keyword {
                "TYPE" => &mut family.kind,
                "UNIT" => &mut family.unit,
                _ => &mut family.help,
            };
            value.clone_into(field);
            continue;
        }
        let (name, rest) = line.split_once('{').ok_or_else(|| wrong("sample"))?;
        let (labels, rest) = labels(rest).ok_or_else(|| wrong("labels"))?;
        let value = rest.strip_prefix(' ').ok_or_else(|| wrong("space"))?;
        let value: f64 = number(value).ok_or_else(|| wrong("value"))?;
        let family = families.get_mut(name).filter(|_| name == current);
        let family = family.ok_or_else(|| wrong("not with its family"))?;
        if !value.is_finite() || family.help.is_empty() {
            return Err(wrong("sample"));
        }
        if !series.insert((name.to_owned(), labels.clone())) {
            return Err(wrong("series twice"));
        }
        family.samples.push((labels, value));
    }
    Ok(families)
}

/// A number by the grammar that both formats share, without `NaN` and the infinities.
fn number(text: &str) -> Option<f64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = |text: &'_ str| text.strip_prefix('-').unwrap_or(text).to_owned();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mantissa = unsigned(mantissa);
    let (whole, part) = mantissa.split_once('.').unwrap_or((&mantissa, "0"));
    let is_number = digits(whole) && digits(part) && digits(&unsigned(exponent));
    text.parse().ok().filter(|_| is_number)
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_lowercase())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn is_help(text: &str) -> bool {
    !text.contains('"') && text.replace("\\\\", "").find('\\').is_none()
}

/// `name="text",…}` and what follows.
fn labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut found = BTreeMap::new();
    if let Some(after) = rest.strip_prefix('}') {
        return Some((found, after));
    }
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let mut text = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => text.push('\n'),
                    escaped @ ('\\' | '"') => text.push(escaped),
                    _ => return None,
                },
                (_, letter) => text.push(letter),
            }
        };
        let is_new = found.insert(name.to_owned(), text).is_none();
        if !is_name(name) || name.starts_with("__") || !is_new {
            return None;
        }
        rest = &after[end + 1..];
        match rest.split_at_checked(1)? {
            (",", after) => rest = after,
            ("}", after) => return Some((found, after)),
            _ => return None,
        }
    }
}
