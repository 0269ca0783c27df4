//! A page on paper: every plot is on it, whole, and no heading stands at the foot of a sheet.

use crate::pages::Page;
use crate::records;
use crate::tab::{Look, Tab};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// The page of everything as it is printed at once, by one who has looked at the top of it only.
fn paper() -> &'static Paper {
    static PAPER: OnceLock<Paper> = OnceLock::new();
    PAPER.get_or_init(|| {
        let tab = Page::of_everything().open();
        let paper = Paper::of(&tab);
        tab.is_quiet();
        paper
    })
}

/// A printed page.
struct Paper {
    dir: TempDir,
    /// The words of each sheet, with single spaces. What stands side by side comes in some order.
    sheets: Vec<String>,
}

impl Paper {
    fn of(tab: &Tab) -> Paper {
        let printed = tab.call(
            "Page.printToPDF",
            json!({"preferCSSPageSize": true, "printBackground": false, "transferMode": "ReturnAsBase64"}),
        );
        let dir = tempfile::tempdir().unwrap();
        let printed = STANDARD.decode(printed["data"].as_str().unwrap()).unwrap();
        fs::write(dir.path().join("page.pdf"), printed).unwrap();
        let text = Self::tool(&dir, "pdftotext", &["page.pdf", "-"]);
        let text = String::from_utf8(text).unwrap();
        let words = |sheet: &str| sheet.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut sheets: Vec<String> = text.split('\u{c}').map(words).collect();
        // Each sheet ends with a form feed.
        sheets.pop();
        Paper { dir, sheets }
    }

    fn tool(dir: &TempDir, name: &str, args: &[&str]) -> Vec<u8> {
        let answer = Command::new(name)
            .args(args)
            .current_dir(dir.path())
            .output()
            .expect("scripts/test installs poppler-utils");
        assert!(answer.status.success(), "{answer:?}");
        answer.stdout
    }

    /// How many points of a sheet have each colour, at 40 to the inch and without colours in
    /// between.
    fn colours(&self, sheet: usize) -> HashMap<[u8; 3], usize> {
        let number = (sheet + 1).to_string();
        let picture = Self::tool(
            &self.dir,
            "pdftoppm",
            &["-r", "40", "-aa", "no", "-aaVector", "no", "-f", &number, "-l", &number, "page.pdf"],
        );
        // `P6`, width and height, the greatest part, each ended by white space; then three bytes a
        // point.
        let head = picture.iter().enumerate().filter(|(_, byte)| byte.is_ascii_whitespace());
        let (end, _) = head.take(4).last().expect("a picture has a head");
        let mut colours = HashMap::new();
        for point in picture[end + 1..].chunks_exact(3) {
            *colours.entry([point[0], point[1], point[2]]).or_default() += 1;
        }
        colours
    }
}

/// What a plot says at its edges, and its own colours, from a tab in which all are drawn, is on
/// paper.
pub fn plots_are_on_paper_and_whole(tab: &Tab) {
    let plots: Vec<(String, Vec<String>, Vec<[u8; 3]>)> = tab.get(
        "[...document.querySelectorAll('figure.plot')].map((figure) => { \
         const plot = figure.querySelector('.js-plotly-plot'), layout = plot.layout; \
         const titles = [layout.xaxis?.title?.text, layout.yaxis?.title?.text].filter((text) => text); \
         const colours = plot.data.filter((trace) => trace.hoverinfo !== 'skip')\
           .map((trace) => trace.line?.color ?? trace.marker?.color).filter((colour) => /^rgb\\(/.test(colour))\
           .map((colour) => colour.match(/\\d+/g).map(Number)); \
         return [figure.querySelector('.title').textContent, titles, colours]; })",
    );
    assert!(plots.len() >= 15);
    let paper = paper();
    assert!(paper.sheets.len() > 5, "{} sheets", paper.sheets.len());
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let sheets: Vec<String> = paper.sheets.iter().map(|sheet| squeezed(sheet)).collect();
    let colours: Vec<_> = (0..sheets.len()).map(|sheet| paper.colours(sheet)).collect();
    for (title, edges, own) in &plots {
        // A title may stand on several sheets, in tables or texts: on one of them is all of the
        // plot, its lines in their colours among it.
        let has_text = |sheet: &String| {
            let parts = edges.iter().chain([title]);
            parts.into_iter().all(|part| sheet.contains(&squeezed(part)))
        };
        let is_whole = sheets.iter().zip(&colours).any(|(sheet, colours)| {
            // Markers let some of the paper through.
            let is_near = |of: &[u8; 3], own: &[u8; 3]| {
                of.iter().zip(own).all(|(of, own)| of.abs_diff(*own) <= 30)
            };
            let seen = |own: &[u8; 3]| {
                let near = colours.iter().filter(|(of, _)| is_near(of, own));
                near.map(|(_, points)| points).sum::<usize>() >= 3
            };
            has_text(sheet) && own.iter().all(seen)
        });
        assert!(is_whole, "{title} with {edges:?} in {own:?} is on no sheet");
    }
}

#[test]
fn no_heading_stands_at_the_foot_of_a_sheet() {
    let tab = Page::of_everything().open();
    let headings: Vec<String> = tab.get(
        "[...document.querySelectorAll('main h2, main h3')].map((heading) => heading.textContent)",
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(headings.len() > 20, "{headings:?}");
    for heading in
        headings.iter().map(|heading| words(heading)).filter(|heading| heading.len() > 12)
    {
        let mut sheets = paper().sheets.iter();
        let at_foot = sheets.position(|sheet| sheet.ends_with(&heading));
        assert_eq!(at_foot, None, "{heading:?} ends sheet {at_foot:?}");
    }
}

#[test]
fn paper_has_no_contents_list_and_no_buttons() {
    let tab = Page::of_some().open();
    tab.draw_section("cpu.call");
    let seen = "[...document.querySelectorAll('nav, button, .modebar')].filter((element) => \
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
    let short = Paper::of(&tab);
    assert!(short.sheets.len() <= 20, "{} sheets", short.sheets.len());
    assert!(short.sheets.len() < paper().sheets.len());
    let text = short.sheets.concat().split_whitespace().collect::<String>();
    for id in records::ids(&page.events) {
        assert!(text.contains(&id), "{id} is on no sheet");
    }
    tab.is_quiet();
}
