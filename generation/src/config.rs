//! How text is generated: the settings of `generation_config.json`, and what `config.json` says about the model.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use tract_core::internal::*;

use crate::files::{Files, parse_json};

/// How tokens are chosen, and when generation ends.
///
/// The defaults are those of the Python library transformers, with the most probable token in every step.
///
/// ```
/// use tract_openvino_generation::GenerationConfig;
///
/// let config = GenerationConfig::default().with_do_sample(true).with_temperature(0.7).with_top_p(0.9).with_seed(1);
/// config.validate()?;
/// assert!(config.with_temperature(0.).validate().is_err());
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GenerationConfig {
    /// The most tokens that are generated. Where neither this nor `max_length` is there, it is [`MAX_NEW_TOKENS`].
    pub max_new_tokens: Option<usize>,
    /// The most tokens of a text with its prompt. It counts where `max_new_tokens` is not there.
    pub max_length: Option<usize>,
    /// So many tokens are generated before an end token may come.
    pub min_new_tokens: usize,
    /// The tokens that end a text.
    pub eos_token_id: Vec<u32>,
    /// Strings that end a text. They are not part of it. Where there is a tokenizer, the text of a special token ends a text as
    /// `eos_token_id` does.
    pub stop_strings: Vec<String>,
    /// Whether texts are without special tokens. Some models mark tools and thoughts by them.
    pub skip_special_tokens: bool,
    /// Whether tokens are drawn at random. If not, the most probable one is taken.
    pub do_sample: bool,
    /// What logits are divided by before a token is drawn: above 0. Below 1, probable tokens become more probable.
    pub temperature: f32,
    /// Only so many of the most probable tokens are drawn. 0 is all of them.
    pub top_k: usize,
    /// Only the most probable tokens that have this probability together are drawn: above 0, and at most 1, which is all.
    pub top_p: f32,
    /// Only tokens that have at least this part of the probability of the most probable one are drawn: from 0, which is all, to 1.
    pub min_p: f32,
    /// What logits of tokens that are in the text already are divided by, or multiplied with if they are negative: above 0.
    pub repetition_penalty: f32,
    /// The seed of the random numbers. Without one, every text is another one. On `wasm32-unknown-unknown`, which has no random
    /// numbers to choose it by, it is needed where tokens are drawn.
    pub seed: Option<u64>,
    /// The number of beams. 1 is no beam search.
    pub num_beams: usize,
    /// The power of a text's length that its score is divided by, in a beam search. Above 0, long texts are preferred.
    pub length_penalty: f32,
    /// When a beam search ends.
    pub early_stopping: EarlyStopping,
    /// What is said about each setting that would change the text but is not supported.
    unsupported: Vec<String>,
}

/// The most tokens that are generated where nothing else is said: room for the thoughts of a model, and an end for one that repeats
/// itself.
pub const MAX_NEW_TOKENS: usize = 2048;

/// When a beam search ends that has found as many texts as it has beams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EarlyStopping {
    /// At once.
    Yes,
    /// When no beam would become better than the worst of the texts if it ended now.
    #[default]
    No,
    /// When no beam can become better than the worst of the texts, however long it gets.
    Never,
}

impl Default for GenerationConfig {
    fn default() -> GenerationConfig {
        GenerationConfig {
            max_new_tokens: None,
            max_length: None,
            min_new_tokens: 0,
            eos_token_id: vec![],
            stop_strings: vec![],
            skip_special_tokens: true,
            do_sample: false,
            temperature: 1.,
            top_k: 50,
            top_p: 1.,
            min_p: 0.,
            repetition_penalty: 1.,
            seed: None,
            num_beams: 1,
            length_penalty: 1.,
            early_stopping: EarlyStopping::No,
            unsupported: vec![],
        }
    }
}

impl GenerationConfig {
    /// The settings of a folder: `generation_config.json`, or the defaults if there is none. If it has no `eos_token_id`, it is
    /// that of `config.json`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or as [`from_json`](Self::from_json).
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<GenerationConfig> {
        GenerationConfig::from_files(&Files::folder(folder.as_ref()))
    }

