//! Reads of files: what is measured in a directory, and what is left there.

use crate::plumb::prelude::*;

/// Every mode once, of a file of 64 KiB.
const SMALL: &str = "--preset rehearsal --set fs.read.size=64KiB --set fs.read.pattern=random \
     --set fs.read.mode=direct,direct_sync,cold,cold_no_readahead,cached";

fn outcome<'events>(events: &'events [Value], mode: &str) -> &'events Value {
    let outcomes = of(events, "outcome").into_iter();
    let mut of_mode = outcomes.filter(|outcome| outcome["case"]["mode"] == mode);
    of_mode.next().unwrap_or_else(|| panic!("no outcome of {mode}"))
}

#[test]
fn every_mode_has_a_figure_or_a_reason_and_nothing_is_left() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let events = here.measure(&format!("fs.read --dir {dir} {SMALL}"));
    let places = of(&events, "samples").into_iter();
    let mut places =
        places.map(|samples| (&samples["at"]["ground"], &samples["at"]["file_system"]));
    // Where nothing is between, nothing may be missing.
    let plain = places.any(|(ground, fs)| ground == "device" && (fs == "ext4" || fs == "xfs"));
    for mode in ["direct", "direct_sync", "cold", "cold_no_readahead", "cached"] {
        let samples = of(&events, "samples").into_iter();
        let mut of_mode = samples.filter(|samples| {
            samples["case"]["mode"] == mode && samples["metric"] == "latency_per_block"
        });
        match of_mode.next() {
            Some(samples) => assert!(samples["quantities"]["passes"].as_f64() >= Some(1.0)),
            None => {
                let text = outcome(&events, mode).to_string();
                let told = text.contains("cache:") || text.contains("memory");
                assert!(told && !plain, "{text}");
            }
        }
    }
    assert!(here.entries("files").is_empty(), "nothing is left");
}

#[test]
fn in_memory_nothing_is_a_device() {
    let Ok(dir) = tempfile::tempdir_in(Path::new("/dev/shm")) else {
        return skips::test("memory-directory");
    };
    let here = Here::new();
    let path = dir.path().to_str().unwrap();
    let events = here.measure(&format!("fs.read --dir {path} {SMALL}"));
    let samples = of(&events, "samples");
    assert!(!samples.is_empty());
    assert!(samples.iter().all(|samples| samples["case"]["mode"] == "cached"));
    let text = outcome(&events, "direct").to_string();
    assert!(text.contains("tmpfs") && text.contains("--dir"), "{text}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_for_which_there_is_no_room_is_no_attempt() {
    let here = Here::new();
    let dir = here.make_dir("files");
    let large = "fs.read.size=64GiB";
    // The test fills a disk that has so much room.
    let filler = here.path("filler").to_str().unwrap().to_owned();
    let fill = "free=$(df -B1 --output=avail . | tail -n 1); left=$((free - (32 << 30))); \
                [ $left -le 0 ] || fallocate -l $left \"$1\"";
    let filled = Command::new("sh").args(["-c", fill, "sh", &filler]).current_dir(&dir).status();
    assert!(filled.unwrap().success());
    let answer = here.plumb(&["run", "fs.read", "--dir", &dir, "--set", large]);
    assert!(answer.code.is_some_and(|code| code != 0), "{answer:?}");
    let told = format!("{}{}", answer.out, answer.err);
    assert!(told.contains("64 GiB") && told.contains("--dir"), "{told}");
    let odd = here.plumb(&["run", "fs.read", "--dir", &dir, "--set", "fs.read.size=65537"]);
    let told = format!("{}{}", odd.out, odd.err);
    assert!(told.contains("multiple of 4 KiB"), "{told}");
    assert!(here.entries("files").is_empty());
}
