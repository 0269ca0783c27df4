use super::*;
use crate::tests::said;
use bench::experiment::Preset;
use bench::experiment::fixtures::recorded;
use record::plain::lines;

const OLD: &str = include_str!("../../testdata/rtla/6.1-top.txt");
const NEW: &str = include_str!("../../testdata/rtla/6.12-top.txt");

fn conditions(tracers: Option<&[&str]>, is_root: bool) -> Conditions {
    let mut site = recorded("vm-granite-rapids");
    let names = tracers.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    site.host.kernel.tracers = names;
    let usual = crate::tests::conditions(&site, Preset::Standard, 2);
    Conditions { cpus: vec![1, 0], is_root, ..usual }
}

#[test]
fn the_table_of_both_versions_is_read_with_and_without_colours() {
    let close = |found: Result<f64, String>, wanted: f64| {
        let found = found.expect("is read");
        assert!((found / wanted - 1.0).abs() < 1e-12, "{found} {wanted}");
    };
    for (text, runtime_us, noise_us, noises) in [
        (OLD, 2_029_314.0, 1_669_273.0, 385.0 + 115.0 + 58.0),
        (NEW, 2_011_353.0, 1_290_764.0, 3252.0 + 230.0 + 54.0),
    ] {
        // As it is printed, and as a process's output comes.
        for text in [text.to_owned(), lines(text)] {
            close(parse(&said(&text), "lost"), noise_us / runtime_us);
            close(parse(&said(&text), "gap_rate_1us"), noises / runtime_us * 1e6);
        }
    }
}

#[test]
fn what_is_no_table_of_one_cpu_is_refused() {
    let refused = |text: &str, what: &str| parse(&said(text), what).expect_err("is refused");
    assert!(refused("", "lost").contains("no table"));
    assert!(refused(NEW, "colour").contains("no colour"));
    let row = NEW.lines().last().expect("a row");
    let titles = NEW.replace(row, "");
    assert!(refused(&titles, "lost").contains("0 CPUs"));
    assert!(refused(&format!("{NEW}{row}"), "lost").contains("2 CPUs"));
    assert!(
        refused(&NEW.replace("Softirq", "Sofairq"), "lost").contains("unknown column: Sofairq")
    );
    assert!(refused(&NEW.replace("1290764", ""), "lost").contains("11 values"));
    assert!(refused(&NEW.replace("1290764", "many"), "lost").contains("Noise is many"));
    assert!(refused(&NEW.replace("2011353", "0"), "lost").contains("no period"));
    assert!(refused(&NEW.replace("  NMI", "     "), "lost").contains("values under"));
}

#[test]
fn versions_are_found_in_what_rtla_says() {
    for (text, wanted) in [
        ("\nrtla version 6.1\n\n  usage: rtla COMMAND ...\n", Some("6.1")),
        ("rtla version 6.12.90\n", Some("6.12.90")),
        ("usage", None),
    ] {
        let version = RIVAL.version;
        let found = version(&said(text));
        assert_eq!(found.as_deref(), wanted);
        let on_error = Output { stderr: text.to_owned(), ..Output::default() };
        assert_eq!(version(&on_error).as_deref(), wanted);
    }
}

#[test]
fn without_the_tracer_it_is_skipped_with_the_way_out() {
    let skip = |tracers, is_root| pairings(&conditions(tracers, is_root)).remove(0).skip;
    let none = skip(Some(&["blk", "function", "nop"]), true).expect("is skipped");
    assert!(["blk", "function", "nop"].iter().all(|name| none.reason.contains(name)));
    assert!(none.needed.is_some_and(|way| way.contains("CONFIG_OSNOISE_TRACER")));
    assert_eq!(skip(Some(&["timerlat", "osnoise", "nop"]), true), None);
    // Nothing tells: rtla will.
    assert_eq!(skip(None, true), None);
    let root = skip(Some(&["osnoise"]), false).expect("is skipped");
    assert_eq!(root.needed.as_deref(), Some("root"));
}

#[test]
fn the_tracer_watches_plumbs_cpu_and_its_tool_waits_elsewhere() {
    let pairing = pairings(&conditions(None, true)).remove(0);
    let args = pairing.theirs.args;
    let of = |option: &str| args.iter().skip_while(|arg| *arg != option).nth(1).cloned();
    let told = ["--cpus", "--duration", "--period", "--runtime"].map(of);
    assert_eq!(told, ["1", "2s", "1000000", "1000000"].map(|value| Some(value.to_owned())));
    assert_eq!((pairing.ours.cpus, pairing.theirs.cpus), (vec![1], vec![0]));
    let mut alone = conditions(None, true);
    alone.cpus = vec![1];
    assert_eq!(pairings(&alone)[0].theirs.cpus, [1]);
}
