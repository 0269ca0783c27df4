//! The vocabulary of a case, written once: symbols, domains, documentation, identity and `--set`.
//!
//! [`crate::symbols!`] declares an enum with the texts that users and records know its variants by;
//! [`crate::case!`] declares the case of an experiment, whose fields are its parameters.

use super::{Domain, Param, Params};
use anyhow::{Context, Result};
use record::case::Case;
use record::key::{CaseId, Value};
use std::collections::BTreeSet;

/// A type of values that a parameter takes.
pub trait Field: Clone + PartialEq {
    /// The values, unless the parameter narrows them.
    const DOMAIN: Domain;

    /// The value in a case's identity; none where the case lacks the parameter.
    fn value(&self) -> Option<Value>;

    /// From what stands there.
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

impl Field for u64 {
    const DOMAIN: Domain = Domain::count(0, u64::MAX);

    fn value(&self) -> Option<Value> {
        Some(Value::Int(*self))
    }

    fn from_value(value: Option<&Value>) -> Option<u64> {
        value?.int()
    }
}

impl Field for String {
    const DOMAIN: Domain = Domain::Name(&[]);

    fn value(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }

    fn from_value(value: Option<&Value>) -> Option<String> {
        value?.text().map(str::to_owned)
    }
}

impl<T: Field> Field for Option<T> {
    const DOMAIN: Domain = T::DOMAIN;

    fn value(&self) -> Option<Value> {
        self.as_ref()?.value()
    }

    fn from_value(value: Option<&Value>) -> Option<Option<T>> {
        match value {
            None => Some(None),
            Some(_) => T::from_value(value).map(Some),
        }
    }
}

/// The case of an experiment: what [`crate::case!`] declares.
pub trait Fields: Clone + PartialEq + 'static {
    const PARAMS: &'static [Param];

    fn id(&self) -> CaseId;

    /// The case of an identity; none where a parameter is missing or has another domain. What the
    /// planner adds to a case is passed over.
    fn from_id(id: &CaseId) -> Option<Self>;

    /// The same with another value of a parameter; itself where it lacks that parameter.
    fn with(&self, name: &str, value: &Value) -> Option<Self>;

    /// The case that a series holds. Errors: it has another type.
    fn decode(case: &Case) -> Result<Self> {
        Self::from_id(&case.id).with_context(|| format!("there is no case `{}`", case.id))
    }
}

/// An experiment's only case.
impl Fields for () {
    const PARAMS: &'static [Param] = &[];

    fn id(&self) -> CaseId {
        CaseId::new()
    }

    fn from_id(_: &CaseId) -> Option<()> {
        Some(())
    }

    fn with(&self, _: &str, _: &Value) -> Option<()> {
        Some(())
    }
}

/// The one rule of `--set`: a chosen parameter takes the place of a preset's values of it. Cases
/// that become alike are one.
pub fn chosen<C: Fields>(mut cases: Vec<C>, params: &Params) -> Vec<C> {
    for param in C::PARAMS {
        let Some(values) = params.chosen(param.name) else { continue };
        let of_case = |case: C| values.iter().filter_map(move |value| case.with(param.name, value));
        cases = once_each(cases.into_iter().flat_map(of_case));
    }
    cases
}

/// The cases without those that are there already, in their order.
pub fn once_each<C: Fields>(cases: impl Iterator<Item = C>) -> Vec<C> {
    let mut seen = BTreeSet::new();
    cases.filter(|case| seen.insert(case.id())).collect()
}

