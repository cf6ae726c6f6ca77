//! `generate` and `chat`: text from language models.

use std::fs;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;
use tract_openvino_generation::{
    self as generation, ChatTemplate, EndReason, Generated, GenerationConfig, Message,
    TextGenerator, TextTokenizer,
};

use crate::model::ThreadOptions;
use crate::panics::during;
use crate::report::{GOOD, NAME, error_with_help, output, printable, show_error};

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The folder of a language model
    folder: PathBuf,
    /// What the model is told; - reads it from standard input
    #[arg(long, value_name = "TEXT", required_unless_present = "prompt_file")]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// What the model is told before the prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template of the model
    #[arg(long, conflicts_with_all = ["template_variable", "system"])]
    no_template: bool,
    /// Print one object of JSON at the end: the text, its tokens, why it ended, and the rates
    #[arg(long)]
    json: bool,
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
    /// The most tokens that are generated [default: as the model's files say, or 2048]
    #[arg(long, value_name = "N")]
    max_new_tokens: Option<usize>,
    /// Take the most probable token in every step
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "seed", "beams"])]
    greedy: bool,
    /// Draw tokens at random, from logits that are divided by this; 0 is --greedy
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
    /// Do not end at the stop strings of the model's generation_config.json
    #[arg(long)]
    no_stop_strings: bool,
    /// Search with N beams. The text is shown when it is complete
    #[arg(long, value_name = "N", conflicts_with_all = ["temperature", "top_k", "top_p", "seed", "stop"])]
    beams: Option<usize>,
    /// Go on without settings of generation_config.json that are not supported
    #[arg(long)]
    ignore_unsupported_settings: bool,
    /// Set a variable of the chat template, such as enable_thinking=false; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    template_variable: Vec<(String, Value)>,
    /// Round neither the KV cache nor, in prefill, activations and weights: slower, with more memory
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    threads: ThreadOptions,
}

/// A variable of a template. Its value is JSON, or else a text.
fn parse_variable(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("it must have a name, = and a value")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.into(), value))
}

impl Options {
    /// The model of a folder, and the settings for it. What is wrong with options is found before the model is loaded.
    fn load(&self, folder: &Path) -> TractResult<(TextGenerator, GenerationConfig)> {
        let threads = self.threads.start()?;
        for setting in self.check(folder)? {
            log::warn!("{setting}; it is ignored");
        }
        let load = match self.exact {
            true => TextGenerator::from_folder_exact,
            false => TextGenerator::from_folder,
        };
        let mut generator = during("loading the model", || load(folder))?;
        // It takes the executor of several threads that tract has.
        if threads == 1 {
            generator = generator.with_threads(1)?;
        }
        let mut config = self.config(generator.config().clone());
        config.ignore_unsupported();
        Ok((generator, config))
    }

    /// Fails if the settings cannot be followed, and gives those that are to be ignored.
    fn check(&self, folder: &Path) -> TractResult<Vec<String>> {
        let mut config = self.config(GenerationConfig::from_folder(folder)?);
        let unsupported = config.ignore_unsupported();
        if !unsupported.is_empty() && !self.ignore_unsupported_settings {
            return Err(error_with_help(
                format!("in generation_config.json, {}", unsupported.join("; ")),
                ["--ignore-unsupported-settings generates text without these settings".into()],
            ));
        }
        // A stop string that is a special token ends a beam search as an end token does.
        if config.num_beams > 1 && !config.stop_strings.is_empty() {
            let tokenizer = TextTokenizer::from_folder(folder)?;
            config.stop_strings.retain(|stop| tokenizer.special_token(stop).is_none());
            if let Some(stop) = config.stop_strings.first() {
                return Err(error_with_help(
                    format!("a beam search does not look for stop strings, but there is {stop:?}"),
                    ["--beams 1 or --greedy looks for them, --no-stop-strings does not".into()],
                ));
            }
        }
        config.validate()?;
        Ok(unsupported)
    }

    /// A new chat.
    fn chat(&self, generator: &TextGenerator) -> TractResult<generation::Chat> {
        let set = |chat: generation::Chat, (name, value): &(String, Value)| {
            chat.with_variable(name, value)
        };
        Ok(self.template_variable.iter().fold(generator.chat()?, set))
    }

