//! Tells the binary what built it: the record's header names it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes figures of a record: the store's index of figures is as old as these sources.
const ANALYSIS: [&str; 3] = ["crates/record/src", "src/analysis", "src/stats"];

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
    println!(
        "cargo::rustc-env=PLUMB_TARGET_FEATURES={}",
        var("CARGO_CFG_TARGET_FEATURE")
    );
    println!(
        "cargo::rustc-env=PLUMB_ANALYSIS={:016x}",
        fingerprint(&ANALYSIS)
    );
    println!("cargo::rerun-if-changed=build.rs");
}

/// FNV-1a over the names and contents of all files below some directories.
fn fingerprint(dirs: &[&str]) -> u64 {
    let mut files: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        println!("cargo::rerun-if-changed={dir}");
        list(Path::new(dir), &mut files);
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

fn list(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the sources that are built can be listed") {
        let path = entry.expect("its entries too").path();
        match path.is_dir() {
            true => list(&path, files),
            false => files.push(path),
        }
    }
}
