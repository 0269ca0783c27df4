//! What plots show is what was measured: every figure is in them, says its value when pointed at,
//! can be saved.

use crate::pages::Page;
use crate::records;
use crate::tab::Tab;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;

/// The numbers that the plots of each section have along each axis, less those of what was
/// predicted: `x` and `y`, and `z` of matrices, whose colours may follow the logarithm.
const NUMBERS: &str = "[...document.querySelectorAll('main section')].map((section) => {
  const traces = [...section.querySelectorAll('.js-plotly-plot')].flatMap((plot) => plot.data)
    .filter((trace) => trace.hoverinfo !== 'skip');
  const flat = (values) => values == null ? []
    : [...values].flatMap((value) => typeof value === 'object' && value !== null ? [...value] : [value]);
  const numbers = (name) => traces.flatMap((trace) => flat(trace[name])).filter((value) => typeof value === 'number');
  return [section.id, { x: numbers('x'), y: numbers('y'), z: numbers('z').flatMap((value) => [value, 10 ** value]) }];
})";

/// What is drawn of a plot: marks with a size, in the plotting area.
const MARKS: &str = "[...document.querySelectorAll('figure.plot')].map((figure) => {
  const marks = [...figure.querySelectorAll('.plot .point path, .plot path.point, .plot path.js-line, \
.plot .hm image, .plot .fills path, .plot .errorbar path')];
  const drawn = marks.filter((mark) => { const box = mark.getBoundingClientRect(); \
    return box.width + box.height > 0.5; });
  return [figure.querySelector('.title').textContent, drawn.length];
})";

/// Values of a line, of the bars of a picture or of a matrix, from which on they must be in a plot:
/// two or one may stand in the table alone.
const ENOUGH: usize = 3;

/// The views of a planned experiment.
fn views(planned: &Value) -> Vec<&Value> {
    let further = planned["views"].as_array().into_iter().flatten();
    std::iter::once(&planned["view"]).chain(further).collect()
}

/// The metrics that a view shows with figures, each with the axis that its values stand along.
fn shown(view: &Value) -> Vec<(&str, &str)> {
    let names = match view["kind"].as_str() {
        Some("line") => vec![(&view["metric"], "y")],
        Some("bars") => vec![(&view["metric"], "x")],
        Some("matrix") => vec![(&view["metric"], "z")],
        Some("curve") => vec![(&view["x"], "x"), (&view["y"], "y")],
        _ => Vec::new(),
    };
    let beside = view["beside"].as_array().into_iter().flatten();
    let names = names.into_iter().chain(beside.map(|name| (name, "y")));
    names.filter_map(|(name, axis)| Some((name.as_str()?, axis))).collect()
}

/// Whether a view shows a case at all.
fn shows(view: &Value, case: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let only = view["cases"]["only"].as_object().into_iter().flatten();
    let mut fits = only.map(|(name, values)| {
        let values = values.as_array().unwrap();
        case[name].is_null() || values.contains(&text(&case[name]).into())
    });
    let along = [&view["over"], &view["along"], &view["rows"], &view["columns"]];
    let has = |name: &&Value| name.as_str().is_none_or(|name| !case[name].is_null());
    fits.all(|fits| fits) && along.iter().all(has)
}

/// What a case's value is drawn together with: the rest of its line, or the picture of its bar or
/// cell.
fn group(view: &Value, case: &Value) -> String {
    let mut rest = case.clone();
    let rest = rest.as_object_mut().unwrap();
    match view["over"].as_str().or(view["along"].as_str()) {
        Some(along) => rest.retain(|name, _| name != along),
        None => {
            let each = view["cases"]["each"].as_array().into_iter().flatten();
            let each: Vec<&str> = each.filter_map(Value::as_str).collect();
            rest.retain(|name, _| each.contains(&name.as_str()));
        }
    }
    Value::from(rest.clone()).to_string()
}

