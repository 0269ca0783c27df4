//! Records and their pages: one real run of everything as small as it gets, and records made from it.

use crate::plumb::Here;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A page with the record that it shows.
pub struct Page {
    here: Here,
    /// The record's events.
    pub events: Vec<Value>,
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

    /// The page of a real run of few.
    pub fn of_run(selectors: &[&str]) -> Page {
        let here = Here::new();
        Page::new(here.measure(&[selectors, &["--preset", "rehearsal"]].concat()))
    }

    /// The page of a record with these lines.
    pub fn new(events: Vec<Value>) -> Page {
        let here = Here::new();
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        fs::write(here.path("run.jsonl"), lines).unwrap();
        let page = Page { here, events };
        let html = page.report("html");
        fs::write(page.file(), html).unwrap();
        page
    }

    /// Where it is.
    pub fn file(&self) -> PathBuf {
        self.here.path("page.html")
    }

    /// Its text.
    pub fn html(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// The same record in a format.
    #[track_caller]
    pub fn report(&self, format: &str) -> String {
        let answer = self
            .here
            .plumb(&["report", "run.jsonl", "--format", format]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.out
    }

    /// The flat result's figures.
    pub fn figures(&self) -> Vec<Value> {
        let result: Value = serde_json::from_str(&self.report("json")).unwrap();
        result["figures"].as_array().unwrap().clone()
    }
}
