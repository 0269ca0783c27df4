//! A page for those who do not see it, or use no pointer: headings, tables, names, the keyboard.

use crate::pages::Page;
use crate::tab::Tab;
use serde_json::json;

#[test]
fn headings_tables_and_contents_are_read_in_their_order() {
    let tab = Page::of_everything().open();
    headings_are_in_order(&tab);
    tables_have_heads_and_as_many_cells(&tab);
    the_contents_lead_to_sections(&tab);
}

fn headings_are_in_order(tab: &Tab) {
    let levels: Vec<(usize, String)> = tab.get(
        "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((heading) => \
         [Number(heading.tagName[1]), heading.textContent.trim()])",
    );
    assert_eq!(levels.iter().filter(|(level, _)| *level == 1).count(), 1);
    assert_eq!(levels[0].0, 1, "{:?} comes before the page's heading", levels[0]);
    for pair in levels.windows(2) {
        assert!(pair[1].0 <= pair[0].0 + 1, "{pair:?} leaves a level out");
    }
    assert!(levels.iter().all(|(_, text)| !text.is_empty()), "{levels:?}");
    let ids: (usize, usize) = tab.get(
        "(() => { const ids = [...document.querySelectorAll('[id]')].map((element) => element.id); \
         return [ids.length, new Set(ids).size]; })()",
    );
    assert_eq!(ids.0, ids.1, "an id stands twice");
    tab.none(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map((link) => link.getAttribute('href').slice(1))\
         .filter((id) => !document.getElementById(decodeURIComponent(id)))",
    );
    let language: String = tab.get("document.documentElement.lang");
    assert_eq!(language, "en");
}

/// Nodes of the accessibility tree that readers hear of, with role and name.
fn heard(tab: &Tab) -> Vec<(String, String)> {
    let tree = tab.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().unwrap().iter();
    nodes
        .filter(|node| node["ignored"] == false)
        .map(|node| {
            let text =
                |what: &str| node[what]["value"].as_str().unwrap_or_default().trim().to_owned();
            (text("role"), text("name"))
        })
        .collect()
}

/// In a tab in which all plots are drawn.
pub fn everything_has_a_name(tab: &Tab) {
    // A section that never came near the window is not laid out, and its tables not known for
    // tables.
    tab.eval(
        "(async () => { for (const section of document.querySelectorAll('main section')) { \
         section.scrollIntoView(); \
         await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); } })()",
    );
    let heard = heard(tab);
    let of = |roles: &[&str]| -> Vec<&str> {
        let fits = heard.iter().filter(|(role, _)| roles.contains(&role.as_str()));
        fits.map(|(_, name)| name.as_str()).collect()
    };
    let nameless = |names: &[&str]| names.iter().filter(|name| name.is_empty()).count();
    for roles in [&["link"], &["button"], &["heading"], &["DisclosureTriangle"], &["columnheader"]]
    {
        let names = of(roles);
        assert_eq!(nameless(&names), 0, "{roles:?}: {names:?}");
    }
    let (tables, plots): (Vec<String>, usize) = tab.get(
        "[[...document.querySelectorAll('table')].filter((table) => table.checkVisibility())\
         .map((table) => table.caption?.textContent ?? table.outerHTML.slice(0, 300)), \
         document.querySelectorAll('figure.plot').length]",
    );
    let names = of(&["table"]);
    let mut unheard = tables.clone();
    for name in &names {
        if let Some(at) = unheard.iter().position(|caption| caption.trim() == *name) {
            unheard.remove(at);
        }
    }
    let tables = tables.len();
    assert!(unheard.is_empty(), "not heard of as tables: {unheard:#?}");
    assert_eq!(names.len(), tables, "tables for layout are none: {names:?}");
    assert_eq!(nameless(&names), 0, "a table says what it is: {names:?}");
    // A plot is a picture with a text that says what it shows; its parts are silent.
    let names = of(&["image", "img"]);
    assert_eq!(names.len(), plots, "{names:?}");
    assert!(names.iter().all(|name| name.len() > 20), "{names:?}");
    assert_eq!(of(&["main"]).len(), 1);
    assert_eq!(of(&["navigation"]).len(), 1);
    assert!(of(&["columnheader"]).len() > tables, "tables have heads");
}

fn tables_have_heads_and_as_many_cells(tab: &Tab) {
    tab.none(
        "[...document.querySelectorAll('table')].filter((table) => { \
         const heads = [...table.querySelectorAll('thead th')]; \
         return heads.length === 0 || heads.some((head) => head.scope !== 'col') || \
           [...table.querySelectorAll('tbody tr')].some((row) => \
             [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0) !== heads.length); })\
         .map((table) => table.outerHTML.slice(0, 200))",
    );
}

/// What has the keyboard: what it is, where it leads, and whether a reader sees that it has it.
const FOCUSED: &str = "(() => { const at = document.activeElement, style = getComputedStyle(at); \
    const box = at.getBoundingClientRect(); \
    const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0; \
    return { tag: at.tagName, to: at.getAttribute('href'), text: at.textContent.trim().slice(0, 40), \
      seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && \
        (ring || style.boxShadow !== 'none') }; })()";

#[test]
fn the_keyboard_skips_the_contents_and_opens_what_is_folded() {
    let tab = Page::of_everything().open();
    tab.press("Tab");
    let first = tab.eval(FOCUSED);
    let target = first["to"].as_str().unwrap_or_default().strip_prefix('#').unwrap_or_default();
    let skips: bool = tab.get(&format!(
        "(document.getElementById('{target}')?.matches('main, main > :first-child, main h1')) ?? false"
    ));
    assert!(skips, "the first stop leads past the contents: {first}");
    assert_eq!(first["seen"], true, "{first}");
    tab.press("Enter");
    tab.press("Tab");
    let inside = "document.activeElement.closest('main') !== null";
    assert_eq!(tab.eval(inside), true, "after the skip comes {}", tab.eval(FOCUSED));
    // On through the page: everything that has the keyboard is seen to have it, as soon as what
    // came near the window with it is laid out.
    for _ in 0..25 {
        let what = format!("{} to be seen", tab.eval(FOCUSED));
        tab.wait_for(&what, &format!("{FOCUSED}.seen"));
        tab.press("Tab");
    }
    // What is folded opens by its key.
    let folded = "[...document.querySelectorAll('details:not([open]) > summary')]\
         .find((summary) => summary.checkVisibility())";
    tab.eval(&format!("(window.folded = ({folded}).parentElement).firstElementChild.focus()"));
    tab.press("Enter");
    tab.wait_for("it to open", "window.folded.open === true");
    tab.is_quiet();
}

fn the_contents_lead_to_sections(tab: &Tab) {
    let links: Vec<String> =
        tab.get("[...document.querySelectorAll('nav a')].map((link) => link.getAttribute('href'))");
    let sections: Vec<String> = tab.get(
        "[...document.querySelectorAll('main section[id]')].map((section) => '#' + section.id)",
    );
    for section in &sections {
        assert!(links.contains(section), "{section} is not in the contents");
    }
    let last = sections.last().unwrap();
    tab.eval(&format!("document.querySelector('nav a[href=\"{last}\"]').click()"));
    tab.wait_for(
        "the section to come into the window",
        &format!(
            "(() => {{ const top = document.getElementById('{}').getBoundingClientRect().top; \
             return top >= -1 && top < innerHeight; }})()",
            &last[1..]
        ),
    );
}
