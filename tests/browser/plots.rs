//! What plots show is what was measured: every figure is in them, says its value when pointed at, can be
//! hidden and saved.

use crate::pages::Page;
use crate::records;
use crate::tab::{Look, Tab};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;

/// The plots of the page, each with the numbers that it has along any axis, by section.
const NUMBERS: &str = "[...document.querySelectorAll('figure.plot')].map((figure) => {
  const data = figure.querySelector('.js-plotly-plot').data;
  const flat = (values) => values == null ? []
    : [...values].flatMap((value) => typeof value === 'object' && value !== null ? [...value] : [value]);
  const of = (name) => data.flatMap((trace) => flat(trace[name]));
  return { section: figure.closest('section').id, title: figure.querySelector('.title').textContent,
    numbers: [...of('x'), ...of('y'), ...of('z')].filter((value) => typeof value === 'number') };
})";

/// What is drawn of a plot: marks with a size, in the plotting area.
const MARKS: &str = "[...document.querySelectorAll('figure.plot')].map((figure) => {
  const marks = [...figure.querySelectorAll('.plot .point path, .plot path.point, .plot path.js-line, \
.plot .hm image, .plot .fills path, .plot .errorbar path')];
  const drawn = marks.filter((mark) => { const box = mark.getBoundingClientRect(); \
    return box.width + box.height > 0.5; });
  return [figure.querySelector('.title').textContent, drawn.length];
})";

/// A page with intervals: rounds that differ.
fn with_intervals() -> Page {
    let selected = [
        "cpu.call",
        "cpu.peak",
        "memory.loaded",
        "memory.mlp",
        "cpu.core_to_core",
    ];
    let events = Page::of_everything().events.clone();
    let events = records::only(events, |id| id == "clock.rate" || selected.contains(&id));
    Page::new(records::repeated(events, 8))
}

/// The views of a planned experiment.
fn views(planned: &Value) -> Vec<&Value> {
    let further = planned["views"].as_array().into_iter().flatten();
    std::iter::once(&planned["view"]).chain(further).collect()
}

/// The metrics that a view shows with figures.
fn shown(view: &Value) -> Vec<&str> {
    let names = match view["kind"].as_str() {
        Some("line" | "bars" | "matrix") => vec!["metric"],
        Some("curve") => vec!["x", "y"],
        _ => Vec::new(),
    };
    let beside = view["beside"].as_array().into_iter().flatten();
    let names = names.into_iter().map(|name| &view[name]).chain(beside);
    names.filter_map(Value::as_str).collect()
}

