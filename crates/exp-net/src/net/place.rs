//! Where both ends run: the `ends` parameter, which is a case and never an accident.

use anyhow::{Context, Result, ensure};
use bench::experiment::placement::far_cpu;
use bench::experiment::{Fields, Site, Skip};
use bench::measure::{Bench, FarEnd, beside};
use bench::pair::Class;
use laws::net::Ends;
use metal::place::{current_cpu, pin};
use record::case::{Case, Series};
use record::key::{FREE, PLACEMENT, Put, Value};

/// Why a site does not allow the ends.
pub fn absent(site: &Site, ends: Ends) -> Option<Skip> {
    if ends.cpus(site).is_some() {
        return None;
    }
    let present: Vec<&str> = Ends::present(site).iter().map(|ends| ends.text()).collect();
    let skip = Skip::because(format!(
        "ends=`{}` is impossible with far=`{}`; possible: {}",
        ends.text(),
        site.far(),
        present.join(", ")
    ));
    Some(match ends {
        Ends::OtherCpu if site.peer.is_none() => {
            skip.needs("a second CPU, allowed and listed in --cpu")
        }
        Ends::TwoHosts => skip.needs("another host: --peer URL"),
        _ => skip,
    })
}

/// Writes both CPUs into what the cases' `ends` resolved to, for CPUs of one host with their
/// distance. Where the planner placed a case ([`PLACEMENT`]) they stand there.
pub fn place_all<C: Fields>(site: &Site, mut series: Series, ends: fn(&C) -> Ends) -> Series {
    for case in series.cases.iter_mut().filter(|case| case.id.get(PLACEMENT).is_none()) {
        let Some(ends) = C::of(&case.id).map(|case| ends(&case)) else {
            continue;
        };
        let Some([near, far]) = ends.cpus(site) else {
            continue;
        };
        case.at.put("near_cpu", near as u64);
        case.at.put("far_cpu", far as u64);
        if ends == Ends::OtherCpu {
            case.at.put("distance", Class::from(site.host.cpu.distance(near, far)).text());
        }
    }
    series
}

/// Whether the scheduler places the threads of both ends.
pub fn is_free(case: &Case) -> bool {
    case.id.text(PLACEMENT) == Some(FREE)
}

/// The CPUs that the near end's calling thread is on: one, or where it is free all of the round.
pub fn near_cpus(bench: &Bench, case: &Case) -> Result<Vec<usize>> {
    if is_free(case) {
        return Ok(bench.order().cpus.clone());
    }
    let cpu = placed(case, "near_cpu")?;
    ensure!(
        bench.order().cpu() == cpu && current_cpu() == cpu,
        "the case needs CPU {cpu}, but the round has CPU {} and the thread runs on CPU {}",
        bench.order().cpu(),
        current_cpu()
    );
    Ok(vec![cpu])
}

/// Pins the calling thread, which serves a case, to the far end's CPU (on another host the first of
/// its own order), unless it is free; the CPUs that it is on then.
pub fn pin_far(far: &mut FarEnd, case: &Case, ends: Ends) -> Result<Vec<usize>> {
    let all = &far.order().cpus;
    let cpus = match (is_free(case), ends) {
        (true, _) => all.clone(),
        (false, Ends::TwoHosts) => vec![*all.first().context("the order has no CPU")?],
        (false, _) => vec![far_cpu(case).context("the case has no far_cpu")?],
    };
    if let [cpu] = *cpus {
        pin(cpu).with_context(|| format!("pinning the far end to CPU {cpu}"))?;
    }
    far.use_cpus(&cpus);
    Ok(cpus)
}

/// Where the threads of an end run: on its CPUs, or where the scheduler places them.
pub fn places(cpus: &[usize], is_free: bool) -> impl Iterator<Item = Option<usize>> {
    cpus.iter().map(move |cpu| (!is_free).then_some(*cpu))
}

/// Has every connection of an end worked at once, each in a thread, but the first in the calling
/// one, which is there already. Once all are prepared they begin.
pub fn at_once<T: Send, P, R: Send>(
    connections: impl IntoIterator<Item = T>,
    places: impl Iterator<Item = Option<usize>>,
    prepare: impl Fn(T) -> Result<P> + Sync,
    work: impl Fn(P) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut connections = connections.into_iter();
    let first = connections.next().context("no connection")?;
    let others = places.skip(1).zip(connections).collect();
    let (found, others) = beside(others, &prepare, &work, |gate| {
        let prepared = prepare(first);
        gate.open();
        work(prepared?)
    })?;
    std::iter::once(found).chain(others).collect()
}

/// A CPU that a case names.
pub fn placed(case: &Case, name: &str) -> Result<usize> {
    let cpu = case.at.get(name).and_then(Value::int);
    let cpu = cpu.with_context(|| format!("{} has no {name}", case.id))?;
    Ok(usize::try_from(cpu)?)
}

/// The CPU of an end that is on one.
pub fn only(cpus: &[usize]) -> Option<usize> {
    match cpus {
        [cpu] => Some(*cpu),
        _ => None,
    }
}

/// CPUs as a record names them: one by its number, several in a list.
pub fn listed(cpus: impl IntoIterator<Item = usize>) -> Option<Value> {
    let cpus: std::collections::BTreeSet<usize> = cpus.into_iter().collect();
    match cpus.len() {
        0 => None,
        1 => cpus.first().map(|cpu| Value::Int(*cpu as u64)),
        _ => {
            let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
            Some(Value::from(names.join(",")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{listed, place_all};
    use bench::experiment::Fields;
    use bench::experiment::fixtures::recorded;
    use laws::net::Ends;
    use laws::net::connect::{Connections, Listener};
    use record::case::{Case, Order, Series};
    use record::key::Value;

    #[test]
    fn a_placed_case_has_its_cpus_and_how_far_they_are() {
        let site = recorded("epyc-7763-2s");
        let (ends, listener) = (Ends::OtherCpu, Listener::Ready);
        let case = Connections { ends, listener, closer: None };
        let series = Series::new("net.none", Order::Fixed, vec![Case::new(case.id())]);
        let series = place_all(&site, series, |case: &Connections| case.ends);
        let case = &series.cases[0];
        let int = |name: &str| case.at.get(name).and_then(Value::int);
        assert_eq!(int("near_cpu"), Some(site.cpus[0] as u64));
        assert_eq!(int("far_cpu"), Some(site.cpus[1] as u64));
        assert!(case.at.contains_key("distance"));
    }

    #[test]
    fn every_cpu_that_packets_arrived_on_has_a_name() {
        assert_eq!(listed([]), None);
        assert_eq!(listed([3]), Some(Value::Int(3)));
        assert_eq!(listed([10, 3]), Some(Value::from("3,10")));
    }
}
