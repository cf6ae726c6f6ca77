//! `generate` and `chat`: text from language models.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::Value;
use tract_openvino::kernels::{CachePrecision, KernelsConfig, KernelsTransform};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::TractErrorContext;
use tract_openvino_generation::{
    self as generation, ChatTemplate, Generated, GenerationConfig, Message, TextGenerator,
};

use crate::model::ThreadOptions;
use crate::panics::during;
use crate::report::{GOOD, NAME, error_with_help, output, printable, show_error};

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub struct Generate {
    /// The folder of a language model
    folder: PathBuf,
    /// What the model is told
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// Continue the prompt as it is, without the chat template of the model
    #[arg(long, conflicts_with = "template_variable")]
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
    /// Set a variable of the chat template, such as enable_thinking=false; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    template_variable: Vec<(String, Value)>,
    /// Round data that meets compressed weights to 8 bits where a prompt is read: faster, with another result
    #[arg(long)]
    dynamic_quantization: bool,
    /// What keys and values of the text so far are kept as: u8 takes a quarter of the memory, with another result
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = cache_precision())]
    kv_cache_precision: CachePrecision,
    #[command(flatten)]
    threads: ThreadOptions,
}

/// A variable of a template. Its value is JSON, or else a text.
fn parse_variable(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("it must have a name, = and a value")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.into(), value))
}

fn cache_precision() -> impl TypedValueParser<Value = CachePrecision> {
    PossibleValuesParser::new(["f32", "u8"]).map(|name| match &*name {
        "u8" => CachePrecision::U8,
        _ => CachePrecision::F32,
    })
}

impl Options {
    /// The model of a folder, and the settings for it.
    fn load(&self, folder: &PathBuf) -> TractResult<(TextGenerator, GenerationConfig)> {
        self.threads.start()?;
        let mut kernels = KernelsConfig::default();
        kernels.dynamic_quantization = self.dynamic_quantization;
        kernels.kv_cache_precision = self.kv_cache_precision;
        let kernels = KernelsTransform::new(kernels)?;
        let generator =
            during("loading the model", || TextGenerator::from_folder_with(folder, &kernels))?;
        let config = self.config(generator.config().clone());
        config.validate()?;
        Ok((generator, config))
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
        if self.greedy {
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
        config.stop_strings.extend(self.stop.iter().cloned());
        config
    }
}

impl Generate {
    pub fn run(&self) -> TractResult<bool> {
        let (generator, config) = self.options.load(&self.folder)?;
        let generated = during("generating text", || {
            let options = &self.options;
            let has_template = !self.no_template && template_of(&generator)?.is_some();
            if !has_template && options.template_variable.is_empty() {
                return generator.generate(&self.prompt, &config, show);
            }
            options.chat(&generator)?.answer(&[Message::user(&self.prompt)], &config, show)
        })?;
        end_line(&generated)?;
        show_statistics(&generated);
        Ok(true)
    }
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
            Ok(generated)
        })
    }
}

/// Answers the lines of an input, but for empty ones. A message without an answer is as if it had not been there. False if there
/// is one.
fn converse(
    mut input: impl BufRead,
    is_terminal: bool,
    mut messages: Vec<Message>,
    mut answer: impl FnMut(&[Message]) -> TractResult<Generated>,
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
            Ok(generated) => {
                end_line(&generated)?;
                show_statistics(&generated);
                messages.push(Message::assistant(generated.text));
            }
            Err(error) => {
                show_error(&error);
                messages.pop();
                all_answered = false;
            }
        }
    }
}

/// Shows a piece of text at once. In a terminal, control characters are escaped, with which a model could steer it.
fn show(piece: &str) -> ControlFlow<()> {
    let mut out = output();
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
    use tract_openvino_generation::{EndReason, Statistics};

    use super::*;

    /// What the model hears with each message, and whether all of them were answered. It answers all but `long`.
    fn heard(input: &[u8], is_terminal: bool) -> (Vec<String>, bool) {
        let mut heard = vec![];
        let all_answered = converse(input, is_terminal, vec![Message::system("S")], |messages| {
            let texts: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
            heard.push(texts.join(" "));
            ensure!(messages.last().unwrap().content != "long", "there is no room");
            let statistics = Statistics::default();
            Ok(Generated { text: "A".into(), tokens: vec![], end: EndReason::EndToken, statistics })
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
