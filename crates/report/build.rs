//! Prepares the plotting library of the page: reduced, packed, and with the digest that lets a
//! browser run it.

#[path = "src/html/library.rs"]
mod library;
#[path = "src/html/packed.rs"]
mod packed;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    // The crate ships a formula renderer beside it.
    let sources = plotly::Plot::offline_js_sources();
    let script = sources.split_once("<script").and_then(|(_, after)| {
        let (_, script) = after.split_once('>')?;
        Some(script.split_once("</script>")?.0)
    });
    let script = script.expect("the crate ships the library as a script");
    let script = library::reduced(script).unwrap_or_else(|| script.to_owned());
    let digest = STANDARD.encode(Sha256::digest(&script));
    for (name, text) in [("plotly.packed", packed::pack(&script)), ("plotly.sha256", digest)] {
        fs::write(out.join(name), text).expect("the build's directory can be written");
    }
    for source in ["library", "packed"] {
        println!("cargo::rerun-if-changed=src/html/{source}.rs");
    }
}