pub fn every_figure_of_a_view_is_in_a_plot(tab: &Tab) {
    let page = Page::of_everything();
    let numbers: HashMap<String, HashMap<String, Vec<f64>>> =
        tab.get::<Vec<(String, HashMap<String, Vec<f64>>)>>(NUMBERS).into_iter().collect();
    let figures = page.figures();
    let mut events = page.events.clone();
    let (mut looked_at, mut missing) = (0, Vec::new());
    for planned in records::experiments(&mut events).iter() {
        let id = planned["id"].as_str().unwrap();
        for view in views(planned) {
            for (metric, axis) in shown(view) {
                let mut groups: HashMap<String, Vec<f64>> = HashMap::new();
                for figure in &figures {
                    let is_of = figure["experiment"] == id && figure["metric"] == metric;
                    if let Some(value) = figure["value"].as_f64()
                        && is_of
                        && shows(view, &figure["case"])
                    {
                        let group = group(view, &figure["case"]);
                        groups.entry(group).or_default().push(value);
                    }
                }
                groups.retain(|_, values| values.len() >= ENOUGH);
                for (group, values) in groups {
                    looked_at += values.len();
                    let lost = lost(&values, &numbers[id][axis], axis == "z");
                    if !lost.is_empty() {
                        missing.push(format!("{id} {metric} {group}: {lost:?} of {values:?}"));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    // A rehearsal has more; on a host that can measure less there are fewer.
    assert!(looked_at >= 40, "only {looked_at} figures are in plots");
}

/// The values that are not among some numbers, which of a matrix are in a unit of its own.
fn lost(values: &[f64], numbers: &[f64], is_scaled: bool) -> Vec<f64> {
    let factors: &[f64] = if is_scaled { &[1.0, 1e3, 1e6, 1e9] } else { &[1.0] };
    let lost = |factor: &f64| -> Vec<f64> {
        let near = |value: f64| {
            move |number: &&f64| (*number * factor - value).abs() <= 1e-3 * value.abs()
        };
        let values = values.iter().copied();
        values.filter(|value| numbers.iter().find(near(*value)).is_none()).collect()
    };
    factors.iter().map(lost).min_by_key(Vec::len).unwrap_or_default()
}

pub fn every_plot_has_marks(tab: &Tab) {
    let plots: Vec<(String, usize)> = tab.get(MARKS);
    assert!(plots.len() >= 15, "{plots:?}");
    let empty: Vec<&(String, usize)> = plots.iter().filter(|(_, marks)| *marks == 0).collect();
    assert!(empty.is_empty(), "nothing is drawn in {empty:?}");
    let told: Value = tab.eval("window.plumb ? [window.plumb.drawn, window.plumb.total] : null");
    if !told.is_null() {
        assert_eq!(told, json!([plots.len(), plots.len()]));
    }
}

/// Points at the first mark of an experiment's first plot, and reads what it says.
#[track_caller]
fn hover(tab: &Tab, id: &str, marks: &str) -> String {
    let plot = format!("document.getElementById('{id}').querySelector('figure.plot')");
    let (x, y) = tab.place(&format!("{plot}.querySelector('{marks}')"));
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
    let tab = Page::of_some().open();
    for (id, marks) in [
        ("cpu.call", ".scatterlayer .points path"),
        ("cpu.peak", ".barlayer .point path, .scatterlayer .points path"),
        ("memory.loaded", ".scatterlayer .points path"),
        ("memory.mlp", ".scatterlayer .points path"),
    ] {
        tab.draw_section(id);
        let said = hover(&tab, id, marks);
        let rows: Vec<Vec<String>> = tab.get(&format!(
            "[...document.getElementById('{id}').querySelectorAll('tbody tr')]\
             .map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
        ));
        // A value and its interval as a row of the section's tables has them.
        let is_said = |cell: &&String| said.contains(cell.as_str());
        let tells = |row: &&Vec<String>| {
            let (intervals, others): (Vec<&String>, Vec<&String>) =
                row.iter().partition(|cell| cell.starts_with('['));
            let is_value = |cell: &&&String| cell.contains(' ') && is_said(cell);
            intervals.iter().any(is_said) && others.iter().any(|cell| is_value(&cell))
        };
        assert!(
            rows.iter().any(|row| tells(&row)),
            "{id} says {said:?}, which no row has: {rows:#?}"
        );
    }
    tab.is_quiet();
}

#[test]
fn a_plot_is_saved_as_a_picture() {
    let tab = Page::of_some().open();
    tab.draw_section("cpu.call");
    let plot = "document.getElementById('cpu.call').querySelector('figure.plot')";
    let (x, y) = tab.place(&format!("{plot}.querySelector('.plot, .bglayer')"));
    tab.point(x, y);
    let buttons = format!(
        "[...{plot}.querySelectorAll('.modebar-btn, button')].filter((button) => \
         /picture|image|png|svg/i.test(button.dataset.title ?? button.textContent + button.title))"
    );
    tab.click(&format!("{buttons}[0]"));
    let picture = fs::read(tab.downloaded()).unwrap();
    let is_picture = picture.starts_with(b"\x89PNG") || picture.starts_with(b"<svg");
    assert!(is_picture && picture.len() > 1000, "{} bytes", picture.len());
    tab.is_quiet();
}

pub fn plots_send_nothing_away(tab: &Tab) {
    tab.none(
        "[...document.querySelectorAll('a, form, iframe, object, embed, link, base')].map((element) => \
         element.getAttribute('href') ?? element.getAttribute('xlink:href') ?? \
         (element.tagName.toLowerCase() === 'a' ? '#' : element.tagName))\
         .filter((to) => !to.startsWith('#'))",
    );
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
