//! Generation of text: prompts and chats.

use std::ops::ControlFlow;
use std::path::Path;

use tract_core::internal::*;

use crate::beams::generate_beams;
use crate::config::GenerationConfig;
use crate::model::{Context, LanguageModel};
use crate::stop::StopStrings;
use crate::template::{ChatTemplate, Message};
use crate::tokenizer::{TextStream, TextTokenizer};
use crate::tokens::{EndReason, GeneratedTokens, Statistics, generate_tokens};

/// A language model with its tokenizer, chat template and settings.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use tract_openvino_generation::TextGenerator;
///
/// // A tiny model with random weights.
/// let generator = TextGenerator::from_folder("models/tiny")?;
/// let config = generator.config().clone().with_max_new_tokens(10);
/// let generated = generator.generate("Hello", &config, |piece| {
///     print!("{piece}");
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(generated.statistics.tokens, 10);
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct TextGenerator {
    model: LanguageModel,
    tokenizer: TextTokenizer,
    template: Option<ChatTemplate>,
    config: GenerationConfig,
}

/// A text that was generated.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The text, without stop string and special tokens.
    pub text: String,
    /// The tokens, without the end token. Those of a stop string are there.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub end: EndReason,
    /// Counts and times.
    pub statistics: Statistics,
}

impl TextGenerator {
    /// The model of a folder that `optimum-cli export openvino` wrote: `openvino_model.xml` and `.bin`, `tokenizer.json`, and, if
    /// they are there, `config.json`, `generation_config.json`, and `chat_template.jinja` or `tokenizer_config.json`.
    ///
    /// # Errors
    ///
    /// A file is missing or malformed, or the model is no language model.
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<TextGenerator> {
        let folder = folder.as_ref();
        // What is quickly read comes first.
        let config = GenerationConfig::from_folder(folder)?;
        let tokenizer = TextTokenizer::from_folder(folder)?;
        let template = ChatTemplate::from_folder(folder)?;
        let model = LanguageModel::from_folder(folder)?;
        Ok(TextGenerator { model, tokenizer, template, config })
    }

    /// A model with its parts, which come from elsewhere.
    pub fn new(
        model: LanguageModel,
        tokenizer: TextTokenizer,
        template: Option<ChatTemplate>,
        config: GenerationConfig,
    ) -> TextGenerator {
        TextGenerator { model, tokenizer, template, config }
    }

    /// The settings of the folder.
    pub fn config(&self) -> &GenerationConfig {
        &self.config
    }

    /// The model.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// The chat template, if there is one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// Generates what follows a text, and tells it piece by piece. `on_text` may end the generation. A beam search tells all at
    /// once.
    ///
    /// # Errors
    ///
    /// A setting is out of its range, the prompt has no tokens or too many, or the model fails.
    pub fn generate(
        &self,
        prompt: &str,
        config: &GenerationConfig,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> TractResult<Generated> {
        let prompt = self.tokenizer.encode(prompt, true)?;
        self.continue_context(&mut self.model.start()?, &prompt, config, on_text)
    }

    /// A new chat.
    ///
    /// # Errors
    ///
    /// The model has no chat template.
    pub fn chat(&self) -> TractResult<Chat<'_>> {
        let template = self.template.as_ref();
        let template = template.context("the model has no chat template, which a chat needs")?;
        Ok(Chat { generator: self, template, context: None })
    }

    fn continue_context(
        &self,
        context: &mut Context,
        prompt: &[u32],
        config: &GenerationConfig,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> TractResult<Generated> {
        let mut telling = Telling {
            stream: self.tokenizer.stream(),
            stop: StopStrings::new(config.stop_strings.iter().cloned()),
            text: String::new(),
            on_text,
        };
        let mut generated = match config.num_beams {
            1 => generate_tokens(context, prompt, config, |token| telling.token(token))?,
            _ => {
                let mut generated = generate_beams(context, prompt, config)?;
                for token in &generated.tokens {
                    if telling.token(*token)?.is_break() {
                        generated.end = EndReason::Stopped;
                        break;
                    }
                }
                generated
            }
        };
        // Who wants no more gets no more.
        if generated.end != EndReason::Stopped {
            telling.finish()?;
        }
        if telling.stop.has_stopped() {
            generated.end = EndReason::StopString;
        }
        let GeneratedTokens { tokens, end, statistics } = generated;
        let text = telling.text;
        Ok(Generated { text, tokens, end, statistics })
    }
}

/// Tokens on their way to the caller.
struct Telling<'a, F> {
    stream: TextStream<'a>,
    stop: StopStrings,
    text: String,
    on_text: F,
}

impl<F: FnMut(&str) -> ControlFlow<()>> Telling<'_, F> {
    fn token(&mut self, token: u32) -> TractResult<ControlFlow<()>> {
        let piece = self.stream.push(token)?;
        let piece = self.stop.push(&piece);
        let flow = self.tell(&piece);
        Ok(if self.stop.has_stopped() { ControlFlow::Break(()) } else { flow })
    }

    fn finish(&mut self) -> TractResult<()> {
        let piece = self.stream.finish()?;
        let mut piece = self.stop.push(&piece);
        piece += &self.stop.finish();
        let _ = self.tell(&piece);
        Ok(())
    }

    fn tell(&mut self, piece: &str) -> ControlFlow<()> {
        if piece.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text += piece;
        (self.on_text)(piece)
    }
}

