//! The first measurement: every node in every subject, every link, and which of them stand out.

use super::fit::{Fit, fits};
use super::peers::{Field, Row};
use super::select::{SUSPECT_RATE, q_values};
use super::{At, Role, Stratum, Subject, Suspects, least_effect, own_variance, signed};
use crate::read::Sweep;
use crate::sweep::Figure;
use analysis::gather::gathered;
use record::key::Key;
use record::metric::Better;
use record::order::{Gather, InOrder};
use stats::compare::variance::{Variance, cautious_prior};
use stats::quantile::median;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many times worse than its ends explain a link is at least that is accused. A link that
/// carries half is to be found, and a quarter less is what routes and offloads explain.
pub(super) const LEAST_LINK: f64 = 1.25;
/// Fewest rounds whose scatter is compared.
const LEAST_ROUNDS: u32 = 5;

/// A node in a subject.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    pub field: usize,
    /// Index of the row in its field.
    pub row: usize,
    pub z: f64,
    pub p: f64,
    pub q: f64,
}

/// A link in a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinkTest {
    pub fit: usize,
    /// Index in [`Fit::links`].
    pub link: usize,
    pub from: u32,
    pub to: u32,
    pub residual: f64,
    pub z: f64,
    pub p: f64,
    pub q: f64,
}

impl LinkTest {
    pub fn ends(&self) -> [u32; 2] {
        [self.from, self.to]
    }

    /// Whether a link is a suspect by its first measurement alone.
    pub fn stands_out(&self) -> bool {
        self.q <= SUSPECT_RATE && self.residual >= LEAST_LINK.ln()
    }
}

/// The whole first analysis.
pub(super) struct First {
    pub strata: Vec<Stratum>,
    pub place: HashMap<u32, usize>,
    pub subjects: Vec<Subject>,
    pub fields: Vec<Field>,
    pub fits: Vec<Fit>,
    /// In the order of fields and rows.
    pub tests: Vec<Test>,
    /// Indices of the tests that are made again: what stands out, and what may be slower.
    pub chosen: Vec<usize>,
    pub links: Vec<LinkTest>,
    /// Indices of the links that are measured again: what stands out, and what may carry half.
    pub chosen_links: Vec<usize>,
    /// Nodes that stand out, and the ends of links that do.
    pub suspects: BTreeSet<u32>,
    pub untested: BTreeMap<Key, &'static str>,
}

impl First {
    pub fn new(sweep: &Sweep) -> First {
        let strata = super::strata(sweep);
        let place = super::strata::index(&strata);
        let mut first = First {
            fits: fits(sweep, &place),
            strata,
            place,
            subjects: Vec::new(),
            fields: Vec::new(),
            tests: Vec::new(),
            chosen: Vec::new(),
            links: Vec::new(),
            chosen_links: Vec::new(),
            suspects: BTreeSet::new(),
            untested: BTreeMap::new(),
        };
        first.alone(sweep);
        first.pairs();
        first.steady();
        first.test();
        first.choose();
        first.test_links();
        first.choose_links();
        first.suspects = first.suspect_ranks();
        first
    }

    fn alone(&mut self, sweep: &Sweep) {
        let once = sweep.figures.iter().filter(|figure| figure.again == 0);
        for (_, figures) in gathered(once.map(|figure| (&figure.key, figure))) {
            // Of a figure that was measured twice (a resumed sweep) the last one counts.
            self.figure(&figures.into_iter().map(|figure| (figure.rank, figure)).gather());
        }
    }

