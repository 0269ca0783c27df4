//! The built binary on machines that nobody here owns, as software. Their figures mean nothing; what is
//! asked, bound, verified, found, derived and refused is real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod guest;
mod nfs;
mod nodes;
mod slices;
mod tickless;

/// What stands between the lines `[name` and `name]`.
fn part<'console>(console: &'console str, name: &str) -> &'console str {
    let (_, after) = console
        .split_once(&format!("[{name}\n"))
        .unwrap_or_else(|| panic!("no {name} in:\n{console}"));
    let (part, _) = after
        .split_once(&format!("{name}]\n"))
        .unwrap_or_else(|| panic!("no end of {name} in:\n{console}"));
    part
}
