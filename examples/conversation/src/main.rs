//! Talks with a language model, on all cores.

use std::io::{BufRead, Write};
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use tract_openvino_generation::{EndReason, Message, TextGenerator};

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or("smollm2".into());
    let generator =
        TextGenerator::from_folder(&folder).with_context(|| format!("reading {folder}"))?;
    let mut chat = generator.chat()?;
    let mut messages = vec![];
    // Each line is a question; the model sees all before it.
    for line in std::io::stdin().lock().lines() {
        messages.push(Message::user(line?));
        let answer = chat.answer(&messages, generator.config(), |piece| {
            print!("{piece}");
            match std::io::stdout().flush() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        if answer.end == EndReason::Stopped {
            // Nobody reads it any more.
            break;
        }
        println!();
        messages.push(Message::assistant(answer.text));
    }
    Ok(())
}
