//! What events look like: JSON with places for values. `$text`, `$number` and so on stand for any
//! value of that kind, `["$or", A, B]` for one of these, `["$each", A]` for some of A, and
//! `{"$name": A}` for some of A by name.

use serde_json::{Value, json};

fn or_null(of: &Value) -> Value {
    json!(["$or", null, of])
}

fn each(of: &Value) -> Value {
    json!(["$each", of])
}

fn texts() -> Value {
    json!(["$each", "$text"])
}

fn maybe() -> Value {
    or_null(&json!("$number"))
}

fn word() -> Value {
    or_null(&json!("$text"))
}

fn by_name() -> Value {
    json!({"$name": ["$or", "$u64", "$text"]})
}

fn width() -> Value {
    json!({"level": maybe(), "unusable": ["$or", null, "never_alone"], "additions_per_cycle": maybe(),
        "readings": "$u64", "at_level": 1, "spread": "$number", "alone": "$number"})
}

fn calibration() -> Value {
    // One without a source is absent.
    json!({"source": "tsc", "counter_hz": "$number", "counter_error": "$number",
        "windows_hz": ["$each", "$number"], "resolution_ns": "$number", "pair_cost_ns": "$number",
        "vdso_falls_back": "$bool", "core_hz": "$number", "core_source": "$text",
        "multiply_cycles": maybe(), "cpu": "$u32", "width": or_null(&width()), "notes": texts()})
}

fn peers() -> Value {
    each(&json!({"name": "$text", "url": "$text", "address": "$text", "plumb": "$text",
        "identity": "$text", "cpus": [3, 2], "host": {"a": null}, "environment": {"$name": "$text"},
        "calibration": calibration()}))
}

pub fn header() -> Value {
    let options = json!({"selectors": texts(), "preset": "$text", "budget_s": "$number",
        "precision": "$number", "set": texts(), "cpus": word(), "dir": word(), "peers": texts(),
        "key_file": word()});
    json!({"event": "header", "format": record::FORMAT, "plumb": "$text", "rustc": "$text",
        "profile": "$text", "target": "$text", "target_features": "$text", "build": "$text",
        "run": "$text", "started": "$text", "seed": "$u64", "options": options, "cpus": [1, 0],
        "identity": "$text", "host": ["$or", null, {"b": ["$number", null], "a": {"c": 1}}],
        "environment": {"$name": "$text"}, "peers": peers(), "calibration": calibration()})
}

fn view() -> Value {
    let cases = json!({"only": {"$name": texts()}, "each": texts()});
    json!(["$or",
        {"kind": "table"},
        {"kind": "line", "over": "$text", "metric": "$text", "log_x": "$bool", "log_y": "$bool",
            "beside": texts(), "marks": texts(), "cases": cases,
            "at": ["$or", null, {"name": "thread_count", "unit": "count"}]},
        {"kind": "matrix", "rows": "$text", "columns": "$text", "metric": "$text", "cases": cases},
        {"kind": "timeline", "trace": "$text", "beside": texts()},
        {"kind": "spans", "timeline": "$text", "table": "$text", "beside": texts()},
        {"kind": "curve", "along": "$text", "x": "$text", "y": "$text", "log_x": "$bool",
            "log_y": "$bool", "cases": cases},
        {"kind": "bars", "metric": "$text", "cases": cases}])
}

/// With at most one of all that a plan has once.
fn plan() -> Value {
    let metric = json!({"name": "$text", "doc": "$text", "unit": "ns/B", "better": "none",
        "kind": "io", "derived": "$bool", "over": ["$or", "all", "greatest"], "formerly": word()});
    let series = json!({"name": "$text", "cases": ["$or", [], [by_name()]], "order": "shuffled",
        "settings": by_name(), "round_cost_s": "$number"});
    let key = json!({"line": "$text", "name": "$text", "metric": "$text", "case": "case=1"});
    let repeat = json!(["$or", {"kind": "rounds"}, {"kind": "once", "duration_s": "$number"},
        {"kind": "sweep"}]);
    let planned = json!({"id": "$text", "title": "$text", "manual": "$text", "metrics": [metric],
        "params": [["$text", "$text"]], "units": {"$name": "B"}, "view": view(),
        "views": each(&view()), "keys": each(&key), "repeat": repeat, "isolation": "alone",
        "after": texts(), "series": [series], "derived": each(&by_name()),
        "skipped": ["$or", null, {"reason": "$text", "needed": word()}]});
    json!({"event": "plan", "experiments": ["$or", [], [planned]], "stages": [texts(), []],
        "looks": ["$u32"], "eta_s": "$number"})
}

