//! Generation of text: prompts and chats.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tract_core::internal::*;
use tract_openvino_kernels::KernelsTransform;

use crate::beams::generate_beams;
use crate::config::GenerationConfig;
use crate::files::Files;
use crate::model::{Context, LanguageModel, rounding_kernels};
use crate::stop::StopStrings;
use crate::template::{ChatTemplate, Message};
use crate::threads::Threads;
use crate::tokenizer::{Pieces, TextTokenizer, special_tokens};
use crate::tokens::{EndReason, GeneratedTokens, Statistics, TokenSteps, read_prompt};

/// A language model with its tokenizer, chat template and settings. A clone shares them.
///
/// With the feature `multithread-mm`, which is on by default, it runs on all cores, or on as many threads as the environment variable
/// `TRACT_OPENVINO_THREADS` says; or on the executor of several threads that the program has given to tract; or
/// [`with_threads`](Self::with_threads).
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
    parts: Arc<Parts>,
    threads: Arc<Threads>,
    on_prefill: Option<OnPrefill>,
}

/// What is told how far prefill is.
#[derive(Clone)]
struct OnPrefill(Arc<dyn Fn(usize, usize) -> ControlFlow<()> + Send + Sync>);

impl std::fmt::Debug for OnPrefill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnPrefill")
    }
}

/// The most tokens of a chunk of prefill.
const CHUNK: usize = 512;

#[derive(Debug)]
struct Parts {
    model: LanguageModel,
    tokenizer: TextTokenizer,
    /// Or why there is none that can be used: who needs no chat does not care.
    template: Result<Option<ChatTemplate>, String>,
    config: GenerationConfig,
}