#[test]
fn every_figure_of_a_view_is_in_a_plot() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let plots: Vec<Value> = tab.get(NUMBERS);
    let figures = page.figures();
    let mut events = page.events.clone();
    let (mut looked_at, mut missing) = (0, Vec::new());
    for planned in records::experiments(&mut events).iter() {
        let id = planned["id"].as_str().unwrap();
        let numbers: Vec<f64> = plots
            .iter()
            .filter(|plot| plot["section"] == id)
            .flat_map(|plot| plot["numbers"].as_array().unwrap())
            .filter_map(Value::as_f64)
            .collect();
        for metric in views(planned).into_iter().flat_map(shown) {
            let of_metric = figures
                .iter()
                .filter(|figure| figure["experiment"] == id && figure["metric"] == metric);
            // What has no place on the axis has a table alone; one of them at least has one.
            let values: Vec<f64> = of_metric
                .filter_map(|figure| figure["value"].as_f64())
                .collect();
            let is_there = |value: &f64| {
                let near = |number: &f64| (number - value).abs() <= 1e-3 * value.abs();
                numbers.iter().any(near)
            };
            looked_at += values.iter().filter(|value| is_there(value)).count();
            if !values.is_empty() && !values.iter().any(is_there) {
                missing.push(format!("{id} {metric}: {values:?}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    // A rehearsal has more; on a host that can measure less there are fewer.
    assert!(looked_at >= 40, "only {looked_at} figures are in plots");
}

#[test]
fn every_plot_has_marks() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let plots: Vec<(String, usize)> = tab.get(MARKS);
    assert!(plots.len() >= 15, "{plots:?}");
    let empty: Vec<&(String, usize)> = plots.iter().filter(|(_, marks)| *marks == 0).collect();
    assert!(empty.is_empty(), "nothing is drawn in {empty:?}");
    let told: Value = tab.eval("window.plumb ? [window.plumb.drawn, window.plumb.total] : null");
    if !told.is_null() {
        assert_eq!(told, json!([plots.len(), plots.len()]));
    }
    tab.is_quiet();
}

#[test]
fn values_are_drawn_where_they_belong() {
    // Calls cost ten times as much with every argument: on a logarithmic axis they rise by equal steps, on
    // a linear one the last stands highest by far.
    let mut events = Page::of_everything().events.clone();
    events = records::only(events, |id| id == "cpu.call" || id == "clock.rate");
    let arguments = |case: &Value| case["arguments"].as_f64().unwrap_or_default();
    records::set_samples(&mut events, "cpu.call", "call", &|case| {
        100.0 + 10.0 * arguments(case)
    });
    let page = Page::new(events);
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let places: Vec<(f64, f64, f64, f64)> = tab.get(
        "[...document.getElementById('cpu.call').querySelectorAll('.js-plotly-plot')].flatMap((plot) => \
         [...plot.querySelectorAll('.scatterlayer .trace')].flatMap((trace) => { \
         const data = trace.__data__[0].trace; \
         return [...trace.querySelectorAll('.points path')].map((mark, i) => { \
         const box = mark.getBoundingClientRect(); \
         return [Number(data.x[i]), data.y[i], box.x + box.width / 2, box.y + box.height / 2]; }); }))",
    );
    let (first, last) = (places.first(), places.last());
    assert!(places.len() >= 5, "{first:?} {last:?}");
    for (x, y, left, top) in &places {
        assert!(
            (y - (100.0 + 10.0 * x)).abs() < 1e-6 * y,
            "{x} arguments are {y}"
        );
        for (other_x, other_y, other_left, other_top) in &places {
            assert_eq!(x > other_x, left > &(other_left + 1.0), "{places:?}");
            assert_eq!(y > other_y, top < &(other_top - 1.0), "{places:?}");
        }
    }
}

/// The place in the window of what an expression gives, brought there first.
#[track_caller]
fn place(tab: &Tab, element: &str) -> (f64, f64) {
    tab.eval(&format!(
        "({element}).scrollIntoView({{block: 'center', inline: 'center'}})"
    ));
    tab.get(&format!(
        "(() => {{ const box = ({element}).getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
    ))
}

/// Points at the first mark of an experiment's first plot, and reads what it says.
#[track_caller]
fn hover(tab: &Tab, id: &str, marks: &str) -> String {
    let plot = format!("document.getElementById('{id}').querySelector('figure.plot')");
    let (x, y) = place(tab, &format!("{plot}.querySelector('{marks}')"));
    tab.point(x - 3.0, y - 3.0);
    tab.point(x, y);
    tab.wait_for(
        &format!("{id} to say what {marks} is"),
        &format!("{plot}.querySelector('.hoverlayer .hovertext text') !== null"),
    );
    tab.get(&format!(
        "[...{plot}.querySelectorAll('.hoverlayer .hovertext text')].map((text) => text.textContent).join(' ')"
    ))
}

#[test]
fn pointing_at_a_mark_says_its_value_and_interval() {
    let page = with_intervals();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    for (id, marks) in [
        ("cpu.call", ".scatterlayer .points path"),
        (
            "cpu.peak",
            ".barlayer .point path, .scatterlayer .points path",
        ),
        ("memory.loaded", ".scatterlayer .points path"),
        ("memory.mlp", ".scatterlayer .points path"),
    ] {
        let said = hover(&tab, id, marks);
        // The value and its ends as some table of the section has them.
        let cells: Vec<String> = tab.get(&format!(
            "[...document.getElementById('{id}').querySelectorAll('td.number, td')]\
             .map((cell) => cell.textContent.trim()).filter((text) => /[0-9]/.test(text))"
        ));
        let is_said = |cell: &&String| said.contains(cell.as_str());
        let values: Vec<&String> = cells
            .iter()
            .filter(is_said)
            .filter(|cell| cell.len() > 2)
            .collect();
        assert!(
            !values.is_empty(),
            "{id} says {said:?}, which is in no table"
        );
        let has_interval = cells
            .iter()
            .filter(|cell| cell.contains('–') || cell.contains('±'))
            .any(|cell| said.contains(cell.as_str()));
        assert!(
            has_interval,
            "{id} says {said:?}, without an interval of its tables"
        );
    }
    tab.is_quiet();
}

#[test]
fn a_cell_of_a_matrix_says_its_value() {
    let events = Page::of_everything().events.clone();
    let pairs: Vec<(usize, usize)> = (0..4)
        .flat_map(|from| (0..4).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect();
    let time_ns = |from, to| (100 * from + to) as f64;
    let page = Page::new(records::with_matrix(events, &pairs, time_ns));
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let plot = "document.getElementById('cpu.core_to_core').querySelector('figure.plot')";
    let (x, y) = place(
        &tab,
        &format!("{plot}.querySelector('.plot .hm image, .plot image')"),
    );
    // The quarter right of the middle and below it is row 2 or 1, column 2, by the order of the rows.
    tab.point(x, y);
    tab.point(x + 8.0, y + 8.0);
    tab.wait_for(
        "the cell to say what it is",
        &format!("{plot}.querySelector('.hoverlayer .hovertext text') !== null"),
    );
    let said: String = tab.get(&format!(
        "{plot}.querySelector('.hoverlayer .hovertext').textContent"
    ));
    let is_cell = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
    let fits: Vec<(i32, i32)> = is_cell
        .filter(|(from, to)| said.contains(&format!("{} ns", 100 * from + to)))
        .collect();
    assert!(fits.contains(&(1, 2)) || fits.contains(&(2, 2)), "{said:?}");
}

#[test]
fn a_click_in_the_legend_hides_a_line_and_another_brings_it_back() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let plot = "document.getElementById('cpu.call').querySelector('figure.plot')";
    let lines = format!("[...{plot}.querySelectorAll('.scatterlayer .trace')].length");
    let before: usize = tab.get(&lines);
    assert!(before >= 2, "{before} lines");
    for expected in [before - 1, before] {
        let (x, y) = place(
            &tab,
            &format!("{plot}.querySelector('.legend .traces .legendtoggle')"),
        );
        tab.click(x, y);
        tab.wait_for("the line to go or come", &format!("{lines} === {expected}"));
    }
    tab.is_quiet();
}

#[test]
fn a_plot_is_saved_as_a_picture() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let plot = "document.getElementById('cpu.call').querySelector('figure.plot')";
    let (x, y) = place(&tab, &format!("{plot}.querySelector('.plot, .bglayer')"));
    tab.point(x, y);
    let buttons = format!(
        "[...{plot}.querySelectorAll('.modebar-btn, button')].filter((button) => \
         /picture|image|png|svg/i.test(button.dataset.title ?? button.textContent + button.title))"
    );
    let (x, y) = place(&tab, &format!("{buttons}[0]"));
    tab.click(x, y);
    let picture = fs::read(tab.downloaded()).unwrap();
    let kind = match picture.starts_with(b"\x89PNG") {
        true => "image/png",
        false => "image/svg+xml",
    };
    // The browser itself reads it again: it has a size and more than one colour.
    let (width, height, colours): (u32, u32, usize) = tab.get(&format!(
        "new Promise((done, failed) => {{ const image = new Image(); image.onerror = failed; \
         image.onload = () => {{ const canvas = document.createElement('canvas'); \
         canvas.width = image.width; canvas.height = image.height; \
         const context = canvas.getContext('2d'); context.drawImage(image, 0, 0); \
         const bytes = context.getImageData(0, 0, image.width, image.height).data; \
         const colours = new Set(new Uint32Array(bytes.buffer)); \
         done([image.width, image.height, colours.size]); }}; \
         image.src = 'data:{kind};base64,{}'; }})",
        STANDARD.encode(&picture)
    ));
    assert!(width >= 300 && height >= 200, "{width} x {height}");
    assert!(colours >= 5, "{colours} colours");
    tab.is_quiet();
}

#[test]
fn plots_send_nothing_away() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let doors: Vec<String> = tab.get(
        "[...document.querySelectorAll('a, form, iframe, object, embed, link, base')].map((element) => \
         element.getAttribute('href') ?? element.getAttribute('xlink:href') ?? \
         (element.tagName.toLowerCase() === 'a' ? '#' : element.tagName))\
         .filter((to) => !to.startsWith('#'))",
    );
    assert!(doors.is_empty(), "{doors:?}");
    let buttons: Vec<String> = tab.get(
        "[...document.querySelectorAll('.modebar-btn')].map((button) => button.dataset.title ?? '')",
    );
    let vendor: Vec<&String> = buttons
        .iter()
        .filter(|title| {
            ["cloud", "plotly", "edit", "share"]
                .iter()
                .any(|word| title.to_lowercase().contains(word))
        })
        .collect();
    assert!(vendor.is_empty(), "{vendor:?}");
    let policy: String =
        tab.get("document.querySelector('meta[http-equiv=Content-Security-Policy]').content");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
}
