//! Where two parties run: the `pair` parameter, which is a case and never an accident.

use crate::experiment::{Domain, Param, Role, Site, Skip};
use host::Distance;
use record::case::Case;
use record::key::Value;

/// The distance classes, nearest first, as cases name them.
pub const SYMBOLS: [&str; 6] = ["same", "smt", "llc", "socket", "remote", "other"];

/// The parameter; its defaults are every class that this machine has.
pub const PARAM: Param = Param {
    name: "pair",
    doc: "where the two parties run: on the same CPU, SMT siblings, under one last-level cache, in \
          one socket, in different sockets (remote), or on CPUs of unknown distance (other); auto: \
          every class that this machine has",
    domain: Domain::Symbols(&["auto", "same", "smt", "llc", "socket", "remote", "other"]),
    defaults: ["auto", "auto", "auto"],
    role: Role::Case,
};

/// Two CPUs at a distance, the measuring thread's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Symbol of the distance class.
    pub symbol: &'static str,
    /// The first party's CPU and the second's.
    pub cpus: [usize; 2],
}

/// The symbol of a distance; the kernel may not tell it.
pub fn symbol(distance: Option<Distance>) -> &'static str {
    match distance {
        Some(Distance::Same) => "same",
        Some(Distance::SmtSibling) => "smt",
        Some(Distance::SharedLlc) => "llc",
        Some(Distance::SameSocket) => "socket",
        Some(Distance::OtherSocket) => "remote",
        None => "other",
    }
}

/// One pair per distance class that the site's CPUs have, nearest class first: the first CPU with
/// the quietest partner of the class.
pub fn present(site: &Site) -> Vec<Pair> {
    let Some(&first) = site.cpus.first() else {
        return Vec::new();
    };
    let class = |other: usize| match first == other {
        true => "same",
        false => symbol(site.host.cpu.distance(first, other)),
    };
    SYMBOLS
        .into_iter()
        .filter_map(|symbol| {
            let partner = *site.cpus.iter().find(|other| class(**other) == symbol)?;
            Some(Pair {
                symbol,
                cpus: [first, partner],
            })
        })
        .collect()
}

/// The pair of a symbol.
///
/// # Errors
/// This machine, or what `--cpu` leaves of it, has no such pair.
pub fn of(site: &Site, symbol: &str) -> Result<Pair, Skip> {
    let here = present(site);
    if let Some(pair) = here.iter().find(|pair| pair.symbol == symbol) {
        return Ok(*pair);
    }
    let names: Vec<&str> = here.iter().map(|pair| pair.symbol).collect();
    let skip = Skip::because(format!(
        "the CPUs to measure on have no pair of the class `{symbol}`, only {}",
        names.join(", ")
    ));
    Err(match site.cpus.len() {
        0 | 1 => skip.needs("a second CPU, allowed and named by --cpu"),
        _ => skip,
    })
}

/// Writes a case's two CPUs into what its symbols resolved to.
pub fn place(case: &mut Case, pair: Pair) {
    for (name, cpu) in ["cpu", "partner"].into_iter().zip(pair.cpus) {
        case.at.insert(name.to_owned(), Value::Int(cpu as u64));
    }
}

/// The two CPUs of a resolved case.
pub fn cpus(case: &Case) -> Option<[usize; 2]> {
    let cpu = |name: &str| usize::try_from(case.at.get(name)?.int()?).ok();
    Some([cpu("cpu")?, cpu("partner")?])
}

#[cfg(test)]
mod tests {
    use super::{cpus, of, place, present};
    use crate::experiment::fixtures::{recorded, sites};
    use record::case::Case;
    use record::key::CaseId;

    #[test]
    fn every_class_that_a_machine_has_is_there_once_nearest_first() {
        let classes = |name: &str| -> Vec<&str> {
            present(&recorded(name))
                .iter()
                .map(|pair| pair.symbol)
                .collect()
        };
        assert_eq!(classes("vm-granite-rapids"), ["same", "llc"]);
        assert_eq!(
            classes("epyc-7763-2s"),
            ["same", "smt", "llc", "socket", "remote"]
        );
        for site in sites() {
            for pair in present(&site) {
                assert_eq!(of(&site, pair.symbol), Ok(pair));
                assert_eq!(pair.cpus[0] == pair.cpus[1], pair.symbol == "same");
            }
        }
    }

    #[test]
    fn a_class_that_is_not_there_is_a_skip_with_what_is() {
        let mut site = recorded("vm-granite-rapids");
        let skip = of(&site, "remote").unwrap_err();
        assert!(skip.reason.contains("only same, llc"), "{}", skip.reason);
        assert!(skip.needed.is_none());
        site.cpus.truncate(1);
        assert!(of(&site, "llc").unwrap_err().needed.is_some());
    }

    #[test]
    fn a_placed_case_tells_its_cpus() {
        let site = recorded("epyc-7763-2s");
        let pair = of(&site, "remote").unwrap();
        let mut case = Case::new(CaseId::new());
        assert_eq!(cpus(&case), None);
        place(&mut case, pair);
        assert_eq!(cpus(&case), Some(pair.cpus));
    }
}