/// A text that was generated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
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
    /// The model of a folder that `optimum-cli export openvino` wrote: `openvino_model.xml` and `.bin`, a tokenizer as
    /// [`TextTokenizer::from_folder`] reads it, and, if they are there, `config.json`, `generation_config.json`, `chat_template.jinja`, `tokenizer_config.json` and
    /// `special_tokens_map.json`. If no settings have `eos_token_id`, it is the `eos_token` of the tokenizer.
    ///
    /// Activations that meet int8 or int4 weights in prefill, and the KV cache, are rounded to 8 bits, as OpenVINO does by default;
    /// with AMX these activations are rounded to bf16: prefill is faster, and the KV cache takes a quarter of the memory. [`from_folder_exact`](Self::from_folder_exact) does not round.
    ///
    /// # Errors
    ///
    /// A file is missing or malformed, or the model is no language model that continues texts. What is wrong with the chat template is
    /// said by [`chat`](Self::chat).
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<TextGenerator> {
        TextGenerator::from_folder_with(folder, &rounding_kernels())
    }

    /// The same with exact results: activations and the KV cache are not rounded to 8 bits.
    ///
    /// # Errors
    ///
    /// Those of [`from_folder`](Self::from_folder).
    pub fn from_folder_exact(folder: impl AsRef<Path>) -> TractResult<TextGenerator> {
        TextGenerator::from_folder_with(folder, &KernelsTransform::default())
    }

    /// The same with options for the operators:
    ///
    /// ```
    /// use tract_openvino_generation::TextGenerator;
    /// use tract_openvino_generation::tract_openvino_kernels::{KernelsConfig, KernelsTransform};
    ///
    /// let mut config = KernelsConfig::default();
    /// config.dynamic_quantization = true;
    /// TextGenerator::from_folder_with("models/tiny", &KernelsTransform::new(config)?)?;
    /// # tract_openvino_generation::prelude::TractResult::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`from_folder`](Self::from_folder).
    pub fn from_folder_with(
        folder: impl AsRef<Path>,
        kernels: &KernelsTransform,
    ) -> TractResult<TextGenerator> {
        TextGenerator::from_files(Files::folder(folder.as_ref()), kernels)
    }

    /// The same from files in memory. They are no longer needed when the model is read: what it keeps of them it has copied.
    ///
    /// Nothing is asked of the system then but threads, with the feature for them, and what
    /// [`seed`](GenerationConfig::seed) and [`ChatTemplate::with_time`] are about: a browser can do this.
    ///
    /// # Errors
    ///
    /// Those of [`from_folder`](Self::from_folder).
    pub fn from_files(files: Files, kernels: &KernelsTransform) -> TractResult<TextGenerator> {
        let files = &files;
        // What is quickly read comes first.
        files.check_model()?;
        let mut config = GenerationConfig::from_files(files)?;
        let tokenizer = TextTokenizer::from_files(files)?;
        if config.eos_token_id.is_empty()
            && let Some(Some(text)) = special_tokens(files)?.get("eos_token")
        {
            let token = tokenizer.token(text).with_context(|| {
                format!(
                    "in {}, eos_token is {text:?}, which the tokenizer does not have",
                    files.place()
                )
            })?;
            config.eos_token_id = vec![token];
        }
        let template = ChatTemplate::from_files(files).map_err(|error| format!("{error:#}"));
        let model = LanguageModel::from_files(files, kernels)?;
        Ok(TextGenerator::of(Parts { model, tokenizer, template, config }))
    }

    /// A model with its parts, which come from elsewhere.
    pub fn new(
        model: LanguageModel,
        tokenizer: TextTokenizer,
        template: Option<ChatTemplate>,
        config: GenerationConfig,
    ) -> TextGenerator {
        TextGenerator::of(Parts { model, tokenizer, template: Ok(template), config })
    }

    fn of(parts: Parts) -> TextGenerator {
        TextGenerator { parts: Arc::new(parts), threads: Arc::default(), on_prefill: None }
    }

    /// The generator with prefill in chunks of at most 512 tokens. After each of them it tells how many tokens have been read, and how
    /// many there are: to show progress, or to end the generation before its first token. Then there is no text, and its end is
    /// [`EndReason::Stopped`].
    pub fn with_on_prefill(
        self,
        on_prefill: impl Fn(usize, usize) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> TextGenerator {
        TextGenerator { on_prefill: Some(OnPrefill(Arc::new(on_prefill))), ..self }
    }

    /// The generator on so many threads, with the same model.
    ///
    /// # Errors
    ///
    /// There are none, or more than 1024.
    #[cfg(feature = "multithread-mm")]
    pub fn with_threads(self, threads: usize) -> TractResult<TextGenerator> {
        Ok(TextGenerator { threads: Arc::new(Threads::new(threads)?), ..self })
    }

    /// The settings of the folder.
    pub fn config(&self) -> &GenerationConfig {
        &self.parts.config
    }

    /// The model.
    pub fn model(&self) -> &LanguageModel {
        &self.parts.model
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.parts.tokenizer
    }

    /// The chat template, if there is one.
    ///
    /// # Errors
    ///
    /// There is one, but it cannot be read.
    pub fn template(&self) -> TractResult<Option<&ChatTemplate>> {
        self.parts
            .template
            .as_ref()
            .map(Option::as_ref)
            .map_err(|error| TractError::msg(error.clone()))
    }

    /// Generates what follows a text, and tells it piece by piece. `on_text` may end the generation. A beam search tells all at
    /// once.
    ///
    /// # Errors
    ///
    /// A setting is not supported or out of its range, the prompt has no tokens or too many, `TRACT_OPENVINO_THREADS` is no number of
    /// threads, or the model fails.
    pub fn generate(
        &self,
        prompt: &str,
        config: &GenerationConfig,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> TractResult<Generated> {
        self.start(prompt, config)?.tell(on_text)
    }

    /// [`generate`](Self::generate) for a program that has something else to do between the pieces: reads the prompt, and leaves
    /// the rest to the program.
    ///
    /// ```
    /// use tract_openvino_generation::TextGenerator;
    ///
    /// let generator = TextGenerator::from_folder("models/tiny")?;
    /// let config = generator.config().clone().with_max_new_tokens(10);
    /// let mut generation = generator.start("Hello", &config)?;
    /// while let Some(piece) = generation.next_piece()? {
    ///     print!("{piece}");
    /// }
    /// assert_eq!(generation.generated().tokens.len(), 10);
    /// # tract_openvino_generation::prelude::TractResult::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`generate`](Self::generate).
    pub fn start(&self, prompt: &str, config: &GenerationConfig) -> TractResult<Generation> {
        let config = self.with_end_tokens(config);
        let prompt = self.tokenizer().encode(prompt, true)?;
        config.validate()?;
        config.most_new_tokens(prompt.len())?;
        let mut context = self.model().start()?;
        let (read, flow) = self.threads.run(|| self.prefill(&mut context, &prompt))?;
        // A word that follows has its space.
        Generation::new(self, context, &prompt, config, read, flow)
    }

    /// A new chat.
    ///
    /// # Errors
    ///
    /// The model has no chat template, or one that cannot be read.
    pub fn chat(&self) -> TractResult<Chat> {
        let template = self.template()?;
        let template = template.context("the model has no chat template, which a chat needs")?;
        Ok(Chat { generator: self.clone(), template: template.clone(), contexts: vec![] })
    }

    /// Settings in which the stop strings that are special tokens are end tokens: a text does not have them.
    fn with_end_tokens(&self, config: &GenerationConfig) -> GenerationConfig {
        let mut config = config.clone();
        let mut stop_strings = std::mem::take(&mut config.stop_strings);
        stop_strings.retain(|stop| match self.tokenizer().special_token(stop) {
            Some(token) => {
                config.eos_token_id.push(token);
                false
            }
            None => true,
        });
        config.stop_strings = stop_strings;
        config
    }

    /// Adds a prompt to a context, as far as the program wants.
    fn prefill(
        &self,
        context: &mut Context,
        prompt: &[u32],
    ) -> TractResult<(Statistics, ControlFlow<()>)> {
        let mut statistics = Statistics::default();
        let chunks = self.on_prefill.as_ref().map_or(1, |_| prompt.len().div_ceil(CHUNK).max(1));
        // Of the same size, so that none has few tokens.
        let end = |chunk: usize| chunk * prompt.len() / chunks;
        for chunk in 0..chunks {
            let read = read_prompt(context, &prompt[end(chunk)..end(chunk + 1)])?;
            statistics.prompt_tokens += read.prompt_tokens;
            statistics.prompt_time += read.prompt_time;
            if let Some(OnPrefill(on_prefill)) = &self.on_prefill
                && on_prefill(statistics.prompt_tokens, prompt.len()).is_break()
            {
                return Ok((statistics, ControlFlow::Break(())));
            }
        }
        Ok((statistics, ControlFlow::Continue(())))
    }
}

/// A text that is generated piece by piece, as [`TextGenerator::start`] and [`Chat::start`] begin it.
#[derive(Debug)]
pub struct Generation {
    generator: TextGenerator,
    config: GenerationConfig,
    context: Context,
    source: Source,
    pieces: Pieces,
    stop: StopStrings,
    text: String,
    /// Of prefill.
    read: Statistics,
    end: Option<EndReason>,
}

/// Where the tokens come from.
#[derive(Debug)]
enum Source {
    /// Nowhere: the caller wanted no more after so much of the prompt.
    Stopped,
    Steps(Box<TokenSteps>),
    /// A beam search, which finds all of them at once when it is first asked; and how many of them have been told.
    Beams(Option<GeneratedTokens>, usize),
}

impl Generation {
    /// What follows a context, which has been read as the statistics say.
    fn new(
        generator: &TextGenerator,
        mut context: Context,
        before: &[u32],
        config: GenerationConfig,
        read: Statistics,
        flow: ControlFlow<()>,
    ) -> TractResult<Generation> {
        let source = match config.num_beams {
            _ if flow.is_break() => Source::Stopped,
            1 => Source::Steps(Box::new(TokenSteps::new(&mut context, &[], &config)?)),
            _ => Source::Beams(None, 0),
        };
        Ok(Generation {
            generator: generator.clone(),
            context,
            source,
            pieces: Pieces::after(before, config.skip_special_tokens),
            stop: StopStrings::new(config.stop_strings.iter().cloned()),
            text: String::new(),
            read,
            end: flow.is_break().then_some(EndReason::Stopped),
            config,
        })
    }

    /// The text of the next token, or none after the end. It is empty where a token completes no character. Of a beam search, the
    /// first one takes the time of all.
    ///
    /// # Errors
    ///
    /// The model fails, or the tokenizer cannot put the tokens together.
    pub fn next_piece(&mut self) -> TractResult<Option<String>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let Generation { generator, context, config, .. } = self;
        let (token, end) = match &mut self.source {
            Source::Stopped => (None, Some(EndReason::Stopped)),
            Source::Steps(steps) => (generator.threads.run(|| steps.next(context))?, steps.end()),
            Source::Beams(found, told) => {
                let found = match found {
                    Some(found) => found,
                    None => found
                        .insert(generator.threads.run(|| generate_beams(context, &[], config))?),
                };
                let token = found.tokens.get(*told).copied();
                *told += 1;
                (token, token.is_none().then_some(found.end))
            }
        };
        let tokenizer = self.generator.tokenizer();
        let mut piece = match token {
            Some(token) => self.stop.push(&self.pieces.push(tokenizer, token)?),
            None => String::new(),
        };
        if end.is_some() {
            piece += &self.stop.push(&self.pieces.finish(tokenizer)?);
            piece += &self.stop.finish();
        }
        self.end = if self.stop.has_stopped() { Some(EndReason::StopString) } else { end };
        self.text += &piece;
        Ok(Some(piece))
    }

    /// The text so far. If nothing has ended it, the caller has: [`EndReason::Stopped`].
    pub fn generated(self) -> Generated {
        let (tokens, statistics) = match self.source {
            Source::Steps(steps) => {
                let GeneratedTokens { tokens, statistics, .. } = steps.generated();
                (tokens, statistics)
            }
            Source::Beams(Some(found), _) => (found.tokens, found.statistics),
            Source::Beams(None, _) | Source::Stopped => Default::default(),
        };
        let Statistics { prompt_tokens, prompt_time, .. } = self.read;
        Generated {
            text: self.text,
            tokens,
            end: self.end.unwrap_or(EndReason::Stopped),
            statistics: Statistics { prompt_tokens, prompt_time, ..statistics },
        }
    }

    /// Generates all of the text, and tells it piece by piece, as long as the caller wants more. What takes them has the threads, too.
    fn run(&mut self, mut on_text: impl FnMut(&str) -> ControlFlow<()>) -> TractResult<()> {
        let threads = self.generator.threads.clone();
        threads.run(|| {
            while let Some(piece) = self.next_piece()? {
                if !piece.is_empty() && on_text(&piece).is_break() && self.end.is_none() {
                    self.end = Some(EndReason::Stopped);
                }
            }
            Ok(())
        })
    }

    fn tell(mut self, on_text: impl FnMut(&str) -> ControlFlow<()>) -> TractResult<Generated> {
        self.run(on_text)?;
        Ok(self.generated())
    }
}

