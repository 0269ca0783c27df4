//! The page of a comparison: both runs in every plot, what changed before the rest.

use crate::pages::Page;
use crate::tab::fits_a_phone;

#[test]
fn a_comparison_draws_both_runs_in_one_plot_and_is_read_like_a_report() {
    let tab = Page::of_comparison().drawn();
    let plots: Vec<(String, Vec<String>)> = tab.get(
        "[...document.querySelectorAll('figure.plot')].map((figure) => \
         [figure.querySelector('.title').textContent, [...figure.querySelectorAll('text[x=\"30\"]')]\
         .map((text) => text.textContent).filter((name) => !/predicted/.test(name))])",
    );
    assert!(plots.len() >= 3, "{plots:?}");
    let (_, lines) =
        plots.iter().find(|(title, _)| title.contains("cpu.call")).expect("calls over arguments");
    let (new, base): (Vec<&String>, Vec<&String>) =
        lines.iter().partition(|name| name.contains("another"));
    assert!(!new.is_empty() && new.len() == base.len(), "{lines:?}");
    // Matrices stand one below the other.
    let grids = plots.iter().filter(|(title, _)| title.contains("core_to_core"));
    assert_eq!(grids.count() % 2, 0, "{plots:?}");
    let order: Vec<String> = tab.get(
        "[...document.querySelectorAll('main h2')].map((heading) => heading.textContent.trim())",
    );
    let place = |what: &str| order.iter().position(|heading| heading.starts_with(what));
    let (answer, changed) = (place("The answer"), place("What changed"));
    assert!(answer.is_some() && answer < changed, "{order:?}");
    let changed: String = tab.get(
        "[...document.querySelectorAll('main section')].find((section) => \
         section.querySelector('h2').textContent.startsWith('What changed')).textContent",
    );
    assert!(changed.contains("slower"), "{changed}");
    // It is read like a report.
    let levels: Vec<usize> = tab.get(
        "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((heading) => Number(heading.tagName[1]))",
    );
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    tab.none(
        "[...document.querySelectorAll('table')].filter((table) => { \
         const heads = [...table.querySelectorAll('thead th')]; \
         return heads.length === 0 || heads.some((head) => head.scope !== 'col'); })\
         .map((table) => table.outerHTML.slice(0, 200))",
    );
    // On a phone it scrolls down only.
    fits_a_phone(&Page::of_comparison().file());
}
