//! Records that were cut, damaged or edited, and runs that are continued.

use crate::plumb::prelude::*;

/// A run of two series that was killed after its last round, before its outcomes.
fn killed(here: &Here) -> PathBuf {
    let text = recorded("selftest.echo selftest.fault --preset rehearsal --seed 1");
    let rounds = text.lines().enumerate().filter(|(_, line)| is(&event(line), "round"));
    let (last, _) = rounds.last().unwrap();
    let kept: String = text.split_inclusive('\n').take(last + 1).collect();
    let record = here.path("run.jsonl");
    fs::write(&record, kept).unwrap();
    record
}

fn write(record: &Path, events: &[Value]) {
    fs::write(record, lines(events)).unwrap();
}

fn resume(here: &Here) -> Answer {
    here.plumb(&["run", "--resume", "run.jsonl"])
}

#[test]
fn a_record_is_readable_wherever_it_was_cut() {
    let here = Here::new();
    let bytes = fs::read(killed(&here)).unwrap();
    let ends: Vec<usize> = (1..=bytes.len()).filter(|at| bytes[at - 1] == b'\n').collect();
    fs::create_dir_all(here.path("store")).unwrap();
    let mut cuts = vec![0, 1];
    for end in &ends {
        // Before and after the newline, and within the next line.
        cuts.extend([end - 1, *end, end + 1, end + 9, end + 40]);
    }
    cuts.retain(|cut| *cut <= bytes.len());
    let name = |cut: usize| format!("cut-{cut:06}");
    for cut in &cuts {
        let file = here.path(&format!("store/{}.jsonl", name(*cut)));
        fs::write(file, &bytes[..*cut]).unwrap();
    }
    let runs = here.ends(0, &["runs"]);
    for cut in cuts {
        // A last line that lacks only its newline is whole.
        let whole = ends.iter().filter(|end| **end <= cut + 1).count();
        let lines = bytes.split(|byte| *byte == b'\n').take(whole);
        let rounds = lines.filter(|line| is_round(line)).count();
        let about = if whole == 0 {
            "it is empty: the run ended before its header was written".to_owned()
        } else {
            let plural = if rounds == 1 { "" } else { "s" };
            format!("{rounds} round{plural}; killed; resumable")
        };
        let mut lines = runs.out.lines();
        let line = lines.find(|line| line.starts_with(&format!("{} ", name(cut))));
        let line = line.unwrap_or_else(|| panic!("the cut at {cut} is not listed"));
        assert!(line.ends_with(&about), "{line} should end: {about}");
    }
}

fn is_round(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|event| is(&event, "round"))
}

#[test]
fn a_torn_line_is_cut_and_what_is_missing_is_measured() {
    let here = Here::new();
    let record = killed(&here);
    let whole = events(&record);
    // The last round and its samples are lost: the kill came in the midst of them.
    let last = whole.iter().rposition(|event| is(event, "round")).unwrap();
    let lost = whole[last]["series"].as_str().unwrap().to_owned();
    write(&record, &whole[..last]);
    let torn = &whole[last].to_string()[..40];
    let before = fs::read_to_string(&record).unwrap();
    fs::write(&record, format!("{before}{torn}")).unwrap();

    let answer = resume(&here);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let after = fs::read_to_string(&record).unwrap();
    assert!(after.starts_with(&before), "nothing whole is lost");
    assert!(after[before.len()..].starts_with("{\"event\":\"segment\""));
    let events = events(&record);
    assert_eq!(end(&events), "complete");
    let segments = events_of_kind(&events, "segment");
    assert_eq!((segments.len(), &segments[0]["n"]), (1, &json!(1)));
    assert!(segments[0]["calibration"]["counter_hz"].as_f64().unwrap() > 0.0);
    for series in ["selftest.echo", "selftest.fault/none"] {
        assert_eq!(rounds(&events, series), (1, 0), "{series}");
        let of_series = events_of_kind(&events, "round");
        let round = of_series.iter().find(|round| round["series"] == series).unwrap();
        assert_eq!(round["segment"], i32::from(series == lost), "{series}");
    }
    let outcomes = events_of_kind(&events, "outcome");
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|outcome| outcome["outcome"] == "measured"));
    let again = resume(&here);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("is complete"), "{again:?}");
}

