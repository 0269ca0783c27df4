//! Selectors: which experiments and cases a user asked for.

use crate::setup::Usage;
use bench::experiment::{AnyExperiment, Card, Domain, Family, Role};
use record::key::{CaseId, FAR, Value};
use record::quantity::parse_integer;

#[derive(Clone, Debug, Default)]
pub struct Selection {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    negated: bool,
    /// It may find no case.
    optional: bool,
    pattern: String,
    filter: Vec<(String, Vec<Allowed>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    Exactly(Value),
    AllBut(Value),
    Between(u64, u64),
}

impl Selection {
    /// Parses selectors (`family`, `id`, `id:param=v1,v2|!v3|lo..hi,param2=…`, globs, `!negation`)
    /// against the catalogue. A `?` behind a filter permits that no case passes; the selectors of
    /// the published reports have it. Errors: a selector that matches nothing, or a filter on what the
    /// experiment does not have.
    pub fn parse(texts: &[String], families: &[&Family]) -> Result<Self, Usage> {
        let rules = texts.iter().map(|text| rule(text, families)).collect::<Result<_, _>>()?;
        Ok(Selection { rules })
    }

    pub fn wants(&self, family: &Family, card: &Card) -> bool {
        let named = |rule: &Rule| rule.matches(family, card);
        let asked = self.rules.iter().any(|rule| !rule.negated && named(rule));
        let by_default = !family.hidden && self.rules.iter().all(|rule| rule.negated);
        let refused =
            self.rules.iter().any(|rule| rule.negated && rule.filter.is_empty() && named(rule));
        (asked || by_default) && !refused
    }

    pub fn wants_case(&self, family: &Family, card: &Card, case: &CaseId) -> bool {
        let meant = |rule: &&Rule| rule.matches(family, card) && rule.passes(case);
        let mut positive = self.rules.iter().filter(|rule| !rule.negated).peekable();
        let asked = positive.peek().is_none() || positive.any(|rule| meant(&rule));
        asked && !self.rules.iter().filter(|rule| rule.negated).any(|rule| meant(&rule))
    }

    /// Whether an experiment, or a case of it, is wanted; never one that is not in the catalogue.
    pub fn means(&self, families: &[&Family], id: &str, case: Option<&CaseId>) -> bool {
        experiments(families).any(|(family, experiment)| {
            let card = experiment.card();
            card.id == id
                && self.wants(family, card)
                && case.is_none_or(|case| self.wants_case(family, card, case))
        })
    }

    /// What selectors with a `?` name in an experiment although no case of it passes: the values that
    /// each selector states. The far end is loopback or `peer`.
    pub fn unmet<'case>(
        &self,
        family: &Family,
        card: &Card,
        cases: impl Iterator<Item = &'case CaseId> + Clone,
    ) -> Vec<CaseId> {
        let optional = self.rules.iter().filter(|rule| rule.optional && rule.matches(family, card));
        let unmet = optional.filter(|rule| !cases.clone().any(|case| rule.passes(case)));
        unmet.map(Rule::case).collect()
    }

    /// Whether every selector that names parameters of this experiment's cases ends in `?`.
    pub fn may_be_unmet(&self, family: &Family, card: &Card) -> bool {
        let own = |rule: &&Rule| !rule.filter.is_empty() && rule.matches(family, card);
        self.rules.iter().filter(own).all(|rule| rule.optional)
    }

    /// Whether a selector names parameters of this experiment's cases.
    pub fn filters(&self, family: &Family, card: &Card) -> bool {
        self.rules.iter().any(|rule| !rule.filter.is_empty() && rule.matches(family, card))
    }
}

impl Rule {
    fn matches(&self, family: &Family, card: &Card) -> bool {
        self.pattern == family.name || glob(&self.pattern, card.id)
    }

    fn passes(&self, case: &CaseId) -> bool {
        self.filter.iter().all(|(name, allowed)| {
            case.get(name).is_some_and(|value| allowed.iter().any(|allowed| allowed.admits(value)))
        })
    }

    fn case(&self) -> CaseId {
        let stated = self.filter.iter().filter_map(|(name, allowed)| match &allowed[..] {
            [Allowed::Exactly(value)] => Some((name.clone(), value.clone())),
            [Allowed::AllBut(_)] if name == FAR => Some((name.clone(), Value::from("peer"))),
            _ => None,
        });
        CaseId(stated.collect())
    }
}

impl Allowed {
    fn admits(&self, value: &Value) -> bool {
        match self {
            Allowed::Exactly(wanted) => wanted == value,
            Allowed::AllBut(unwanted) => unwanted != value,
            Allowed::Between(low, high) => {
                value.int().is_some_and(|value| (*low..=*high).contains(&value))
            }
        }
    }
}

