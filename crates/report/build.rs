//! Prepares the plotting library of the page: reduced, packed, and with the digest that lets a
//! browser run it.

#[path = "src/html/library.rs"]
mod library;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
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
    let write = |name: &str, content: &[u8]| {
        fs::write(out.join(name), content).expect("the build's directory can be written");
    };
    write("plotly.sha256", digest.as_bytes());
    write("plotly.gz", &packed(&script));
    println!("cargo::rerun-if-changed=src/html/library.rs");
    for name in ["result", "comparison"] {
        let file = format!("src/{name}.schema.json");
        let schema = fs::read_to_string(&file).expect("the schema can be read");
        write(&format!("{name}.schema.gz"), &packed(&schema));
        println!("cargo::rerun-if-changed={file}");
    }
}

fn packed(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(text.as_bytes()).expect("memory can be written");
    packed.finish().expect("memory can be written")
}