/// Declares an enum whose variants users and records know by a text. With `or`, one more variant
/// holds any integer of a range.
#[macro_export]
macro_rules! symbols {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $(#[doc = concat!("`", $text, "`")] $(#[$doc])* $variant),* }

        impl $name {
            /// All of them, in order.
            $vis const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Its text in cases.
            $vis const fn text(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }

        impl $crate::experiment::Field for $name {
            const DOMAIN: $crate::experiment::Domain =
                $crate::experiment::Domain::Symbols(&[$($text),*]);

            fn value(&self) -> Option<$crate::experiment::Value> {
                Some(self.text().into())
            }

            fn from_value(value: Option<&$crate::experiment::Value>) -> Option<Self> {
                match value?.text()? { $($text => Some($name::$variant),)* _ => None }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)?
        ; $(#[$number_doc:meta])* $number:ident($low:expr, $high:expr, $unit:ident)
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $(#[doc = concat!("`", $text, "`")] $(#[$doc])* $variant,)*
            /// Any in the range.
            $(#[$number_doc])*
            $number(u64),
        }

        impl $crate::experiment::Field for $name {
            const DOMAIN: $crate::experiment::Domain = $crate::experiment::Domain::Either(
                &[$($text),*], $low, $high, $crate::experiment::Unit::$unit,
            );

            fn value(&self) -> Option<$crate::experiment::Value> {
                Some(match self {
                    $($name::$variant => $text.into(),)*
                    $name::$number(number) => (*number).into(),
                })
            }

            fn from_value(value: Option<&$crate::experiment::Value>) -> Option<Self> {
                match value? {
                    $crate::experiment::Value::Int(number) => Some($name::$number(*number)),
                    $crate::experiment::Value::Text(text) => match text.as_str() {
                        $($text => Some($name::$variant),)*
                        _ => None,
                    },
                }
            }
        }
    };
}

/// As [`crate::symbols!`], with a row for each: everything that is to be known of it. `row()` gives
/// it.
#[macro_export]
macro_rules! rows {
    ($(#[$meta:meta])* $vis:vis enum $name:ident: $row:ty {
        $($variant:ident = $text:literal => $value:expr),* $(,)?
    }) => {
        $crate::symbols! { $(#[$meta])* $vis enum $name { $($variant = $text),* } }

        impl $name {
            $vis fn row(self) -> &'static $row {
                match self {
                    $($name::$variant => {
                        static ROW: $row = $value;
                        &ROW
                    })*
                }
            }
        }
    };
}

/// Declares an experiment, and the value of it that a family lists.
#[macro_export]
macro_rules! experiment {
    ($name:ident) => {
        pub struct $name;

        /// The experiment, as its family lists it.
        pub static EXPERIMENT: $name = $name;
    };
}

/// A card's metrics, a row each: name, unit, better direction, class and explanation. `derived`
/// marks one that follows from several cases, `over` one with its own statistic of rounds, and `was`
/// gives its earlier name.
#[macro_export]
macro_rules! metrics {
    ($($name:expr $(, was $old:literal)? => $($how:ident)+: $doc:expr;)+) => {
        &[$($crate::metrics!(@ $name, $doc, $($how)+)$(.formerly($old))?),+]
    };
    (@ $name:expr, $doc:expr, derived $($how:ident)+) => {
        $crate::metrics!(@@ derived, $name, $doc, $($how)+)
    };
    (@ $name:expr, $doc:expr, $($how:ident)+) => {
        $crate::metrics!(@@ new, $name, $doc, $($how)+)
    };
    (@@ $new:ident, $name:expr, $doc:expr,
        $unit:ident $better:ident $kind:ident over $over:ident) => {
        $crate::metrics!(@@ $new, $name, $doc, $unit $better $kind)
            .over(::record::metric::Over::$over)
    };
    (@@ $new:ident, $name:expr, $doc:expr, $unit:ident $better:ident $kind:ident) => {
        ::record::metric::Metric::$new(
            $name,
            $doc,
            ::record::unit::Unit::$unit,
            ::record::metric::Better::$better,
            ::record::metric::Kind::$kind,
        )
    };
}

/// A card's settings, a row each: its name, domain, defaults by preset, and what it says.
#[macro_export]
macro_rules! settings {
    ($($name:literal: $domain:expr, $defaults:expr => $doc:expr;)+) => {
        &[$($crate::experiment::Param::setting($name, $doc, $domain, $defaults)),+]
    };
}

/// The parameters of a card, joined from several lists: the case, settings, a far end.
#[macro_export]
macro_rules! params {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&[$crate::experiment::Param]] = &[$($part),+];
        const COUNT: usize = $crate::experiment::count(PARTS);
        const ALL: [$crate::experiment::Param; COUNT] = $crate::experiment::joined(PARTS);
        &ALL
    }};
}

/// How many parameters several lists have.
pub const fn count(parts: &[&[Param]]) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < parts.len() {
        count += parts[at].len();
        at += 1;
    }
    count
}

/// Several lists of parameters as one.
pub const fn joined<const COUNT: usize>(parts: &[&[Param]]) -> [Param; COUNT] {
    let mut all = [super::FAR_PARAM; COUNT];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut from = 0;
        while from < parts[part].len() {
            all[at] = parts[part][from];
            at += 1;
            from += 1;
        }
        part += 1;
    }
    all
}