/// A chat. It keeps what the model knows of the messages, and reads only what is new: after the last answer, or after the messages
/// that led to it where the template changes the answer. For that it keeps a clone of the context, which shares keys and values.
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
pub struct Chat {
    generator: TextGenerator,
    template: ChatTemplate,
    /// After the messages, and after the answer to them.
    contexts: Vec<Context>,
}

impl Chat {
    /// The chat with a variable of its template, such as `enable_thinking` of some models.
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Serialize) -> Chat {
        self.template = self.template.with_variable(name, value);
        self
    }

    /// The chat with the time of its template: see [`ChatTemplate::with_time`].
    ///
    /// # Errors
    ///
    /// Those of [`ChatTemplate::with_time`].
    pub fn with_time(mut self, seconds: i64, offset: i32) -> TractResult<Chat> {
        self.template = self.template.with_time(seconds, offset)?;
        Ok(self)
    }

    /// Generates the answer to messages, which are the whole chat, and tells it piece by piece, as
    /// [`TextGenerator::generate`] does. Where the tokens of the messages begin with those that the model has read, it reads the
    /// others only.
    ///
    /// # Errors
    ///
    /// The template refuses the messages, or as [`TextGenerator::generate`]. The chat can go on with other messages then.
    pub fn answer(
        &mut self,
        messages: &[Message],
        config: &GenerationConfig,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> TractResult<Generated> {
        let mut generation = self.start(messages, config)?;
        generation.run(on_text)?;
        Ok(self.keep(generation))
    }

    /// [`answer`](Self::answer) for a program that has something else to do between the pieces: reads what is new, and leaves the
    /// rest to the program. [`keep`](Self::keep) ends it.
    ///
    /// # Errors
    ///
    /// Those of [`answer`](Self::answer).
    pub fn start(
        &mut self,
        messages: &[Message],
        config: &GenerationConfig,
    ) -> TractResult<Generation> {
        let generator = &self.generator;
        let config = generator.with_end_tokens(config);
        config.validate()?;
        let text = self.template.render(messages, true)?;
        // The template has the special tokens.
        let prompt = generator.tokenizer().encode(&text, false)?;
        config.most_new_tokens(prompt.len())?;
        let known = self.contexts.iter().filter(|it| prompt.starts_with(it.tokens(0)));
        let mut context = match known.max_by_key(|it| it.len()) {
            Some(context) => context.clone(),
            None => generator.model().start()?,
        };
        let new = &prompt[context.len()..];
        let (read, flow) = generator.threads.run(|| generator.prefill(&mut context, new))?;
        self.contexts = vec![context.clone()];
        Generation::new(generator, context, &[], config, read, flow)
    }

    /// The answer so far. The next one need not read it again.
    pub fn keep(&mut self, generation: Generation) -> Generated {
        if !matches!(generation.source, Source::Stopped) {
            self.contexts.truncate(1);
            self.contexts.push(generation.context.clone());
        }
        generation.generated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::without_beams;
    use crate::tokenizer::tests::pieces;

    const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

    fn generator() -> TextGenerator {
        TextGenerator::from_folder_exact("models/tiny").unwrap()
    }

    #[test]
    fn pieces_are_the_text() -> TractResult<()> {
        let generator = generator();
        for config in [
            generator.config().clone().with_max_new_tokens(40),
            generator.config().clone().with_max_new_tokens(40).with_do_sample(true).with_seed(2),
            generator.config().clone().with_max_new_tokens(10).with_num_beams(3),
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

    /// Between the steps of one text, there may be those of others.
    #[test]
    fn texts_step_by_step() -> TractResult<()> {
        let generator = generator();
        let config = generator.config().clone().with_max_new_tokens(20).with_eos_token_id([]);
        let messages = [Message::user("Hello!")];
        let expected = generator.generate("Hello", &config, |_| GO_ON)?;
        let expected_answer = generator.chat()?.answer(&messages, &config, |_| GO_ON)?;
        let mut chat = generator.chat()?;
        let mut text = generator.start("Hello", &config)?;
        let mut answer = chat.start(&messages, &config)?;
        let mut pieces = [String::new(), String::new()];
        for _ in 0..21 {
            pieces[0] += &text.next_piece()?.context("the text goes on")?;
            pieces[1] += &answer.next_piece()?.context("the answer goes on")?;
        }
        assert_eq!((text.next_piece()?, answer.next_piece()?), (None, None));
        let (text, answer) = (text.generated(), chat.keep(answer));
        assert_eq!(pieces, [&*text.text, &*answer.text]);
        assert_eq!((text.tokens, text.end), (expected.tokens, EndReason::MaxNewTokens));
        assert_eq!(answer.tokens, expected_answer.tokens);
        // What the chat has kept is not read again.
        assert_eq!(chat.answer(&messages, &config, |_| GO_ON)?.statistics.prompt_tokens, 0);
        // The caller ends it.
        let mut text = generator.start("Hello", &config)?;
        text.next_piece()?;
        let stopped = text.generated();
        assert_eq!((stopped.tokens.len(), stopped.end), (1, EndReason::Stopped));
        Ok(())
    }

    /// A text that is long enough for the KV cache to change it.
    #[test]
    fn texts_are_rounded_by_default() -> TractResult<()> {
        let config = generator().config().clone().with_max_new_tokens(100).with_eos_token_id([]);
        let tokens = |generator: TextGenerator| -> TractResult<Vec<u32>> {
            Ok(generator.generate("Hello", &config, |_| GO_ON)?.tokens)
        };
        let rounding = TextGenerator::from_folder_with("models/tiny", &rounding_kernels())?;
        let default = tokens(TextGenerator::from_folder("models/tiny")?)?;
        assert_eq!(default, tokens(rounding)?);
        assert_ne!(default, tokens(generator())?);
        Ok(())
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn texts_come_from_all_cores_or_so_many_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, current_tract_executor};
        use tract_openvino_kernels::threads::default_threads;

        let threads = |generator: &TextGenerator| -> TractResult<Vec<usize>> {
            let mut threads = vec![];
            let mut note = |_: &str| {
                threads.push(match current_tract_executor() {
                    Executor::MultiThread(pool) => pool.current_num_threads(),
                    _ => 1,
                });
                ControlFlow::Break(())
            };
            let config = generator.config().clone().with_max_new_tokens(9).with_eos_token_id([]);
            generator.generate("Hello", &config, &mut note)?;
            generator.chat()?.answer(&[Message::user("Hello")], &config, &mut note)?;
            Ok(threads)
        };
        let generator = generator();
        assert_eq!(threads(&generator)?, [default_threads()?; 2]);
        assert_eq!(threads(&generator.clone().with_threads(3)?)?, [3; 2]);
        assert!(generator.with_threads(0).is_err());
        Ok(())
    }

    #[test]
    fn prefill_in_chunks() -> TractResult<()> {
        use std::sync::Mutex;

        let Parts { model, tokenizer, config, .. } = Arc::into_inner(generator().parts).unwrap();
        // More than the tiny model was trained for: what it says does not matter here.
        let model = model.with_max_positions(2000);
        let whole = TextGenerator::new(model, tokenizer, None, config);
        let config = whole.config().clone().with_max_new_tokens(20).with_eos_token_id([]);
        let prompt = "abcdefgh".repeat(150);
        let told = Arc::new(Mutex::new(vec![]));
        let tell = told.clone();
        let chunks = whole.clone().with_on_prefill(move |done, total| {
            tell.lock().unwrap().push((done, total));
            ControlFlow::Continue(())
        });
        let expected = whole.generate(&prompt, &config, |_| GO_ON)?;
        let found = chunks.generate(&prompt, &config, |_| GO_ON)?;
        assert_eq!((&found.text, &found.tokens), (&expected.text, &expected.tokens));
        assert_eq!(found.statistics.prompt_tokens, 1200);
        assert_eq!(*told.lock().unwrap(), [(400, 1200), (800, 1200), (1200, 1200)]);
        // The same logits, to the last bit.
        let tokens = whole.tokenizer().encode(&prompt, true)?;
        let logits = |generator: &TextGenerator| -> TractResult<Vec<f32>> {
            let mut context = generator.model().start()?;
            assert!(generator.prefill(&mut context, &tokens)?.1.is_continue());
            Ok(context.logits()[0].clone())
        };
        assert_eq!(logits(&whole)?, logits(&chunks)?);
        // Nobody waits for the rest.
        let impatient = whole.with_on_prefill(|done, _| match done < 500 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let stopped = impatient.generate(&prompt, &config, |_| GO_ON)?;
        assert_eq!((stopped.end, stopped.statistics.prompt_tokens), (EndReason::Stopped, 800));
        assert!(stopped.text.is_empty());
        Ok(())
    }

    #[test]
    fn a_chat_keeps_what_was_read_before_it_was_cancelled() -> TractResult<()> {
        let generator = generator();
        let config = generator.config().clone().with_max_new_tokens(9).with_eos_token_id([]);
        let messages = [Message::user("Hello!")];
        let expected = generator.chat()?.answer(&messages, &config, |_| GO_ON)?;
        let is_cancelled = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let cancel = is_cancelled.clone();
        let generator = generator.with_on_prefill(move |_, _| {
            match cancel.swap(false, std::sync::atomic::Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => GO_ON,
            }
        });
        let mut chat = generator.chat()?;
        let cancelled = chat.answer(&messages, &config, |_| GO_ON)?;
        assert_eq!((&*cancelled.text, cancelled.end), ("", EndReason::Stopped));
        let answer = chat.answer(&messages, &config, |_| GO_ON)?;
        assert_eq!((answer.tokens, answer.statistics.prompt_tokens), (expected.tokens, 0));
        Ok(())
    }

    #[test]
    fn settings_that_are_not_supported_are_not_ignored() -> TractResult<()> {
        let folder = folder_without(&[]);
        std::fs::write(
            folder.path().join("generation_config.json"),
            r#"{"presence_penalty": 1.5, "max_new_tokens": 3}"#,
        )?;
        let generator = TextGenerator::from_folder(&folder)?;
        let mut config = generator.config().clone();
        let error = generator.generate("Hello", &config, |_| GO_ON).unwrap_err().to_string();
        assert!(error.contains("presence_penalty is 1.5, which is not supported"), "{error}");
        assert_eq!(config.ignore_unsupported(), [error]);
        assert!(generator.generate("Hello", &config, |_| GO_ON).is_ok());
        Ok(())
    }

    #[test]
    fn stop_strings_and_callers_end_it() -> TractResult<()> {
        let generator = generator();
        let config = generator.config().clone().with_max_new_tokens(40).with_eos_token_id([]);
        let all = generator.generate("Hello", &config, |_| GO_ON)?.text;
        let stop: String = all.chars().skip(3).take(2).collect();
        let before = &all[..all.find(&stop).unwrap()];
        let stopped =
            generator.generate("Hello", &config.clone().with_stop_strings([&*stop]), |_| GO_ON)?;
        assert_eq!((&*stopped.text, stopped.end), (before, EndReason::StopString));
        for config in [config.clone(), config.clone().with_max_new_tokens(9).with_num_beams(2)] {
            let all = generator.generate("Hello", &config, |_| GO_ON)?.text;
            let generated = generator.generate("Hello", &config, |_| ControlFlow::Break(()))?;
            assert_eq!(generated.end, EndReason::Stopped);
            assert!(!generated.text.is_empty() && all.starts_with(&generated.text));
        }
        Ok(())
    }

    #[test]
    fn special_tokens_as_stop_strings_and_as_text() -> TractResult<()> {
        let generator = generator();
        let end = generator.tokenizer().special_token("<|im_end|>").unwrap();
        let start = generator.tokenizer().special_token("<|im_start|>").unwrap();
        // Whatever the model says, it is one of these.
        let others =
            |tokens: &[u32]| (0..258).filter(|it| !tokens.contains(it)).collect::<Vec<_>>();
        let config = generator.config().clone().with_max_new_tokens(3).with_min_new_tokens(3);
        let config = config.with_eos_token_id(others(&[start]));
        assert_eq!(generator.generate("Hello", &config, |_| GO_ON)?.text, "");
        let shown = config.with_skip_special_tokens(false);
        let text = "<|im_start|>".repeat(3);
        assert_eq!(generator.generate("Hello", &shown, |_| GO_ON)?.text, text);

        let config = generator.config().clone().with_max_new_tokens(3).with_eos_token_id([]);
        let expected =
            generator.generate("Hello", &config.clone().with_eos_token_id([end]), |_| GO_ON)?;
        let stop = config.with_stop_strings(["<|im_end|>"]);
        for config in [stop.clone(), stop.clone().with_min_new_tokens(1)] {
            let stopped = generator.with_end_tokens(&config);
            assert_eq!((&stopped.eos_token_id[..], stopped.stop_strings.len()), (&[end][..], 0));
        }
        assert_eq!(generator.generate("Hello", &stop, |_| GO_ON)?.tokens, expected.tokens);
        Ok(())
    }

    /// With a tokenizer as that of Llama 2, which leaves out the space where a text begins.
    #[test]
    fn a_word_that_follows_has_its_space() -> TractResult<()> {
        let tokenizer = pieces();
        let you = tokenizer.token("▁you").unwrap();
        let generator =
            TextGenerator::new(without_beams(), tokenizer, None, GenerationConfig::default());
        let config = GenerationConfig::default().with_max_new_tokens(1);
        // Whatever the model says, it is this word.
        let others = (0..300).filter(|token| *token != you);
        let config = config.with_min_new_tokens(1).with_eos_token_id(others);
        assert_eq!(generator.generate("ää", &config, |_| GO_ON)?.text, " you");
        Ok(())
    }

    /// The answer to messages, which is the same as in a new chat, and how many tokens were read for it.
    fn answered(
        chat: &mut Chat,
        messages: &[Message],
        config: &GenerationConfig,
    ) -> TractResult<(Generated, usize)> {
        let answer = chat.answer(messages, config, |_| GO_ON)?;
        let fresh = chat.generator.chat()?.answer(messages, config, |_| GO_ON)?;
        assert_eq!((&answer.tokens, &answer.text), (&fresh.tokens, &fresh.text));
        let read = answer.statistics.prompt_tokens;
        assert!(read <= fresh.statistics.prompt_tokens);
        Ok((answer, read))
    }

    #[test]
    fn a_chat_reads_what_is_new() -> TractResult<()> {
        let generator = generator();
        // Letters alone, which are the same tokens when they are read again.
        let letters = generator.tokenizer().encode("abcdefghijklmnopqrstuvwxyz", false)?;
        let others = (0..258).filter(|token| !letters.contains(token));
        let config = generator.config().clone().with_max_new_tokens(8).with_min_new_tokens(8);
        let config = config.with_eos_token_id(others);
        let mut messages = vec![Message::system("Be short."), Message::user("Hello!")];
        let count = |messages: &[Message]| -> TractResult<usize> {
            let text = generator.template()?.context("it is there")?.render(messages, true)?;
            Ok(generator.tokenizer().encode(&text, false)?.len())
        };
        let mut chat = generator.chat()?;
        let (first, read) = answered(&mut chat, &messages, &config)?;
        assert_eq!((first.tokens.len(), read), (8, count(&messages)?));
        // The same again: there is nothing to read.
        let (again, read) = answered(&mut chat, &messages, &config)?;
        assert_eq!((again.tokens, read), (first.tokens, 0));
        let known = count(&messages)?;
        messages.extend([Message::assistant(&first.text), Message::user("And now?")]);
        let mut other = chat.clone();
        // All but the last token of the answer is known.
        let (_, read) = answered(&mut chat, &messages, &config)?;
        assert_eq!(read, count(&messages)? - known - 7);
        // Where the template changes the answer, the messages before it are known.
        messages[2] = Message::assistant("Hi!");
        let (_, read) = answered(&mut other, &messages, &config)?;
        assert_eq!(read, count(&messages)? - known);
        // Another chat.
        let messages = [Message::user("Hello!")];
        assert_eq!(answered(&mut chat, &messages, &config)?.1, count(&messages)?);
        Ok(())
    }

    #[test]
    fn a_chat_goes_on_after_any_end() -> TractResult<()> {
        let generator = generator();
        let config = generator.config().clone().with_max_new_tokens(8).with_eos_token_id([]);
        let mut messages = vec![Message::user("Hello!")];
        let all = generator.chat()?.answer(&messages, &config, |_| GO_ON)?;
        let stop = all.text.chars().nth(2).unwrap().to_string();
        let stop = config.clone().with_stop_strings([stop]);
        let beams = config.clone().with_num_beams(2);
        for config in [&stop, &beams] {
            let mut chat = generator.chat()?;
            let answer = chat.answer(&messages, config, |_| GO_ON)?;
            let mut more = messages.clone();
            more.extend([Message::assistant(&answer.text), Message::user("And now?")]);
            let (_, read) = answered(&mut chat, &more, config)?;
            assert!(read < answer.tokens.len() + 60, "{read}");
        }
        // A caller who wants no more.
        let mut chat = generator.chat()?;
        let answer = chat.answer(&messages, &config, |_| ControlFlow::Break(()))?;
        assert_eq!(answer.end, EndReason::Stopped);
        messages.extend([Message::assistant(&answer.text), Message::user("And now?")]);
        answered(&mut chat, &messages, &config)?;
        // A message that is too long.
        let known = messages.clone();
        messages.push(Message::user("long".repeat(100)));
        let error = format!("{:#}", chat.answer(&messages, &config, |_| GO_ON).unwrap_err());
        assert!(error.contains("256 positions"), "{error}");
        assert_eq!(answered(&mut chat, &known, &config)?.1, 0);
        let error = chat.answer(&known, &config.with_max_length(20), |_| GO_ON).unwrap_err();
        assert!(error.to_string().contains("max_length is 20"), "{error}");
        Ok(())
    }

    #[test]
    fn a_missing_template() -> TractResult<()> {
        let Parts { model, tokenizer, config, .. } = Arc::into_inner(generator().parts).unwrap();
        let error = TextGenerator::new(model, tokenizer, None, config).chat().unwrap_err();
        assert!(error.to_string().contains("no chat template"));
        Ok(())
    }

    /// The tiny model in another folder, without some of its files.
    fn folder_without(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir("models/tiny").unwrap().map(Result::unwrap) {
            if !files.contains(&&*file.file_name().to_string_lossy()) {
                std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
            }
        }
        folder
    }

    #[test]
    fn a_template_that_cannot_be_read() -> TractResult<()> {
        let folder = folder_without(&[]);
        std::fs::write(folder.path().join("chat_template.jinja"), "{% if %}")?;
        let generator = TextGenerator::from_folder(&folder)?;
        let config = generator.config().clone().with_max_new_tokens(2);
        assert!(!generator.generate("Hello", &config, |_| GO_ON)?.tokens.is_empty());
        for error in [generator.chat().unwrap_err(), generator.template().unwrap_err()] {
            assert!(error.to_string().contains("reading a chat template"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn the_end_token_of_the_tokenizer() -> TractResult<()> {
        let folder = folder_without(&["config.json", "generation_config.json"]);
        assert_eq!(TextGenerator::from_folder(&folder)?.config().eos_token_id, [257]);
        std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"eos_token": "<eos>"}"#)?;
        let error = TextGenerator::from_folder(&folder).unwrap_err().to_string();
        assert!(
            error.contains("eos_token is \"<eos>\", which the tokenizer does not have"),
            "{error}"
        );
        Ok(())
    }

    /// The same texts as from a folder; and what is missing, too.
    #[test]
    fn files_in_memory() -> TractResult<()> {
        let files = |without: &str| -> TractResult<Files> {
            let mut files = Files::default();
            for file in std::fs::read_dir("models/tiny")?.map(Result::unwrap) {
                let name = file.file_name().to_string_lossy().into_owned();
                if name != without {
                    files = files.with(name, std::fs::read(file.path())?);
                }
            }
            Ok(files)
        };
        let generator = TextGenerator::from_files(files("")?, &KernelsTransform::default())?;
        assert_eq!(generator.config(), self::generator().config());
        assert_eq!(generator.model().max_positions(), self::generator().model().max_positions());
        let config = generator.config().clone().with_max_new_tokens(20);
        let messages = [Message::user("Hello!")];
        let answer = |generator: TextGenerator| {
            generator.chat()?.answer(&messages, &config, |_| GO_ON).map(|it| it.tokens)
        };
        assert_eq!(answer(generator)?, answer(self::generator())?);
        let error = |files| {
            let generator = TextGenerator::from_files(files, &KernelsTransform::default());
            format!("{:#}", generator.unwrap_err())
        };
        assert_eq!(error(files("openvino_model.xml")?), "openvino_model.xml is missing");
        assert_eq!(error(files("tokenizer.json")?), "tokenizer.json is missing");
        let no_weights = error(files("openvino_model.bin")?);
        assert!(no_weights.contains("openvino_model.bin is missing"), "{no_weights}");
        let other = Files::default().with("openvino_encoder_model.xml", "");
        assert!(error(other).contains("memory has openvino_encoder_model.xml: it is"));
        let no_text = files("")?.with("config.json", [0xff]);
        assert!(error(no_text).contains("reading config.json"));
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
