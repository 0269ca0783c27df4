//! Which rivals a user means: `NAME`, `NAME:GLOB` of their pairings, `!NAME` (without it).

use crate::turns::Wanted;
use crate::{RIVALS, Rival};
use session::select::glob;
use session::setup::Usage;

/// The rivals that were named, each with its pairings; all without names.
///
/// # Errors
/// A name that no rival has.
pub fn chosen(names: &[String]) -> Result<Vec<(&'static Rival, Wanted)>, Usage> {
    let rules: Vec<(bool, String, String)> = names
        .iter()
        .map(|text| {
            let (is_refused, rest) = match text.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let (name, pairing) = rest.split_once(':').unwrap_or((rest, "*"));
            (is_refused, name.to_owned(), pairing.to_owned())
        })
        .collect();
    for (_, name, _) in &rules {
        if !RIVALS.iter().any(|rival| glob(name, rival.name)) {
            let known: Vec<&str> = RIVALS.iter().map(|rival| rival.name).collect();
            return Err(Usage(format!("unknown tool `{name}`; plumb knows {}", known.join(", "))));
        }
    }
    let asks_all = rules.iter().all(|(is_refused, ..)| *is_refused);
    let mut chosen: Vec<(&'static Rival, Wanted)> = Vec::new();
    for rival in RIVALS {
        let of = |refused: bool| -> Vec<String> {
            let own = rules
                .iter()
                .filter(|(is_refused, name, _)| *is_refused == refused && glob(name, rival.name));
            own.map(|(_, _, pairing)| pairing.clone()).collect()
        };
        let (mut asked, refused) = (of(false), of(true));
        if asks_all {
            asked = vec!["*".to_owned()];
        }
        if asked.is_empty() || refused.iter().any(|pairing| pairing == "*") {
            continue;
        }
        let is_wanted = move |name: &str| {
            asked.iter().any(|pattern| glob(pattern, name))
                && !refused.iter().any(|pattern| glob(pattern, name))
        };
        chosen.push((rival, Box::new(is_wanted)));
    }
    Ok(chosen)
}
