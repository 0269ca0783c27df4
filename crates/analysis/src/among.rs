//! A run among other machines: what it is good and bad at.

use super::figure::Figure;
use super::gather::gathered;
use record::key::Key;
use record::metric::Better;
use record::order::InOrder;
use record::unit::Unit;
use stats::quantile::median;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Machine {
    pub name: String,
    /// Where its figures come from: a publication, or a run of plumb.
    pub source: String,
    /// Its figures, each in the metric's unit.
    pub values: BTreeMap<Key, f64>,
}

/// How an experiment's figures stand against those of the other machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub experiment: String,
    pub figures: usize,
    /// How many times better than the others' median, as the geometric mean over the figures; below
    /// one worse.
    pub factor: f64,
    /// The figure nearest to that factor.
    pub example: Example,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    pub label: String,
    pub unit: Unit,
    pub value: f64,
    pub others: Vec<(String, f64)>,
    /// How many times better than the others' median.
    pub factor: f64,
}

/// Every experiment that shares figures with other machines, the best first.
pub fn standings(figures: &[Figure], others: &[Machine]) -> Vec<Standing> {
    let shared = figures.iter().filter_map(|figure| {
        example(figure, others).map(|example| (figure.experiment.as_str(), example))
    });
    let mut standings: Vec<Standing> =
        gathered(shared).into_iter().map(|(id, examples)| standing(id, examples)).collect();
    standings.order_by(|a, b| b.factor.total_cmp(&a.factor));
    standings
}

fn example(figure: &Figure, others: &[Machine]) -> Option<Example> {
    let metric = figure.metric.as_ref()?;
    let value = figure.value.filter(|value| *value > 0.0)?;
    let key = figure.key()?;
    let of_machine = |machine: &Machine| {
        let value = machine.values.get(&key).copied().filter(|value| *value > 0.0)?;
        Some((machine.name.clone(), value))
    };
    let others: Vec<(String, f64)> = others.iter().filter_map(of_machine).collect();
    let values: Vec<f64> = others.iter().map(|(_, value)| *value).collect();
    let middle = median(&values)?;
    let factor = match metric.better {
        Better::Lower => middle / value,
        Better::Higher => value / middle,
        Better::None => return None,
    };
    Some(Example { label: figure.label(), unit: metric.unit, value, others, factor })
}

fn standing(experiment: &str, examples: Vec<Example>) -> Standing {
    let logs: f64 = examples.iter().map(|one| one.factor.ln()).sum();
    let mean = logs / examples.len() as f64;
    let away = |one: &Example| (one.factor.ln() - mean).abs();
    let figures = examples.len();
    let nearest = examples.into_iter().min_by(|a, b| away(a).total_cmp(&away(b)));
    Standing {
        experiment: experiment.to_owned(),
        figures,
        factor: mean.exp(),
        example: nearest.expect("a gathered group has a member"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, standings};
    use crate::figures;
    use crate::sample;

    #[test]
    fn an_experiment_is_as_good_as_its_figures_are_beside_those_of_others() {
        let run = sample::run();
        let all = figures(&run);
        let other = |name: &str, factor: f64| {
            let own = all.iter().filter(|one| one.experiment == "os.syscall");
            let values = own.filter_map(|figure| Some((figure.key()?, factor * figure.value?)));
            Machine { name: name.to_owned(), source: String::new(), values: values.collect() }
        };
        let found = standings(&all, &[other("old", 4.0), other("older", 16.0)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].experiment, "os.syscall");
        // The median of four and sixteen times is ten times.
        assert!((found[0].factor - 10.0).abs() < 1e-9, "{}", found[0].factor);
        assert_eq!(found[0].example.others.len(), 2);
        assert!(standings(&all, &[]).is_empty());
        let worse = standings(&all, &[other("new", 0.5)]);
        assert!((worse[0].factor - 0.5).abs() < 1e-9);
    }
}
