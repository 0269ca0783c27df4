//! Where two parties run: the `pair` parameter, which is a case and never an accident.

use crate::experiment::{Domain, Field, Param, Role, Site, Skip};
use crate::measure::{Bench, Declared};
use anyhow::{Context, Result, ensure};
use host::Distance;
use record::case::{Case, Series};
use record::key::{CaseId, Value};
use std::collections::BTreeMap;

crate::symbols! {
    /// A distance class, nearest first.
    pub enum Class {
        Same = "same",
        Smt = "smt",
        Llc = "llc",
        Socket = "socket",
        Remote = "remote",
        Other = "other",
    }
}

/// The parameter; its defaults are every class that this machine has.
pub const PARAM: Param = Param {
    name: "pair",
    doc: "where the two threads or processes run: on the same CPU, SMT siblings, under one \
          last-level cache, in one socket, in different sockets (remote), or on CPUs whose \
          topology is unknown (other); auto: every class of this machine",
    domain: Domain::Symbols(&["auto", "same", "smt", "llc", "socket", "remote", "other"]),
    defaults: ["auto", "auto", "auto"],
    role: Role::Case,
};

/// Two CPUs at a distance, the measuring thread's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub class: Class,
    /// The first party's CPU and the second's.
    pub cpus: [usize; 2],
}

/// The class of a distance; the kernel may not report it.
impl From<Option<Distance>> for Class {
    fn from(distance: Option<Distance>) -> Class {
        match distance {
            Some(Distance::Same) => Class::Same,
            Some(Distance::SmtSibling) => Class::Smt,
            Some(Distance::SharedLlc) => Class::Llc,
            Some(Distance::SameSocket) => Class::Socket,
            Some(Distance::OtherSocket) => Class::Remote,
            None => Class::Other,
        }
    }
}

/// One pair per distance class that the site's CPUs have, nearest class first: the first CPU with
/// the quietest partner of the class.
pub fn present(site: &Site) -> Vec<Pair> {
    let Some(&first) = site.cpus.first() else { return Vec::new() };
    let mut partners: BTreeMap<Class, usize> = BTreeMap::new();
    for &partner in &site.cpus {
        let class = match partner == first {
            true => Class::Same,
            false => site.host.cpu.distance(first, partner).into(),
        };
        partners.entry(class).or_insert(partner);
    }
    let pair = |(class, partner)| Pair { class, cpus: [first, partner] };
    partners.into_iter().map(pair).collect()
}

/// The classes that the site's CPUs have, nearest first.
pub fn classes(site: &Site) -> Vec<Class> {
    present(site).iter().map(|pair| pair.class).collect()
}

/// The pair of a class. Errors: this machine, or what `--cpu` leaves of it, has no such pair.
pub fn in_class(site: &Site, class: Class) -> Result<Pair, Skip> {
    let here = present(site);
    if let Some(pair) = here.iter().find(|pair| pair.class == class) {
        return Ok(*pair);
    }
    let names: Vec<&str> = here.iter().map(|pair| pair.class.text()).collect();
    let skip = Skip::because(format!(
        "the CPUs to measure on have no pair of the class `{}`, only {}",
        class.text(),
        names.join(", ")
    ));
    Err(match site.cpus.len() {
        0 | 1 => skip.needs("a second CPU, allowed and named by --cpu"),
        _ => skip,
    })
}

pub fn class(case: &CaseId) -> Option<Class> {
    Class::from_value(case.get(PARAM.name))
}

/// The pair of a class by its name. Errors: there is no such class, or this machine has no such
/// pair.
pub fn named(site: &Site, name: &str) -> Result<Pair, Skip> {
    match Class::from_value(Some(&name.into())) {
        Some(class) => in_class(site, class),
        None => Err(Skip::because(format!("`{name}` is not a class of pairs"))),
    }
}

/// The CPUs of a placed case, which are those of the round's environment.
/// Errors: the case is not placed, or the round is not on the first of them.
pub fn enter(case: &Case, bench: &mut Bench) -> Result<[usize; 2]> {
    let both = cpus(case).context("the case has not been placed")?;
    let (here, first) = (bench.order().cpu(), both[0]);
    ensure!(here == first, "the case was placed on CPU {first}, the round is on {here}");
    bench.declare(Declared::Cpus(&both));
    Ok(both)
}

/// Places every case of a series: its two CPUs are in what its symbols resolved to. Errors: this
/// machine has no such pair.
pub fn resolve(site: &Site, mut series: Series) -> Result<Series, Skip> {
    for case in &mut series.cases {
        let class = class(&case.id).unwrap_or(Class::Same);
        place(case, in_class(site, class)?);
    }
    Ok(series)
}

/// Writes a case's two CPUs into what its symbols resolved to.
pub fn place(case: &mut Case, pair: Pair) {
    for (name, cpu) in ["cpu", "partner"].into_iter().zip(pair.cpus) {
        case.at.insert(name.to_owned(), Value::Int(cpu as u64));
    }
}

pub fn cpus(case: &Case) -> Option<[usize; 2]> {
    let cpu = |name: &str| usize::try_from(case.at.get(name)?.int()?).ok();
    Some([cpu("cpu")?, cpu("partner")?])
}

#[cfg(test)]
mod tests {
    use super::{Class, classes, cpus, in_class, place, present};
    use crate::experiment::fixtures::{recorded, sites};
    use record::case::Case;
    use record::key::CaseId;

    #[test]
    fn every_class_that_a_machine_has_is_there_once_nearest_first() {
        let of_host = |name: &str| classes(&recorded(name));
        assert_eq!(of_host("vm-granite-rapids"), [Class::Same, Class::Llc]);
        assert_eq!(of_host("epyc-7763-2s"), Class::ALL[..5]);
        for site in sites() {
            for pair in present(&site) {
                assert_eq!(in_class(&site, pair.class), Ok(pair));
                assert_eq!(pair.cpus[0] == pair.cpus[1], pair.class == Class::Same);
            }
        }
    }

    #[test]
    fn a_class_that_is_not_there_is_a_skip_with_what_is() {
        let mut site = recorded("vm-granite-rapids");
        let skip = in_class(&site, Class::Remote).unwrap_err();
        assert!(skip.reason.contains("only same, llc"), "{}", skip.reason);
        assert!(skip.needed.is_none());
        site.cpus.truncate(1);
        assert!(in_class(&site, Class::Llc).unwrap_err().needed.is_some());
    }

    #[test]
    fn a_placed_case_tells_its_cpus() {
        let site = recorded("epyc-7763-2s");
        let pair = in_class(&site, Class::Remote).unwrap();
        let mut case = Case::new(CaseId::new());
        assert_eq!(cpus(&case), None);
        place(&mut case, pair);
        assert_eq!(cpus(&case), Some(pair.cpus));
    }
}
