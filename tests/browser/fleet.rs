//! The page of a sweep: the heat map and the matrix of pairs, on a desk and on a phone.

use crate::plumb::prelude::*;
use crate::tab::{Look, Tab, fits_a_phone};
use fleet::fixture::Fleet;

/// The page of a sweep.
fn page(here: &Here, fleet: &Fleet) -> PathBuf {
    fs::write(here.path("sweep.jsonl"), fleet.record()).unwrap();
    here.ends(0, &["fleet", "report", "sweep.jsonl", "-f", "html", "-o", "page.html"]);
    here.path("page.html")
}

#[test]
fn slow_nodes_and_links_are_seen_at_once() {
    let here = Here::new();
    let page = page(&here, &Fleet::planted());
    let tab = Tab::drawn(&page, Look::DESK);
    let verdicts: Vec<String> = tab.get(
        "[...document.querySelectorAll('#findings tbody tr')]\
         .map((row) => row.firstElementChild.textContent)",
    );
    assert_eq!(verdicts, ["node-07", "node-03 → node-11"]);
    // The darkest cells are those of what is accused.
    let slowest: Vec<Vec<String>> = tab.get(
        "[...document.querySelectorAll('figure.plot .cells [data-say]')].map((cells) => { \
         const all = cells.dataset.say.split('\\n').map((text) => [parseFloat(text.split(': ').at(-1)), text]); \
         return all.sort((a, b) => a[0] - b[0]).slice(0, 2).map(([, text]) => text); })",
    );
    assert_eq!(slowest.len(), 3, "{slowest:?}");
    let [nodes, bandwidth, rtt] = slowest.as_slice() else { panic!("{slowest:?}") };
    assert!(nodes.iter().all(|text| text.contains("memory.bandwidth") && text.contains("node-07")));
    for pairs in [bandwidth, rtt] {
        let text = &pairs[0];
        assert!(text.contains("from node-03, to node-11"), "{text}");
    }
    // Each row of the heat map has its name.
    let names: usize =
        tab.get("document.querySelectorAll('#nodes figure.plot .ticks.y text').length");
    assert_eq!(names, 15);
    fits_a_phone(&page);
}

#[test]
fn a_thousand_nodes_are_drawn_in_time() {
    let here = Here::new();
    let page =
        page(&here, &Fleet { slow: vec![(700, "memory.bandwidth", 0.8)], ..Fleet::healthy(1000) });
    let tab = Tab::drawn(&page, Look::DESK);
    let columns: usize =
        tab.get("new Set(document.querySelector('#nodes .cells [data-say]').getAttribute('d').match(/M-?[\\d.]+/g)).size");
    assert_eq!(columns, 120);
}
