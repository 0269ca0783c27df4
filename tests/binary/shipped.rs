//! Every command line that plumb ships, in its units, manifests and job scripts, is one that this
//! binary takes. (tests/fleet starts the pods of a sweep.)

use crate::plumb::prelude::*;

/// The commands of a unit, with the variables of its own `Environment`, those of its
/// `EnvironmentFile` as packaged, and those of an administrator; keys are in `dir`.
fn commands(unit: &str, packaged: &str, own: &str, dir: &str) -> Vec<Vec<String>> {
    let lines = || unit.lines().map(str::trim);
    let environment = lines().filter_map(|line| line.strip_prefix("Environment="));
    let environment: Vec<String> =
        environment.flat_map(str::split_whitespace).map(|word| word.replace("%%", "%")).collect();
    let files = packaged.lines().chain(own.lines()).filter(|line| !line.starts_with('#'));
    let variables = environment.iter().map(String::as_str).chain(files);
    let variables: Vec<(&str, &str)> = variables.filter_map(|text| text.split_once('=')).collect();
    let command = |line: &str| {
        let mut line = line.replace("/etc/plumb", dir);
        // The last one counts.
        for (name, value) in variables.iter().rev() {
            line = line.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
        assert!(!line.contains('$'), "{line}");
        line.split_whitespace().map(str::to_owned).collect()
    };
    lines().filter_map(|line| line.strip_prefix("ExecStart=")).map(command).collect()
}

/// The arguments of a unit's only command.
fn arguments(unit: &str, packaged: &str, own: &str, here: &Here) -> Vec<String> {
    let dir = here.path("");
    let found = commands(unit, packaged, own, dir.to_str().unwrap().trim_end_matches('/'));
    let [command] = &found[..] else { panic!("{unit}") };
    assert_eq!(command[0], "/usr/bin/plumb");
    command[1..].to_vec()
}

#[test]
fn the_unit_of_the_watch_starts_this_binary() {
    let unit = include_str!("../../packaging/plumb-watch.service");
    let packaged = include_str!("../../packaging/plumb-watch.default");
    let here = Here::new();
    let textfile = here.path("plumb.prom");
    let own = format!(
        "PLUMB_RUN=selftest.echo --preset rehearsal\nPLUMB_TEXTFILE={}",
        textfile.display()
    );
    let dir = here.path("");
    let found = commands(unit, packaged, &own, dir.to_str().unwrap().trim_end_matches('/'));
    // Too few runs to decide, which the unit takes for success.
    let codes = [0, 0, 0, 5];
    assert_eq!(found.len(), codes.len(), "{found:?}");
    for (command, code) in found.iter().zip(codes) {
        assert_eq!(command[0], "/usr/bin/plumb");
        let args: Vec<&str> = command[1..].iter().map(String::as_str).collect();
        here.ends(code, &args);
    }
    assert!(unit.lines().any(|line| line == "SuccessExitStatus=5"));
    let text = fs::read_to_string(&textfile).unwrap();
    assert!(text.contains("\nplumb_selftest_echo"), "{text}");
    // The unit's user can write its state and nothing else.
    for setting in [
        "User=plumb-watch",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "StateDirectory=plumb-watch",
    ] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
    let users = include_str!("../../packaging/plumb.sysusers");
    for name in ["plumb-agent", "plumb-watch"] {
        assert!(users.contains(&format!("u {name} ")), "{users}");
    }
}

#[test]
fn the_unit_of_the_agent_starts_this_binary() {
    let unit = include_str!("../../packaging/plumb-agent.service");
    let packaged = include_str!("../../packaging/plumb-agent.default");
    let here = Here::new();
    here.ends(0, &["agent", "--new-key", "agent.key"]);
    // The port of the package may be taken here.
    let args = arguments(unit, packaged, "PLUMB_LISTEN=0", &here);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let agent = here.start(&mut here.command(&args));
    wait_for("an agent", || agent.said().contains("listening at 127.0.0.1:").then_some(()));
    // Both units let plumbs on one machine see each other.
    for unit in [unit, include_str!("../../packaging/plumb-watch.service")] {
        let paths = unit.lines().filter_map(|line| line.strip_prefix("ReadWritePaths="));
        assert!(paths.flat_map(str::split_whitespace).any(|path| path == "-/run/lock"), "{unit}");
    }
}

/// As `srun` and `sbcast` do on the only node of a job.
const SRUN: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=n1 SLURMD_NODENAME=n1 exec "$@"
"#;
const SBCAST: &str = "#!/bin/sh\n[ \"$1\" = --preserve ] && exec cp -p \"$2\" \"$3\"\n";

/// With the options of a sweep. (tests/fleet gives the script to a real Slurm.)
#[test]
fn the_job_script_of_a_sweep_starts_this_binary() {
    let here = Here::new();
    let bin = here.make_dir("bin");
    for (name, text) in [("srun", SRUN), ("sbcast", SBCAST)] {
        write_script(&Path::new(&bin).join(name), text);
    }
    let mut batch = here.other("bash");
    batch.args(["-c", include_str!("../../packaging/fleet.sbatch"), "fleet.sbatch"]);
    batch.args(
        "cpu.peak:op=fma,type=f64,threads=1 --preset=rehearsal --steps=0 --alone=6s --seed=7"
            .words(),
    );
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    batch.env("PATH", path).env("PLUMB", PLUMB).env("LEAD", "2");
    batch.envs([("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "1")]);
    let answer = ends(0, batch);
    let flat = here.ends(0, &["fleet", "report", "plumb-fleet-7", "-f", "json"]).json();
    let started = ["size", "seed", "preset", "starter"].map(|name| flat[name].clone());
    assert_eq!(json!(started), json!([1, 7, "rehearsal", "slurm"]));
    assert_eq!((&flat["nodes"], &flat["lost"]), (&json!(["n1"]), &json!([])), "{flat}");
    assert!(answer.out.contains("slurm"), "{answer:?}");
    // The copies and the secret are gone.
    assert_eq!(here.entries("plumb-fleet-7"), ["again-1", "n1.jsonl"]);
}