    fn figure(&mut self, figures: &BTreeMap<u32, &Figure>) {
        let Some(first) = figures.values().next() else { return };
        if first.better == Better::None {
            self.untested.insert(first.key.clone(), "neither direction of the metric is better");
            return;
        }
        let level = |figure: &&Figure| {
            let x = signed(figure.estimate.value, figure.better)?;
            let (own, value) = (own_variance(&figure.estimate), figure.estimate.value);
            Some(Row { rank: figure.rank, x, own, value, predicted: figure.predicted })
        };
        let scatter = |figure: &&Figure| {
            let scatter = figure.estimate.scatter.filter(|scatter| *scatter > 0.0)?;
            let x = (figure.estimate.rounds >= LEAST_ROUNDS).then(|| scatter.ln())?;
            Some(Row { rank: figure.rank, x, own: None, value: scatter, predicted: None })
        };
        let levels: Vec<Row> = figures.values().filter_map(level).collect();
        if levels.len() < figures.len() {
            self.untested.insert(first.key.clone(), "some of its values are not positive");
        }
        let scatters: Vec<Row> = figures.values().filter_map(scatter).collect();
        for (is_scatter, rows) in [(false, levels), (true, scatters)] {
            let (key, role) = (first.key.clone(), Role::Alone);
            let (unit, better, kind) = (first.unit, first.better, first.kind);
            self.push(Subject { key, role, is_scatter, unit, better, kind }, rows);
        }
    }

    fn pairs(&mut self) {
        let ends = |fit: &Fit| {
            fit.roles()
                .into_iter()
                .map(|(role, rows)| (fit.subject(role), rows))
                .collect::<Vec<_>>()
        };
        let subjects: Vec<(Subject, Vec<Row>)> = self.fits.iter().flat_map(ends).collect();
        subjects.into_iter().for_each(|(subject, rows)| self.push(subject, rows));
    }

    /// Adds a subject with a field for each stratum.
    fn push(&mut self, subject: Subject, rows: Vec<Row>) {
        if rows.is_empty() {
            return;
        }
        let mut strata: BTreeMap<usize, Vec<Row>> = BTreeMap::new();
        for row in rows {
            if let Some(stratum) = self.place.get(&row.rank) {
                strata.entry(*stratum).or_default().push(row);
            }
        }
        let at = self.subjects.len();
        self.fields.extend(strata.into_iter().map(|(of, rows)| Field::new(at, of, rows)));
        self.subjects.push(subject);
    }

    pub fn subject(&self, field: usize) -> &Subject {
        &self.subjects[self.fields[field].subject]
    }

