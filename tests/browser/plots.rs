//! What plots show is what was measured: every figure is in them, says its value when pointed at,
//! can be saved.

use crate::pages::Page;
use crate::records;
use crate::tab::Tab;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;

/// The numbers that the plots of each section have along each axis: `x` and `y` of marks, read off
/// the axes, and `z` of the cells of matrices.
const NUMBERS: &str = "[...document.querySelectorAll('main section')].map((section) => {
  const value = ({ low, high, log }, share) => log ? low * (high / low) ** share : low + (high - low) * share;
  const spots = [...section.querySelectorAll('[data-say]')].flatMap((said) => {
    const area = said.closest('.area'), path = said.matches('path') ? said : said.querySelector('path');
    if (!area) return said.dataset.say.split('\\n').map((text) => ({ z: parseFloat(text.split(': ').at(-1)) }));
    const [x, y] = ['x', 'y'].map((side) => JSON.parse(area.dataset[side]));
    const [width, height] = ['width', 'height'].map((side) => +area.getAttribute(side));
    return [...path.getAttribute('d').matchAll(/[ML](-?[\\d.]+) (-?[\\d.]+)(?:H(-?[\\d.]+))?/g)]
      .map(([, across, down, end]) => ({ x: value(x, (end ?? across) / width), y: value(y, 1 - down / height) }));
  });
  const numbers = (name) => spots.map((spot) => spot[name]).filter(Number.isFinite);
  return [section.id, { x: numbers('x'), y: numbers('y'), z: numbers('z') }];
})";

/// What is drawn of a plot: marks with a size, in the plotting area.
const MARKS: &str = "[...document.querySelectorAll('figure.plot')].map((figure) => {
  const marks = [...figure.querySelectorAll('.marks path, .cells path')];
  const drawn = marks.filter((mark) => mark.getTotalLength() > 0.5 || mark.matches('.dot, .square'));
  return [figure.querySelector('.title').textContent, drawn.length];
})";

/// Values of a line, of the bars of a picture or of a matrix, from which on they must be in a plot:
/// two or one may stand in the table alone.
const ENOUGH: usize = 3;

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
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let factors: &[f64] = if is_scaled { &[1.0, 1e3, 1e6, 1e9] } else { &[1.0] };
    let lost = |factor: &f64| -> Vec<f64> {
        let near = |value: f64| {
            // Places are to a hundredth of a pixel, and a cell's text has three digits.
            let room = f64::max(1e-2 * value.abs(), 2e-4 * greatest);
            move |number: &&f64| (*number * factor - value).abs() <= room
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

/// Where the first mark of an experiment's first plot is in the window.
#[track_caller]
fn mark(tab: &Tab, id: &str) -> (f64, f64) {
    let plot = format!("document.getElementById('{id}').querySelector('figure.plot')");
    tab.place(&plot);
    tab.get(&format!(
        "(() => {{ const said = {plot}.querySelector('[data-say]'); \
         const path = said.matches('path') ? said : said.querySelector('path'); \
         const [, x, y, end] = path.getAttribute('d').match(/M(-?[\\d.]+) (-?[\\d.]+)(?:H(-?[\\d.]+))?/); \
         const m = path.getScreenCTM(); return [m.a * (end ?? x) + m.e, m.d * y + m.f]; }})()"
    ))
}

/// Points at the first mark of an experiment's first plot, and reads what it says.
#[track_caller]
fn hover(tab: &Tab, id: &str) -> String {
    let said = format!("document.getElementById('{id}').querySelector('figure.plot .said')");
    let (x, y) = mark(tab, id);
    tab.point(x - 3.0, y - 3.0);
    tab.point(x, y);
    tab.wait_for(&format!("{id} to say what a mark is"), &format!("!{said}.hidden"));
    tab.get(&format!("{said}.textContent"))
}

#[test]
fn pointing_at_a_mark_says_its_value_and_interval() {
    let tab = Page::of_some().open();
    for id in ["cpu.call", "cpu.peak", "memory.loaded", "memory.mlp"] {
        tab.draw_section(id);
        let said = hover(&tab, id);
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
    tab.click(&format!("{plot}.querySelector('button.save')"));
    let picture = fs::read_to_string(tab.downloaded()).unwrap();
    assert!(picture.starts_with("<svg") && picture.len() > 1000, "{picture}");
    // It stands alone: colours are in it, and nothing that only the page's script reads.
    assert!(!picture.contains("var(") && !picture.contains("data-say"), "{picture}");
    tab.is_quiet();
}

#[test]
fn a_part_that_is_drawn_over_fills_the_plot_until_a_double_click() {
    let tab = Page::of_some().open();
    tab.draw_section("cpu.call");
    let area = "document.getElementById('cpu.call').querySelector('figure.plot .area')";
    let state = format!(
        "[{area}.querySelector('.marks').getAttribute('transform') ?? '', \
         [...{area}.parentElement.querySelectorAll('.ticks.x text')].map((text) => text.textContent).join(' ')]"
    );
    let (x, y) = tab.place(area);
    let whole: (String, String) = tab.get(&state);
    tab.drag((x - 40.0, y - 30.0), (x + 40.0, y + 30.0));
    tab.wait_for("the part", &format!("{area}.querySelector('.marks').hasAttribute('transform')"));
    let part: (String, String) = tab.get(&state);
    assert!(part.0.starts_with("matrix("), "{part:?}");
    assert!(part.1 != whole.1 && !part.1.is_empty(), "ticks of the part: {part:?}, {whole:?}");
    // What is pointed at still says what it is: marks and texts moved together.
    tab.double_click(x, y);
    tab.wait_for("all of it", &format!("{area}.chosen === null"));
    assert_eq!(tab.get::<(String, String)>(&state).1, whole.1);
    tab.is_quiet();
}

pub fn plots_send_nothing_away(tab: &Tab) {
    tab.none(
        "[...document.querySelectorAll('a, form, iframe, object, embed, link, base')].map((element) => \
         element.getAttribute('href') ?? element.getAttribute('xlink:href') ?? \
         (element.tagName.toLowerCase() === 'a' ? '#' : element.tagName))\
         .filter((to) => !to.startsWith('#'))",
    );
    let policy: String =
        tab.get("document.querySelector('meta[http-equiv=Content-Security-Policy]').content");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
}
