//! The program. All of it is in the library, which `packaging/build` builds for size, while the level
//! of this crate is that of the passes at link time.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    plumb::main()
}