    /// Gives every field what the others of its stratum and kind say of the scale.
    fn steady(&mut self) {
        let mut kinds: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, field) in self.fields.iter().enumerate() {
            let subject = &self.subjects[field.subject];
            let is_alone = subject.role == Role::Alone;
            let kind = (field.stratum, subject.kind, is_alone, subject.is_scatter);
            kinds.entry(kind).or_default().push(at);
        }
        for fields in kinds.into_values() {
            let variances: Vec<Variance> =
                fields.iter().filter_map(|at| self.fields[*at].variance()).collect();
            let all: Vec<f64> = variances.iter().map(|v| v.variance).collect();
            let typical = median(&all).unwrap_or(0.0);
            let prior = cautious_prior(&variances);
            for at in fields {
                self.fields[at].steady(typical.sqrt(), prior);
            }
        }
    }

    fn test(&mut self) {
        for (at, field) in self.fields.iter().enumerate().filter(|(_, field)| field.is_compared()) {
            let test = |row| {
                let (z, p) = field.place(row)?;
                Some(Test { field: at, row, z, p, q: 1.0 })
            };
            self.tests.extend((0..field.rows.len()).filter_map(test));
        }
        let p_values: Vec<(u32, f64)> =
            self.tests.iter().map(|test| (self.rank(test), test.p)).collect();
        for (test, q) in self.tests.iter_mut().zip(q_values(&p_values, SUSPECT_RATE)) {
            test.q = q;
        }
    }

    pub fn rank(&self, test: &Test) -> u32 {
        self.fields[test.field].rows[test.row].rank
    }

    /// How far above its peers a node is, as a log.
    pub fn distance(&self, test: &Test) -> f64 {
        let field = &self.fields[test.field];
        field.rows[test.row].x - field.peers(test.row).map_or(f64::INFINITY, |peers| peers.centre)
    }

    /// Whether a node is a suspect by its first measurement alone.
    pub fn stands_out(&self, test: &Test) -> bool {
        let (subject, row) = (self.subject(test.field), &self.fields[test.field].rows[test.row]);
        // What scatters less than would count as slower is steady enough.
        let is_seen = !subject.is_scatter || row.value >= super::level_effect(subject.kind).ln();
        test.q <= SUSPECT_RATE && self.distance(test) >= least_effect(subject) && is_seen
    }

    fn choose(&mut self) {
        let is_chosen = |test: &Test| self.may_be_slower(test) || self.stands_out(test);
        let found = self.tests.iter().enumerate().filter(|(_, test)| is_chosen(test));
        self.chosen = found.map(|(at, _)| at).collect();
        self.chosen.order_by(|a, b| self.tests[*b].z.total_cmp(&self.tests[*a].z));
    }

    fn test_links(&mut self) {
        for (at, fit) in self.fits.iter().enumerate() {
            let test = |link: usize| {
                let (residual, error) = fit.standing(link)?;
                let (z, p) = super::peers::tail(residual, error, fit.freedom);
                let (from, to) = (fit.ranks[fit.links[link].from], fit.ranks[fit.links[link].to]);
                Some(LinkTest { fit: at, link, from, to, residual, z, p, q: 1.0 })
            };
            self.links.extend((0..fit.links.len()).filter_map(test));
        }
        let p_values: Vec<((u32, u32), f64)> =
            self.links.iter().map(|link| ((link.from, link.to), link.p)).collect();
        for (link, q) in self.links.iter_mut().zip(q_values(&p_values, SUSPECT_RATE)) {
            link.q = q;
        }
    }

    /// The worst links, each in all of its figures: a few a node that stand out, and one a node that may
    /// carry half. A node that stands out itself in a figure explains its links there.
    fn choose_links(&mut self) {
        let mut explained: BTreeSet<(u32, &Key)> = BTreeSet::new();
        for test in self.chosen.iter().map(|at| &self.tests[*at]) {
            explained.insert((self.rank(test), &self.subject(test.field).key));
        }
        let ends = |at: usize| self.links[at].ends();
        let is_explained = |at: usize| {
            let key = &self.fits[self.links[at].fit].key;
            ends(at).iter().any(|rank| explained.contains(&(*rank, key)))
        };
        let mut all: Vec<usize> = (0..self.links.len()).filter(|at| !is_explained(*at)).collect();
        all.order_by(|a, b| self.links[*b].z.total_cmp(&self.links[*a].z));
        let (bad, others): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|at| self.links[**at].stands_out());
        let maybe = others.into_iter().filter(|at| self.may_be_half(&self.links[*at]));
        let wanted = bad.into_iter().map(|at| (at, Suspects::PARTNERS));
        let mut paths: BTreeSet<[u32; 2]> = BTreeSet::new();
        let mut taken: HashMap<u32, usize> = HashMap::new();
        for (at, most) in wanted.chain(maybe.map(|at| (at, 1))) {
            let is_left = |rank: &u32| taken.get(rank).is_none_or(|taken| *taken < most);
            if ends(at).iter().all(is_left) && paths.insert(ends(at)) {
                ends(at).iter().for_each(|rank| *taken.entry(*rank).or_default() += 1);
            }
        }
        all.retain(|at| paths.contains(&ends(*at)));
        self.chosen_links = all;
    }

    fn suspect_ranks(&self) -> BTreeSet<u32> {
        let chosen = self.chosen.iter().map(|at| &self.tests[*at]);
        let nodes = chosen.filter(|test| self.stands_out(test)).map(|test| self.rank(test));
        let links = self.chosen_links.iter().map(|at| &self.links[*at]);
        let links = links.filter(|link| link.stands_out());
        nodes.chain(links.flat_map(LinkTest::ends)).gather()
    }

    /// Where a link is.
    pub fn at(&self, link: usize) -> At {
        At::Link(self.links[link].from, self.links[link].to)
    }
}
