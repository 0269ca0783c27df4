use super::text::Refused;
use super::{Datum, Sheet, export, machines, sheets};
use analysis::figure::Condition;
use analysis::figures;
use record::key::Value;
use record::run::Run;
use std::path::Path;

fn stored(name: &str) -> Run {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    session::store::read(&records.join(name)).expect("a record of the repository").run
}

#[test]
fn every_sheet_of_the_repository_is_a_machine_to_compare_with() {
    let (machines, sheets) = (machines(), sheets());
    assert_eq!(machines.len(), sheets.len());
    for (machine, (name, sheet)) in machines.into_iter().zip(sheets) {
        assert_eq!((machine.name, machine.source), (format!("sheet/{name}"), sheet.source));
        let figures = sheet.figures.iter().map(|figure| (figure.key(), figure.printed()));
        assert_eq!(machine.values, figures.collect());
    }
}

/// Two machines of a kind, with a table of their figures.
const TWO: &str = "plumb sheet 2
# A kind has no figures.
[kind]
source/text = \"{who} on {what}\"
source/who = \"somebody\"
cpu/vendor = \"AuthenticAMD\"
cpu/cpus[]/allowed = true
cpu/cpus[]/online = true
cpu/cpus[]/frequency = {}
cpu/cpus[]/kind = \"uniform\"
cpu/model = 17
[small: kind]
source/what = \"a notebook\"
cpus: 0
cpu/cpus[]/id: 0-1
cpu/cpus[]/smt_siblings: [0-1]*2
[large: small]
source/what = \"a server\"
cpus: 0-3
cpu/cpus[]/id: 0-3
cpu/cpus[]/smt_siblings: [0,2] [1,3] [0,2] [1,3]
cpu/cpus[]/frequency/max_hz = 4000000000
cpu/model = null
[small large]
= os.syscall latency ns call {\"at\":{\"depth\":[1,2]}}
getpid 50 60.5
write_null - 70 {\"at\":{\"depth\":32}}
";

#[test]
fn machines_of_a_kind_share_what_it_states() {
    let all = Sheet::read_all(TWO).expect("they can be read");
    let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["small", "large"]);
    let [small, large] = [&all[0].1, &all[1].1];
    assert_eq!(small.source, "somebody on a notebook");
    assert_eq!(large.source, "somebody on a server");
    let models = [small.host.cpu.model, large.host.cpu.model];
    assert_eq!(models, [Some(17), None]);
    assert_eq!(large.host.cpu.vendor.as_deref(), Some("AuthenticAMD"));
    assert_eq!((small.host.cpu.usable().len(), large.cpus.len()), (2, 4));
    let cpu = &large.host.cpu.cpus[3];
    assert_eq!((cpu.id, &*cpu.smt_siblings), (3, &[1, 3][..]));
    assert_eq!(cpu.frequency.max_hz, Some(4_000_000_000));
    let figures = |sheet: &Sheet| -> Vec<(String, f64, Option<u64>)> {
        let depth = |figure: &Datum| figure.at.get("depth").and_then(Value::int);
        let figures = sheet.figures.iter();
        figures.map(|figure| (figure.case.to_string(), figure.value, depth(figure))).collect()
    };
    let named = |call: &str| format!("call={call}");
    assert_eq!(figures(small), [(named("getpid"), 50.0, Some(1))]);
    let expected = [(named("getpid"), 60.5, Some(2)), (named("write_null"), 70.0, Some(32))];
    assert_eq!(figures(large), expected);
    assert!(Sheet::read(TWO).is_err(), "it is of two machines");
}

const RECORD: &str = "quick.jsonl.gz";

#[test]
fn a_sheet_has_the_figures_of_its_run() {
    let run = stored(RECORD);
    let (text, lacks_files) = export::text(&run).expect("it can be made");
    let sheet = Sheet::read(&text).expect("it can be read");
    assert!(!lacks_files);
    assert_eq!(sheet.cpus, run.header.cpus);
    let all = figures(&run);
    assert!(sheet.figures.len() > 20);
    for figure in &sheet.figures {
        let of = all.iter().find(|of| of.key().as_ref() == Some(&figure.key()));
        let of = of.expect("the run has it");
        let found = of.as_found.as_ref().map_or(of.value, |found| found.value);
        assert_eq!(Some(figure.value), found);
        let alone = figure.alone.map(|alone| (alone.value, alone.ci));
        let is_alone = of.condition == Some(Condition::Alone);
        assert_eq!(alone, is_alone.then(|| (of.value.expect("measured"), of.ci)));
        assert_eq!(figure.cycles, of.cycles);
    }
    assert_eq!(sheet.text().expect("no odd numbers"), text);
}

#[test]
fn a_sheet_names_no_machine_and_no_user() {
    let mut run = stored(RECORD);
    let header = &mut run.header;
    header.run.push_str("-alice-laptop");
    header.options.dir = Some("/home/alice/files".to_owned());
    header.host["kernel"]["command_line"] = "quiet key=secret".into();
    header.host["kernel"]["version"] = "#1 SMP alice-laptop".into();
    header.host["identity"]["parts"] = vec!["machine-id=85eb4e1f756c57b5"].into();
    header.host["identity"]["hash"] = "57793bb746d4b902".into();
    header.host["net"]["interfaces"][0]["name"] = "enx525400123456".into();
    header.host["limits"]["memory_stat_file"] = "sys/fs/cgroup/alice/memory.stat".into();
    header.host["block"]["mounts"] = serde_json::json!([
        {"fs": "ext4", "number": "254:1", "options": "rw", "source": "/dev/vda1", "target": "/"},
        {"fs": "nfs4", "number": "0:40", "options": "rw,addr=10.0.0.7", "source": "10.0.0.7:/home/alice",
         "target": "/home/alice"},
    ]);
    let (text, _) = export::text(&run).expect("it can be made");
    let words =
        ["alice", "secret", "85eb4e1f", "57793bb7", "525400", "10.0.0.7", "/home/", "/files"];
    for word in words {
        assert!(!text.contains(word), "{word}");
    }
    let sheet = Sheet::read(&text).expect("it can be read");
    let mounts = &sheet.host.block.mounts;
    assert_eq!((mounts.len(), &*mounts[0].fs, &*mounts[0].target), (1, "nfs4", "/"));
}

#[test]
fn figures_of_files_need_a_known_file_system() {
    let mut run = stored("unprobed.jsonl.gz");
    run.header.host["net"] = serde_json::json!({"interfaces": []});
    let has = |run: &Run| {
        let (text, lacks_files) = export::text(run).expect("it can be made");
        let sheet = Sheet::read(&text).expect("it can be read");
        let mut figures = sheet.figures.iter();
        let has_figures = figures.any(|figure| figure.key().experiment.starts_with("fs."));
        (has_figures, lacks_files)
    };
    run.header.options.dir = None;
    let mount = |number: &str, target: &str| {
        serde_json::json!({"fs": "ext4", "number": number, "options": "rw", "source": "/dev/x",
                           "target": target})
    };
    run.header.host["block"]["mounts"] = vec![mount("254:0", "/")].into();
    assert_eq!(has(&run), (true, false));
    run.header.host["block"]["mounts"] = vec![mount("254:0", "/"), mount("254:1", "/home")].into();
    assert_eq!(has(&run), (false, true));
    run.header.options.dir = Some("/home/x".to_owned());
    assert_eq!(has(&run), (true, false));
}

#[test]
fn figures_that_mean_nothing_make_no_sheet() {
    let mut run = stored(RECORD);
    run.header.options.preset = "rehearsal".to_owned();
    assert!(export::text(&run).is_err());
    let mut run = stored(RECORD);
    run.header.profile = "debug".to_owned();
    assert!(export::text(&run).is_err());
    let mut run = stored(RECORD);
    run.plan = None;
    assert!(export::text(&run).is_err());
    let mut run = stored(RECORD);
    run.header.host["net"] = serde_json::json!({});
    assert!(export::text(&run).is_err());
}

fn line_of(text: &str, word: &str) -> usize {
    text.lines().position(|line| line.contains(word)).expect("it is there") + 1
}

#[test]
fn what_is_wrong_is_refused_with_its_line() {
    let (text, _) = export::text(&stored(RECORD)).expect("it can be made");
    let check = |text: &str, line: usize| {
        let refused = Sheet::read(text).map(|_| ());
        assert_eq!(refused.map_err(|Refused { line, .. }| line), Err(line));
    };
    // One line is changed.
    let changed = |line: usize, to: &str| {
        let lines = text.lines().enumerate();
        let lines = lines.map(|(nth, of)| if nth + 1 == line { to } else { of });
        lines.collect::<Vec<_>>().join("\n")
    };
    let head = text.lines().position(|line| line.starts_with("= ")).expect("a table") + 1;
    for to in [
        "= os.syscall latency",
        "= os.nothing latency ns call\nmade_up 5",
        "= os.syscall nothing ns call\nmade_up 5",
        "= os.syscall latency ratio call\nmade_up 5",
        "= os.syscall latency furlong call\nmade_up 5",
        "= os.syscall latency ns nothing\nmade_up 5",
    ] {
        let text = format!("{text}{to}\n");
        check(&text, text.lines().count());
    }
    for to in [
        "made_up -1",
        "made_up",
        "made_up 5 5",
        "made_up many",
        "made_up null",
        "made_up 5 {\"ci\":[6,7]}",
        "made_up 5 {\"alone\":{\"value\":1,\"ci\":[2,3]}}",
        "made_up 5 {\"cycles\":-3}",
        "made_up 5 {\"nothing\":1}",
        "made_up 5 {\"notes\":",
    ] {
        let text = format!("{text}= os.syscall latency ns call\n{to}\n");
        check(&text, text.lines().count());
    }
    let twice: Vec<&str> = text.lines().skip(head - 1).take(2).collect();
    check(&changed(head, &twice.join("\n")), head + 2);
    // A machine that cannot be, or is not stated.
    let vendor = line_of(&text, "cpu/vendor");
    for to in [
        "cpu/vendor",
        "cpu/vendor = 5",
        "cpu/vendor = \"",
        "cpu/vendor: a b",
        "cpu/vendors = \"AuthenticAMD\"",
        "cpu/vendor/name = \"AuthenticAMD\"",
        "cpu/cpus[]/online = 1",
        "cpu/cpus[]/package: 1-9",
        "given = {\"cpu.max_hz\":{\"text\":\"4.2\",\"value\":4.2}}",
        "numa/nodes: 1 .. 2",
    ] {
        check(&changed(vendor, to), vendor);
    }
    let page = line_of(&text, "memory/page_bytes");
    check(&changed(page, "memory/page_bytes = -1"), page);
    let cpus = line_of(&text, "cpus: ");
    check(&changed(cpus, "cpus: 99"), cpus);
    check(&changed(cpus, "cpus: 0-9*99999999"), cpus);
    let ids = line_of(&text, "cpu/cpus[]/id");
    check(&changed(ids, "# no number"), line_of(&text, "cpu/cpus[]"));
    // Another version, another format, no sheet, no figures.
    for (to, says) in [
        ("plumb sheet 3", "newer plumb"),
        ("plumb sheet 1", "runs export"),
        ("{", "runs export"),
        ("{\"event\":\"header\",\"format\":4}", "runs export"),
        ("", "plumb sheet 2"),
    ] {
        check(&changed(1, to), 1);
        let why = Sheet::read(&changed(1, to)).map(|_| ()).expect_err("it is refused").to_string();
        assert!(why.contains(says), "{why}");
    }
    let rows: Vec<&str> = text.lines().take(head - 1).collect();
    check(&rows.join("\n"), cpus);
}

#[test]
fn sections_name_machines_that_are_there() {
    for (of, to) in [
        ("[large: small]", "[large: nobody]"),
        ("[large: small]", "[small]"),
        ("[small large]", "[small nobody]"),
    ] {
        let refused = Sheet::read_all(&TWO.replace(of, to)).map(|_| ());
        assert_eq!(refused.map_err(|Refused { line, .. }| line), Err(line_of(TWO, of)), "{to}");
    }
}