fn rule(text: &str, families: &[&Family]) -> Result<Rule, Usage> {
    let (negated, body) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (pattern, filter) = parted(body, ':');
    let required = filter.and_then(|filter| filter.strip_suffix('?'));
    let (optional, filter) = (required.is_some(), required.or(filter));
    let mut rule = Rule { negated, optional, pattern: pattern.to_owned(), filter: Vec::new() };
    let cards = experiments(families).map(|(family, experiment)| (family, experiment.card()));
    let matched: Vec<&Card> =
        cards.filter(|(family, card)| rule.matches(family, card)).map(|(_, card)| card).collect();
    let Some(first) = matched.first() else {
        return Err(Usage(format!(
            "unknown experiment or family `{pattern}`{} `plumb list` shows all",
            near(pattern, families)
        )));
    };
    if let Some(filter) = filter {
        if matched.len() > 1 {
            return Err(Usage(format!(
                "`{text}` applies a filter to {} experiments: name one, for example {}:{filter}",
                matched.len(),
                first.id
            )));
        }
        rule.filter = parse_filter(filter, first)?;
    }
    Ok(rule)
}

pub(crate) fn experiments<'all>(
    families: &'all [&'all Family],
) -> impl Iterator<Item = (&'all Family, &'static dyn AnyExperiment)> {
    let listed = |family: &'all Family| family.experiments.iter().map(move |one| (family, *one));
    families.iter().copied().flat_map(listed)
}

/// What stands before the first of a letter, and behind it where there is one.
pub fn parted(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

fn parse_filter(text: &str, card: &Card) -> Result<Vec<(String, Vec<Allowed>)>, Usage> {
    let mut filter: Vec<(String, Vec<Allowed>)> = Vec::new();
    for token in text.split([',', '|']) {
        let value = match token.split_once('=') {
            Some((name, value)) => {
                filter.push((name.to_owned(), Vec::new()));
                value
            }
            None => token,
        };
        let Some((name, allowed)) = filter.last_mut() else {
            return Err(Usage(format!(
                "the filter `{text}` does not start with a parameter: type for example {}:{}=VALUE",
                card.id,
                case_params(card).first().copied().unwrap_or("param")
            )));
        };
        allowed.push(parse_allowed(value, name, card)?);
    }
    Ok(filter)
}

fn parse_allowed(text: &str, name: &str, card: &Card) -> Result<Allowed, Usage> {
    let Some(param) =
        card.params.iter().find(|param| param.name == name && param.role == Role::Case)
    else {
        let setting = card.params.iter().any(|param| param.name == name);
        let way_out = match case_params(card).join(", ") {
            _ if setting => format!(
                "`{name}` is a setting, not a parameter of its cases: type --set {}.{name}={text}",
                card.id
            ),
            names if names.is_empty() => "its only case has no parameters".to_owned(),
            names => format!("it has {names}"),
        };
        return Err(Usage(format!("{} has no case parameter `{name}`: {way_out}", card.id)));
    };
    if let Some((low, high)) = text.split_once("..") {
        let end = |text: &str, default| {
            if text.is_empty() { Ok(default) } else { parse_integer(text).map_err(Usage) }
        };
        return Ok(Allowed::Between(end(low, 0)?, end(high, u64::MAX)?));
    }
    let (value, allowed): (_, fn(Value) -> Allowed) = match text.strip_prefix('!') {
        Some(value) => (value, Allowed::AllBut),
        None => (text, Allowed::Exactly),
    };
    crate::params::parse_value(value, param)
        .map(allowed)
        .map_err(|reason| Usage(format!("{}:{name}: {reason}", card.id)))
}

fn case_params(card: &Card) -> Vec<&'static str> {
    card.params.iter().filter(|param| param.role == Role::Case).map(|param| param.name).collect()
}

/// `; did you mean …?` for the nearest ids, or a colon. Hidden families are near to their own
/// names.
pub fn near(text: &str, families: &[&Family]) -> String {
    let names = families
        .iter()
        .filter(|family| !family.hidden || text.starts_with(family.name))
        .flat_map(|family| {
            std::iter::once(family.name).chain(family.experiments.iter().map(|e| e.card().id))
        });
    nearest(text, names)
}

/// `; did you mean …?` for the nearest of some names, or a colon.
pub fn nearest<'name>(text: &str, names: impl Iterator<Item = &'name str>) -> String {
    names
        // A name much shorter than what was typed is alike by chance, unless it begins it.
        .filter(|name| text.starts_with(name) || 2 * name.len() >= text.len())
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map_or_else(|| ":".to_owned(), |(_, name)| format!("; did you mean `{name}`?"))
}

/// Shell-like matching with `*` and `?`: on a mismatch, the last `*` takes one letter more.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, read) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

