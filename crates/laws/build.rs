//! Checks the rows of laws: an error in one is an error of the build, with its file and line.

// The build reads the rows; it asks nothing of them.
#![expect(dead_code)]

#[path = "src/rows/parse.rs"]
mod parse;

const ROWS: [&str; 4] = ["src/os.rows", "src/memory.rows", "src/net.rows", "src/fs.rows"];

fn main() {
    println!("cargo::rerun-if-changed=src/rows/parse.rs");
    for file in ROWS {
        println!("cargo::rerun-if-changed={file}");
        let read = std::fs::read_to_string(file).map_err(|why| why.to_string());
        if let Err(why) = read.and_then(|text| parse::Rows::read(&text)) {
            println!("cargo::error=crates/laws/{file}:{why}");
        }
    }
}