/// Declares the case of an experiment: a struct whose fields are its parameters. A field's
/// documentation is that of the parameter, its name too unless `as` gives another; `=` gives a
/// narrower domain than its type has.
#[macro_export]
macro_rules! case {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident $(as $text:literal)? : $type:ty $(= $domain:expr)?),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name { $($(#[doc = $doc])+ $vis $field: $type),* }

        impl $name {
            $vis const PARAMS: &'static [$crate::experiment::Param] =
                <$name as $crate::experiment::Fields>::PARAMS;
        }

        impl $crate::experiment::Fields for $name {
            const PARAMS: &'static [$crate::experiment::Param] = &[$($crate::experiment::Param {
                name: $crate::case!(@name $field $($text)?),
                doc: concat!($($doc),+).trim_ascii(),
                domain: $crate::case!(@domain $type $(, $domain)?),
                defaults: ["auto"; 3],
                role: $crate::experiment::Role::Case,
            }),*];

            fn id(&self) -> $crate::experiment::CaseId {
                let mut id = $crate::experiment::CaseId::new();
                $(if let Some(value) = $crate::experiment::Field::value(&self.$field) {
                    id = id.with($crate::case!(@name $field $($text)?), value);
                })*
                id
            }

            fn from_id(id: &$crate::experiment::CaseId) -> Option<Self> {
                Some($name {
                    $($field: $crate::experiment::Field::from_value(
                        id.get($crate::case!(@name $field $($text)?)),
                    )?),*
                })
            }

            fn with(&self, name: &str, value: &$crate::experiment::Value) -> Option<Self> {
                let mut case = self.clone();
                $(if name == $crate::case!(@name $field $($text)?)
                    && $crate::experiment::Field::value(&self.$field).is_some()
                {
                    case.$field = $crate::experiment::Field::from_value(Some(value))?;
                })*
                Some(case)
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $text:literal) => { $text };
    (@domain $type:ty) => { <$type as $crate::experiment::Field>::DOMAIN };
    (@domain $type:ty, $domain:expr) => { $domain };
}

#[cfg(test)]
mod tests {
    use super::{Field, Fields, chosen};
    use crate::experiment::{Domain, Params, Preset};
    use record::key::{CaseId, Value};
    use std::collections::BTreeMap;

    symbols! {
        /// What is done.
        enum Op { Read = "read", Write = "write" }
    }
    symbols! {
        /// How many work.
        enum Threads { All = "all"; Number(1, 64, Count) }
    }
    case! {
        struct Point {
            /// what is done
            op: Op,
            /// how many do it
            threads: Threads,
            /// distance of two
            /// in bytes
            stride: Option<u64> = Domain::bytes(16, 4096),
            /// what it is called
            kind as "type": String,
        }
    }

    fn point(op: Op, threads: Threads, stride: Option<u64>) -> Point {
        let kind = "i64".to_owned();
        Point { op, threads, stride, kind }
    }

    fn set(name: &'static str, values: &[Value]) -> Params {
        let values = BTreeMap::from([(name, values.to_vec())]);
        Params { preset: Preset::Quick, values, only: None, quick: None }
    }

    #[test]
    fn an_identity_leads_back_to_its_case() {
        for case in
            [point(Op::Read, Threads::All, None), point(Op::Write, Threads::Number(4), Some(64))]
        {
            assert_eq!(Point::from_id(&case.id()), Some(case));
        }
        let id = point(Op::Read, Threads::Number(2), Some(16)).id();
        assert_eq!(id.to_string(), "op=read,threads=2,stride=16,type=i64");
        // What the planner adds is passed over; an unknown symbol is no case.
        assert!(Point::from_id(&id.with("more", "free")).is_some());
        assert!(Point::from_id(&CaseId::new().with("op", "swap")).is_none());
        assert_eq!(<()>::from_id(&().id()), Some(()));
    }

    #[test]
    fn parameters_have_the_names_domains_and_words_of_fields() {
        let params = Point::PARAMS;
        let names: Vec<_> = params.iter().map(|param| param.name).collect();
        assert_eq!(names, ["op", "threads", "stride", "type"]);
        assert!(params.iter().all(|param| !param.doc.is_empty()));
        assert!(matches!(params[0].domain, Domain::Symbols(["read", "write"])));
        assert!(matches!(params[1].domain, Domain::Either(["all"], 1, 64, _)));
        assert!(matches!(params[2].domain, Domain::Integer { low: 16, high: 4096, .. }));
        assert_eq!(Op::ALL.len(), 2);
        assert_eq!(Threads::from_value(Some(&"all".into())), Some(Threads::All));
    }

    #[test]
    fn a_chosen_parameter_takes_the_place_of_the_presets_values() {
        let preset =
            || vec![point(Op::Read, Threads::All, None), point(Op::Write, Threads::All, Some(64))];
        let threads = chosen(preset(), &set("threads", &[1.into(), 2.into()]));
        assert_eq!(threads.len(), 4);
        // Alike now.
        let ops = chosen(preset(), &set("op", &["read".into()]));
        assert_eq!(ops.len(), 2, "they differ in the stride");
        let strides = chosen(preset(), &set("stride", &[32.into()]));
        assert_eq!(strides[0], preset()[0], "it has none");
        assert_eq!(strides[1].stride, Some(32));
        assert_eq!(chosen(preset(), &set("stride", &["auto".into()])), preset());
    }
}
