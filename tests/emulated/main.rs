//! The built binary on machines that nobody here owns, as software. Their figures mean nothing;
//! what is asked, bound, verified, found, derived and refused is real.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod guest;
mod nfs;
mod nodes;
mod placed;
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

fn ip(arguments: &[&str]) {
    let status = std::process::Command::new("ip").args(arguments).status();
    let status = status.expect("scripts/test installs iproute2");
    assert!(status.success(), "ip {arguments:?}: namespaces need root");
}

/// The CPU that takes what a machine's only card receives, from `/proc/interrupts` and the lines'
/// CPUs.
fn taker(told: &str) -> usize {
    let row = told.lines().find(|line| line.ends_with("virtio0") || line.contains("-input.0"));
    let row = row.unwrap_or_else(|| panic!("no line for what is received:\n{told}"));
    let line = row.split(':').next().unwrap().trim();
    let file = format!("/proc/irq/{line}/effective_affinity_list ");
    let cpu = told.lines().find_map(|line| line.strip_prefix(&file));
    cpu.unwrap().trim().parse().unwrap()
}