    fn config(&self, mut config: GenerationConfig) -> GenerationConfig {
        let is_drawn = self.temperature.is_some() || self.top_k.is_some() || self.top_p.is_some();
        if self.greedy || self.temperature == Some(0.) {
            config = config.with_do_sample(false).with_num_beams(1);
        } else if is_drawn || self.seed.is_some() {
            config = config.with_do_sample(true).with_num_beams(1);
        } else if let Some(beams) = self.beams {
            config = config.with_do_sample(false).with_num_beams(beams);
        }
        if let Some(most) = self.max_new_tokens {
            config = config.with_max_new_tokens(most);
        }
        config.temperature = self.temperature.unwrap_or(config.temperature);
        config.top_k = self.top_k.unwrap_or(config.top_k);
        config.top_p = self.top_p.unwrap_or(config.top_p);
        config.repetition_penalty = self.repetition_penalty.unwrap_or(config.repetition_penalty);
        config.seed = self.seed.or(config.seed);
        if self.no_stop_strings {
            config.stop_strings.clear();
        }
        config.stop_strings.extend(self.stop.iter().cloned());
        config
    }
}

impl Generate {
    pub fn run(&self) -> TractResult<bool> {
        let prompt = self.prompt()?;
        let (generator, config) = self.options.load(&self.folder)?;
        let show = |piece: &str| if self.json { ControlFlow::Continue(()) } else { show(piece) };
        let generated = during("generating text", || {
            let options = &self.options;
            let has_template = !self.no_template && template_of(&generator)?.is_some();
            if !has_template && options.template_variable.is_empty() && self.system.is_none() {
                return generator.generate(&prompt, &config, show);
            }
            let system = self.system.iter().map(Message::system);
            let messages: Vec<Message> = system.chain([Message::user(&prompt)]).collect();
            options.chat(&generator)?.answer(&messages, &config, show)
        })?;
        if self.json {
            writeln!(output(), "{}", as_json(&generated))?;
        } else {
            end_line(&generated)?;
            show_statistics(&generated);
        }
        Ok(true)
    }

    /// The prompt. One from elsewhere is without the end of its last line.
    fn prompt(&self) -> TractResult<String> {
        let text = match (&self.prompt_file, self.prompt.as_deref()) {
            (Some(file), _) => fs::read_to_string(file)
                .with_context(|| format!("reading the prompt from {}", file.display()))?,
            (None, Some("-")) => {
                io::read_to_string(io::stdin()).context("reading the prompt from standard input")?
            }
            (None, prompt) => return Ok(prompt.unwrap_or_default().into()),
        };
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Ok(line.strip_suffix('\r').unwrap_or(line).into())
    }
}

/// A text with its counts and rates. Where nothing was measured, a rate is null.
fn as_json(generated: &Generated) -> Value {
    let it = &generated.statistics;
    let rate = |rate: f64| (rate > 0.).then_some(rate);
    json!({
        "text": generated.text,
        "tokens": generated.tokens,
        "end": generated.end.to_string().replace(' ', "_"),
        "prefill_tokens": it.prompt_tokens,
        "prefill_tokens_per_second": rate(it.prompt_rate()),
        "decode_tokens_per_second": rate(it.rate()),
    })
}

/// The chat template of a model, if there is one.
fn template_of(generator: &TextGenerator) -> TractResult<Option<&ChatTemplate>> {
    generator.template().map_err(|error| {
        let help = "with --no-template, the text goes on where the prompt ends";
        error_with_help(format!("{error:#}"), [help.into()])
    })
}

impl Chat {
    /// False if a message got no answer.
    pub fn run(&self) -> TractResult<bool> {
        let (generator, mut config) = self.options.load(&self.folder)?;
        let mut chat = self.options.chat(&generator)?;
        let messages = self.system.iter().map(Message::system).collect();
        let input = io::stdin();
        converse(input.lock(), input.is_terminal(), messages, |messages| {
            let generated = during("generating text", || chat.answer(messages, &config, show))?;
            // Another answer has other random numbers.
            config.seed = config.seed.map(|seed| seed.wrapping_add(1));
            end_line(&generated)?;
            show_statistics(&generated);
            Ok((generated.end != EndReason::Stopped).then_some(generated.text))
        })
    }
}

