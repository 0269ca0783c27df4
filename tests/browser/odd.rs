//! Pages of odd runs in a browser: drawn without errors, and safe whatever stands in the record. (What
//! their texts say: crates/report/src/tests/odd.rs.)

use crate::pages::Page;
use crate::records::{self, HOSTILE};
use crate::tab::Tab;
use serde_json::Value;

/// Opens a page, draws all of it, and finds it quiet.
#[track_caller]
fn opened(page: &Page) -> Tab {
    let tab = page.drawn();
    let heading: String = tab.get("document.querySelector('h1').textContent");
    assert!(!heading.trim().is_empty());
    tab
}

fn everything() -> Vec<Value> {
    Page::of_everything().events.clone()
}

#[test]
fn matrices_of_200_cpus() {
    let cpus = 200;
    // As plumb samples pairs of many CPUs: neighbours, and one in the next socket.
    let pairs: Vec<(usize, usize)> =
        (0..cpus).flat_map(|from| [1, 50].map(|step| (from, (from + step) % cpus))).collect();
    let time_ns = |from: usize, to: usize| if from / 50 == to / 50 { 40.0 } else { 130.0 };
    let page = Page::new(records::with_matrix(everything(), &pairs, time_ns));
    let tab = opened(&page);
    let cells: (usize, usize, Vec<Option<String>>) = tab.get(
        "(() => { const said = document.getElementById('cpu.core_to_core').querySelector('.cells [data-say]').dataset.say.split('\\n'); \
         const of = (from, to) => said.find((text) => text.startsWith(`from ${from}, to ${to}:`)); \
         const ends = (n) => new Set(said.map((text) => text.match(/\\d+/g)[n])).size; \
         return [ends(0), ends(1), [of(10, 11), of(10, 60), of(199, 0)]]; })()",
    );
    assert_eq!((cells.0, cells.1), (cpus, cpus));
    for (said, expected) in cells.2.iter().zip(["40 ns", "130 ns", "130 ns"]) {
        assert!(said.as_ref().is_some_and(|said| said.ends_with(expected)), "{said:?}");
    }
    // The picture says it all; a table of 40,000 cells would say less in more room.
    let rows: usize =
        tab.get("document.getElementById('cpu.core_to_core').querySelectorAll('tr').length");
    assert!(rows < 2000, "{rows} rows");
    assert!(page.html().len() < 4_000_000, "{} bytes", page.html().len());
}

#[test]
fn strange_values() {
    let mut events = everything();
    for (id, metric) in [
        ("cpu.call", "call"),
        ("memory.mlp", "load_time"),
        ("cpu.peak", "rate"),
        ("memory.latency", "latency"),
        ("fs.io", "iops"),
        ("fs.read", "bandwidth"),
    ] {
        records::strange_samples(&mut events, id, metric);
    }
    let page = Page::new(events);
    let tab = opened(&page);
    let text: String = tab.get("document.querySelector('main').textContent");
    for wrong in ["NaN", "undefined", "Infinity", "[object"] {
        assert!(!text.contains(wrong), "{wrong} stands in the page");
    }
    tab.none(
        "[...document.querySelectorAll('svg path, svg g')].filter((mark) => \
         /NaN|undefined/.test(mark.getAttribute('d') + mark.getAttribute('transform')))\
         .map((mark) => mark.outerHTML.slice(0, 200))",
    );
}

fn model(events: &[Value]) -> String {
    events[0]["host"]["cpu"]["model_name"].as_str().unwrap().to_owned()
}

/// Everything that hostile text could have made in the page that is open.
#[track_caller]
pub fn nothing_is_planted(tab: &Tab) {
    let ran = tab.eval("window.planted ?? null");
    assert!(ran.is_null(), "a script of the record's ran: {ran}");
    tab.none(
        "[...document.querySelectorAll('.planted, [onerror], [onload], img[src=x], a[href^=\"javascript:\"]')]\
         .map((element) => element.outerHTML.slice(0, 200))",
    );
    tab.none(
        "[...document.querySelectorAll('a')].map((link) => \
         link.getAttribute('href') ?? link.getAttribute('xlink:href') ?? \
         link.getAttributeNS('http://www.w3.org/1999/xlink', 'href') ?? '')\
         .filter((to) => to !== '' && !to.startsWith('#'))",
    );
    tab.none(
        "[...document.querySelectorAll('svg tspan, svg b, svg a')].map((part) => part.textContent)\
         .filter((text) => text.trim() === 'bold' || text.trim() === 'link')",
    );
}

#[test]
fn hostile_texts_stay_texts() {
    let page = Page::new(records::appended(everything(), HOSTILE));
    let tab = opened(&page);
    nothing_is_planted(&tab);
    let text: String = tab.get("document.querySelector('main').textContent");
    let commands: Vec<&str> =
        text.lines().filter(|line| line.chars().any(records::commands)).collect();
    assert!(commands.is_empty(), "texts that turn others around: {commands:?}");
    // They are there, as they are, less what no text can hold.
    let told: String = tab.get("document.body.textContent.replace(/\\s+/g, ' ')");
    let expected = format!(
        "{}</script></style></title></textarea>--><img class=planted",
        model(&everything())
    );
    assert!(told.contains(&expected), "the model's name is not told");
    // Pointing at everything that speaks plants nothing either.
    let figure = "document.querySelector('figure.plot:has(g[data-say])')";
    tab.place(figure);
    let spots: Vec<(f64, f64)> = tab.get(&format!(
        "(() => {{ const path = {figure}.querySelector('g[data-say] path'); const m = path.getScreenCTM(); \
         return [...path.getAttribute('d').matchAll(/M(-?[\\d.]+) (-?[\\d.]+)/g)].slice(0, 3)\
         .map(([, x, y]) => [m.a * x + m.e, m.d * y + m.f]); }})()"
    ));
    assert!(!spots.is_empty());
    for (x, y) in spots {
        tab.point(x, y);
        tab.wait_for("the mark to speak", &format!("!{figure}.querySelector('.said').hidden"));
        nothing_is_planted(&tab);
    }
    tab.is_quiet();
}

#[test]
fn hostile_names_of_experiments_and_metrics_stay_names() {
    let events = records::only(everything(), |id| id == "cpu.call" || id == "noise.activity");
    let events = records::renamed(&events, "cpu.call", &format!("cpu.call{HOSTILE}"));
    let events = records::renamed(&events, "call", &format!("call{HOSTILE}"));
    let tab = opened(&Page::new(events));
    nothing_is_planted(&tab);
    let plots = tab.count("figure.plot");
    assert!(plots >= 2, "{plots} plots");
}