pub fn domain_text(domain: &Domain) -> String {
    let span = |low: u64, high: u64, unit: record::unit::Unit| match unit {
        record::unit::Unit::B => format!(
            "{}..{}",
            record::quantity::render_bytes(low as f64).replace(' ', ""),
            record::quantity::render_bytes(high as f64).replace(' ', "")
        ),
        record::unit::Unit::Ns => {
            let time = |ns| humantime::format_duration(std::time::Duration::from_nanos(ns));
            format!("{}..{}", time(low), time(high)).replace(' ', "")
        }
        _ => format!("{low}..{high}"),
    };
    match domain {
        Domain::Symbols(symbols) => symbols.join(", "),
        Domain::Text => "a path or a URL".to_owned(),
        Domain::Name(names) => format!("{} or a name", names.join(", ")),
        Domain::Integer { low, high, unit } => span(*low, *high, *unit),
        Domain::Either(symbols, low, high, unit) => {
            format!("{} or {}", symbols.join(", "), span(*low, *high, *unit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Selection, glob};
    use catalogue::FAMILIES;
    use record::key::CaseId;

    fn check(selectors: &[&str], wanted: &[&str], unwanted: &[&str]) {
        let texts: Vec<String> = selectors.iter().map(|text| (*text).to_owned()).collect();
        let selection = Selection::parse(&texts, FAMILIES).expect("the selectors are good");
        let wants = |id: &str| selection.means(FAMILIES, id, None);
        for id in wanted {
            assert!(wants(id), "{selectors:?} should take {id}");
        }
        for id in unwanted {
            assert!(!wants(id), "{selectors:?} should leave {id}");
        }
    }

    #[test]
    fn selectors_choose_experiments() {
        check(&[], &["clock.read", "memory.latency"], &["selftest.echo"]);
        check(&["clock"], &["clock.read", "clock.rate"], &["memory.latency"]);
        check(&["selftest.echo"], &["selftest.echo"], &["clock.read"]);
        check(&["*.r*"], &["clock.read", "clock.rate"], &["clock.loop"]);
        check(&["!clock"], &["memory.latency"], &["clock.read", "selftest.echo"]);
        check(&["clock", "!clock.rate"], &["clock.read"], &["clock.rate"]);
    }

    #[test]
    fn filters_choose_cases() {
        let texts = ["memory.latency:pattern=random,footprint=4KiB|1MiB..2MiB".to_owned()];
        let selection = Selection::parse(&texts, FAMILIES).expect("good");
        let case = |pattern: &str, footprint: u64| {
            CaseId::new().with("pattern", pattern).with("footprint", footprint)
        };
        for (case, wanted) in [
            (case("random", 4096), true),
            (case("random", 8192), false),
            (case("random", 1 << 20), true),
            (case("random", 2 << 20), true),
            (case("forward", 4096), false),
        ] {
            assert_eq!(selection.means(FAMILIES, "memory.latency", Some(&case)), wanted, "{case}");
        }
    }

    #[test]
    fn what_an_optional_selector_does_not_find_is_named() {
        let texts = [
            "net.rtt:far=!loopback,protocol=tcp?",
            "net.rtt:far=loopback?",
            "net.rtt:protocol=udp",
        ];
        let texts = texts.map(str::to_owned);
        let selection = Selection::parse(&texts, FAMILIES).expect("good");
        let family = FAMILIES.iter().find(|family| family.name == "net").expect("is there");
        let card = catalogue::find("net.rtt").expect("is there").card();
        let case = |far: &str| CaseId::new().with("far", far).with("protocol", "tcp");
        let unmet = |cases: &[CaseId]| selection.unmet(family, card, cases.iter());
        assert_eq!(unmet(&[case("lab"), case("loopback")]), []);
        assert_eq!(unmet(&[case("loopback")]), [case("peer")]);
        assert!(!selection.may_be_unmet(family, card), "one of them has no mark");
        let optional = Selection::parse(&texts[..2], FAMILIES).expect("good");
        assert!(optional.may_be_unmet(family, card));
    }

    #[test]
    fn bad_selectors_say_what_to_type() {
        for (text, part) in [
            ("memory.latencies", "did you mean `memory.latency`?"),
            ("nonsense", "plumb list"),
            ("network", "did you mean `net`?"),
            ("memory.latency:size=3", "it has pattern"),
            ("memory.latency:pattern=zigzag", "random"),
            ("memory.latency:4096", "does not start with a parameter"),
            ("clock:pattern=random", "name one"),
        ] {
            let error = Selection::parse(&[text.to_owned()], FAMILIES).expect_err(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        // Two letters of six.
        let error = Selection::parse(&["nosuch".to_owned()], FAMILIES).expect_err("is none");
        assert!(!error.to_string().contains("`os`"), "{error}");
    }

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.read", "clock.read", true),
            ("abc", "abcd", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }
}
