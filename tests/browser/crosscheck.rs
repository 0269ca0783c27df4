//! The section on other tools: its tables and plot, on a desk and on a phone.

use crate::pages::{Page, some};
use crate::records;
use crate::tab::fits_a_phone;

/// A run that had a crosscheck added, and a crosscheck's own record.
fn pages() -> [Page; 2] {
    let run = some();
    let alone = records::crosscheck_alone(&run, "crosscheck", "2026-11-22T19:00:00Z");
    let mut added = run;
    added.extend(records::crosscheck());
    [Page::new(added), Page::new(alone)]
}

#[test]
fn what_stands_beside_other_tools_is_read_and_drawn() {
    for page in pages() {
        let tab = page.drawn();
        let heads: Vec<Vec<String>> = tab.get(
            "[...document.querySelectorAll('#crosscheck table')]\
             .filter((table) => !table.closest('.remarks')).map((table) => \
             [...table.querySelectorAll('thead th[scope=col]')].map((head) => head.textContent))",
        );
        assert_eq!(heads.len(), 2, "{heads:?}");
        assert_eq!(heads[0][..4], ["compared", "plumb's figure", "plumb", "perf"]);
        assert_eq!(heads[1], ["tool", "what it is", "why not"]);
        let verdicts: Vec<String> = tab.get(
            "[...document.querySelector('#crosscheck table').querySelectorAll('tbody tr')]\
             .map((row) => row.lastElementChild.textContent)",
        );
        let expected = ["met", "missed", "met", "explained", "not judged: 2 turns"];
        assert_eq!(verdicts, expected);
        // Every ratio has its place and its name.
        let drawn: (usize, Vec<String>) = tab.get(
            "(() => { const plots = [...document.querySelectorAll('#crosscheck figure.plot')]; \
             return [plots.length, plots.flatMap((plot) => \
               [...plot.querySelectorAll('.ticks.y text')].map((text) => text.textContent))]; })()",
        );
        assert_eq!(drawn.0, 1);
        assert_eq!(drawn.1.len(), 5, "{drawn:?}");
        assert!(drawn.1[0].contains("basic"), "{drawn:?}");
        let folded: Vec<String> = tab.get(
            "[...document.querySelectorAll('#crosscheck details > summary')].map((summary) => summary.textContent)",
        );
        assert_eq!(folded, ["Commands beside perf"]);
        let text: String = tab.get("document.getElementById('crosscheck').textContent");
        for part in [
            "it counts interrupts",
            "failed after 2 turns",
            "no iozone in PATH; put it",
            "it'\\''s",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let findings: String = tab.get("document.getElementById('findings').textContent");
        assert!(findings.contains("perf pipe"), "{findings}");
        fits_a_phone(&page.file());
    }
}
