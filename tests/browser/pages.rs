//! Records and their pages: one real run of everything as small as it gets, and records made from
//! it.

use crate::plumb::prelude::*;
use crate::records;
use crate::tab::{Look, Tab};
use std::sync::OnceLock;

pub struct Page {
    here: Here,
    pub events: Vec<Value>,
}

fn write(here: &Here, name: &str, events: &[Value]) {
    fs::write(here.path(name), lines(events)).unwrap();
}

/// The events of few experiments: lines, bars, a curve and a matrix.
pub fn some() -> Vec<Value> {
    let selected =
        ["clock.rate", "cpu.call", "cpu.peak", "memory.loaded", "memory.mlp", "cpu.core_to_core"];
    let events = Page::of_everything().events.clone();
    records::only(events, |id| selected.contains(&id))
}

impl Page {
    /// The page of a real run: everything that this host can measure, one round of the least.
    pub fn of_everything() -> &'static Page {
        static EVERYTHING: OnceLock<Page> = OnceLock::new();
        EVERYTHING.get_or_init(|| {
            let here = Here::new();
            let events = here.measure(&["--preset", "rehearsal"]);
            Page::new(events)
        })
    }

    /// The page of a few experiments of that run, with rounds that differ: figures with intervals.
    pub fn of_some() -> &'static Page {
        static SOME: OnceLock<Page> = OnceLock::new();
        SOME.get_or_init(|| Page::new(records::repeated(some(), 8)))
    }

    /// The page that sets a changed copy of those beside them.
    pub fn of_comparison() -> &'static Page {
        static COMPARISON: OnceLock<Page> = OnceLock::new();
        COMPARISON.get_or_init(|| {
            let base = records::repeated(some(), 8);
            let mut new = base.clone();
            new[0]["run"] = "another".into();
            let arguments = |case: &Value| case["arguments"].as_f64().unwrap_or_default();
            records::set_samples(&mut new, "cpu.call", "call", &|case| {
                100.0 + 10.0 * arguments(case)
            });
            Page::comparing(&base, new)
        })
    }

    /// The page that sets a record beside another.
    pub fn comparing(base: &[Value], new: Vec<Value>) -> Page {
        let here = Here::new();
        write(&here, "run.jsonl", base);
        write(&here, "new.jsonl", &new);
        let args = ["compare", "run.jsonl", "new.jsonl", "--format", "html"];
        let answer = here.plumb(&args);
        // 1 where there are findings.
        assert!(matches!(answer.code, Some(0 | 1)), "{answer:?}");
        fs::write(here.path("page.html"), answer.out).unwrap();
        Page { here, events: new }
    }

    pub fn new(events: Vec<Value>) -> Page {
        let here = Here::new();
        write(&here, "run.jsonl", &events);
        let page = Page { here, events };
        let html = page.report("html");
        fs::write(page.file(), html).unwrap();
        page
    }

    /// The same record as a page whose print is short.
    pub fn for_short_print(&self) -> PathBuf {
        let args = ["report", "run.jsonl", "--format", "html", "--print", "short"];
        let file = self.here.path("short.html");
        fs::write(&file, self.here.ends(0, &args).out).unwrap();
        file
    }

    pub fn file(&self) -> PathBuf {
        self.here.path("page.html")
    }

    #[track_caller]
    pub fn open(&self) -> Tab {
        Tab::open(&self.file(), Look::DESK)
    }

    /// The page on a desk, with every plot drawn; it is quiet.
    #[track_caller]
    pub fn drawn(&self) -> Tab {
        Tab::drawn(&self.file(), Look::DESK)
    }

    pub fn html(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    #[track_caller]
    pub fn report(&self, format: &str) -> String {
        self.here.ends(0, &["report", "run.jsonl", "--format", format]).out
    }

    pub fn figures(&self) -> Vec<Value> {
        let result = self.here.ends(0, &["report", "run.jsonl", "--format", "json"]).json();
        result["figures"].as_array().unwrap().clone()
    }
}