/// A chat. It keeps what the model knows of the messages, and reads only what is new.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use tract_openvino_generation::{Message, TextGenerator};
///
/// let generator = TextGenerator::from_folder("models/tiny")?;
/// let config = generator.config().clone().with_max_new_tokens(10);
/// let mut chat = generator.chat()?;
/// let mut messages = vec![Message::user("Hello!")];
/// let answer = chat.answer(&messages, &config, |_piece| ControlFlow::Continue(()))?;
/// messages.push(Message::assistant(answer.text));
/// messages.push(Message::user("And now?"));
/// chat.answer(&messages, &config, |_piece| ControlFlow::Continue(()))?;
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct Chat<'a> {
    generator: &'a TextGenerator,
    template: &'a ChatTemplate,
    context: Option<Context>,
}

impl Chat<'_> {
    /// Generates the answer to messages, which are the whole chat, and tells it piece by piece, as
    /// [`TextGenerator::generate`] does. Where the tokens of the messages begin with all those that the model has read, it reads
    /// the others only. Otherwise, as after a beam search, it reads all.
    ///
    /// # Errors
    ///
    /// The template refuses the messages, or as [`TextGenerator::generate`].
    pub fn answer(
        &mut self,
        messages: &[Message],
        config: &GenerationConfig,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> TractResult<Generated> {
        let text = self.template.render(messages, true)?;
        // The template has the special tokens.
        let prompt = self.generator.tokenizer.encode(&text, false)?;
        let known = self.context.take().filter(|context| prompt.starts_with(context.tokens(0)));
        let mut context = match known {
            Some(context) => context,
            None => self.generator.model.start()?,
        };
        let new = &prompt[context.len()..];
        let generated = self.generator.continue_context(&mut context, new, config, on_text)?;
        if config.num_beams == 1 {
            self.context = Some(context);
        }
        Ok(generated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

    fn generator() -> TextGenerator {
        TextGenerator::from_folder("models/tiny").unwrap()
    }

    #[test]
    fn pieces_are_the_text() -> TractResult<()> {
        let generator = generator();
        for config in [
            generator.config().clone().with_max_new_tokens(40),
            generator.config().clone().with_max_new_tokens(40).sampling().with_seed(2),
            generator.config().clone().with_max_new_tokens(10).beams(3),
        ] {
            let mut pieces = String::new();
            let generated = generator.generate("Hello", &config, |piece| {
                pieces += piece;
                GO_ON
            })?;
            assert_eq!(pieces, generated.text);
            assert_eq!(generated.text, generator.tokenizer().decode(&generated.tokens)?);
        }
        Ok(())
    }

    #[test]
    fn stop_strings_and_callers_end_it() -> TractResult<()> {
        let generator = generator();
        let config = generator.config().clone().with_max_new_tokens(40).with_end_tokens([]);
        let all = generator.generate("Hello", &config, |_| GO_ON)?.text;
        for config in [config.clone(), config.clone().with_max_new_tokens(9).beams(2)] {
            let all = generator.generate("Hello", &config, |_| GO_ON)?.text;
            let stop: String = all.chars().skip(3).take(2).collect();
            let before = &all[..all.find(&stop).unwrap()];
            let config = config.with_stop_strings([&*stop]);
            let generated = generator.generate("Hello", &config, |_| GO_ON)?;
            assert_eq!((&*generated.text, generated.end), (before, EndReason::StopString));
        }
        let generated = generator.generate("Hello", &config, |_| ControlFlow::Break(()))?;
        assert_eq!(generated.end, EndReason::Stopped);
        assert!(!generated.text.is_empty() && all.starts_with(&generated.text));
        Ok(())
    }

    #[test]
    fn a_chat_reads_what_is_new() -> TractResult<()> {
        let generator = generator();
        let config = generator.config().clone().with_max_new_tokens(1);
        let mut chat = generator.chat()?;
        let mut messages = vec![Message::system("Be short."), Message::user("Hello!")];
        let first = chat.answer(&messages, &config, |_| GO_ON)?;
        assert_eq!(first.statistics.prompt_tokens, 44);
        // The same again: there is nothing to read.
        let again = chat.answer(&messages, &config, |_| GO_ON)?;
        assert_eq!((&again.text, again.statistics.prompt_tokens), (&first.text, 0));
        messages.extend([Message::assistant("Hi!"), Message::user("And now?")]);
        let second = chat.answer(&messages, &config, |_| GO_ON)?;
        let fresh = generator.chat()?.answer(&messages, &config, |_| GO_ON)?;
        assert_eq!(second.tokens, fresh.tokens);
        assert_eq!(second.statistics.prompt_tokens + 44, fresh.statistics.prompt_tokens);
        // Another chat.
        let other = chat.answer(&[Message::user("Hello!")], &config, |_| GO_ON)?;
        assert!(other.statistics.prompt_tokens > 20);
        Ok(())
    }

    #[test]
    fn a_missing_template() -> TractResult<()> {
        let TextGenerator { model, tokenizer, config, .. } = generator();
        let error = TextGenerator::new(model, tokenizer, None, config).chat().unwrap_err();
        assert!(error.to_string().contains("no chat template"));
        Ok(())
    }

    #[test]
    fn missing_files() {
        let folder = tempfile::tempdir().unwrap();
        let error = format!("{:#}", TextGenerator::from_folder(&folder).unwrap_err());
        assert!(error.contains("tokenizer.json"), "{error}");
        std::fs::copy("models/tiny/tokenizer.json", folder.path().join("tokenizer.json")).unwrap();
        let error = format!("{:#}", TextGenerator::from_folder(&folder).unwrap_err());
        assert!(error.contains("openvino_model.xml"), "{error}");
    }
}
