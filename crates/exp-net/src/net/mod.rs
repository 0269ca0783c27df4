//! The network: round trips, bandwidth and connections, on loopback against a second worker and,
//! same cases, against the hosts of `--peer`.

mod place;
pub(crate) mod wire;

use bench::prelude::*;
use laws::Law;
use record::event::Samples;
use stats::histogram::Histogram as Distribution;

/// The largest datagram by IPv4, which R3 sent: 65,535 less both heads.
const DATAGRAM_BYTES_MAX: u64 = 65_507;

/// Has a setting stand in the facts of the cases that it is for: a law sees cases only.
fn tell(offer: &mut Offer, setting: &str, at: &str, is_for: impl Fn(&Case, u64) -> bool) {
    for series in &mut offer.series {
        let Some(value) = series.setting(setting) else { continue };
        for case in series.cases.iter_mut().filter(|case| is_for(case, value)) {
            case.at.insert(at.to_owned(), value.into());
        }
    }
}

/// A law as a prediction: always before there are figures, and afterwards where these add to it.
/// Errors of the law are why a case has no such figure, which is unknown beforehand only.
fn foretold(
    facts: Facts,
    adds: impl FnOnce() -> bool,
    law: Result<Law, &str>,
) -> Option<Prediction> {
    match law {
        Ok(law) => (facts.known.is_none() || adds()).then(|| law.prediction()),
        Err(why) => facts.known.is_none().then(|| unknown(format!("unknown: {why}"))),
    }
}

/// Writes events down, and beside them those that never ended: values known only to be long.
fn record_with_lost<'bench>(
    bench: &'bench mut Bench,
    case: &Case,
    metric: &str,
    values: Vec<f64>,
    lost: u64,
) -> Result<&'bench mut Samples> {
    if lost == 0 {
        return bench.record(case, metric, values);
    }
    let mut all = Distribution::default();
    values.iter().for_each(|value| all.record(*value));
    all.record_censored(lost);
    bench.record(case, metric, Values::counted(values, &all))
}

/// Events of a window, in ns, and how many did not end in time: those are known only to be long.
#[derive(Clone, Debug, Default, PartialEq)]
struct Events {
    ns: Vec<f64>,
    without: u64,
}

impl Events {
    fn values(self, limit_ns: f64) -> Values<'static> {
        Values::censored(self.ns, self.without, limit_ns)
    }
}

bench::family!(
    "net",
    "the network, on loopback and between hosts",
    hidden: false,
    [rtt, ping, bandwidth, connect, loaded, request]
);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(below: &Path) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(below).expect("a directory").map(|entry| entry.expect("an entry"));
        let each = entries.map(|entry| entry.path()).map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![path],
        });
        each.flatten().collect()
    }

    /// Round trips of net.rtt and net.loaded, the closed loop of net.request, messages that come
    /// back and streams are figures of one code: no experiment has a call of its own that sends or
    /// receives, or that asks why one gave nothing. (What is not timed is read and written whole.)
    #[test]
    fn messages_and_streams_go_by_the_wire_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net");
        let all = sources(&root);
        let own = all.iter().filter(|path| {
            let name = path.strip_prefix(&root).expect("is below").to_string_lossy();
            !name.starts_with("wire") && !name.ends_with("tests.rs") && name != "mod.rs"
        });
        let calls = [
            "socket::{Wait, receive",
            "socket::send",
            ".recv(",
            ".write(",
            "ErrorKind::Interrupted",
        ];
        let mut files = 0;
        for path in own {
            files += 1;
            let text = fs::read_to_string(path).expect("a source");
            for call in calls {
                assert!(!text.contains(call), "{} has a `{call}` of its own", path.display());
            }
        }
        assert!(files > 15, "{files} files are not all");
        let users = [
            ("rtt/echo.rs", "Prober::new("),
            ("loaded/near.rs", "Prober::new("),
            ("bandwidth/reports.rs", "Prober::new("),
            ("request/timed/loops.rs", "messages.take("),
            ("rtt/echo.rs", "echo("),
            ("loaded/far.rs", "echo("),
            ("bandwidth/reports.rs", "echo("),
            ("request/party.rs", "messages.echo("),
            ("loaded/far.rs", "push("),
            ("bandwidth/send.rs", "push("),
            ("loaded/far.rs", "pull("),
            ("bandwidth/receive.rs", "pull("),
        ];
        for (file, call) in users {
            let text = fs::read_to_string(root.join(file)).expect("a source");
            assert!(text.contains(call), "{file} has no {call}");
        }
    }
}
