//! `plumb self-check`: whether the timed bodies compute what they should on this machine.

use crate::cmd::{Failure, output};
use anyhow::Context;
use metal::known_answer::{self, Answer};

/// Runs each benchmark loop briefly and checks its result. Exit code 1 names the wrong ones.
#[derive(clap::Args)]
pub struct Args {
    /// List also the loops whose result is right
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let answers = known_answer::every().context("the bodies cannot run")?;
    let (text, all_right) = summary(&answers, args.all);
    output::print(&text)?;
    if all_right { Ok(()) } else { Err(Failure::Finding) }
}

/// The wrong bodies by name, or all, and whether there is no wrong one.
fn summary(answers: &[Answer], all: bool) -> (String, bool) {
    let mut text = String::new();
    for answer in answers.iter().filter(|answer| all || !answer.is_right) {
        let word = if answer.is_right { "right" } else { "WRONG" };
        text += &format!("{word}  {}\n", answer.kernel);
    }
    let (total, wrong) = (answers.len(), answers.iter().filter(|answer| !answer.is_right).count());
    text += &match wrong {
        0 => format!("All {total} timed bodies of this processor leave their known answer.\n"),
        _ => format!(
            "{wrong} of {total} timed bodies leave a wrong answer. Do not believe figures of this \
             machine: an emulator, the memory or the processor is at fault, or plumb is.\n"
        ),
    };
    (text, wrong == 0)
}

#[cfg(test)]
mod tests {
    use super::{Answer, summary};

    #[test]
    fn a_wrong_body_is_named() {
        let answer = |kernel: &str, is_right| Answer { kernel: kernel.to_owned(), is_right };
        let mut answers = vec![answer("empty loop", true), answer("peak add", true)];
        assert!(summary(&answers, false).1);
        answers[1].is_right = false;
        let (text, all_right) = summary(&answers, false);
        assert!(!all_right && text.contains("peak add") && !text.contains("empty loop"), "{text}");
    }
}