fn prediction() -> Value {
    let range = json!({"low": "$number", "likely": "$number", "high": "$number"});
    let bound = json!({"side": ["$or", "at_least", "at_most"], "constant": "$number",
        "inputs": [["$text", "$i32"]], "uncertainty": "$number", "rule": "$text",
        "warns_only": "$bool"});
    json!({"event": "prediction", "experiment": "$text", "case": by_name(), "metric": "$text",
        "of": ["$or", "prior", "derived"], "range": or_null(&range), "because": "$text",
        "bound": or_null(&bound), "conditions": ["$each", ["$or", "seccomp", "core_clock"]],
        "shares": ["$or", null, {"hardware": range, "software": range}], "unsourced": "$bool",
        "doubt": word(), "at": by_name()})
}

/// Samples of all kinds.
fn samples() -> impl Iterator<Item = Value> {
    let numbers = json!(["$each", "$number"]);
    let raw = [
        json!({"of": "event", "values": numbers}),
        json!({"of": "event", "step": "$step", "steps": ["$each", "$i32"]}),
        json!({"of": "quartets", "k": "$u64", "n": numbers, "two_n": numbers, "voids": "$u32"}),
        json!({"of": "batch", "k": "$u64", "values": numbers}),
    ];
    let note = json!(["$or", "$text", {"kind": "cache", "text": "$text"}]);
    raw.into_iter().map(move |mut raw| {
        let rest = json!({"event": "samples", "series": "$text", "round": "$u32",
            "case": by_name(), "metric": "$text", "visit": "$u32", "width": numbers,
            "core_mhz": ["$each", "$u32"], "core_hz": maybe(), "quantities": {"$name": "$number"}, "at": by_name(),
            "notes": each(&note)});
        raw.as_object_mut().expect("an object").extend(rest.as_object().expect("one").clone());
        raw
    })
}

fn round(status: &str, reason: Option<&str>) -> Value {
    let failed = json!({"case": by_name(), "reason": "$text"});
    let mut round = json!({"event": "round", "series": "$text", "n": "$u32", "segment": "$u32",
        "at_s": "$number", "window_ns": "$number", "status": status, "cpus": [0, 7],
        "environment": {"$name": "$number"}, "disturbed": texts(), "others": texts(),
        "failed": each(&failed)});
    if let Some(reason) = reason {
        round["reason"] = json!(reason);
    }
    round
}

pub fn later() -> Vec<Value> {
    let ending = json!(["$or", "measured", "skipped", "failed"]);
    let all = [
        plan(),
        prediction(),
        round("ok", None),
        round("void", Some("$text")),
        json!({"event": "histogram", "series": "$text", "round": 1, "case": by_name(),
            "metric": "$text", "scale": "$number", "buckets": ["$each", ["$u64", "$u64"]],
            "above": "$u64"}),
        json!({"event": "trace", "series": "$text", "round": "$u32", "case": by_name(),
            "kind": "$text", "columns": ["$text", "$text"], "dropped": "$u64",
            "rows": ["$each", ["$number", "$number"]], "names": {"$name": texts()}}),
        json!({"event": "derived", "experiment": "$text", "case": by_name(), "metric": "$text",
            "value": "$number", "ci": ["$or", null, ["$number", "$number"]], "confidence": maybe(),
            "presence": "$number", "at": by_name(), "notes": texts()}),
        json!({"event": "outcome", "experiment": "$text", "case": or_null(&by_name()),
            "outcome": ending, "reason": word()}),
        json!({"event": "segment", "n": "$u32", "started": "$text",
            "environment": {"$name": "$text"}, "calibration": calibration(), "peers": peers()}),
        json!({"event": "width", "segment": "$u32", "width": width()}),
        json!({"event": "footer", "finished": "$text", "elapsed_s": "$number",
            "end": ["$or", "complete", "budget", "interrupted"], "counter_drift": maybe(),
            "eta_after_first_pass_s": maybe(), "session_cpu_s": "$number",
            "session_peak_bytes": "$u64", "synced": {"times": 3, "seconds": "$number"}}),
    ];
    all.into_iter().chain(samples()).collect()
}
