//! Checks the rows of laws: an error in one is an error of the build, with its file and line.

// The build reads the rows; it asks nothing of them.
#![expect(dead_code)]

#[path = "src/rows/parse.rs"]
mod parse;
#[path = "src/rows/table.rs"]
mod table;

const ROWS: [&str; 4] = ["src/os.rows", "src/memory.rows", "src/net.rows", "src/fs.rows"];

fn main() {
    println!("cargo::rerun-if-changed=src/rows");
    for file in ROWS {
        check(file, |text| parse::Rows::read(text).map(|_| ()));
    }
    check("src/designs.rows", |text| table::read(text).map(|_| ()));
}

fn check(file: &str, read: impl Fn(&str) -> Result<(), String>) {
    println!("cargo::rerun-if-changed={file}");
    let text = std::fs::read_to_string(file).map_err(|why| why.to_string());
    if let Err(why) = text.and_then(|text| read(&text)) {
        println!("cargo::error=crates/laws/{file}:{why}");
    }
}
