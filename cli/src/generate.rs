//! `generate` and `chat`: text from language models.

use std::io::{self, BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino_generation::{Generated, GenerationConfig, Message, TextGenerator};

use crate::model::use_threads;
use crate::panics::during;
use crate::report::{GOOD, NAME, output, printable};

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The folder of a language model
    folder: PathBuf,
    /// What the model is told
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Continue the prompt as it is, without the chat template of the model
    #[arg(long)]
    no_template: bool,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// The folder of a language model
    folder: PathBuf,
    /// What the model is told before the chat
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// How text is generated. What is not given is as the model's generation_config.json says.
#[derive(Debug, Args)]
struct Options {
    /// The most tokens that are generated
    #[arg(long, value_name = "N")]
    max_new_tokens: Option<usize>,
    /// Take the most probable token in every step
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "seed", "beams"])]
    greedy: bool,
    /// Draw tokens at random, from logits that are divided by this
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f32>,
    /// Draw tokens at random, from the N most probable ones; 0 is all
    #[arg(long, value_name = "N")]
    top_k: Option<usize>,
    /// Draw tokens at random, from the most probable ones that have this probability together
    #[arg(long, value_name = "NUMBER")]
    top_p: Option<f32>,
    /// Make tokens that are in the text already less probable: a number above 1
    #[arg(long, value_name = "NUMBER")]
    repetition_penalty: Option<f32>,
    /// Draw tokens at random, the same ones each time
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End at this text, which is not shown; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Search with N beams. The text is shown when it is complete
    #[arg(long, value_name = "N", conflicts_with_all = ["temperature", "top_k", "top_p", "seed"])]
    beams: Option<usize>,
    /// The number of threads that tract may use
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
}

impl Options {
    /// The model of a folder, and the settings for it.
    fn load(&self, folder: &PathBuf) -> TractResult<(TextGenerator, GenerationConfig)> {
        use_threads(self.threads);
        let generator = during("loading the model", || TextGenerator::from_folder(folder))?;
        let config = self.config(generator.config().clone());
        config.validate()?;
        Ok((generator, config))
    }

    fn config(&self, mut config: GenerationConfig) -> GenerationConfig {
        let is_drawn = self.temperature.is_some() || self.top_k.is_some() || self.top_p.is_some();
        if self.greedy {
            config = config.greedy();
        } else if is_drawn || self.seed.is_some() {
            config = config.sampling();
        } else if let Some(beams) = self.beams {
            config = config.beams(beams);
        }
        config.max_new_tokens = self.max_new_tokens.unwrap_or(config.max_new_tokens);
        config.temperature = self.temperature.unwrap_or(config.temperature);
        config.top_k = self.top_k.unwrap_or(config.top_k);
        config.top_p = self.top_p.unwrap_or(config.top_p);
        config.repetition_penalty = self.repetition_penalty.unwrap_or(config.repetition_penalty);
        config.seed = self.seed.or(config.seed);
        config.stop_strings.extend(self.stop.iter().cloned());
        config
    }
}

impl Generate {
    pub fn run(&self) -> TractResult<bool> {
        let (generator, config) = self.options.load(&self.folder)?;
        let generated = during("generating text", || {
            if self.no_template || generator.template().is_none() {
                return generator.generate(&self.prompt, &config, show);
            }
            generator.chat()?.answer(&[Message::user(&self.prompt)], &config, show)
        })?;
        end_line(&generated)?;
        show_statistics(&generated);
        Ok(true)
    }
}

impl Chat {
    pub fn run(&self) -> TractResult<bool> {
        let (generator, config) = self.options.load(&self.folder)?;
        let mut chat = generator.chat()?;
        let mut messages: Vec<Message> = self.system.iter().map(Message::system).collect();
        loop {
            if io::stdin().is_terminal() {
                write!(output(), "{NAME}>{NAME:#} ")?;
                output().flush()?;
            }
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line)?;
            let line = line.trim();
            if line.is_empty() {
                return Ok(true);
            }
            messages.push(Message::user(line));
            let generated = during("generating text", || chat.answer(&messages, &config, show))?;
            end_line(&generated)?;
            show_statistics(&generated);
            messages.push(Message::assistant(generated.text));
        }
    }
}

/// Shows a piece of text at once. Control characters, with which a model could steer the terminal, are escaped.
fn show(piece: &str) -> ControlFlow<()> {
    let mut out = output();
    let lines: Vec<String> = piece.split('\n').map(printable).collect();
    match out.write_all(lines.join("\n").as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

fn end_line(generated: &Generated) -> TractResult<()> {
    if !generated.text.ends_with('\n') {
        writeln!(output())?;
    }
    Ok(())
}

/// Prints counts and rates on standard error.
fn show_statistics(generated: &Generated) {
    let it = &generated.statistics;
    let text = format!(
        "{GOOD}{}:{GOOD:#} {} tokens at {:.1} per second; prompt: {} tokens at {:.1} per second\n",
        generated.end,
        it.tokens,
        it.rate(),
        it.prompt_tokens,
        it.prompt_rate()
    );
    // Where standard error is closed there is nobody to tell.
    let _ = anstream::stderr().write_all(text.as_bytes());
}
