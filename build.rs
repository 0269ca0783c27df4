//! Tells the binary what built it: the record's header names it. Packs the sheets that it contains.

use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes figures of a record: the store's index of figures is as old as these sources.
const ANALYSIS: [&str; 4] =
    ["crates/record/src", "crates/analysis/src", "crates/stats/src", "src/cmd/stored.rs"];

/// What measures: figures of two builds are by the same code where these are the same. How many
/// samples are taken, and when a case stops, is part of it.
const MEASURING: [&str; 11] = [
    "Cargo.lock",
    "Cargo.toml",
    "crates/bench/src",
    "crates/metal/Cargo.toml",
    "crates/metal/src",
    "crates/exp-core/src",
    "crates/exp-fs/src",
    "crates/exp-net/src",
    "crates/exp-os/src",
    "crates/session/src",
    "crates/stats/src",
];

/// Machines that reports compare with (`src/sheet`).
const SHEETS: &str = "data/sheets";

fn main() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(var("RUSTC"))
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_default();
    println!("cargo::rustc-env=PLUMB_RUSTC={}", rustc.trim());
    println!("cargo::rustc-env=PLUMB_PROFILE={}", var("PROFILE"));
    println!("cargo::rustc-env=PLUMB_TARGET={}", var("TARGET"));
    println!("cargo::rustc-env=PLUMB_TARGET_FEATURES={}", var("CARGO_CFG_TARGET_FEATURE"));
    println!("cargo::rustc-env=PLUMB_ANALYSIS={:016x}", fingerprint(&ANALYSIS));
    println!("cargo::rustc-env=PLUMB_MEASURING={:016x}", fingerprint(&MEASURING));
    println!("cargo::rerun-if-changed=build.rs");
    let packed = Path::new(&var("OUT_DIR")).join("sheets.gz");
    fs::write(packed, pack(Path::new(SHEETS))).expect("the build's directory can be written");
}

/// The figures of all sheets, without the machines' descriptions: for each a line `= NAME`, the line
/// of its source, and the lines of its figures.
fn pack(from: &Path) -> Vec<u8> {
    println!("cargo::rerun-if-changed={}", from.display());
    let mut files = Vec::new();
    list(from, &mut files);
    files.sort();
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    for file in files {
        let text = fs::read_to_string(&file).expect("the data can be read");
        let name = file.file_stem().expect("a file has a name").to_string_lossy();
        writeln!(packed, "= {name}").expect("memory can be written");
        // The first line opens the sheet.
        let kept = text.lines().skip(1);
        for line in kept.filter(|line| line.starts_with('{') || line.starts_with("  \"source\"")) {
            writeln!(packed, "{line}").expect("memory can be written");
        }
    }
    packed.finish().expect("memory can be written")
}

/// FNV-1a over the names and contents of some files, and of all below some directories.
fn fingerprint(sources: &[&str]) -> u64 {
    let mut files: Vec<PathBuf> = Vec::new();
    for source in sources {
        println!("cargo::rerun-if-changed={source}");
        list(Path::new(source), &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.display().to_string();
        let contents = fs::read(&file).expect("the sources that are built can be read");
        for byte in name.bytes().chain([0]).chain(contents).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// A packaged plumb has its crates elsewhere; Cargo.lock has their digests then.
fn list(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.exists() {
        return;
    }
    if !path.is_dir() {
        return files.push(path.to_owned());
    }
    for entry in fs::read_dir(path).expect("the sources that are built can be listed") {
        list(&entry.expect("its entries too").path(), files);
    }
}
