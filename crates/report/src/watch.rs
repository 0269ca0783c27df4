//! What a watch says of a change, in a line.

use analysis::watch::{Change, Effect};
use record::plain::line;
use record::quantity::{digits, render};

/// Entries of the environment that a line names.
const NAMED_MAX: usize = 3;

/// `memory.latency:… latency is 1.21× worse since TIME: 82 ns before, 99 ns now; kernel changed …`.
pub fn change_line(change: &Change) -> String {
    let size = match (change.effect(), change.ratio()) {
        (Effect::Worse, Some(times)) => format!("{}× worse", digits(times.max(1.0 / times))),
        (Effect::Better, Some(times)) => format!("{}× better", digits(times.max(1.0 / times))),
        (Effect::Worse, None) => "worse".to_owned(),
        (Effect::Better, None) => "better".to_owned(),
        (Effect::Neither, _) => "changed".to_owned(),
    };
    let (before, after) = (render(change.before, change.unit), render(change.after, change.unit));
    let key = &change.key;
    let mut text = format!("{key} is {size} since {}: {before} before, {after} now", change.since);
    let named = change.environment.iter().take(NAMED_MAX);
    let named: Vec<String> =
        named.map(|(name, before, after)| format!("{name} from {before} to {after}")).collect();
    if !named.is_empty() {
        text.push_str(&format!("; at that time changed: {}", named.join(", ")));
    }
    line(&text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::change_line;
    use analysis::watch::Change;
    use record::key::{CaseId, Key};
    use record::metric::Better;
    use record::unit::Unit;

    /// A call's latency that went from 80 to 100 ns.
    pub(crate) fn change(call: &str, holds: bool) -> Change {
        Change {
            key: Key::new("os.syscall", &CaseId::new().with("call", call), "latency"),
            unit: Unit::Ns,
            better: Better::Lower,
            before: 80.0,
            after: 100.0,
            since: "2026-11-25T04:00:00Z".to_owned(),
            place: (String::new(), String::new()),
            environment: Vec::new(),
            holds,
        }
    }

    #[test]
    fn a_change_is_a_line_with_its_size_its_time_and_what_else_changed() {
        let mut change = change("getpid", true);
        change.environment = vec![["kernel", "6.1", "6.2\u{1b}"].map(str::to_owned).into()];
        assert_eq!(
            change_line(&change),
            "os.syscall:call=getpid latency is 1.25× worse since 2026-11-25T04:00:00Z: 80 ns \
             before, 100 ns now; at that time changed: kernel from 6.1 to 6.2 "
        );
        change.better = Better::Higher;
        change.environment.clear();
        assert!(change_line(&change).contains("1.25× better"));
        change.better = Better::None;
        let neither = change_line(&change);
        assert!(["better", "worse", "×"].iter().all(|word| !neither.contains(word)), "{neither}");
        assert!(neither.contains(&change.since) && neither.contains("100 ns"), "{neither}");
    }
}