#[test]
fn what_a_kill_kept_from_being_said_is_said_before_the_first_sample() {
    let here = Here::new();
    let record = killed(&here);
    let whole = events(&record);
    let plan = whole.iter().position(|event| is(event, "plan")).unwrap();
    // One prediction of three is there.
    write(&record, &whole[..plan + 2]);
    assert_eq!(resume(&here).code, Some(0));
    let events = events(&record);
    let predictions = events_of_kind(&events, "prediction");
    assert_eq!(predictions.len(), 3, "each once: {predictions:?}");
    let first = events.iter().position(|event| is(event, "samples")).unwrap();
    let last = events.iter().rposition(|event| is(event, "prediction")).unwrap();
    assert!(last < first);
    assert_eq!(end(&events), "complete");
}

#[test]
fn an_interrupted_run_comes_to_the_rounds_it_would_have_had() {
    let here = Here::new();
    let args = ["run", "selftest.echo", "--preset", "quick", "--precision", "0.01"];
    let session = here.command(&args).spawn().unwrap();
    here.wait_for(|event| is(event, "round") && event["n"] == 2);
    wait_for_worker(session.id());
    signal("INT", session.id());
    ended_with(4, session);
    let measured = rounds(&events(&here.record()), "selftest.echo").0;
    assert!((2..9).contains(&measured), "{measured}");
    here.ends(0, &["run", "--resume", "last"]);
    let events = events(&here.record());
    assert_eq!(rounds(&events, "selftest.echo"), (9, 0));
    let numbers: Vec<u64> =
        events_of_kind(&events, "round").iter().filter_map(|r| r["n"].as_u64()).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<u64>>(), "numbers go on");
    let ends: Vec<&Value> =
        events_of_kind(&events, "footer").iter().map(|footer| &footer["end"]).collect();
    assert_eq!(ends, ["interrupted", "complete"]);
}

#[test]
fn a_look_that_was_passed_is_not_taken_again() {
    let here = Here::new();
    // The answer is always the same: the goal is met whenever a look is taken.
    let args = ["run", "selftest.fault", "--preset", "thorough", "--out", "run.jsonl"];
    assert_eq!(here.plumb(&args).code, Some(0));
    let record = here.path("run.jsonl");
    let mut whole = events(&record);
    let last = whole.iter().rposition(|event| is(event, "round")).unwrap();
    whole.truncate(last + 1);
    // One round more: the look at 17 had not ended the series.
    let mut further = whole[last - 1..].to_vec();
    further[0]["round"] = json!(18);
    further[1]["n"] = json!(18);
    whole.extend(further);
    write(&record, &whole);
    assert_eq!(rounds(&whole, "selftest.fault/none"), (18, 0));
    let answer = resume(&here);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(rounds(&events(&record), "selftest.fault/none"), (20, 0));
}

/// A header that was edited is refused, and the file stays as it is.
#[test]
fn what_cannot_be_continued_is_refused() {
    let here = Here::new();
    let record = killed(&here);
    let whole = events(&record);
    for (pointer, value, part) in [
        ("/identity", json!("0123456789abcdef"), "another machine"),
        ("/format", json!(99), "use a newer plumb"),
        // Another plan.
        ("/options/selectors", json!(["selftest.echo"]), "differs from what"),
        ("/options/preset", json!("quick"), "looks after"),
        ("/options/set", json!(["selftest.echo.messages=7"]), "differs from what"),
        ("/options/set", json!(["selftest.echo.end=fails"]), "other settings"),
        // Damaged options.
        ("/options/budget_s", json!(-1.0), "budget"),
        ("/options/budget_s", json!(1e300), "budget"),
        ("/options/preset", json!("hasty"), "`hasty` is unknown"),
        ("/options/selectors", json!(["selftest.ecko"]), "did you mean"),
    ] {
        let mut edited = whole.clone();
        *edited[0].pointer_mut(pointer).unwrap() = value;
        let torn = lines(&edited) + "{\"torn";
        fs::write(&record, &torn).unwrap();
        let answer = resume(&here);
        assert_eq!(answer.code, Some(2), "{pointer}: {answer:?}");
        assert!(answer.err.contains(part), "{pointer} lacks `{part}`: {answer:?}");
        assert_eq!(fs::read_to_string(&record).unwrap(), torn, "{pointer}: nothing is touched");
    }
}

