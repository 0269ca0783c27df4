//! A page in both schemes, on a desk and a phone, with scripts and without.

use crate::pages::Page;
use crate::tab::{Look, Tab};

/// Texts that are seen with less contrast to what is behind them than is readable (WCAG 2, AA: 4.5,
/// large texts 3), as `[ratio, text, colour, background]`, a few of each colour.
const FAINT: &str = r"(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const linear = (part) => { part /= 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return rgb('white');
  };
  const seen = new Map();
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join('');
    if (!own || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(element.tagName)) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const is_svg = element instanceof SVGElement;
    if (is_svg && element.closest('.modebar, .hoverlayer, .annotation .cursor-pointer')) continue;
    const front = rgb(is_svg ? style.fill : style.color), back = behind(element);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const is_large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const key = `${front}/${back}/${is_large}`;
    if (ratio < (is_large ? 3 : 4.5) && !seen.has(key)) {
      seen.set(key, `${ratio.toFixed(2)}: ${front} on ${back}: ${own.slice(0, 60)} (${element.tagName} ${element.className.baseVal ?? element.className})`);
    }
  }
  return [...seen.values()];
})()";

/// How light the page and the labels of its first plot are, from 0 to 255.
const LIGHTNESS: &str = r"(() => {
  const of = (colour) => { const parts = colour.match(/[0-9.]+/g).map(Number);
    return (parts[0] + parts[1] + parts[2]) / 3; };
  const label = document.querySelector('figure.plot .xtick text, figure.plot .ytick text');
  return [of(getComputedStyle(document.body).backgroundColor), of(getComputedStyle(label).fill)];
})()";

/// How they are in either scheme.
const LIGHT: &str = "ground > 200 && label < 120";
const DARK: &str = "ground < 60 && label > 120";

/// Whether the page is seen in a scheme.
fn seen(scheme: &str) -> String {
    format!("(() => {{ const [ground, label] = {LIGHTNESS}; return {scheme}; }})()")
}

#[test]
fn both_schemes_are_readable_and_the_plots_go_along() {
    let page = Page::of_everything();
    let tab = page.drawn();
    assert_eq!(tab.eval(&seen(LIGHT)), true, "{}", tab.eval(LIGHTNESS));
    tab.none(FAINT);
    // The reader's system changes while the page is open.
    let dark = Look { is_dark: true, ..Look::DESK };
    tab.look(dark);
    tab.wait_for("plots in the colours of the dark", &seen(DARK));
    tab.none(FAINT);
    tab.is_quiet();
    // And one who always has it so.
    let tab = Tab::open(&page.file(), dark);
    tab.draw_all();
    assert_eq!(tab.eval(&seen(DARK)), true, "{}", tab.eval(LIGHTNESS));
}

#[test]
fn the_readers_choice_of_colours_goes_before_the_systems() {
    let tab = Page::of_some().open();
    tab.draw_section("cpu.call");
    let (dark, light) = (seen(DARK), seen(LIGHT));
    let word = |tab: &Tab| -> String { tab.get("document.getElementById('scheme').textContent") };
    assert_eq!(tab.eval(&light), true);
    // By the pointer, where it stands.
    tab.eval("scrollTo(0, 0)");
    let offered = word(&tab);
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
    let tab = Tab::open(&page.file(), Look::PHONE);
    tab.draw_all();
    tab.none(
        "[...document.querySelectorAll('body *')].filter((element) => { \
         const box = element.getBoundingClientRect(); \
         return box.width > 0 && box.right + scrollX > 391 && element.checkVisibility() && \
           ![...function* () { for (let at = element.parentElement; at; at = at.parentElement) yield at; }()]\
             .some((parent) => getComputedStyle(parent).overflowX !== 'visible'); })\
         .slice(0, 10).map((element) => `${element.tagName} ${element.className.baseVal ?? element.className}: \
         ${element.textContent.slice(0, 60)}`)",
    );
    let (width, seen): (f64, f64) =
        tab.get("[document.scrollingElement.scrollWidth, window.visualViewport.width]");
    assert!(width <= 390.0 && seen <= 390.0, "{width} of {seen}");
    // Tables that are wider scroll in their own box, by keyboard too.
    let boxes: Vec<(f64, f64, bool)> = tab.get(
        "[...document.querySelectorAll('table')].map((table) => { \
         let at = table; \
         while (at !== document.body && getComputedStyle(at).overflowX === 'visible') at = at.parentElement; \
         at.focus(); \
         return [table.scrollWidth, at.clientWidth, at !== document.body && document.activeElement === at]; })",
    );
    let wide = boxes.iter().filter(|(table, box_width, _)| table > box_width);
    assert!(wide.clone().count() >= 1, "{boxes:?}");
    assert!(wide.clone().all(|(_, _, by_key)| *by_key), "{boxes:?}");
    // The contents are a menu, which opens, leads to every section, and closes.
    tab.eval("scrollTo(0, 0)");
    let links = "[...document.querySelectorAll('nav a[href^=\"#\"]')].filter((link) => link.checkVisibility()).length";
    assert_eq!(tab.get::<usize>(links), 0, "the menu is closed");
    tab.click("document.getElementById('menu')");
    let sections = tab.count("main section[id]");
    tab.wait_for("the menu to open", &format!("{links} >= {sections}"));
    tab.eval("[...document.querySelectorAll('nav a')].at(-1).click()");
    tab.wait_for("the menu to close", &format!("{links} === 0"));
    // Texts are not shrunk to fit.
    tab.none(
        "[...document.querySelectorAll('body *')].filter((element) => \
         [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) && \
         element.checkVisibility() && parseFloat(getComputedStyle(element).fontSize) < 10)\
         .slice(0, 10).map((element) => element.textContent)",
    );
    tab.is_quiet();
}

#[test]
fn without_scripts_every_table_stays_and_plots_say_where_their_figures_are() {
    let page = Page::of_everything();
    let without = Look { has_scripts: false, ..Look::DESK };
    let tab = Tab::open(&page.file(), without);
    let (tables, plots, drawn): (usize, usize, usize) = tab.get(
        "['main table', 'figure.plot', '.main-svg'].map((what) => document.querySelectorAll(what).length)",
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
