//! A page on paper: every plot and every experiment is on it, without what only a screen needs.

use crate::pages::Page;
use crate::records;
use crate::tab::{Look, Tab};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;

/// The page of everything as it is printed at once, by one who has looked at the top of it only.
fn paper() -> &'static Paper {
    static PAPER: OnceLock<Paper> = OnceLock::new();
    PAPER.get_or_init(|| {
        let tab = Page::of_everything().open();
        let paper = Paper::from_tab(&tab);
        tab.is_quiet();
        paper
    })
}

struct Paper {
    /// The words of each sheet, with single spaces. What stands side by side comes in some order.
    sheets: Vec<String>,
}

impl Paper {
    fn from_tab(tab: &Tab) -> Paper {
        let printed = tab.call(
            "Page.printToPDF",
            json!({"preferCSSPageSize": true, "printBackground": false, "transferMode": "ReturnAsBase64"}),
        );
        let dir = tempfile::tempdir().unwrap();
        let printed = STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
        fs::write(dir.path().join("page.pdf"), printed).unwrap();
        let answer = Command::new("pdftotext")
            .args(["page.pdf", "-"])
            .current_dir(dir.path())
            .output()
            .expect("scripts/test installs poppler-utils");
        assert!(answer.status.success(), "{answer:?}");
        let text = String::from_utf8(answer.stdout).unwrap();
        let words = |sheet: &str| sheet.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut sheets: Vec<String> = text.split('\u{c}').map(words).collect();
        // Each sheet ends with a form feed.
        sheets.pop();
        Paper { sheets }
    }
}

/// The texts at a plot's edges, from a tab in which all plots are drawn, are on one sheet with its
/// title.
pub fn plots_are_on_paper_and_whole(tab: &Tab) {
    let plots: Vec<Vec<String>> = tab.get(
        "[...document.querySelectorAll('figure.plot')].map((figure) => { \
         return [figure.querySelector('.title').textContent, \
           ...[...figure.querySelectorAll('text.label')].map((text) => text.textContent)]; })",
    );
    assert!(plots.len() >= 15);
    let paper = paper();
    assert!(paper.sheets.len() > 5, "{} sheets", paper.sheets.len());
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let sheets: Vec<String> = paper.sheets.iter().map(|sheet| squeezed(sheet)).collect();
    for texts in &plots {
        let is_whole = |sheet: &String| texts.iter().all(|text| sheet.contains(&squeezed(text)));
        assert!(sheets.iter().any(is_whole), "{texts:?} is on no sheet");
    }
}

#[test]
fn paper_has_no_contents_list_and_no_buttons() {
    let tab = Page::of_some().open();
    tab.draw_section("cpu.call");
    let seen = "[...document.querySelectorAll('nav, button')].filter((element) => \
         element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))\
         .map((element) => `${element.tagName} ${element.className}`)";
    let before: Vec<String> = tab.get(seen);
    assert!(before.len() >= 3, "on the screen they are: {before:?}");
    tab.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    tab.none(seen);
}

#[test]
fn a_short_print_is_twenty_sheets_at_most_and_has_every_experiment() {
    let page = Page::of_everything();
    let tab = Tab::open(&page.for_short_print(), Look::DESK);
    let short = Paper::from_tab(&tab);
    assert!(short.sheets.len() <= 20, "{} sheets", short.sheets.len());
    assert!(short.sheets.len() < paper().sheets.len());
    let text = short.sheets.concat().split_whitespace().collect::<String>();
    for id in records::ids(&page.events) {
        assert!(text.contains(&id), "{id} is on no sheet");
    }
    tab.is_quiet();
}