    /// The settings of a model's files.
    pub(crate) fn from_files(files: &Files) -> TractResult<GenerationConfig> {
        const NAME: &str = "generation_config.json";
        let settings: Settings = files.json(NAME)?.unwrap_or_default();
        let config = settings.config();
        let mut config = config.with_context(|| format!("reading {}", files.place_of(NAME)))?;
        if config.eos_token_id.is_empty() {
            config.eos_token_id = ModelConfig::from_files(files)?.into_eos_token_id();
        }
        Ok(config)
    }

    /// The settings in the text of a `generation_config.json`. Those that are not there, or null, have their default. Where one is
    /// set that would change the text but is not supported, such as `no_repeat_ngram_size`, nothing is generated, unless
    /// [`ignore_unsupported`](Self::ignore_unsupported) is called.
    ///
    /// # Errors
    ///
    /// The text is no JSON, or a setting has a value of another type.
    pub fn from_json(text: &str) -> TractResult<GenerationConfig> {
        parse_json(text).and_then(Settings::config).context("reading generation settings")
    }

    /// Leaves out settings that would change the text but are not supported, and says what each of them is.
    ///
    /// ```
    /// use tract_openvino_generation::GenerationConfig;
    ///
    /// let mut config = GenerationConfig::from_json(r#"{"presence_penalty": 1.5}"#)?;
    /// assert!(config.validate().is_err());
    /// for setting in config.ignore_unsupported() {
    ///     eprintln!("warning: {setting}");
    /// }
    /// config.validate()?;
    /// # tract_openvino_generation::prelude::TractResult::Ok(())
    /// ```
    pub fn ignore_unsupported(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unsupported)
    }

    /// Sets [`max_new_tokens`](Self::max_new_tokens), which then counts in place of [`max_length`](Self::max_length).
    pub fn with_max_new_tokens(mut self, max_new_tokens: usize) -> GenerationConfig {
        self.max_new_tokens = Some(max_new_tokens);
        self
    }

    /// Sets [`max_length`](Self::max_length), which then counts in place of [`max_new_tokens`](Self::max_new_tokens).
    pub fn with_max_length(mut self, max_length: usize) -> GenerationConfig {
        (self.max_new_tokens, self.max_length) = (None, Some(max_length));
        self
    }

    /// Sets [`min_new_tokens`](Self::min_new_tokens).
    pub fn with_min_new_tokens(mut self, min_new_tokens: usize) -> GenerationConfig {
        self.min_new_tokens = min_new_tokens;
        self
    }

    /// Sets [`eos_token_id`](Self::eos_token_id).
    pub fn with_eos_token_id(mut self, tokens: impl IntoIterator<Item = u32>) -> GenerationConfig {
        self.eos_token_id = tokens.into_iter().collect();
        self
    }

    /// Sets [`stop_strings`](Self::stop_strings).
    pub fn with_stop_strings<S: Into<String>>(
        mut self,
        strings: impl IntoIterator<Item = S>,
    ) -> GenerationConfig {
        self.stop_strings = strings.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`skip_special_tokens`](Self::skip_special_tokens).
    pub fn with_skip_special_tokens(mut self, skip_special_tokens: bool) -> GenerationConfig {
        self.skip_special_tokens = skip_special_tokens;
        self
    }

    /// Sets [`do_sample`](Self::do_sample).
    pub fn with_do_sample(mut self, do_sample: bool) -> GenerationConfig {
        self.do_sample = do_sample;
        self
    }

    /// Sets [`temperature`](Self::temperature).
    pub fn with_temperature(mut self, temperature: f32) -> GenerationConfig {
        self.temperature = temperature;
        self
    }

    /// Sets [`top_k`](Self::top_k).
    pub fn with_top_k(mut self, top_k: usize) -> GenerationConfig {
        self.top_k = top_k;
        self
    }

    /// Sets [`top_p`](Self::top_p).
    pub fn with_top_p(mut self, top_p: f32) -> GenerationConfig {
        self.top_p = top_p;
        self
    }

    /// Sets [`min_p`](Self::min_p).
    pub fn with_min_p(mut self, min_p: f32) -> GenerationConfig {
        self.min_p = min_p;
        self
    }

    /// Sets [`repetition_penalty`](Self::repetition_penalty).
    pub fn with_repetition_penalty(mut self, penalty: f32) -> GenerationConfig {
        self.repetition_penalty = penalty;
        self
    }

    /// Sets [`seed`](Self::seed).
    pub fn with_seed(mut self, seed: u64) -> GenerationConfig {
        self.seed = Some(seed);
        self
    }

    /// Sets [`num_beams`](Self::num_beams).
    pub fn with_num_beams(mut self, num_beams: usize) -> GenerationConfig {
        self.num_beams = num_beams;
        self
    }

    /// Sets [`length_penalty`](Self::length_penalty).
    pub fn with_length_penalty(mut self, penalty: f32) -> GenerationConfig {
        self.length_penalty = penalty;
        self
    }

    /// Sets [`early_stopping`](Self::early_stopping).
    pub fn with_early_stopping(mut self, early_stopping: EarlyStopping) -> GenerationConfig {
        self.early_stopping = early_stopping;
        self
    }

    /// Fails if a setting cannot be followed. What generates text calls it.
    ///
    /// # Errors
    ///
    /// A setting is not supported or out of its range, or two of them exclude each other.
    pub fn validate(&self) -> TractResult<()> {
        let above_0 = |name: &str, value: f32| {
            ensure!(value > 0. && value.is_finite(), "{name} is {value}, but must be above 0");
            Ok(())
        };
        ensure!(self.unsupported.is_empty(), "{}", self.unsupported.join("; "));
        ensure!(self.max_new_tokens != Some(0), "max_new_tokens is 0, but must be at least 1");
        above_0("repetition_penalty", self.repetition_penalty)?;
        if self.do_sample {
            above_0("temperature", self.temperature)?;
            let top_p = self.top_p;
            ensure!(
                top_p > 0. && top_p <= 1.,
                "top_p is {top_p}, but must be above 0 and at most 1"
            );
            let min_p = self.min_p;
            ensure!((0. ..=1.).contains(&min_p), "min_p is {min_p}, but must be from 0 to 1");
        }
        let beams = self.num_beams;
        ensure!((1..=256).contains(&beams), "num_beams is {beams}, but must be from 1 to 256");
        if beams > 1 {
            ensure!(
                !self.do_sample,
                "do_sample is true and num_beams is {beams}, but a beam search draws no tokens: num_beams must be 1, \
                 or do_sample false"
            );
            let penalty = self.length_penalty;
            ensure!(penalty.is_finite(), "length_penalty is {penalty}, but must be a number");
            ensure!(
                self.stop_strings.is_empty(),
                "there are stop strings, and num_beams is {beams}, but a beam search does not look for them: num_beams must be \
                 1, or stop_strings empty"
            );
        }
        ensure!(
            self.stop_strings.iter().all(|stop| !stop.is_empty()),
            "a stop string is empty, but must have a character"
        );
        Ok(())
    }

    /// How many tokens may follow a prompt of so many.
    pub(crate) fn most_new_tokens(&self, prompt: usize) -> TractResult<usize> {
        let most = match (self.max_new_tokens, self.max_length) {
            (Some(most), _) => return Ok(most),
            (None, None) => return Ok(MAX_NEW_TOKENS),
            (None, Some(most)) => most,
        };
        ensure!(
            prompt < most,
            "there are {prompt} tokens, but max_length is {most}: there must be fewer, or max_new_tokens be set in its place"
        );
        Ok(most - prompt)
    }
}

