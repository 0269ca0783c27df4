//! Parameters: defaults by preset, `--set` applied, all checked against the card.

use crate::select::{Selection, domain_text, near, nearest, parted};
use crate::setup::Usage;
use bench::experiment::{Card, Catalogue, Domain, Param, Params, Preset, Role, find};
use record::key::Value;
use record::order::Gather;
use record::quantity::parse_integer;
use record::unit::Unit;
use std::collections::BTreeSet;

/// `ID.PARAM=VALUES` settings, checked to name parameters that exist. Facts of the host (`host.…`)
/// are separated by [`Settings::parse`].
#[derive(Clone, Debug, Default)]
pub struct Settings {
    entries: Vec<(String, String, Vec<Value>)>,
    /// `host.…` facts: name without `host.`, value as typed.
    pub facts: Vec<(String, String)>,
}

impl Settings {
    /// Parses what `--set` was given. Errors: an unknown experiment or parameter, or a value
    /// outside its domain.
    pub fn parse(texts: &[String], families: Catalogue) -> Result<Self, Usage> {
        let mut settings = Settings::default();
        for text in texts {
            let (path, values) = text.split_once('=').ok_or_else(|| {
                Usage(format!("`{text}` sets nothing: type ID.PARAM=VALUE, for example memory.latency.footprint=64KiB"))
            })?;
            if let Some(fact) = path.strip_prefix("host.") {
                settings.facts.push((fact.to_owned(), values.to_owned()));
                continue;
            }
            let (id, name) = path.rsplit_once('.').ok_or_else(|| {
                Usage(format!("`{path}` is not a parameter: type ID.PARAM=VALUE"))
            })?;
            let experiment = find(families, id).ok_or_else(|| {
                Usage(format!(
                    "`{text}`: unknown experiment `{id}`{} `plumb list` shows all",
                    near(id, families)
                ))
            })?;
            settings = settings.with(experiment.card(), name, values)?;
        }
        Ok(settings)
    }

    /// The same with a parameter of a card set, as `--set` takes it. Errors: an unknown parameter,
    /// or a value outside its domain.
    pub fn with(mut self, card: &Card, name: &str, values: &str) -> Result<Self, Usage> {
        let param = find_param(card, name)?;
        let values = parse_values(values, param)
            .map_err(|reason| Usage(format!("{}.{name}: {reason}", card.id)))?;
        let entry = (card.id.to_owned(), name.to_owned(), values);
        self.entries.push(entry);
        Ok(self)
    }

    /// Checks that a selection has every experiment that is set. Errors: one that it leaves out, where
    /// the setting would do nothing.
    pub fn reach(&self, selection: &Selection, families: Catalogue) -> Result<(), Usage> {
        match self.entries.iter().find(|(id, ..)| !selection.means(families, id, None)) {
            None => Ok(()),
            Some((id, name, _)) => Err(Usage(format!(
                "{id}.{name} is set, but {id} is not selected: omit the setting, or select the \
                 experiment, as `plumb run {id}` does"
            ))),
        }
    }

    /// What was set of an experiment: names with their values.
    pub fn set_of(&self, id: &str) -> impl Iterator<Item = (&str, &[Value])> {
        let of_id = self.entries.iter().filter(move |(of, ..)| of == id);
        of_id.map(|(_, name, values)| (name.as_str(), values.as_slice()))
    }

    pub fn params(&self, card: &'static Card, preset: Preset) -> Params {
        let values = card
            .params
            .iter()
            .map(|param| {
                let set = self
                    .entries
                    .iter()
                    .rev()
                    .find(|(id, name, _)| id == card.id && name == param.name)
                    .map(|(_, _, values)| values.clone());
                (param.name, set.unwrap_or_else(|| default_values(param, preset)))
            })
            .gather();
        let is_larger = preset > Preset::Quick;
        let quick = is_larger.then(|| Box::new(self.params(card, Preset::Quick)));
        Params { preset, values, only: None, quick }
    }
}

/// The default of a parameter; a law checks that every default parses.
fn default_values(param: &Param, preset: Preset) -> Vec<Value> {
    let text = match preset {
        Preset::Rehearsal | Preset::Quick => param.defaults[0],
        Preset::Standard => param.defaults[1],
        Preset::Thorough => param.defaults[2],
    };
    parse_values(text, param).unwrap_or_default()
}

/// Most values of a range, and cases of an experiment: more of them are a slip of the user's.
pub const RANGE_MOST: usize = 4096;

