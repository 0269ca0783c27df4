//! Packs the JSON Schemas that the binary prints.

use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    for name in ["result", "comparison"] {
        let file = format!("src/{name}.schema.json");
        let schema = fs::read_to_string(&file).expect("the schema can be read");
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(schema.as_bytes()).expect("memory can be written");
        let packed = packed.finish().expect("memory can be written");
        fs::write(out.join(format!("{name}.schema.gz")), packed)
            .expect("the build's directory can be written");
        println!("cargo::rerun-if-changed={file}");
    }
}