/// Settings of transformers and OpenVINO GenAI that change what is generated, and that this crate does not have, with the number that
/// changes nothing. Null, false and an empty list change nothing either.
const UNSUPPORTED: [(&str, Option<f64>); 35] = [
    ("bad_words_ids", None),
    ("begin_suppress_tokens", None),
    ("constraints", None),
    ("diversity_penalty", Some(0.)),
    ("dola_layers", None),
    ("echo", None),
    ("encoder_no_repeat_ngram_size", Some(0.)),
    ("encoder_repetition_penalty", Some(1.)),
    ("epsilon_cutoff", Some(0.)),
    ("eta_cutoff", Some(0.)),
    ("exponential_decay_length_penalty", None),
    ("force_words_ids", None),
    ("forced_bos_token_id", None),
    ("forced_decoder_ids", None),
    ("forced_eos_token_id", None),
    ("frequency_penalty", Some(0.)),
    ("guidance_scale", Some(1.)),
    ("ignore_eos", None),
    ("include_stop_str_in_output", None),
    ("max_time", None),
    ("min_length", Some(0.)),
    ("no_repeat_ngram_size", Some(0.)),
    ("num_beam_groups", Some(1.)),
    ("num_return_sequences", Some(1.)),
    ("penalty_alpha", Some(0.)),
    ("presence_penalty", Some(0.)),
    ("renormalize_logits", None),
    ("sequence_bias", None),
    ("stop_token_ids", None),
    ("structured_output_config", None),
    ("suppress_tokens", None),
    ("token_healing", None),
    ("top_h", None),
    ("typical_p", Some(1.)),
    ("watermarking_config", None),
];

