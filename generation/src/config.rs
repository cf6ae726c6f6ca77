//! How text is generated: the settings of `generation_config.json`.

use std::path::Path;

use serde::Deserialize;
use tract_core::internal::*;

use crate::files::read_json;

/// How tokens are chosen, and when generation ends.
///
/// The defaults are those of the Python library transformers, with the most probable token in every step.
///
/// ```
/// use tract_openvino_generation::GenerationConfig;
///
/// let config = GenerationConfig::default().sampling().with_temperature(0.7).with_top_p(0.9).with_seed(1);
/// config.validate()?;
/// assert!(config.with_temperature(0.).validate().is_err());
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GenerationConfig {
    /// The most tokens that are generated: 256 where nothing else is said.
    pub max_new_tokens: usize,
    /// The tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// Strings that end a text. They are not part of it.
    pub stop_strings: Vec<String>,
    /// Whether tokens are drawn at random. If not, the most probable one is taken.
    pub do_sample: bool,
    /// What logits are divided by before a token is drawn: above 0. Below 1, probable tokens become more probable.
    pub temperature: f32,
    /// Only so many of the most probable tokens are drawn. 0 is all of them.
    pub top_k: usize,
    /// Only the most probable tokens that have this probability together are drawn: above 0, and at most 1, which is all.
    pub top_p: f32,
    /// What logits of tokens that are in the text already are divided by, or multiplied with if they are negative: above 0.
    pub repetition_penalty: f32,
    /// The seed of the random numbers. Without one, every text is another one.
    pub seed: Option<u64>,
    /// The number of beams. 1 is no beam search.
    pub num_beams: usize,
    /// The power of a text's length that its score is divided by, in a beam search. Above 0, long texts are preferred.
    pub length_penalty: f32,
    /// When a beam search ends.
    pub early_stopping: EarlyStopping,
}

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
            max_new_tokens: 256,
            end_tokens: vec![],
            stop_strings: vec![],
            do_sample: false,
            temperature: 1.,
            top_k: 50,
            top_p: 1.,
            repetition_penalty: 1.,
            seed: None,
            num_beams: 1,
            length_penalty: 1.,
            early_stopping: EarlyStopping::No,
        }
    }
}

impl GenerationConfig {
    /// The settings of a folder: `generation_config.json`, or the defaults if there is none. If it has no end tokens, they are
    /// those of `config.json`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or a setting has a value of another type.
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<GenerationConfig> {
        let folder = folder.as_ref();
        let read = |name: &str| read_json::<Settings>(&folder.join(name));
        let settings = read("generation_config.json")?.unwrap_or_default();
        let mut config = settings.config();
        if settings.eos_token_id.is_none()
            && let Some(OneOrMore { items }) = read_json::<EndTokens>(&folder.join("config.json"))?
                .unwrap_or_default()
                .eos_token_id
        {
            config.end_tokens = items;
        }
        Ok(config)
    }

    /// The settings in the text of a `generation_config.json`. Those that are not there, or null, have their default. Other
    /// settings of transformers do nothing.
    ///
    /// # Errors
    ///
    /// The text is no JSON, or a setting has a value of another type.
    pub fn from_json(text: &str) -> TractResult<GenerationConfig> {
        let settings: Settings =
            serde_json::from_str(text).context("reading generation settings")?;
        Ok(settings.config())
    }

    /// The most probable token in every step, and no beams.
    pub fn greedy(mut self) -> GenerationConfig {
        (self.do_sample, self.num_beams) = (false, 1);
        self
    }

    /// Tokens that are drawn at random, and no beams.
    pub fn sampling(mut self) -> GenerationConfig {
        (self.do_sample, self.num_beams) = (true, 1);
        self
    }

    /// A beam search.
    pub fn beams(mut self, num_beams: usize) -> GenerationConfig {
        (self.do_sample, self.num_beams) = (false, num_beams);
        self
    }

    /// Sets [`max_new_tokens`](Self::max_new_tokens).
    pub fn with_max_new_tokens(mut self, max_new_tokens: usize) -> GenerationConfig {
        self.max_new_tokens = max_new_tokens;
        self
    }