/// Parses a comma-separated list of values. `lo..hi` counts up by one, and doubles where the
/// parameter is a size; `lo..hi/step` goes up by a step. Errors: why a value is outside the
/// parameter's domain, and what the domain is.
pub fn parse_values(text: &str, param: &Param) -> Result<Vec<Value>, String> {
    if text == "auto" && param.defaults.contains(&"auto") {
        return Ok(vec![Value::from("auto")]);
    }
    if matches!(param.domain, Domain::Text) {
        return Ok(vec![Value::from(text)]);
    }
    let mut values = Vec::new();
    for token in text.split(',') {
        match (token.split_once(".."), param.domain.unit()) {
            (Some((low, high)), Some(unit)) => {
                for value in range(token, low, high, unit)? {
                    values.push(in_domain(Value::Int(value), token, param)?);
                }
            }
            _ => values.push(parse_value(token, param)?),
        }
    }
    // A case that is named twice is one case.
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.clone()));
    if param.role == Role::Setting && values.len() != 1 {
        return Err(format!("`{text}` has {} values, but the setting takes one", values.len()));
    }
    Ok(values)
}

/// The values of a range: by its step, else by the kind of its values. Errors: what to type.
fn range(token: &str, low: &str, high: &str, unit: Unit) -> Result<Vec<u64>, String> {
    let (high, step) = parted(high, '/');
    let step = step.map(|step| integer(step, unit)).transpose()?;
    let (low, high) = (integer(low, unit)?, integer(high, unit)?);
    let no_range = || format!("`{token}` is not a range: type low..high or low..high/step");
    let next = |value: &u64| match (step, unit) {
        (Some(step), _) => value.checked_add(step),
        (None, Unit::B) => value.checked_mul(2),
        (None, _) => value.checked_add(1),
    };
    if low > high || next(&low) == Some(low) {
        return Err(no_range());
    }
    let all = std::iter::successors(Some(low), next).take_while(|value| *value <= high);
    let values: Vec<u64> = all.take(RANGE_MOST + 1).collect();
    match values.len() {
        ..=RANGE_MOST => Ok(values),
        _ => Err(format!("`{token}` has more than {RANGE_MOST} values: type low..high/step")),
    }
}

/// Longest name that a user gives.
const NAME_MAX: usize = 64;

/// Parses one value. Errors: as [`parse_values`].
pub fn parse_value(token: &str, param: &Param) -> Result<Value, String> {
    let value = match param.domain {
        Domain::Symbols(_) | Domain::Text | Domain::Name(_) => Value::from(token),
        Domain::Integer { unit, .. } => integer(token, unit)
            .map(Value::Int)
            .map_err(|reason| format!("{reason}: it takes {}", domain_text(&param.domain)))?,
        Domain::Either(symbols, _, _, _) if symbols.contains(&token) => Value::from(token),
        Domain::Either(symbols, _, _, unit) => integer(token, unit)
            .map(Value::Int)
            .map_err(|reason| format!("{reason}, or one of {}", symbols.join(", ")))?,
    };
    in_domain(value, token, param)
}

fn integer(token: &str, unit: Unit) -> Result<u64, String> {
    match unit {
        Unit::Ns => humantime::parse_duration(token)
            .map_err(|error| format!("`{token}` is not a duration ({error}): type for example 20s"))
            .and_then(|duration| {
                u64::try_from(duration.as_nanos()).map_err(|_| format!("`{token}` is too long"))
            }),
        _ => parse_integer(token),
    }
}

/// Whether a text can be the name of something that the user named, and stand in a case's text.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= NAME_MAX && text.chars().all(fits)
}

pub fn fits(value: &Value, domain: &Domain) -> bool {
    let symbol = |symbols: &[&str]| value.text().is_some_and(|text| symbols.contains(&text));
    let span = |low: u64, high: u64| value.int().is_some_and(|int| (low..=high).contains(&int));
    match *domain {
        Domain::Symbols(symbols) => symbol(symbols),
        Domain::Integer { low, high, .. } => span(low, high),
        Domain::Either(symbols, low, high, _) => symbol(symbols) || span(low, high),
        Domain::Text => value.text().is_some(),
        Domain::Name(_) => value.text().is_some_and(is_name),
    }
}

fn in_domain(value: Value, token: &str, param: &Param) -> Result<Value, String> {
    if fits(&value, &param.domain) {
        Ok(value)
    } else {
        Err(format!("`{token}` is out of range: it takes {}", domain_text(&param.domain)))
    }
}