/// What is read of `generation_config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    max_new_tokens: Option<usize>,
    max_length: Option<usize>,
    min_new_tokens: Option<usize>,
    eos_token_id: Option<OneOrMore<u32>>,
    stop_strings: Option<OneOrMore<String>>,
    do_sample: Option<bool>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    num_beams: Option<usize>,
    length_penalty: Option<f32>,
    early_stopping: Value,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Settings {
    fn config(self) -> TractResult<GenerationConfig> {
        let is_neutral = |value: &Value, neutral: Option<f64>| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            _ => neutral.is_some() && value.as_f64() == neutral,
        };
        let unsupported = UNSUPPORTED.iter().filter_map(|(name, neutral)| {
            let value = self.others.get(*name).filter(|value| !is_neutral(value, *neutral))?;
            let must = neutral.map_or("null".into(), |neutral| neutral.to_string());
            Some(format!("{name} is {value}, which is not supported: it must be {must} or missing"))
        });
        let unsupported = unsupported.collect();
        let default = GenerationConfig::default();
        Ok(GenerationConfig {
            max_new_tokens: self.max_new_tokens,
            max_length: self.max_length,
            min_new_tokens: self.min_new_tokens.unwrap_or(default.min_new_tokens),
            eos_token_id: self.eos_token_id.map_or(vec![], OneOrMore::into_vec),
            stop_strings: self.stop_strings.map_or(vec![], OneOrMore::into_vec),
            skip_special_tokens: default.skip_special_tokens,
            do_sample: self.do_sample.unwrap_or(default.do_sample),
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(default.repetition_penalty),
            seed: default.seed,
            num_beams: self.num_beams.unwrap_or(default.num_beams),
            length_penalty: self.length_penalty.unwrap_or(default.length_penalty),
            early_stopping: match self.early_stopping {
                Value::Null | Value::Bool(false) => EarlyStopping::No,
                Value::Bool(true) => EarlyStopping::Yes,
                Value::String(text) if text == "never" => EarlyStopping::Never,
                other => bail!("early_stopping is {other}, but must be true, false or \"never\""),
            },
            unsupported,
        })
    }
}

/// One value, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a value, or a list of values")]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMore::One(item) => vec![item],
            OneOrMore::More(items) => items,
        }
    }
}

/// What is read of `config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModelConfig {
    max_position_embeddings: Option<usize>,
    /// The same, of models in the family of GPT-2.
    n_positions: Option<usize>,
    eos_token_id: Option<OneOrMore<u32>>,
    /// The language model of those that also see or hear.
    text_config: Option<Box<ModelConfig>>,
}

impl ModelConfig {
    /// That of a model's files: without anything if there is no `config.json`.
    pub(crate) fn from_files(files: &Files) -> TractResult<ModelConfig> {
        Ok(files.json("config.json")?.unwrap_or_default())
    }

