//! A job of Slurm: submitted, followed and cancelled by Slurm's own commands.

use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::process::{Command, Stdio};

/// States of a job whose script has not ended (`squeue`(1), "Job state codes"). After it, in
/// `COMPLETING`, Slurm may wait a minute for nodes that are lost.
const GOING_ON: [&str; 8] = [
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "SUSPENDED",
    "REQUEUED",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
];

/// A job by its number.
pub struct Job {
    /// As Slurm's commands take it.
    pub id: String,
}

/// What Slurm says of a job.
pub struct State {
    /// `PENDING`, `RUNNING`, `COMPLETED`, ...
    pub name: String,
    /// Why it waits or ended.
    pub reason: String,
    /// Directory in which it was submitted.
    pub dir: String,
}

impl State {
    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        !GOING_ON.contains(&self.name.as_str())
    }
}

impl Job {
    /// Submits a script. Errors: there is no sbatch here, or Slurm refuses the job.
    pub fn submit(script: &str) -> Result<Job> {
        let mut sbatch = Command::new("sbatch");
        sbatch.arg("--parsable").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut sbatch = sbatch
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start sbatch: type this where Slurm's commands are, or use --hosts")?;
        if let Some(mut input) = sbatch.stdin.take() {
            // One that does not read has said why.
            let _ = input.write_all(script.as_bytes());
        }
        let output = sbatch.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "Slurm did not take the job: {}; see the script with `plumb fleet slurm`",
            said.trim()
        );
        let printed = String::from_utf8_lossy(&output.stdout);
        // The number, then the cluster's name if there are several.
        let id = printed.trim().split(';').next().unwrap_or_default();
        ensure!(!id.is_empty(), "sbatch printed no job number");
        Ok(Job { id: id.to_owned() })
    }

    /// Its state; `None` where Slurm does not know it any more. Errors: Slurm does not answer.
    pub fn state(&self) -> Result<Option<State>> {
        let text = match said("scontrol", &["show", "job", "-o", &self.id]) {
            Ok(text) => text,
            Err(error) if error.to_string().contains("Invalid job id") => return Ok(None),
            Err(error) => return Err(error),
        };
        let value = |name: &str| {
            let words = text.split_whitespace();
            words.filter_map(|word| word.split_once('=')).find(|(of, _)| *of == name)
        };
        let value = |name| value(name).map_or(String::new(), |(_, value)| value.to_owned());
        Ok(Some(State { name: value("JobState"), reason: value("Reason"), dir: value("WorkDir") }))
    }

    /// Ends it. Errors: Slurm does not.
    pub fn cancel(&self) -> Result<()> {
        said("scancel", &[&self.id]).map(drop)
    }
}

/// What a command of Slurm prints. Errors: it cannot be started, or does not end well.
pub fn said(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", arguments.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
