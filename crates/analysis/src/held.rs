//! Limits of a control group for a disk, near which a figure lies. By numbers alone.

use super::figure::Figure;
use record::quantity::render_bytes;
use record::run::Run;
use serde_json::Value;

/// How far a figure may lie from a limit that made it.
const NEAR: f64 = 0.1;

#[derive(Clone, Debug, PartialEq)]
struct Limit {
    value: f64,
    what: String,
}

/// The limit near which a rate lies, as a sentence names it.
pub fn by(run: &Run, figure: &Figure) -> Option<String> {
    let value = figure.value?;
    let limits = match figure.experiment.as_str() {
        "fs.io" | "fs.read" => of_disk(&run.header.host, figure),
        _ => Vec::new(),
    };
    let distance = |limit: &Limit| (value / limit.value - 1.0).abs();
    let near = limits.into_iter().filter(|limit| distance(limit) <= NEAR);
    let nearest = near.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    Some(nearest.what)
}

fn list<'host>(host: &'host Value, pointer: &str) -> &'host [Value] {
    let all = host.pointer(pointer).and_then(Value::as_array);
    all.map_or(&[], Vec::as_slice)
}

/// The limits of a disk by requests and bytes, for figures of what goes to it at once.
fn of_disk(host: &Value, figure: &Figure) -> Vec<Limit> {
    let is_read = figure.case.text("op") != Some("write");
    let goes_there = match figure.case.text("mode") {
        Some("direct" | "direct_sync") => true,
        Some(mode) => is_read && mode.starts_with("cold"),
        None => false,
    };
    let numbers = figure.at.get("device_number").and_then(|at| at.text());
    let Some(numbers) = numbers.filter(|_| goes_there) else {
        return Vec::new();
    };
    let is_here = |device: &Value| numbers.split(' ').any(|number| device == number);
    let (of_bytes, of_requests) = match is_read {
        true => ("read_bytes", "reads"),
        false => ("write_bytes", "writes"),
    };
    let block = figure.case.int("block").unwrap_or(4096) as f64;
    let binding = list(host, "/limits/io").iter().filter(|limit| is_here(&limit["device"]));
    let each = binding.flat_map(|limit| {
        let (bytes, requests) = (limit[of_bytes].as_f64(), limit[of_requests].as_f64());
        let group = limit["group"].as_str().unwrap_or_default();
        let on = limit["device"].as_str().unwrap_or_default();
        let limit = |value: f64, what: String| Limit {
            value,
            what: format!("the control group's limit of {what} on {on} (/{group})"),
        };
        let by_bytes = bytes.map(|rate| (rate, format!("{}/s", render_bytes(rate))));
        let by_requests = requests.map(|most| (most, format!("{most} requests/s")));
        let scale = match figure.metric_name() {
            "bandwidth" => Some((1.0, block)),
            "iops" => Some((1.0 / block, 1.0)),
            _ => None,
        };
        let (bytes, requests) = scale.unwrap_or_default();
        [
            by_bytes.map(|(rate, what)| limit(rate * bytes, what)),
            by_requests.map(|(most, what)| limit(most * requests, what)),
        ]
    });
    each.flatten().filter(|limit| limit.value > 0.0).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::by;
    use crate::figure::Figure;
    use crate::sample;
    use record::event::Ending;
    use record::key::Value;
    use record::metric::{Better, Kind, Metric};
    use record::run::Run;
    use record::unit::Unit;
    use serde_json::json;

    /// A run with limits: a disk that may read 20 MB/s and 300 requests a second.
    pub(crate) fn limited() -> Run {
        let mut run = Run::new(sample::header());
        run.header.host["limits"]["io"] = json!([
            {"group": "cg/a", "device": "254:0", "read_bytes": 20_000_000, "reads": 300},
        ]);
        run
    }

    pub(crate) fn figure(
        id: &str,
        case: &[(&str, &str)],
        metric: (&'static str, Unit),
        value: f64,
    ) -> Figure {
        let mut figure = Figure::absent(id, Ending::Measured, String::new());
        for (name, of) in case {
            let of = of.parse().map_or_else(|_| Value::from(*of), Value::Int);
            figure.case = figure.case.with(name, of);
        }
        figure.metric = Some(Metric::new(metric.0, "", metric.1, Better::Higher, Kind::Os));
        figure.value = Some(value);
        let number = Value::from("254:0");
        figure.at.insert("device_number".to_owned(), number);
        figure
    }

    #[test]
    fn rates_of_a_disk_are_compared_with_requests_and_bytes() {
        let run = limited();
        let told = |mode: &str, op: &str, block: &str, metric: &'static str, value: f64| {
            let case = [("op", op), ("mode", mode), ("block", block)];
            let unit = match metric {
                "iops" => Unit::OpPerS,
                _ => Unit::BPerS,
            };
            by(&run, &figure("fs.io", &case, (metric, unit), value))
        };
        let bytes = "the control group's limit of 19.1 MiB/s on 254:0 (/cg/a)";
        let requests = "the control group's limit of 300 requests/s on 254:0 (/cg/a)";
        let large = |value| told("direct", "read", "1048576", "bandwidth", value);
        assert_eq!(large(2.05e7).as_deref(), Some(bytes));
        assert_eq!(large(2.5e7), None);
        let small = told("cold", "read", "4096", "iops", 290.0);
        assert_eq!(small.as_deref(), Some(requests));
        let small = told("direct", "read", "4096", "bandwidth", 310.0 * 4096.0);
        assert_eq!(small.as_deref(), Some(requests));
        assert_eq!(told("direct", "write", "4096", "iops", 290.0), None);
        assert_eq!(told("cached", "read", "4096", "iops", 290.0), None);
        assert_eq!(told("direct", "read", "4096", "latency", 300.0), None);
        let elsewhere = Figure {
            at: Default::default(),
            ..figure("fs.read", &[("mode", "direct")], ("iops", Unit::OpPerS), 300.0)
        };
        assert_eq!(by(&run, &elsewhere), None);
    }
}
