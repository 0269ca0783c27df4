//! Coefficients of laws, fitted to recorded machines.
//!
//! Laws are products of physics and coefficients: a term of a law has its own (`safe returns`), and
//! so has a group of figures (`os.switch switch`). `scripts/fit` finds them on the machines of
//! `data/sheets` and the published ones and writes `fitted.csv`; do not edit it by hand. What is
//! not in the table has the coefficient 1. A machine is judged by coefficients that were fitted
//! without it.

use crate::law::scaled;
use record::event::{Prediction, Range, Shares};
use record::key::{CaseId, FAR, Value};
use record::metric::{Better, Metric};
use record::unit::Unit;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub const TABLE: &str = include_str!("fitted.csv");

/// Coefficients by the name of their term or group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fitted(pub BTreeMap<String, f64>);

impl Fitted {
    pub fn committed() -> &'static Fitted {
        static COMMITTED: LazyLock<Fitted> = LazyLock::new(|| Fitted::read(TABLE));
        &COMMITTED
    }

    /// From a table: name and coefficient are the first two columns; the first line names them.
    pub fn read(table: &str) -> Fitted {
        let row = |line: &str| {
            let mut columns = line.split(',');
            Some((columns.next()?.to_owned(), columns.next()?.parse().ok()?))
        };
        Fitted(table.lines().filter_map(row).collect())
    }

    pub fn coefficient(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(1.0)
    }

    /// The narrowest group of a figure that has a coefficient, and that.
    pub fn group(
        &self,
        experiment: &str,
        case: &CaseId,
        metric: &str,
        is_prior: bool,
    ) -> Option<(String, f64)> {
        let coefficient = |level: String| {
            let coefficient = *self.0.get(&level)?;
            Some((level, coefficient))
        };
        levels(experiment, case, metric, is_prior).into_iter().find_map(coefficient)
    }
}

/// A prediction of a metric times its coefficient: a time that much longer, a rate that much
/// lower. What a law knows precisely stays, and so does time on a wire.
pub fn applied(
    coefficient: Option<(String, f64)>,
    metric: &Metric,
    mut prediction: Prediction,
) -> Prediction {
    let Some((group, coefficient)) = coefficient else { return prediction };
    let fixed = prediction.fixed.clamp(0.0, 1.0);
    let coefficient = fixed + (1.0 - fixed) * coefficient;
    let Some(of) = prediction.range.filter(|_| coefficient != 1.0) else { return prediction };
    let power = power(metric, of);
    if power == 0 {
        return prediction;
    }
    let factor = coefficient.powi(power);
    let shares = prediction.shares.map(|shares| Shares {
        hardware: scaled(shares.hardware, factor),
        software: scaled(shares.software, factor),
    });
    prediction.arithmetic.factor = Some((factor, group));
    let otherwise = prediction.otherwise.map(|other| scaled(other, factor));
    Prediction { range: Some(scaled(of, factor)), shares, otherwise, ..prediction }
}

/// The names of the groups that a figure belongs to, narrowest first: those of its metric whose case
/// has the same symbols, or the same first symbol (what is called, or by what), all of the metric, of
/// the experiment, of the family. No case has a coefficient of its own: numbers do not tell cases
/// apart, so a larger size never comes out faster. Priors and predictions from earlier figures are
/// apart.
pub fn levels(experiment: &str, case: &CaseId, metric: &str, is_prior: bool) -> [String; 5] {
    let symbols = case.0.iter().filter_map(|(name, value)| match value {
        Value::Text(text) if name != FAR => Some(text.as_str()),
        _ => None,
    });
    let symbols: Vec<&str> = symbols.collect();
    let family = experiment.split('.').next().unwrap_or_default();
    let kind = if is_prior { "prior" } else { "derived" };
    let of_metric = format!("{kind} {experiment} {metric}");
    [
        format!("{of_metric} ({})", symbols.join(" ")),
        format!("{of_metric} {}", symbols.first().unwrap_or(&"-")),
        of_metric,
        format!("{kind} {experiment}"),
        format!("{kind} {family}"),
    ]
}

/// The power of the coefficient by which a prediction is multiplied: 1 for times, -1 for rates.
/// Ratios go with the direction that is better, and so do frequencies of what is bad. It is 0 for a
/// range so narrow that it is arithmetic, for a share that ends at its limit, for what has no better
/// direction, and for other units.
pub fn power(metric: &Metric, range: Range) -> i32 {
    let is_limit = metric.unit == Unit::Ratio && range.high == 1.0;
    if is_limit || range.high <= 1.3 * range.low {
        return 0;
    }
    match (metric.unit, metric.better) {
        // A time that is no better shorter is someone's choice, not work.
        (_, Better::None) => 0,
        (Unit::Ns | Unit::NsPerB | Unit::NsPerOp, _) | (Unit::Ratio | Unit::Hz, Better::Lower) => 1,
        (Unit::BPerS | Unit::OpPerS, _) | (Unit::Ratio, Better::Higher) => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fitted, applied};
    use record::event::{Prediction, Range};
    use record::key::CaseId;
    use record::metric::{Better, Kind, Metric};
    use record::unit::Unit;

    #[test]
    fn coefficients_lengthen_times_and_lower_rates() {
        let fitted = Fitted::read("name,coefficient\nprior a,2\n");
        let coefficient = fitted.group("a.b", &CaseId::new(), "c", true);
        let range = Range { low: 1.0, likely: 2.0, high: 4.0 };
        for (unit, better, likely) in [
            (Unit::Ns, Better::Lower, 4.0),
            (Unit::BPerS, Better::Higher, 1.0),
            (Unit::Ratio, Better::Higher, 1.0),
            (Unit::Ratio, Better::Lower, 4.0),
            (Unit::Ratio, Better::None, 2.0),
            (Unit::Ns, Better::None, 2.0),
            (Unit::Count, Better::Lower, 2.0),
        ] {
            let metric = Metric::new("c", "", unit, better, Kind::Os);
            let found =
                applied(coefficient.clone(), &metric, Prediction::new(Some(range), "physics"));
            assert_eq!(found.range.map(|of| of.likely), Some(likely), "{unit} {better:?}");
        }
        assert_eq!(fitted.coefficient("another"), 1.0);
    }

    #[test]
    fn time_on_a_wire_stays() {
        let range = Range { low: 1.0, likely: 2.0, high: 4.0 };
        for (unit, better, likely) in
            [(Unit::Ns, Better::Lower, 2.5), (Unit::BPerS, Better::Higher, 2.0 / 1.25)]
        {
            let metric = Metric::new("c", "", unit, better, Kind::Os);
            for (fixed, likely) in [(0.75, likely), (1.0, 2.0)] {
                let of = Prediction { fixed, ..Prediction::new(Some(range), "physics") };
                let found = applied(Some((String::new(), 2.0)), &metric, of);
                assert_eq!(found.range.map(|of| of.likely), Some(likely), "{unit} {fixed}");
            }
        }
    }

    #[test]
    fn arithmetic_and_the_limit_of_a_share_stay() {
        let metric = Metric::new("c", "", Unit::Ratio, Better::Higher, Kind::Os);
        for (low, high) in [(0.9, 1.1), (0.1, 1.0)] {
            let range = Range { low, likely: 0.95, high };
            let two = Some((String::new(), 2.0));
            let found = applied(two, &metric, Prediction::new(Some(range), "physics"));
            assert_eq!(found.range, Some(range));
        }
    }
}
