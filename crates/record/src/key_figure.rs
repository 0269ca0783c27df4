//! Which figures a summary shows.

use crate::key::CaseId;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A figure of the summary, in a line with those beside it that have the same title: static in a
/// card, owned in a plan that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyFigure {
    /// Title of the line: `load latency,`.
    pub line: Cow<'static, str>,
    /// What parts the figure from the others of the line: `L1`; empty where it is alone.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'static, str>,
    /// Name of its metric.
    pub metric: Cow<'static, str>,
    /// Parameters with their values: `op=read,level=L1|L2`, any of which will do; `count=` is a
    /// case without the parameter. Others may have any value. Of several such cases the summary
    /// shows the best.
    pub case: Cow<'static, str>,
}

impl KeyFigure {
    pub const fn new(
        line: &'static str,
        name: &'static str,
        metric: &'static str,
        case: &'static str,
    ) -> KeyFigure {
        KeyFigure {
            line: Cow::Borrowed(line),
            name: Cow::Borrowed(name),
            metric: Cow::Borrowed(metric),
            case: Cow::Borrowed(case),
        }
    }

    /// The parameters with the values that will do.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        let stated = self.case.split(',').filter(|stated| !stated.is_empty());
        let parts = stated.map(|stated| stated.split_once('=').unwrap_or((stated, "")));
        parts.map(|(name, values)| (name, values.split('|')))
    }

    pub fn is_of(&self, case: &CaseId) -> bool {
        self.parameters().all(|(name, mut values)| {
            let value = case.get(name).map(ToString::to_string).unwrap_or_default();
            values.any(|one| one == value)
        })
    }

    /// Title and name: `load latency, L1`.
    pub fn title(&self) -> String {
        format!("{} {}", self.line, self.name).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::KeyFigure;
    use crate::key::CaseId;

    #[test]
    fn a_key_figure_states_some_of_the_parameters_of_its_case() {
        let case = CaseId::new().with("via", "pipe").with("pair", "llc").with("size", 1);
        for (stated, is_of) in [
            ("", true),
            ("via=pipe,size=1", true),
            ("pair=llc|socket", true),
            ("pair=same|socket", false),
            ("size=10", false),
            ("count=", true),
            ("size=", false),
            ("count=1", false),
        ] {
            assert_eq!(KeyFigure::new("", "", "", stated).is_of(&case), is_of, "{stated}");
        }
    }
}
