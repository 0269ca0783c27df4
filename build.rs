//! Tells the binary what built it: the record's header names it. Packs the texts that it contains.

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

/// Machines that reports compare with (`src/sheet`), and what they begin with.
const SHEETS: &str = "data/sheets";
const KINDS: &str = "data/kinds.sheet";

/// The machines of the published reports (`src/published`).
const PUBLISHED: &str = "data/published";

/// What manuals cite.
const BIBLIOGRAPHY: &str = "docs/REFERENCES.md";
const WORDS: &str = "docs/guide/words.md";

/// What asks the linker to fold what is the same.
const FOLD: &str = "-Wl,--icf=all,--ignore-data-address-equality";

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
    let out = var("OUT_DIR");
    // Rust's own linker keeps one copy of functions whose code is the same, and one of constants.
    if var("PROFILE") == "release" && links(FOLD, Path::new(&out)) {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
    let pack = |name: &str, text: &str| {
        let file = fs::File::create(Path::new(&out).join(format!("{name}.gz")));
        let mut packed = GzEncoder::new(file.expect("it can be made"), Compression::best());
        packed.write_all(text.as_bytes()).expect("the build's directory can be written");
        packed.finish().expect("the build's directory can be written");
    };
    pack("sheets", &without_descriptions(&(read(Path::new(KINDS)) + &texts(SHEETS))));
    pack("REFERENCES.md", &read(Path::new(BIBLIOGRAPHY)));
    pack("words.md", &read(Path::new(WORDS)));
    pack("published", &texts(PUBLISHED));
}

/// Whether a program can be linked with an argument, as the binary will be.
fn links(argument: &str, out: &Path) -> bool {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let source = out.join("linked.rs");
    fs::write(&source, "fn main() {}").expect("the build's directory can be written");
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args(var("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.args(["--target", &var("TARGET"), &format!("-Clink-arg={argument}"), "-o"]);
    let output = rustc.arg(out.join("linked")).arg(source).output();
    output.is_ok_and(|output| output.status.success())
}

/// The files of a directory, one after another.
fn texts(directory: &str) -> String {
    listed(directory).iter().map(|file| read(file)).collect()
}

/// What reports compare with, of all sheets: the names, the sources and the tables of figures.
fn without_descriptions(sheets: &str) -> String {
    let (mut text, mut is_table) = (String::new(), false);
    for line in sheets.lines() {
        let is_head = ["plumb sheet ", "["].iter().any(|begin| line.starts_with(begin));
        is_table = line.starts_with("= ") || is_table && !is_head;
        if is_head || is_table || line.starts_with("source/") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn read(file: &Path) -> String {
    println!("cargo::rerun-if-changed={}", file.display());
    fs::read_to_string(file).expect("the data can be read")
}

/// The files below a directory, in order.
fn listed(directory: &str) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={directory}");
    let mut files = Vec::new();
    list(Path::new(directory), &mut files);
    files.sort();
    files
}

/// FNV-1a over the names and contents of some files, and of all below some directories.
fn fingerprint(sources: &[&str]) -> u64 {
    let mut files: Vec<PathBuf> = sources.iter().flat_map(|source| listed(source)).collect();
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
