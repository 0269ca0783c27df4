//! A page in both schemes, on a desk and a phone, with scripts and without.

use crate::pages::Page;
use crate::tab::{Look, Tab, fits_a_phone};

/// How light the page and the labels of its first plot are, from 0 to 255.
const LIGHTNESS: &str = r"(() => {
  const brightness = (colour) => { const parts = colour.match(/[0-9.]+/g).map(Number);
    return (parts[0] + parts[1] + parts[2]) / 3; };
  const label = document.querySelector('figure.plot .ticks text');
  return [brightness(getComputedStyle(document.body).backgroundColor), brightness(getComputedStyle(label).fill)];
})()";

/// How they are in either scheme.
const LIGHT: &str = "ground > 200 && label < 120";
const DARK: &str = "ground < 60 && label > 120";

fn seen(scheme: &str) -> String {
    format!("(() => {{ const [ground, label] = {LIGHTNESS}; return {scheme}; }})()")
}

#[test]
fn colours_follow_the_system_until_the_reader_chooses() {
    let tab = Page::of_some().open();
    tab.draw_section("cpu.call");
    let (dark, light) = (seen(DARK), seen(LIGHT));
    let word = |tab: &Tab| -> String { tab.get("document.getElementById('scheme').textContent") };
    assert_eq!(tab.eval(&light), true);
    let offered = word(&tab);
    // The reader's system changes while the page is open. The button's word follows the browser's
    // event, which comes after the colours.
    for (is_dark, seen, differs) in [(true, &dark, true), (false, &light, false)] {
        tab.look(Look { is_dark, ..Look::DESK });
        tab.wait_for("the system's colours, of the plots too", seen);
        let is_other = format!("document.getElementById('scheme').textContent !== '{offered}'");
        tab.wait_for("the button's word", &format!("({is_other}) === {differs}"));
    }
    // By the pointer, where it stands.
    tab.eval("scrollTo(0, 0)");
    tab.click("document.getElementById('scheme')");
    tab.wait_for("the dark that was chosen", &dark);
    assert_ne!(word(&tab), offered);
    // The system turns dark and light again, and nothing changes.
    for is_dark in [true, false] {
        tab.look(Look { is_dark, ..Look::DESK });
        tab.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
        assert_eq!(tab.eval(&dark), true, "the system's choice came through");
    }
    // And back, by key.
    tab.eval("document.getElementById('scheme').focus()");
    tab.press("Enter");
    tab.wait_for("light again", &light);
    assert_eq!(word(&tab), offered);
    tab.is_quiet();
}

#[test]
fn a_phone_scrolls_down_only() {
    let page = Page::of_everything();
    fits_a_phone(&page.file());
    let tab = Tab::open(&page.file(), Look::PHONE);
    // The contents are a menu, which opens, leads to every section, and closes.
    let links = "[...document.querySelectorAll('nav a[href^=\"#\"]')].filter((link) => link.checkVisibility()).length";
    assert_eq!(tab.get::<usize>(links), 0, "the menu is closed");
    tab.click("document.getElementById('menu')");
    let sections = tab.count("main section[id]");
    tab.wait_for("the menu to open", &format!("{links} >= {sections}"));
    tab.eval("[...document.querySelectorAll('nav a')].at(-1).click()");
    tab.wait_for("the menu to close", &format!("{links} === 0"));
    tab.is_quiet();
}

#[test]
fn without_scripts_every_table_stays_and_plots_say_where_their_figures_are() {
    let page = Page::of_everything();
    let without = Look { has_scripts: false, ..Look::DESK };
    let tab = Tab::open(&page.file(), without);
    let (tables, plots, drawn): (usize, usize, usize) = tab.get(
        "['main table', 'figure.plot', '.canvas > svg'].map((what) => document.querySelectorAll(what).length)",
    );
    assert!(tables >= 20 && plots >= 15 && drawn == 0, "{tables} {plots} {drawn}");
    tab.none(
        "[...document.querySelectorAll('figure.plot')].filter((figure) => \
         !/JavaScript/.test(figure.textContent)).map((figure) => figure.textContent)",
    );
    // What the script would draw or fill in says where the same stands.
    tab.none(
        "[...document.querySelectorAll('#finder, details[data-fold]')].filter((place) => \
         !/JavaScript|plumb /.test(place.textContent)).map((place) => place.outerHTML.slice(0, 200))",
    );
    tab.is_quiet();
}
