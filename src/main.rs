//! The program calls the library, which `packaging/build` builds for size. The optimisation level of
//! this crate decides the passes at link time.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    plumb::main()
}
