//! Agents in a lab, and what runs against them leave in their records.

use crate::lab::{End, FAR, Lab, PATIENCE};
use crate::plumb::prelude::*;

const PORT: u16 = 7400;

/// An agent that listens at the far end, with the key that both ends have.
pub struct Agent {
    pub program: Program,
}

pub struct Recorded {
    pub answer: Answer,
    pub events: Vec<Value>,
}

impl Agent {
    /// Starts one and waits until it listens.
    pub fn start(lab: &Lab) -> Agent {
        let (far, near) = (key(lab, End::Far), key(lab, End::Near));
        if !lab.dir(End::Far).join("key").exists() {
            lab.in_net(End::Far, PLUMB, &["agent", "--new-key", &far]);
            let copied = Command::new("cp").args(["-p", &far, &near]).status();
            assert!(copied.unwrap().success());
        }
        let address = format!("{FAR}:{PORT}");
        let arguments = ["agent", "--listen", &address, "--key-file", &far];
        let mut program = lab.start(End::Far, PLUMB, &arguments);
        wait_for("an agent that listens", || {
            assert!(program.is_running(), "{}", program.said());
            // Without a connection: the agent is not to be disturbed.
            let listens = lab.in_net(End::Far, "ss", &["-Hltn", &format!("sport = :{PORT}")]);
            (!listens.is_empty()).then_some(())
        });
        Agent { program }
    }

    /// It is there, and serves one more session.
    #[track_caller]
    pub fn serves(&mut self, lab: &Lab) {
        assert!(self.program.is_running(), "{}", self.program.said());
        let run = lab.run("selftest.echo", &url(), "");
        assert_eq!(run.answer.code, Some(0), "{:?}\n{}", run.answer, self.program.said());
        assert_eq!(run.ended("selftest.echo", "measured").len(), 1, "{:?}", run.answer);
    }

    /// Ends it, as a user does; nothing is left.
    #[track_caller]
    pub fn leaves(self, lab: &Lab) {
        signal("TERM", self.program.pid());
        let ended = self.program.ended_within(PATIENCE);
        assert!(ended.said.len() < 100_000, "{ended:?}");
        lab.is_left_clean();
    }

    /// Both, one after the other.
    #[track_caller]
    pub fn serves_and_leaves(mut self, lab: &Lab) {
        self.serves(lab);
        self.leaves(lab);
    }
}

pub fn url() -> String {
    format!("tcp://{FAR}:{PORT}")
}

fn key(lab: &Lab, end: End) -> String {
    lab.dir(end).join("key").to_str().unwrap().to_owned()
}

impl Lab {
    /// Starts a run of an experiment with these settings (and facts, `host.NAME=VALUE`) at the near
    /// end, against the far end at this URL.
    pub fn start_run(&self, experiment: &str, url: &str, settings: &str) -> Program {
        let key = key(self, End::Near);
        let selector = format!("{experiment}:far=peer");
        let mut line = vec!["run", &selector, "--preset", "quick", "--json", "--peer", url];
        if url.starts_with("tcp:") {
            line.extend(["--key-file", &key]);
        }
        let named = |set: &&str| match set.starts_with("host.") {
            true => (*set).to_owned(),
            false => format!("{experiment}.{set}"),
        };
        let sets: Vec<String> = settings.words().iter().map(named).collect();
        line.extend(sets.iter().flat_map(|set| ["--set", set]));
        self.start(End::Near, PLUMB, &line)
    }

    pub fn run(&self, experiment: &str, url: &str, settings: &str) -> Recorded {
        self.recorded(self.start_run(experiment, url, settings))
    }

    /// Waits for a run's end and reads its record.
    #[track_caller]
    pub fn recorded(&self, program: Program) -> Recorded {
        let Ended { code, out, said, .. } = program.ended_within(PATIENCE);
        let record = self.records().pop();
        let events = record.map(|record| events(&record)).unwrap_or_default();
        Recorded { answer: Answer { code, out, err: said }, events }
    }

    /// The rounds so far of the run that goes on.
    pub fn rounds(&self) -> Vec<Value> {
        let mut events = whole_events(&self.records().pop().expect("a run goes on"));
        events.retain(|event| is(event, "round"));
        events
    }

    /// Bytes that have come in at the far end's interface.
    pub fn arrived_bytes(&self) -> u64 {
        let file = "/sys/class/net/eth0/statistics/rx_bytes";
        self.in_net(End::Far, "cat", &[file]).trim().parse().unwrap()
    }

    /// Waits until so much has come in at the far end from now on.
    pub fn wait_for_bytes(&self, bytes: u64) {
        let before = self.arrived_bytes();
        wait_within(PATIENCE, "bytes at the far end", || {
            (self.arrived_bytes() >= before + bytes).then_some(())
        });
    }
}

impl Recorded {
    /// The reasons of an experiment's cases that ended so.
    pub fn ended(&self, experiment: &str, how: &str) -> Vec<String> {
        let outcomes = events_of_kind(&self.events, "outcome").into_iter();
        outcomes
            .filter(|outcome| outcome["experiment"] == experiment && outcome["outcome"] == how)
            .filter(|outcome| !outcome["case"].is_null())
            .map(|outcome| outcome["reason"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    pub fn predictions(&self, experiment: &str, metric: &str) -> Vec<&Value> {
        let told = events_of_kind(&self.events, "prediction").into_iter();
        told.filter(|event| event["experiment"] == experiment && event["metric"] == metric)
            .collect()
    }

    /// Samples of a metric, of all rounds, in cases that have all of these parameters.
    pub fn samples(&self, metric: &str, case: &[(&str, Value)]) -> Vec<&Value> {
        let samples = self.events.iter();
        samples
            .filter(|event| is(event, "samples") && event["metric"] == metric)
            .filter(|event| case.iter().all(|(name, value)| event["case"][name] == *value))
            .collect()
    }

    pub fn values(&self, metric: &str, case: &[(&str, Value)]) -> Vec<f64> {
        let samples = self.samples(metric, case).into_iter();
        samples
            .flat_map(|samples| samples["values"].as_array().unwrap())
            .map(|value| value.as_f64().unwrap())
            .collect()
    }

    /// All events of a metric, of all rounds; of a distribution each bucket's value as often as it
    /// counts.
    pub fn events_of(&self, metric: &str, case: &[(&str, Value)]) -> Vec<f64> {
        let mut values = self.values(metric, case);
        for histogram in self.histograms(metric) {
            if case.iter().any(|(name, value)| histogram["case"][name] != *value) {
                continue;
            }
            let scale = histogram["scale"].as_f64().unwrap();
            for bucket in histogram["buckets"].as_array().unwrap() {
                let value = bucket[0].as_f64().unwrap() * scale;
                let count = bucket[1].as_u64().unwrap() as usize;
                values.extend(std::iter::repeat_n(value, count));
            }
        }
        values
    }

    pub fn histograms(&self, metric: &str) -> Vec<&Value> {
        let histograms = events_of_kind(&self.events, "histogram").into_iter();
        histograms.filter(|event| event["metric"] == metric).collect()
    }

    pub fn rounds(&self) -> Vec<&Value> {
        events_of_kind(&self.events, "round")
    }

    pub fn header(&self) -> &Value {
        let header = self.events.first().expect("a record has a header");
        assert!(is(header, "header"));
        header
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "no values");
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
