//! The page of a sweep: the heat map and the matrix of pairs, on a desk and on a phone.

use crate::plumb::prelude::*;
use crate::tab::{Look, Tab, fits_a_phone};
use fleet::drawn::{Drawn, Fault, Noise, text};

fn page(here: &Here, size: usize, fault: Fault) -> PathBuf {
    here.make_dir("sweep");
    for (host, lines) in Drawn::new(&Noise::plain(), size, vec![fault], 7).sweep() {
        fs::write(here.path(&format!("sweep/{host}.jsonl")), text(&lines)).unwrap();
    }
    here.ends(0, &["fleet", "report", "sweep", "-f", "html", "-o", "page.html"]);
    here.path("page.html")
}

#[test]
fn slow_nodes_are_seen_at_once() {
    let here = Here::new();
    let page = page(&here, 24, Fault::Figure(7, 0, 0.35));
    let tab = Tab::drawn(&page, Look::DESK);
    let verdicts: Vec<String> = tab.get(
        "[...document.querySelectorAll('#findings > .scroll tbody tr')]\
         .map((row) => row.firstElementChild.textContent)",
    );
    assert_eq!(verdicts, ["n007"]);
    // The darkest cell of the heat map is that of what stands out.
    let slowest: Vec<String> = tab.get(
        "[...document.querySelectorAll('figure.plot .cells [data-say]')].map((cells) => { \
         const all = cells.dataset.say.split('\\n').map((text) => [parseFloat(text.split(': ').at(-1)), text]); \
         return all.sort((a, b) => a[0] - b[0])[0][1]; })",
    );
    assert_eq!(slowest.len(), 3, "{slowest:?}");
    assert!(slowest[0].contains("memory.bandwidth") && slowest[0].contains("n007"), "{slowest:?}");
    fits_a_phone(&page);
}

#[test]
fn a_thousand_nodes_are_drawn_in_time() {
    let here = Here::new();
    let page = page(&here, 1000, Fault::Figure(700, 0, 0.25));
    let tab = Tab::drawn(&page, Look::DESK);
    let columns: usize =
        tab.get("new Set(document.querySelector('#nodes .cells [data-say]').getAttribute('d').match(/M-?[\\d.]+/g)).size");
    assert_eq!(columns, 120);
}
