//! A page on paper: every plot is on it, whole, and no heading stands at the foot of a sheet.

use crate::pages::Page;
use crate::tab::{Look, Tab};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::fs;
use std::process::Command;

/// The words of each sheet, with single spaces. What stands side by side comes in some order.
fn sheets(tab: &Tab) -> Vec<String> {
    let printed = tab.call(
        "Page.printToPDF",
        json!({"preferCSSPageSize": true, "printBackground": false, "transferMode": "ReturnAsBase64"}),
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.pdf");
    fs::write(
        &file,
        STANDARD.decode(printed["data"].as_str().unwrap()).unwrap(),
    )
    .unwrap();
    let text = Command::new("pdftotext")
        .arg(&file)
        .arg("-")
        .output()
        .expect("scripts/test installs poppler-utils");
    assert!(text.status.success(), "{text:?}");
    let text = String::from_utf8(text.stdout).unwrap();
    let words = |sheet: &str| sheet.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split('\u{c}')
        .map(words)
        .filter(|sheet| !sheet.is_empty())
        .collect()
}

#[test]
fn plots_are_on_paper_and_whole() {
    let page = Page::of_everything();
    // What a plot says at its edges, from a tab in which all are drawn.
    let tab = Tab::open(&page.file(), Look::DESK);
    tab.draw_all();
    let plots: Vec<(String, Vec<String>)> = tab.get(
        "[...document.querySelectorAll('figure.plot')].map((figure) => { \
         const layout = figure.querySelector('.js-plotly-plot').layout; \
         const titles = [layout.xaxis?.title?.text, layout.yaxis?.title?.text].filter((text) => text); \
         return [figure.querySelector('.title').textContent, titles]; })",
    );
    assert!(plots.len() >= 15);
    // Printed at once, by one who has looked at the top of the page only.
    let tab = Tab::open(&page.file(), Look::DESK);
    let sheets = sheets(&tab);
    assert!(sheets.len() > 5, "{} sheets", sheets.len());
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let sheets: Vec<String> = sheets.iter().map(|sheet| squeezed(sheet)).collect();
    for (title, edges) in &plots {
        // A title may stand on several sheets, in tables or texts: on one of them is all of the plot.
        let is_whole = sheets.iter().any(|sheet| {
            sheet.contains(&squeezed(title))
                && edges.iter().all(|edge| sheet.contains(&squeezed(edge)))
        });
        assert!(is_whole, "{title} with {edges:?} is on no sheet");
    }
    tab.is_quiet();
}

#[test]
fn no_heading_stands_at_the_foot_of_a_sheet() {
    let tab = Tab::open(&Page::of_everything().file(), Look::DESK);
    let sheets = sheets(&tab);
    let headings: Vec<String> = tab.get(
        "[...document.querySelectorAll('main h2, main h3')].map((heading) => heading.innerText)",
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for heading in headings
        .iter()
        .map(|heading| words(heading))
        .filter(|heading| heading.len() > 12)
    {
        let at_foot = sheets.iter().position(|sheet| sheet.ends_with(&heading));
        assert_eq!(at_foot, None, "{heading:?} ends sheet {at_foot:?}");
    }
}

#[test]
fn paper_has_no_contents_list_and_no_buttons() {
    let tab = Tab::open(&Page::of_everything().file(), Look::DESK);
    tab.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    let seen: Vec<String> = tab.get(
        "[...document.querySelectorAll('nav, button, .modebar')].filter((element) => \
         element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))\
         .map((element) => `${element.tagName} ${element.className}`)",
    );
    assert!(seen.is_empty(), "{seen:?}");
}
