//! Which rivals are here, and what is run beside each.

use super::ports::free_ports;
use super::process::end_strays;
use super::turns::{Observer, Setting};
use super::{Conditions, Pairing, Rival, ours, probe};
use anyhow::{Context, Result};
use bench::experiment::lacks_loopback;
use host::format_cpus;
use record::crosscheck as events;
use record::event::Event;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The record of plumb's side, for who repeats it by hand.
const OURS: &str = "ours.jsonl";

/// A rival that is here, with what is to be run beside it.
pub(super) struct Ready {
    pub rival: &'static Rival,
    /// It is ended after this time of a turn.
    pub limit: Option<Duration>,
    /// The conditions, with directories and ports of the rival's own.
    pub conditions: Conditions,
    pub pairings: Vec<Pairing>,
    program: &'static str,
}

/// The rivals that are here, and what is run beside each: nothing is run but to ask for versions.
pub(super) fn ready(
    setting: &Setting,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Vec<Ready>> {
    metal::process::adopt_orphans().context("descendants cannot be kept in sight")?;
    end_strays();
    let mut found = Vec::new();
    for (rival, is_wanted) in &setting.rivals {
        let conditions = own_places(&setting.conditions, rival.name)?;
        let probed = probe::probe(rival, &conditions.scratch, stop)?;
        let (version, program, absent) = match probed {
            Ok(found) => (Some(found.version), Some(found.program), None),
            Err(skip) => (None, None, Some(skip)),
        };
        observer.event(&Event::Rival(events::Rival {
            name: rival.name.to_owned(),
            about: rival.about.to_owned(),
            package: rival.package.map(str::to_owned),
            version: version.clone().filter(|version| !version.is_empty()),
            absent: absent.map(Into::into),
        }))?;
        let Some(program) = program else {
            continue;
        };
        let conditions = Conditions { version: version.unwrap_or_default(), ..conditions };
        let mut pairings = pairings(rival, &conditions, program);
        pairings.retain(|pairing| is_wanted(&pairing.name));
        found.push(Ready { rival, limit: setting.limit, conditions, pairings, program });
    }
    Ok(found)
}

fn pairings(rival: &Rival, conditions: &Conditions, program: &'static str) -> Vec<Pairing> {
    let mut all = (rival.pairings)(conditions);
    let without_loopback = lacks_loopback(&conditions.host);
    for pairing in &mut all {
        if pairing.theirs.program.is_empty() {
            pairing.theirs.program = program;
        }
        if pairing.ours.experiment.starts_with("net.") && without_loopback.is_some() {
            pairing.skip.clone_from(&without_loopback);
        }
    }
    all
}

/// The same conditions with directories and ports of a rival's own.
fn own_places(all: &Conditions, name: &str) -> Result<Conditions> {
    let below = |dir: &Path| -> Result<PathBuf> {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    };
    Ok(Conditions {
        scratch: below(&all.scratch)?,
        files: all.files.as_deref().map(below).transpose()?,
        in_memory: all.in_memory.as_deref().map(below).transpose()?,
        // Without a loopback no server is started.
        ports: lacks_loopback(&all.host).map_or_else(free_ports, |_| Ok([0; 4]))?,
        ..all.clone()
    })
}

impl Ready {
    /// A pairing as it is run now: with a far end at ports that are free now, since others may have
    /// taken those of the beginning.
    ///
    /// # Errors
    /// No port is free.
    pub fn now(&self, pairing: &Pairing) -> Result<Pairing> {
        if pairing.theirs.server.is_none() {
            return Ok(pairing.clone());
        }
        let conditions = Conditions { ports: free_ports()?, ..self.conditions.clone() };
        let mut again = pairings(self.rival, &conditions, self.program).into_iter();
        Ok(again.find(|one| one.name == pairing.name).unwrap_or_else(|| pairing.clone()))
    }

    pub fn event(&self, pairing: &Pairing) -> events::Pairing {
        let theirs = &pairing.theirs;
        let environment = theirs.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let environment: Vec<String> = environment.collect();
        // As it is started: with the environment, pinned.
        let shown = |cpus: &[usize], command: &[String]| -> Vec<String> {
            let mut words = environment.clone();
            if !cpus.is_empty() {
                words.extend(["taskset", "-c"].map(str::to_owned));
                words.push(format_cpus(cpus));
            }
            words.extend_from_slice(command);
            self.nameless(words)
        };
        let command: Vec<String> =
            std::iter::once(theirs.program.to_owned()).chain(theirs.args.iter().cloned()).collect();
        let record = self.conditions.scratch.join(OURS);
        let ours = std::iter::once("plumb".to_owned()).chain(ours::args(&pairing.ours, &record));
        let prepare = theirs.prepare.iter();
        let inputs = theirs.inputs.iter();
        events::Pairing {
            rival: self.rival.name.to_owned(),
            name: pairing.name.clone(),
            ours: self.nameless(ours.collect()),
            theirs: shown(&theirs.cpus, &command),
            inputs: inputs
                .map(|(name, text)| ((*name).to_owned(), self.without_paths(text)))
                .collect(),
            prepare: prepare.map(|one| shown(&theirs.cpus, one)).collect(),
            server: theirs.server.as_ref().map(|server| shown(&server.cpus, &server.command)),
            rows: pairing.rows.iter().map(|row| row_event(pairing, row)).collect(),
            once: pairing.is_once,
        }
    }

    fn nameless(&self, words: Vec<String>) -> Vec<String> {
        words.iter().map(|word| self.without_paths(word)).collect()
    }

    /// A text with a word for each directory that exists only while this runs.
    fn without_paths(&self, text: &str) -> String {
        let Conditions { scratch, files, in_memory, .. } = &self.conditions;
        let dirs = [
            (events::DIR, Some(scratch)),
            (events::FILES, files.as_ref()),
            (events::MEMORY, in_memory.as_ref()),
        ];
        dirs.into_iter().fold(text.to_owned(), |text, (word, dir)| {
            dir.map_or(text.clone(), |dir| text.replace(&dir.display().to_string(), word))
        })
    }
}

fn row_event(pairing: &Pairing, row: &super::Row) -> events::Row {
    events::Row {
        name: row.name.clone(),
        experiment: pairing.ours.experiment.to_owned(),
        case: row.case.clone(),
        metric: row.metric.to_owned(),
        statistic: row.statistic.name().to_owned(),
        unit: row.unit,
        goal: row.goal,
        difference: row.difference.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ready, pairings};
    use crate::RIVALS;
    use crate::tests::conditions;
    use bench::experiment::Preset;
    use bench::experiment::fixtures::recorded;

    fn ready(name: &str) -> Ready {
        let rival = RIVALS.iter().find(|rival| rival.name == name).unwrap();
        let conditions = conditions(&recorded("vm-granite-rapids"), Preset::Standard, 2);
        let program = rival.programs[0];
        Ready {
            rival,
            limit: None,
            pairings: pairings(rival, &conditions, program),
            conditions,
            program,
        }
    }

    /// All that is needed to do it again by hand.
    #[test]
    fn a_record_tells_far_ends_preparations_and_input_files() {
        let iperf3 = ready("iperf3");
        let told = iperf3.event(&iperf3.pairings[0]);
        let server = told.server.expect("its far end").join(" ");
        assert!(server.starts_with("taskset -c "), "{server}");
        assert!(server.contains("iperf3 -s -B 127.0.0.1 -p 5301"), "{server}");
        let fio = ready("fio");
        let told = fio.event(&fio.pairings[0]);
        let prepared = told.prepare.concat().join(" ");
        assert!(prepared.contains("fio") && prepared.contains("FILES"), "{prepared}");
        for words in [&told.ours, &told.theirs] {
            let line = words.join(" ");
            assert!(line.contains("FILES") && !line.contains("/tmp/"), "{line}");
        }
        let hpcc = ready("hpcc");
        let told = hpcc.event(&hpcc.pairings[0]);
        assert!(told.inputs["hpccinf.txt"].contains('\n'), "{:?}", told.inputs);
        // Shared memory of ranks.
        let mut all = hpcc.pairings.iter().map(|pairing| hpcc.event(pairing));
        assert!(all.any(|told| told.theirs.iter().any(|word| word.ends_with("=MEMORY"))));
    }

    #[test]
    fn a_far_end_has_ports_that_are_free_when_it_starts() {
        let iperf3 = ready("iperf3");
        let planned = &iperf3.pairings[0];
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = held.local_addr().unwrap().port();
        let now = iperf3.now(planned).unwrap();
        let ports = &now.theirs.server.as_ref().unwrap().ports;
        assert_ne!(*ports, planned.theirs.server.as_ref().unwrap().ports);
        assert!(ports.iter().all(|port| *port != taken));
        assert!(now.theirs.args.contains(&ports[0].to_string()), "{:?}", now.theirs.args);
        let other = ready("perf");
        assert_eq!(other.now(&other.pairings[0]).unwrap().name, other.pairings[0].name);
    }
}