    /// Sets [`end_tokens`](Self::end_tokens).
    pub fn with_end_tokens(mut self, tokens: impl IntoIterator<Item = u32>) -> GenerationConfig {
        self.end_tokens = tokens.into_iter().collect();
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

    /// Fails if a setting is out of its range. What generates text calls it.
    ///
    /// # Errors
    ///
    /// A setting is out of its range, or two of them exclude each other.
    pub fn validate(&self) -> TractResult<()> {
        let above_0 = |name: &str, value: f32| {
            ensure!(value > 0. && value.is_finite(), "{name} is {value}, but must be above 0");
            Ok(())
        };
        ensure!(self.max_new_tokens > 0, "max_new_tokens is 0, but must be at least 1");
        above_0("repetition_penalty", self.repetition_penalty)?;
        if self.do_sample {
            above_0("temperature", self.temperature)?;
            let top_p = self.top_p;
            ensure!(
                top_p > 0. && top_p <= 1.,
                "top_p is {top_p}, but must be above 0 and at most 1"
            );
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
        }
        ensure!(
            self.stop_strings.iter().all(|stop| !stop.is_empty()),
            "a stop string is empty, but must have a character"
        );
        Ok(())
    }
}

/// What is read of `generation_config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    max_new_tokens: Option<usize>,
    eos_token_id: Option<OneOrMore<u32>>,
    stop_strings: Option<OneOrMore<String>>,
    do_sample: Option<bool>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    top_p: Option<f32>,
    repetition_penalty: Option<f32>,
    num_beams: Option<usize>,
    length_penalty: Option<f32>,
    early_stopping: Option<Early>,
}

/// What is read of `config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EndTokens {
    eos_token_id: Option<OneOrMore<u32>>,
}

impl Settings {
    fn config(&self) -> GenerationConfig {
        let default = GenerationConfig::default();
        let items =
            |it: &Option<OneOrMore<u32>>| it.iter().flat_map(|it| it.items.clone()).collect();
        GenerationConfig {
            max_new_tokens: self.max_new_tokens.unwrap_or(default.max_new_tokens),
            end_tokens: items(&self.eos_token_id),
            stop_strings: self.stop_strings.iter().flat_map(|it| it.items.clone()).collect(),
            do_sample: self.do_sample.unwrap_or(default.do_sample),
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(default.repetition_penalty),
            seed: default.seed,
            num_beams: self.num_beams.unwrap_or(default.num_beams),
            length_penalty: self.length_penalty.unwrap_or(default.length_penalty),
            early_stopping: match self.early_stopping {
                Some(Early::AtOnce(true)) => EarlyStopping::Yes,
                Some(Early::Named(Never::Never)) => EarlyStopping::Never,
                Some(Early::AtOnce(false)) | None => EarlyStopping::No,
            },
        }
    }
}

/// One value, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(from = "OneOrList<T>")]
struct OneOrMore<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a value, or a list of values")]
enum OneOrList<T> {
    One(T),
    List(Vec<T>),
}

impl<T> From<OneOrList<T>> for OneOrMore<T> {
    fn from(value: OneOrList<T>) -> OneOrMore<T> {
        match value {
            OneOrList::One(item) => OneOrMore { items: vec![item] },
            OneOrList::List(items) => OneOrMore { items },
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "early_stopping must be true, false or \"never\"")]
enum Early {
    AtOnce(bool),
    Named(Never),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Never {
    Never,
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
        let expected = GenerationConfig {
            end_tokens: vec![2, 7],
            temperature: 0.6,
            top_p: 0.9,
            early_stopping: EarlyStopping::Never,
            ..GenerationConfig::default().sampling()
        };
        assert_eq!(config, expected);
        let config = GenerationConfig::from_json(r#"{"eos_token_id": 2, "early_stopping": true}"#)?;
        assert_eq!((config.end_tokens, config.early_stopping), (vec![2], EarlyStopping::Yes));
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
        assert_eq!(GenerationConfig::from_folder(&folder)?.end_tokens, [5]);
        std::fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id": 6}"#)?;
        assert_eq!(GenerationConfig::from_folder(&folder)?.end_tokens, [6]);
        std::fs::write(folder.path().join("generation_config.json"), r#"{"top_k": "all"}"#)?;
        let error = format!("{:#}", GenerationConfig::from_folder(&folder).unwrap_err());
        assert!(error.contains("generation_config.json") && error.contains("\"all\""), "{error}");
        Ok(())
    }

    #[test]
    fn values_out_of_range() {
        let config = GenerationConfig::default;
        for (config, error) in [
            (config().with_max_new_tokens(0), "max_new_tokens is 0, but must be at least 1"),
            (config().sampling().with_temperature(-1.), "temperature is -1, but must be above 0"),
            (config().sampling().with_temperature(f32::NAN), "temperature is NaN"),
            (
                config().sampling().with_top_p(1.5),
                "top_p is 1.5, but must be above 0 and at most 1",
            ),
            (config().with_repetition_penalty(0.), "repetition_penalty is 0"),
            (config().with_stop_strings([""]), "a stop string is empty"),
            (config().beams(0), "num_beams is 0, but must be from 1 to 256"),
            (GenerationConfig { do_sample: true, ..config().beams(2) }, "a beam search draws no"),
        ] {
            let found = config.validate().unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
        assert!(config().with_temperature(0.).validate().is_ok(), "it is not asked for");
    }
}