fn find_param<'card>(card: &'card Card, name: &str) -> Result<&'card Param, Usage> {
    card.params.iter().find(|param| param.name == name).ok_or_else(|| {
        let names: Vec<&str> = card.params.iter().map(|param| param.name).collect();
        Usage(format!(
            "{} has no parameter `{name}`{} it has {}",
            card.id,
            nearest(name, names.iter().copied()),
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::{Settings, parse_values};
    use crate::select::Selection;
    use bench::experiment::{Domain, Param, Preset, Role};
    use catalogue::{FAMILIES, find};
    use record::key::Value;
    use record::unit::Unit;

    const SIZE: Param = Param {
        name: "size",
        doc: "",
        domain: Domain::Integer { low: 512, high: 1 << 20, unit: Unit::B },
        defaults: ["512", "512", "512"],
        role: Role::Case,
    };

    const COUNT: Param = Param { domain: Domain::count(0, 1 << 20), ..SIZE };
    const TIME: Param = Param { domain: Domain::ns(0, 60_000_000_000), ..SIZE };

    fn ints(text: &str, param: &Param) -> Vec<u64> {
        let values = parse_values(text, param).unwrap_or_else(|reason| panic!("{text}: {reason}"));
        values.iter().filter_map(Value::int).collect()
    }

    #[test]
    fn sizes_double_counts_go_up_by_one_and_a_step_is_a_step() {
        assert_eq!(ints("512,4KiB", &SIZE), [512, 4096]);
        assert_eq!(ints("1KiB..4KiB", &SIZE), [1024, 2048, 4096]);
        assert_eq!(ints("1KiB..5KiB/2KiB", &SIZE), [1024, 3072, 5120]);
        assert_eq!(ints("0..7", &COUNT), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ints("1..15", &COUNT), (1..=15).collect::<Vec<_>>());
        assert_eq!(ints("0..16/8,1,8..8", &COUNT), [0, 8, 16, 1]);
        assert_eq!(ints("1ms..3ms/1ms", &TIME), [1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        let rows: [(&Param, &[&str]); 3] = [
            (&SIZE, &["0", "2MiB", "x", "4KiB..1KiB", "0..4KiB", "1KiB..4KiB/0", "", "512,"]),
            (&COUNT, &["7..0", "0..7/0", "0..100000", "..7", "0..", "0..7/x"]),
            (&TIME, &["1ms..2ms", "1..3"]),
        ];
        for (param, texts) in rows {
            for text in texts {
                assert!(parse_values(text, param).is_err(), "{text}");
            }
        }
        // A name may have two points.
        let name = Param { domain: Domain::Name(&[]), ..SIZE };
        assert_eq!(parse_values("a..b", &name), Ok(vec![Value::from("a..b")]));
    }

    #[test]
    fn settings_reach_their_experiment() {
        let texts = ["memory.latency.footprint=4KiB".to_owned(), "host.cpu.max_hz=4GHz".to_owned()];
        let settings = Settings::parse(&texts, FAMILIES).expect("good");
        assert_eq!(settings.facts, [("cpu.max_hz".to_owned(), "4GHz".to_owned())]);
        let card = find("memory.latency").expect("it is there").card();
        let params = settings.params(card, Preset::Quick);
        assert_eq!(params.ints("footprint"), [4096]);
    }

    #[test]
    fn settings_are_of_selected_experiments() {
        let of = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let facts_and_latency = "host.cpu.max_hz=4GHz memory.latency.footprint=4KiB";
        for (selectors, set, refused) in [
            ("", facts_and_latency, None),
            ("memory", facts_and_latency, None),
            ("memory.latency:pattern=random", facts_and_latency, None),
            ("os", "host.cpu.max_hz=4GHz", None),
            ("os", facts_and_latency, Some("memory.latency")),
            ("!memory", facts_and_latency, Some("memory.latency")),
            ("", "selftest.echo.messages=5", Some("selftest.echo")),
        ] {
            let selection = Selection::parse(&of(selectors), FAMILIES).expect("good");
            let settings = Settings::parse(&of(set), FAMILIES).expect("good");
            let reached = settings.reach(&selection, FAMILIES);
            let message = reached.err().map(|error| error.to_string());
            assert_eq!(message.is_some(), refused.is_some(), "{selectors}: {message:?}");
            let names = |id: &str| message.as_ref().is_some_and(|message| message.contains(id));
            assert!(refused.is_none_or(names), "{selectors}: {message:?}");
        }
    }

    #[test]
    fn bad_settings_say_what_to_type() {
        for (text, part) in [
            ("memory.latency.footprint", "ID.PARAM=VALUE"),
            ("memory.latncy.footprint=1", "did you mean `memory.latency`"),
            ("memory.latency.foot=1", "it has pattern"),
            ("memory.latency.footprint=1", "out of range"),
            ("memory.latency.pattern=zigzag", "random"),
        ] {
            let error = Settings::parse(&[text.to_owned()], FAMILIES).expect_err(text);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
