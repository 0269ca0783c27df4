use super::{Refused, Sheet, export, machines, sheets};
use analysis::figure::Condition;
use analysis::figures;
use record::run::Run;
use std::path::Path;

fn stored(name: &str) -> Run {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    session::store::read(&records.join(name)).expect("a record of the repository").run
}

#[test]
fn every_sheet_of_the_repository_is_a_machine_to_compare_with() {
    let machines = machines();
    let sheets = sheets();
    assert_eq!(machines.len(), sheets.len());
    for (machine, (name, text)) in machines.into_iter().zip(sheets) {
        let sheet = Sheet::read(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((machine.name, machine.source), (format!("sheet/{name}"), sheet.source));
        let figures = sheet.figures.iter().map(|figure| (figure.key(), figure.printed()));
        assert_eq!(machine.values, figures.collect());
    }
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
        ["alice", "secret", "85eb4e1f", "57793bb7", "525400", "10.0.0.7", "/home", "/files"];
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

/// The line in which a text has a word, counted from 1.
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
    let first = line_of(&text, "{\"experiment\"");
    let lines: Vec<&str> = text.lines().collect();
    // One figure after another is changed, so that each refusal names another line.
    let changes: [&dyn Fn(&mut serde_json::Value); 12] = [
        &|figure| figure["experiment"] = "os.nothing".into(),
        &|figure| figure["metric"] = "nothing".into(),
        &|figure| figure["unit"] = "ratio".into(),
        &|figure| figure["case"]["nothing"] = 1.into(),
        &|figure| figure["nothing"] = 1.into(),
        &|figure| {
            figure["value"] = (-1.0).into();
            figure["ci"] = vec![-2.0, 1.0].into();
        },
        &|figure| figure["ci"] = vec![1e9, 2e9].into(),
        &|figure| figure["value"] = serde_json::Value::Null,
        &|figure| figure["alone"] = serde_json::json!({"value": 1.0, "ci": [2.0, 3.0]}),
        &|figure| figure["cycles"] = (-3.0).into(),
        &|figure| drop(figure.as_object_mut().expect("an object").remove("unit")),
        &|figure| {
            *figure = serde_json::from_str(lines[first - 1].trim_end_matches(',')).expect("JSON")
        },
    ];
    for (at, change) in changes.iter().enumerate() {
        let line = first + at;
        let mut figure = serde_json::from_str(lines[line].trim_end_matches(',')).expect("JSON");
        change(&mut figure);
        let mut lines = lines.clone();
        let figure = format!("{figure},");
        lines[line] = &figure;
        check(&lines.join("\n"), line + 1);
    }
    // Another version, another format, half a sheet, no figures.
    check(&text.replace("\"sheet\": 1", "\"sheet\": 2"), 2);
    check("{\"event\":\"header\",\"format\":4}\n{\"event\":\"plan\"}\n", 1);
    check(&lines[..first + 3].join("\n"), first + 3);
    check(&format!("{}\n  ]\n}}\n", lines[..first - 1].join("\n")), first - 1);
    // A machine that cannot be.
    let cpus = line_of(&text, "\"cpus\"");
    check(&text.replacen("\"cpus\": [\n", "\"cpus\": [\n99,\n", 1), cpus);
    let kind = line_of(&text, "\"page_bytes\"");
    check(&text.replacen("\"page_bytes\": ", "\"page_bytes\": -", 1), kind);
    let given = line_of(&text, "\"given\"");
    let fact = "\"given\": {\"cpu.max_hz\": {\"text\": \"4.2\", \"value\": 4.2}}";
    check(&text.replacen("\"given\": {}", fact, 1), given);
}