    /// How many tokens a text may have.
    pub(crate) fn max_positions(&self) -> Option<usize> {
        let text = || self.text_config.as_ref()?.max_positions();
        self.max_position_embeddings.or(self.n_positions).or_else(text)
    }

    fn into_eos_token_id(self) -> Vec<u32> {
        match (self.eos_token_id, self.text_config) {
            (Some(tokens), _) => tokens.into_vec(),
            (None, Some(text)) => text.into_eos_token_id(),
            (None, None) => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_transformers() -> TractResult<()> {
        let config = GenerationConfig::from_json(
            r#"{"bos_token_id": 1, "eos_token_id": [2, 7], "do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": null,
                "early_stopping": "never", "transformers_version": "5.0.0"}"#,
        )?;
        let expected = GenerationConfig::default()
            .with_eos_token_id([2, 7])
            .with_do_sample(true)
            .with_temperature(0.6)
            .with_top_p(0.9)
            .with_early_stopping(EarlyStopping::Never);
        assert_eq!(config, expected);
        let config = GenerationConfig::from_json(r#"{"eos_token_id": 2, "early_stopping": true}"#)?;
        assert_eq!((config.eos_token_id, config.early_stopping), (vec![2], EarlyStopping::Yes));
        let config = GenerationConfig::from_json(r#"{"min_new_tokens": 3, "min_p": 0.1}"#)?;
        assert_eq!(config, GenerationConfig::default().with_min_new_tokens(3).with_min_p(0.1));
        Ok(())
    }

    #[test]
    fn max_new_tokens_before_max_length() -> TractResult<()> {
        let config = GenerationConfig::from_json(r#"{"max_length": 20}"#)?;
        assert_eq!(config.most_new_tokens(15)?, 5);
        let error = config.most_new_tokens(20).unwrap_err().to_string();
        assert!(error.contains("there are 20 tokens, but max_length is 20"), "{error}");
        assert_eq!(config.clone().with_max_new_tokens(7).most_new_tokens(20)?, 7);
        // However the program sets it.
        let set = GenerationConfig { max_new_tokens: Some(6), ..config };
        assert_eq!(set.most_new_tokens(20)?, 6);
        let config = GenerationConfig::from_json(r#"{"max_length": 20, "max_new_tokens": 8}"#)?;
        assert_eq!(config.most_new_tokens(15)?, 8);
        assert_eq!(config.with_max_length(17).most_new_tokens(15)?, 2);
        let config = GenerationConfig::from_json("{}")?;
        assert_eq!(config.most_new_tokens(20)?, MAX_NEW_TOKENS);
        Ok(())
    }

    #[test]
    fn settings_that_are_not_supported() -> TractResult<()> {
        let neutral = r#"{"no_repeat_ngram_size": 0, "typical_p": 1, "num_return_sequences": 1, "suppress_tokens": null,
            "bad_words_ids": [], "guidance_scale": 1.0, "use_cache": true, "token_healing": false, "presence_penalty": 0.0, "assistant_confidence_threshold": 0.4,
            "frequency_penalty": 0, "watermarking_config": null, "ignore_eos": false, "stop_token_ids": []}"#;
        assert_eq!(GenerationConfig::from_json(neutral)?, GenerationConfig::default());
        for (text, expected) in [
            (
                r#"{"no_repeat_ngram_size": 3}"#,
                "no_repeat_ngram_size is 3, which is not supported: it must be 0 or missing",
            ),
            (
                r#"{"bad_words_ids": [[5]]}"#,
                "bad_words_ids is [[5]], which is not supported: it must be null or missing",
            ),
            (r#"{"forced_eos_token_id": 0}"#, "forced_eos_token_id is 0"),
            (r#"{"num_return_sequences": 2}"#, "num_return_sequences is 2"),
            (r#"{"token_healing": true}"#, "token_healing is true"),
            (r#"{"watermarking_config": {"bias": 2.5}}"#, "watermarking_config is {"),
            (r#"{"presence_penalty": 1.5}"#, "presence_penalty is 1.5"),
            (r#"{"frequency_penalty": -0.5}"#, "frequency_penalty is -0.5"),
            (r#"{"ignore_eos": true}"#, "ignore_eos is true"),
            (
                r#"{"top_h": 0.5, "echo": true}"#,
                "echo is true, which is not supported: it must be null or missing; top_h is 0.5",
            ),
        ] {
            let mut config = GenerationConfig::from_json(text)?;
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            // Whoever knows that can go on without them.
            assert_eq!(config.ignore_unsupported().join("; "), error);
            assert_eq!(config, GenerationConfig::default());
        }
        for (text, expected) in [
            (r#"{"temperature": Infinity}"#, "Infinity"),
            (
                r#"{"early_stopping": "soon"}"#,
                "early_stopping is \"soon\", but must be true, false or \"never\"",
            ),
        ] {
            let error = format!("{:#}", GenerationConfig::from_json(text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        Ok(())
    }

    #[test]
    fn end_tokens_of_config_json() -> TractResult<()> {
        let folder = tempfile::tempdir()?;
        assert_eq!(GenerationConfig::from_folder(&folder)?, GenerationConfig::default());
        std::fs::write(
            folder.path().join("config.json"),
            r#"{"eos_token_id": 5, "hidden_size": 8}"#,
        )?;
        assert_eq!(GenerationConfig::from_folder(&folder)?.eos_token_id, [5]);
        std::fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id": 6}"#)?;
        assert_eq!(GenerationConfig::from_folder(&folder)?.eos_token_id, [6]);
        std::fs::write(folder.path().join("generation_config.json"), r#"{"top_k": "all"}"#)?;
        let error = format!("{:#}", GenerationConfig::from_folder(&folder).unwrap_err());
        assert!(error.contains("generation_config.json") && error.contains("\"all\""), "{error}");
        Ok(())
    }

    #[test]
    fn config_json_of_other_models() -> TractResult<()> {
        for (text, positions, end) in [
            (r#"{"max_position_embeddings": 9, "eos_token_id": [1, 2]}"#, Some(9), &[1, 2][..]),
            (r#"{"n_positions": 8}"#, Some(8), &[]),
            (r#"{"text_config": {"n_positions": 7, "eos_token_id": 3}}"#, Some(7), &[3]),
            (
                r#"{"text_config": {"max_position_embeddings": 6, "eos_token_id": 3}, "eos_token_id": 4}"#,
                Some(6),
                &[4],
            ),
            (r#"{"time_step_limit": [0.0, Infinity], "n_positions": 5}"#, Some(5), &[]),
            ("{}", None, &[]),
        ] {
            let config: ModelConfig = parse_json(text)?;
            assert_eq!((config.max_positions(), &config.into_eos_token_id()[..]), (positions, end));
        }
        Ok(())
    }

    #[test]
    fn values_out_of_range() {
        let config = GenerationConfig::default;
        for (config, error) in [
            (config().with_max_new_tokens(0), "max_new_tokens is 0, but must be at least 1"),
            (
                config().with_do_sample(true).with_temperature(-1.),
                "temperature is -1, but must be above 0",
            ),
            (config().with_do_sample(true).with_temperature(f32::NAN), "temperature is NaN"),
            (
                config().with_do_sample(true).with_top_p(1.5),
                "top_p is 1.5, but must be above 0 and at most 1",
            ),
            (config().with_repetition_penalty(0.), "repetition_penalty is 0"),
            (config().with_stop_strings([""]), "a stop string is empty"),
            (
                config().with_do_sample(true).with_min_p(1.5),
                "min_p is 1.5, but must be from 0 to 1",
            ),
            (config().with_num_beams(0), "num_beams is 0, but must be from 1 to 256"),
            (config().with_num_beams(2).with_do_sample(true), "a beam search draws no"),
            (config().with_num_beams(2).with_stop_strings(["."]), "does not look for them"),
            (config().with_num_beams(2).with_length_penalty(f32::NAN), "length_penalty is NaN"),
        ] {
            let found = config.validate().unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
        assert!(config().with_temperature(0.).validate().is_ok(), "it is not asked for");
    }
}
