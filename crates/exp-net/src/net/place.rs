//! Where both ends run: the `ends` parameter, which is a case and never an accident.

use anyhow::{Context, Result, ensure};
use bench::experiment::{Domain, Param, Role, Site};
use bench::measure::{Bench, FarEnd};
use bench::pair::Class;
use metal::place::{current_cpu, pin};
use record::case::Case;
use record::key::{FREE, PLACEMENT, Value};

/// One thread holds both sockets.
pub const ONE_THREAD: &str = "one_thread";
/// Two processes on one CPU.
pub const SAME_CPU: &str = "same_cpu";
/// Two processes on two CPUs.
pub const OTHER_CPU: &str = "other_cpu";
/// Two processes on two hosts.
pub const TWO_HOSTS: &str = "two_hosts";

/// The parameter; its defaults are what the far end allows.
pub const ENDS: Param = Param {
    name: "ends",
    doc: "where both ends run: one_thread (one thread holds both sockets), same_cpu, other_cpu (two \
          processes), two_hosts; auto: what the preset lists of those that the far end allows",
    domain: Domain::Symbols(&["auto", ONE_THREAD, SAME_CPU, OTHER_CPU, TWO_HOSTS]),
    defaults: ["auto", "auto", "auto"],
    role: Role::Case,
};

/// The ends that a site allows.
pub fn present(site: &Site) -> Vec<&'static str> {
    match (&site.peer, site.cpus.len()) {
        (Some(_), _) => vec![TWO_HOSTS],
        (None, 0 | 1) => vec![ONE_THREAD, SAME_CPU],
        (None, _) => vec![ONE_THREAD, SAME_CPU, OTHER_CPU],
    }
}

/// The CPUs of both ends, the near one's first; `None` where a site does not allow the ends.
pub fn cpus(site: &Site, ends: &str) -> Option<[usize; 2]> {
    let near = *site.cpus.first()?;
    let far = match ends {
        ONE_THREAD | SAME_CPU if site.peer.is_none() => near,
        OTHER_CPU if site.peer.is_none() => *site.cpus.get(1)?,
        TWO_HOSTS => site.peer.as_ref()?.cpus.first().copied().unwrap_or(0),
        _ => return None,
    };
    Some([near, far])
}

/// Writes both CPUs into what a case's `ends` resolved to, for CPUs of one host with their distance. Where the
/// planner placed the case ([`PLACEMENT`]) they stand there.
pub fn place(site: &Site, case: &mut Case) {
    let ends = case.text("ends").unwrap_or_default().to_owned();
    let Some([near, far]) = cpus(site, &ends) else {
        return;
    };
    if case.id.get(PLACEMENT).is_some() {
        return;
    }
    let mut at = |name: &str, value: Value| case.at.insert(name.to_owned(), value);
    at("near_cpu", Value::Int(near as u64));
    at("far_cpu", Value::Int(far as u64));
    if ends == OTHER_CPU {
        at("distance", Class::from(site.host.cpu.distance(near, far)).text().into());
    }
}

/// Whether the scheduler places the threads of both ends.
pub fn is_free(case: &Case) -> bool {
    case.id.text(PLACEMENT) == Some(FREE)
}

/// The CPUs that the near end's calling thread is on: one, or where it is free all of the round.
///
/// # Errors
/// The case was not placed, or the round is on another CPU.
pub fn near_cpus(bench: &Bench, case: &Case) -> Result<Vec<usize>> {
    if is_free(case) {
        return Ok(bench.order().cpus.clone());
    }
    let cpu = placed(case, "near_cpu")?;
    ensure!(
        bench.cpu() == cpu && current_cpu() == cpu,
        "the case is for CPU {cpu}, the round on {}, its thread on {}",
        bench.cpu(),
        current_cpu()
    );
    Ok(vec![cpu])
}

/// The far end's CPU where it is pinned: on another host the first of its own order.
///
/// # Errors
/// The case was not placed.
fn far_cpu(far: &FarEnd, case: &Case) -> Result<usize> {
    if case.text("ends") == Some(TWO_HOSTS) {
        let cpus = &far.order().cpus;
        return cpus.first().copied().context("the order names no CPU");
    }
    placed(case, "far_cpu")
}

/// Pins the calling thread, which serves a case, to the far end's CPU, unless it is free; the CPUs that it is on
/// then.
///
/// # Errors
/// As [`far_cpu`], or it cannot be pinned to.
pub fn pin_far(far: &mut FarEnd, case: &Case) -> Result<Vec<usize>> {
    let cpus = match is_free(case) {
        true => far.order().cpus.clone(),
        false => vec![far_cpu(far, case)?],
    };
    if let [cpu] = *cpus {
        pin(cpu).with_context(|| format!("pinning the far end to CPU {cpu}"))?;
    }
    far.use_cpus(&cpus);
    Ok(cpus)
}

/// Puts a thread that an end of a case makes on its CPU; where the case is free it may run where its maker may.
///
/// # Errors
/// It cannot be pinned to.
pub fn settle(is_free: bool, cpu: usize) -> Result<()> {
    if !is_free {
        pin(cpu).with_context(|| format!("pinning a thread to CPU {cpu}"))?;
    }
    Ok(())
}

/// The CPU of the traffic's threads that a case names.
pub fn traffic_cpu(case: &Case, name: &str) -> Option<usize> {
    placed(case, name).ok()
}

/// The CPU of an end that is on one.
pub fn only(cpus: &[usize]) -> Option<usize> {
    match cpus {
        [cpu] => Some(*cpu),
        _ => None,
    }
}

fn placed(case: &Case, name: &str) -> Result<usize> {
    let cpu = case.at.get(name).and_then(Value::int);
    let cpu = cpu.with_context(|| format!("{} was not placed: no {name}", case.id))?;
    Ok(usize::try_from(cpu)?)
}

#[cfg(test)]
mod tests {
    use super::{cpus, place, present};
    use bench::experiment::Peer;
    use bench::experiment::fixtures::{recorded, sites};
    use record::case::Case;
    use record::key::{CaseId, Value};

    fn peer(site: &bench::experiment::Site) -> Peer {
        Peer {
            name: "other".to_owned(),
            address: "192.0.2.7".parse().expect("an address"),
            host: site.host.clone(),
            cpus: vec![5, 6],
            interface: None,
        }
    }

    #[test]
    fn every_site_has_places_for_both_ends() {
        for mut site in sites() {
            for ends in present(&site) {
                let [near, far] = cpus(&site, ends).expect("is present");
                assert_eq!(near == far, ends != "other_cpu");
                assert!(site.cpus.contains(&far));
            }
            assert_eq!(present(&site).contains(&"other_cpu"), site.cpus.len() > 1);
            site.peer = Some(peer(&site));
            assert_eq!(present(&site), ["two_hosts"]);
            assert_eq!(cpus(&site, "two_hosts").expect("a peer")[1], 5);
            assert_eq!(cpus(&site, "same_cpu"), None);
        }
    }

    #[test]
    fn a_placed_case_tells_its_cpus_and_how_far_they_are() {
        let site = recorded("epyc-7763-2s");
        let mut case = Case::new(CaseId::new().with("ends", "other_cpu"));
        place(&site, &mut case);
        let int = |name: &str| case.at.get(name).and_then(Value::int);
        assert_eq!(int("near_cpu"), Some(site.cpus[0] as u64));
        assert_eq!(int("far_cpu"), Some(site.cpus[1] as u64));
        assert!(case.at.contains_key("distance"));
    }
}
