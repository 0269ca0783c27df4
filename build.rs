//! Tells the binary what built it: the record's header names it.

use std::process::Command;

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
    println!("cargo::rerun-if-changed=build.rs");
}
