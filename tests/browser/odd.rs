//! Pages of odd runs: right, whole, and safe whatever stands in the record.

use crate::pages::{Page, some};
use crate::records::{self, FOREIGN, HOSTILE};
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

/// All text of a section, also of what is folded or far from the window (whose `innerText` is
/// empty).
#[track_caller]
fn text_of(tab: &Tab, section: &str) -> String {
    tab.get(&format!("document.getElementById('{section}').textContent"))
}

fn everything() -> Vec<Value> {
    Page::of_everything().events.clone()
}

#[test]
fn everything_skipped() {
    let ids = records::ids(&everything());
    let tab = opened(&Page::new(records::everything_skipped(everything())));
    for id in ids {
        let text = text_of(&tab, &id);
        assert!(text.contains(&format!("no {id} here")), "{text}");
        assert!(text.contains("another machine"), "{text}");
    }
    let plots = tab.count("figure.plot");
    assert_eq!(plots, 0, "there is nothing to plot");
}

#[test]
fn one_figure() {
    let page = Page::of_run(&["selftest.fault"]);
    let tab = opened(&page);
    let text = text_of(&tab, "selftest.fault");
    let figures = page.figures();
    assert_eq!(figures.len(), 1);
    assert_eq!(figures[0]["value"], 42.0);
    assert!(text.contains("42"), "{text}");
}

#[test]
fn a_failed_family() {
    let reason = "the worker died of signal 11";
    let events = records::failed_family(everything(), "os", reason);
    let tab = opened(&Page::new(events.clone()));
    for id in records::ids(&events).iter().filter(|id| id.starts_with("os.")) {
        let text = text_of(&tab, id);
        assert!(text.contains(reason), "{id}: {text}");
    }
    // The others are as they were.
    let plots: Vec<String> = tab.get(
        "[...document.querySelectorAll('figure.plot')].map((plot) => plot.closest('section').id)",
    );
    assert!(plots.iter().any(|id| id == "cpu.call"), "{plots:?}");
    assert!(!plots.iter().any(|id| id.starts_with("os.")), "{plots:?}");
}

#[test]
fn killed_at_any_line() {
    let events = some();
    let early = "ended before its plan was written";
    let no_end = "record is incomplete";
    for lines in [1, 2, events.len() / 2, events.len() - 1] {
        let tab = opened(&Page::new(events[..lines].to_vec()));
        let findings = text_of(&tab, "findings");
        assert!(findings.contains(no_end), "after {lines} lines: {findings}");
        let is_early = findings.contains(early);
        // The header, and the calibration.
        assert_eq!(is_early, lines <= 2, "after {lines} lines: {findings}");
    }
    let whole = text_of(&opened(&Page::new(events)), "findings");
    assert!(!whole.contains(no_end) && !whole.contains(early), "{whole}");
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
        "(() => { const data = document.getElementById('cpu.core_to_core')\
         .querySelector('.js-plotly-plot').data.find((trace) => trace.type === 'heatmap'); \
         const said = data.hovertext.map((row) => [...row]); \
         return [said.length, said[0].length, [said[10][11], said[10][60], said[199][0]]]; })()",
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
fn every_pair_of_100_cpus() {
    // Enough to tell: what searches all for each takes minutes.
    let cpus = 100;
    let pairs: Vec<(usize, usize)> = (0..cpus)
        .flat_map(|from| (0..cpus).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect();
    let time_ns = |from: usize, to: usize| (1000 + 3 * from + to) as f64;
    let tab = Page::new(records::with_matrix(everything(), &pairs, time_ns)).open();
    tab.draw_section("cpu.core_to_core");
    tab.is_quiet();
    let said: (usize, Vec<Option<String>>) = tab.get(
        "(() => { const data = document.getElementById('cpu.core_to_core')\
         .querySelector('.js-plotly-plot').data.find((trace) => trace.type === 'heatmap'); \
         const cells = data.z.flatMap((row) => [...row]).filter((value) => typeof value === 'number'); \
         const said = data.hovertext.map((row) => [...row]); \
         return [cells.length, [said[10][11], said[99][0]]]; })()",
    );
    assert_eq!(said.0, pairs.len());
    for (said, expected) in said.1.iter().zip(["1.041 µs", "1.297 µs"]) {
        assert!(said.as_ref().is_some_and(|said| said.ends_with(expected)), "{said:?}");
    }
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
        ("fs.read", "burst"),
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
        "[...document.querySelectorAll('.main-svg path, .main-svg g')].filter((mark) => \
         /NaN|undefined/.test(mark.getAttribute('d') + mark.getAttribute('transform')))\
         .map((mark) => mark.outerHTML.slice(0, 200))",
    );
}

#[test]
fn names_of_anywhere() {
    let mut events = records::appended(everything(), FOREIGN);
    let host = format!("rechner-{FOREIGN}");
    events[0]["host"]["hostname"] = host.clone().into();
    let page = Page::new(events);
    let tab = opened(&page);
    let text: String = tab.get("document.querySelector('main').textContent");
    assert!(text.contains(&format!("{}{FOREIGN}", model(&everything()))), "the model's name");
    let title: String = tab.get("document.title");
    assert!(title.contains(FOREIGN), "{title}");
    let charset: String = tab.get("document.characterSet");
    assert_eq!(charset, "UTF-8");
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
        "[...document.querySelectorAll('.main-svg tspan')].map((part) => part.textContent)\
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
    let spots: Vec<(f64, f64)> = {
        tab.eval(
            "document.querySelector('figure.plot:has(.points path)').scrollIntoView({block: 'center'})",
        );
        tab.get(
            "[...document.querySelector('figure.plot:has(.points path)').querySelectorAll('.points path')].slice(0, 3)\
             .map((mark) => { const box = mark.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; })",
        )
    };
    assert!(!spots.is_empty());
    for (x, y) in spots {
        tab.point(x, y);
        tab.wait_for(
            "the mark to speak",
            "document.querySelector('figure.plot .hovertext text') !== null",
        );
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
