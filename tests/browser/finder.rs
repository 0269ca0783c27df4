//! The summary of all figures is searched, filtered and sorted, and opens distributions; the
//! contents say how verdicts came out.

use crate::pages::Page;
use crate::tab::Tab;

/// A page whose summary is drawn.
fn opened(page: &Page) -> Tab {
    let tab = page.open();
    tab.eval("document.getElementById('figures').scrollIntoView()");
    tab.wait_for("the summary", "document.querySelector('#finder tbody tr') !== null");
    tab
}

fn shown(tab: &Tab) -> Vec<String> {
    tab.get(
        "[...document.querySelectorAll('#finder tbody th')].map((cell) => cell.textContent.trim())",
    )
}

/// Writes into the search, or chooses from a list.
fn choose(tab: &Tab, what: &str, value: &str) {
    tab.eval(&format!(
        "(() => {{ const box = document.querySelector('#finder {what}'); box.value = '{value}'; \
         box.dispatchEvent(new Event(box.matches('input') ? 'input' : 'change')); }})()"
    ));
}

#[test]
fn the_summary_is_searched_and_filtered() {
    let page = Page::of_everything();
    let tab = opened(page);
    let all: String = tab.get("document.querySelector('#finder output').value");
    let with_metric = page.figures().iter().filter(|figure| figure["metric"].is_string()).count();
    assert!(all.ends_with(&format!("of {with_metric} figures")), "{all}");
    choose(&tab, "input", "CPU.CALL direct");
    tab.wait_for(
        "the search",
        "[...document.querySelectorAll('#finder tbody th')].every((cell) => \
         /cpu\\.call/.test(cell.textContent))",
    );
    let found = shown(&tab);
    assert!(!found.is_empty() && found.iter().all(|one| one.contains("direct")), "{found:?}");
    choose(&tab, "input", "");
    choose(&tab, "select", "os");
    let found = shown(&tab);
    assert!(!found.is_empty() && found.iter().all(|one| one.starts_with("os.")), "{found:?}");
    tab.is_quiet();
}

#[test]
fn the_summary_is_sorted_by_quantity_whatever_the_unit() {
    let tab = opened(Page::of_everything());
    choose(&tab, "select", "memory");
    choose(&tab, "input", "latency");
    let head = "[...document.querySelectorAll('#finder thead th')]\
         .find((head) => head.textContent.trim() === 'measured')";
    tab.eval(&format!("({head}).querySelector('button').click()"));
    assert_eq!(tab.eval(&format!("({head}).getAttribute('aria-sort')")), "ascending");
    let nanoseconds = format!(
        "(() => {{ const at = ({head}).cellIndex; \
         return [...document.querySelectorAll('#finder tbody tr')].map((row) => row.cells[at].textContent.replaceAll('\\u00a0', ' '))\
           .filter((text) => / (ps|ns|µs|ms|s)§?$/.test(text))\
           .map((text) => parseFloat(text) * {{ p: 1e-3, n: 1, µ: 1e3, m: 1e6, s: 1e9 }}[text.split(' ')[1][0]]); }})()"
    );
    let rising: Vec<f64> = tab.get(&nanoseconds);
    assert!(rising.len() > 5, "{rising:?}");
    assert!(rising.windows(2).all(|pair| pair[0] <= pair[1]), "{rising:?}");
    tab.eval(&format!("({head}).querySelector('button').click()"));
    let falling: Vec<f64> = tab.get(&nanoseconds);
    assert!(falling.windows(2).all(|pair| pair[0] >= pair[1]), "{falling:?}");
    tab.is_quiet();
}

#[test]
fn a_figure_opens_its_distribution_by_key() {
    let tab = opened(Page::of_some());
    choose(&tab, "select", "clock");
    tab.eval("document.querySelector('#finder .figure').focus()");
    tab.press("Enter");
    tab.wait_for("the distribution", "document.querySelector('#finder .spread') !== null");
    let (rounds, band, label): (usize, bool, String) = tab.get(
        "(() => { const picture = document.querySelector('#finder .spread'); \
         return [picture.querySelectorAll('.round').length, picture.querySelector('.band') !== null, \
           picture.getAttribute('aria-label')]; })()",
    );
    assert!(rounds >= 6, "each round is a dot: {rounds}");
    assert!(band, "what was predicted is behind it");
    assert!(label.contains("clock."), "{label}");
    tab.press("Enter");
    tab.wait_for("it to close", "document.querySelector('#finder .spread') === null");
    tab.is_quiet();
}

#[test]
fn an_experiment_leads_to_its_distributions() {
    let tab = Page::of_some().open();
    tab.eval("document.querySelector('[id=\"cpu.call\"] .find').click()");
    let found = shown(&tab);
    assert!(!found.is_empty() && found.iter().all(|one| one.contains("cpu.call")), "{found:?}");
    tab.is_quiet();
}

#[test]
fn the_contents_say_how_verdicts_came_out() {
    let tab = Page::of_everything().open();
    // What is folded is filled in when it is opened.
    tab.eval("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })");
    tab.wait_for(
        "every table to be filled in",
        "[...document.querySelectorAll('details.list[data-fold]')].every((folded) => \
         folded.querySelector('table, ul') !== null)",
    );
    tab.none(
        "[...document.querySelectorAll('main section[data-figures]')].filter((section) => { \
         const link = document.querySelector(`nav a[href=\"#${section.id}\"]`); \
         const judged = [...section.querySelectorAll('td.good, td.warn, td.bad')] \
           .filter((cell) => !cell.closest('.remarks')).length; \
         const said = link.querySelector('.held')?.textContent.match(/[0-9]+/g) ?? ['0', '0']; \
         return !link.querySelector('.dot') || Number(said[1]) !== judged; })\
         .map((section) => section.id)",
    );
    let families = tab.count("nav .family");
    assert!(families >= 4, "{families}");
}
