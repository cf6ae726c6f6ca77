//! Language models: text in, text out, token by token.

use js_sys::{Array, JSON, Uint32Array};
use tract_openvino_generation::{
    Chat, Files, GenerationConfig, Message, TextGenerator, rounding_kernels,
};
use tract_openvino_ir::internal::*;
use tract_openvino_ir::tract_openvino::kernels::KernelsTransform;
use wasm_bindgen::prelude::*;

use crate::panics::exception;

/// A language model with its tokenizer, chat template and settings.
#[wasm_bindgen]
pub struct LanguageModel {
    generator: TextGenerator,
}

/// A chat, which keeps what the model has read of it.
#[wasm_bindgen]
pub struct Conversation {
    chat: Chat,
    config: GenerationConfig,
}

/// A text that is generated token by token.
#[wasm_bindgen]
pub struct Generation {
    generation: tract_openvino_generation::Generation,
}

#[wasm_bindgen]
impl LanguageModel {
    /// The model of these files, by the names that optimum-intel gives them. `exact` rounds nothing.
    #[wasm_bindgen(constructor)]
    pub fn new(files: LanguageFiles, exact: bool) -> Result<LanguageModel, JsError> {
        let kernels = if exact { KernelsTransform::default() } else { rounding_kernels() };
        let generator = TextGenerator::from_files(files.0, &kernels);
        Ok(LanguageModel { generator: generator.map_err(exception)? })
    }

    /// Reads a text that goes on. Options are pairs of a name and its value.
    pub fn generate(&self, prompt: &str, options: Vec<Array>) -> Result<Generation, JsError> {
        let config = configured(self.generator.config(), &options);
        let generation = config.and_then(|config| self.generator.start(prompt, &config));
        Ok(Generation { generation: generation.map_err(exception)? })
    }

    /// A new chat. `seconds` since 1970 and `offset` of the clocks from UTC, in seconds, are the time for its template, and
    /// `variables` pairs of a name and JSON.
    pub fn conversation(
        &self,
        seconds: f64,
        offset: i32,
        variables: Vec<String>,
    ) -> Result<Conversation, JsError> {
        let chat = || -> TractResult<Chat> {
            let mut chat = self.generator.chat()?.with_time(seconds as i64, offset)?;
            for variable in variables.chunks_exact(2) {
                let value: serde_json::Value = serde_json::from_str(&variable[1])?;
                chat = chat.with_variable(&*variable[0], value);
            }
            Ok(chat)
        };
        let config = self.generator.config().clone();
        Ok(Conversation { chat: chat().map_err(exception)?, config })
    }
}

#[wasm_bindgen]
impl Conversation {
    /// Reads messages, pairs of a role and a text: those that have been read already are not read again.
    pub fn answer(
        &mut self,
        messages: Vec<String>,
        options: Vec<Array>,
    ) -> Result<Generation, JsError> {
        let messages = messages.chunks_exact(2).map(|it| Message::new(&it[0], &it[1]));
        let messages: Vec<Message> = messages.collect();
        let config = configured(&self.config, &options);
        let generation = config.and_then(|config| self.chat.start(&messages, &config));
        Ok(Generation { generation: generation.map_err(exception)? })
    }

    /// [`Generation::end`] of an answer of this chat, which then knows it.
    pub fn keep(&mut self, generation: Generation) -> Array {
        summary(self.chat.keep(generation.generation))
    }
}

#[wasm_bindgen]
impl Generation {
    /// The text of the next token, or none after the end.
    pub fn next(&mut self) -> Result<Option<String>, JsError> {
        self.generation.next_piece().map_err(exception)
    }

    /// `[why it ended, tokens, number of tokens of the prompt that were read]`.
    pub fn end(self) -> Array {
        summary(self.generation.generated())
    }
}

fn summary(generated: tract_openvino_generation::Generated) -> Array {
    let tokens = Uint32Array::from(&*generated.tokens);
    let read = generated.statistics.prompt_tokens as f64;
    Array::of3(&generated.end.to_string().into(), &tokens, &read.into())
}

/// Files by their names.
#[wasm_bindgen]
#[derive(Default)]
pub struct LanguageFiles(Files);

#[wasm_bindgen]
impl LanguageFiles {
    /// No files.
    #[wasm_bindgen(constructor)]
    pub fn new() -> LanguageFiles {
        LanguageFiles::default()
    }

    /// Adds a file.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) {
        self.0 = std::mem::take(&mut self.0).with(name, bytes);
    }
}

/// A value of JavaScript, for errors.
fn shown(value: &JsValue) -> String {
    JSON::stringify(value).map_or_else(|_| "no value".into(), String::from)
}

/// Settings with options in their place.
fn configured(config: &GenerationConfig, options: &[Array]) -> TractResult<GenerationConfig> {
    let mut config = config.clone();
    for option in options {
        let (name, value) = (option.get(0).as_string().unwrap_or_default(), option.get(1));
        let wanted = |what: &str| format!("{name} is {}, but must be {what}", shown(&value));
        let number = || value.as_f64().with_context(|| wanted("a number"));
        let count = || -> TractResult<usize> {
            let is_count = |it: &f64| it.fract() == 0. && (0. ..=u32::MAX as f64).contains(it);
            let count = Some(number()?).filter(is_count).map(|it| it as usize);
            count.with_context(|| wanted("a whole number from 0 to 2^32 - 1"))
        };
        let flag = || value.as_bool().with_context(|| wanted("true or false"));
        match &*name {
            "maxNewTokens" => config.max_new_tokens = Some(count()?),
            "minNewTokens" => config.min_new_tokens = count()?,
            "doSample" => config.do_sample = flag()?,
            "temperature" => config.temperature = number()? as f32,
            "topK" => config.top_k = count()?,
            "topP" => config.top_p = number()? as f32,
            "minP" => config.min_p = number()? as f32,
            "repetitionPenalty" => config.repetition_penalty = number()? as f32,
            "numBeams" => config.num_beams = count()?,
            "skipSpecialTokens" => config.skip_special_tokens = flag()?,
            "stopStrings" => {
                let texts: Option<Vec<String>> =
                    Array::from(&value).iter().map(|text| text.as_string()).collect();
                config.stop_strings = texts.with_context(|| wanted("an array of texts"))?;
            }
            // Only what draws needs it.
            "seed" => config.seed = Some(count()? as u64),
            "ignoreUnsupported" => {
                if flag()? {
                    config.ignore_unsupported();
                }
            }
            _ => bail!("there is no option {name:?}"),
        }
    }
    Ok(config)
}