/// Answers the lines of an input, but for empty ones, until nobody reads the answers. A message without an answer is as if it had not
/// been there. False if there is one.
fn converse(
    mut input: impl BufRead,
    is_terminal: bool,
    mut messages: Vec<Message>,
    mut answer: impl FnMut(&[Message]) -> TractResult<Option<String>>,
) -> TractResult<bool> {
    let mut all_answered = true;
    loop {
        if is_terminal {
            write!(output(), "{NAME}>{NAME:#} ")?;
            output().flush()?;
        }
        let mut line = String::new();
        let read = match input.read_line(&mut line) {
            Ok(0) => return Ok(all_answered),
            // All of the line has been read.
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(error),
            read => Ok(read?),
        };
        let line = line.trim();
        if read.is_ok() && line.is_empty() {
            continue;
        }
        messages.push(Message::user(line));
        match read.context("reading a message").and_then(|_| answer(&messages)) {
            Ok(Some(text)) => messages.push(Message::assistant(text)),
            Ok(None) => return Ok(all_answered),
            Err(error) => {
                show_error(&error);
                messages.pop();
                all_answered = false;
            }
        }
    }
}

/// Shows a piece of text at once, and stops where nobody reads it. In a terminal, control characters are escaped, with which a model
/// could steer it.
fn show(piece: &str) -> ControlFlow<()> {
    let mut out = anstream::stdout();
    let text = if io::stdout().is_terminal() { escaped(piece) } else { piece.into() };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// A text with its control characters escaped, but for tabs and ends of lines.
fn escaped(text: &str) -> String {
    let pieces = text.split_inclusive(['\n', '\t']).map(|piece| {
        let rest = piece.trim_end_matches(['\n', '\t']);
        printable(rest) + &piece[rest.len()..]
    });
    pieces.collect()
}

fn end_line(generated: &Generated) -> TractResult<()> {
    if !generated.text.ends_with('\n') {
        writeln!(output())?;
    }
    Ok(())
}

/// Prints counts and rates on standard error.
fn show_statistics(generated: &Generated) {
    // Nothing was measured where the first token was the last one.
    let rate = |rate: f64| if rate == 0. { "-".into() } else { format!("{rate:.1}") };
    let it = &generated.statistics;
    let text = format!(
        "{GOOD}{}:{GOOD:#} {} tokens at {} per second; prompt: {} tokens at {} per second\n",
        generated.end,
        it.tokens,
        rate(it.rate()),
        it.prompt_tokens,
        rate(it.prompt_rate())
    );
    // Where standard error is closed there is nobody to tell.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use tract_openvino::tract_onnx::tract_hir::internal::ensure;

    use super::*;

    /// What the model hears with each message, and whether all of them were answered. It answers all but `long`, and nobody reads what
    /// comes after `close`.
    fn heard(input: &[u8], is_terminal: bool) -> (Vec<String>, bool) {
        let mut heard = vec![];
        let all_answered = converse(input, is_terminal, vec![Message::system("S")], |messages| {
            let texts: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
            heard.push(texts.join(" "));
            let message = &*messages.last().unwrap().content;
            ensure!(message != "long", "there is no room");
            Ok((message != "close").then(|| "A".into()))
        });
        (heard, all_answered.unwrap())
    }

    #[test]
    fn a_chat_goes_on_after_errors() {
        let input = b"one\nlong\n\xFF\ntwo";
        let (heard, all_answered) = heard(input, false);
        assert_eq!(heard, ["S one", "S one A long", "S one A two"]);
        assert!(!all_answered);
    }

    #[test]
    fn a_chat_ends_where_nobody_reads_it() {
        let (heard, all_answered) = heard(b"one\nclose\ntwo", false);
        assert_eq!(heard, ["S one", "S one A close"]);
        assert!(all_answered);
    }

    #[test]
    fn an_empty_line_is_no_message() {
        for is_terminal in [false, true] {
            let expected = (vec!["S one".into(), "S one A two".into()], true);
            assert_eq!(heard(b"one\n\ntwo\n", is_terminal), expected);
        }
    }

    #[test]
    fn variables_are_json_or_text() {
        let variable =
            |text: &str| parse_variable(text).map(|(name, value)| format!("{name} {value}"));
        assert_eq!(variable("enable_thinking=false").as_deref(), Ok("enable_thinking false"));
        assert_eq!(variable("date=1 May = today").as_deref(), Ok(r#"date "1 May = today""#));
        assert!(variable("thinking").is_err());
    }

    #[test]
    fn tabs_and_lines_stay() {
        assert_eq!(escaped("a\tb\n\n\u{1b}[2J\r\t."), "a\tb\n\n\\u{1b}[2J\\r\t.");
    }
}