#[test]
fn a_changed_digit_is_named_and_the_rest_is_used() {
    let here = Here::new();
    let record = killed(&here);
    let whole = fs::read_to_string(&record).unwrap();
    let report = |more: &[&str]| {
        let answer = here.ends(0, &[&["report", "run.jsonl", "--format", "json"], more].concat());
        let result = answer.json();
        let findings = result["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["cause"] == "damaged_record");
        let figures = result["figures"].as_array().unwrap();
        let measured = figures.iter().filter(|figure| figure["value"].is_number()).count();
        (answer.err, found.map(|finding| finding["text"].as_str().unwrap().to_owned()), measured)
    };
    let (said, found, measured) = report(&[]);
    assert_eq!((said.as_str(), found), ("", None));
    let mut lines: Vec<String> = whole.split_inclusive('\n').map(str::to_owned).collect();
    let is_sample =
        |line: &String| line.starts_with("{\"event\":\"samples\",\"series\":\"selftest.echo");
    let at = lines.iter().position(is_sample).unwrap();
    let digit = lines[at].find("\"core_hz\":").unwrap() + "\"core_hz\":".len();
    let digit = if lines[at][digit..].starts_with('n') {
        lines[at].find("\"round\":").unwrap() + 8
    } else {
        digit
    };
    let other = if lines[at].as_bytes()[digit] == b'1' { "2" } else { "1" };
    lines[at].replace_range(digit..=digit, other);
    fs::write(&record, lines.concat()).unwrap();
    let name = format!("line {}", at + 1);
    for more in [&[][..], &["--redact"]] {
        let (said, found, left) = report(more);
        let found = found.expect("a finding");
        assert!(found.contains("series selftest.echo") && found.contains(&name), "{found}");
        assert!(more.len() == 1 || said.contains(&name), "{said}");
        assert!(0 < left && left < measured, "{left} of {measured}");
    }
}

/// shared/lab/abuse/more/odd2.py: lines that are whole and wrong.
#[test]
fn missing_doubled_and_foreign_lines_are_named() {
    let here = Here::new();
    let record = killed(&here);
    let whole = fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let samples = lines.iter().position(|line| line.contains("\"event\":\"samples\"")).unwrap();
    let other = recorded("selftest.echo --preset rehearsal");
    let foreign: Vec<&str> = other.split_inclusive('\n').skip(3).take(5).collect();
    let changed = |range: std::ops::Range<usize>, by: &[&str]| {
        let mut lines = lines.clone();
        lines.splice(range, by.iter().copied());
        lines.concat()
    };
    for (text, said) in [
        (changed(samples..samples + 1, &[]), "1 line before it"),
        (changed(2..3, &[]), "the plan, and with it what is known of each figure"),
        (changed(samples..samples, &lines[2..3]), "1 line with the numbers of earlier ones"),
        (changed(samples..samples, &foreign), "5 lines of another record"),
    ] {
        fs::write(&record, &text).unwrap();
        let found = here.ends(0, &["report", "run.jsonl", "--format", "json"]);
        let findings = found.json();
        let findings = findings["findings"].as_array().unwrap().iter();
        let mut damaged = findings.filter(|finding| finding["cause"] == "damaged_record");
        let text = damaged.next().expect("a finding")["text"].as_str().unwrap().to_owned();
        assert!(text.contains(said) && found.err.contains(said), "{said}: {text}");
        assert_eq!(resume(&here).code, Some(2));
    }
}

#[test]
fn damage_in_the_middle_is_told_with_its_line() {
    let here = Here::new();
    let record = killed(&here);
    let whole = fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    for damage in ["", "{}", "{\"event\":\"round\"}", "\u{0}\u{0}\u{0}", lines[0]] {
        let mut damaged = lines.clone();
        damaged[3] = damage;
        let text = damaged.join("\n") + "\n";
        fs::write(&record, &text).unwrap();
        let answer = resume(&here);
        assert_eq!(answer.code, Some(2), "{damage}: {answer:?}");
        assert!(answer.err.contains("line 4"), "{damage}: {answer:?}");
        assert_eq!(fs::read_to_string(&record).unwrap(), text, "nothing is lost");
    }
}

#[test]
fn a_time_that_is_none_spends_the_budget() {
    let here = Here::new();
    let record = killed(&here);
    let mut whole = events(&record);
    let last = whole.len() - 1;
    whole[last]["at_s"] = json!(1e300);
    whole.remove(last - 1);
    write(&record, &whole);
    let answer = resume(&here);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(rounds(&events(&record), "selftest.echo").0, 1);
}

#[test]
fn a_record_may_set_what_it_did_not_select() {
    let here = Here::new();
    let record = killed(&here);
    let mut events = events(&record);
    events[0]["options"]["set"] = json!(["os.timer.delay=1ms"]);
    write(&record, &events);
    let told = here.ends(0, &["report", "run.jsonl"]).out;
    assert!(told.contains("--resume run.jsonl"), "{told}");
    let resumed = resume(&here);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
}
