//! Text generation with language models as `optimum-cli export openvino` writes them, on [tract](tract_core).
//!
//! A [`TextGenerator`] continues texts, and answers in chats:
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use tract_openvino_generation::prelude::*;
//!
//! # fn main() -> TractResult<()> {
//! // A tiny model with random weights.
//! let generator = TextGenerator::from_folder("models/tiny")?;
//! let config = generator.config().clone().with_max_new_tokens(20);
//! let messages = [Message::user("What is the capital of France?")];
//! let answer = generator.chat()?.answer(&messages, &config, |piece| {
//!     print!("{piece}");
//!     ControlFlow::Continue(())
//! })?;
//! println!("\n{:.1} tokens per second", answer.statistics.rate());
//! # Ok(())
//! # }
//! ```
//!
//! Its parts also stand alone: a [`LanguageModel`] makes logits of tokens, and [`generate_tokens`] chooses tokens.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use tract_openvino_generation::prelude::*;
//! use tract_openvino_generation::{LanguageModel, generate_tokens};
//!
//! # fn main() -> TractResult<()> {
//! let model = tract_openvino_ir::ir().model_for_path("../ir/models/networks/llama_stateful/model.xml")?;
//! let model = LanguageModel::from_model(model)?;
//! let config = GenerationConfig::default().with_max_new_tokens(5);
//! let mut context = model.start()?;
//! let generated = generate_tokens(&mut context, &[1, 2, 3], &config, |token| {
//!     println!("token {token}");
//!     Ok(ControlFlow::Continue(()))
//! })?;
//! assert_eq!(generated.tokens.len(), 5);
//! // The context has the prompt and the tokens, but for the last one.
//! assert_eq!(context.len(), 7);
//! # Ok(())
//! # }
//! ```
//!
//! # How it is built
//!
//! A file imports only from those below it: `.ci/imports.py` checks that.
//!
//! | file | what it decides |
//! |---|---|
//! | `text.rs` | [`TextGenerator`]: text in, text out, at once or step by step ([`Generation`]), and [`Chat`], which keeps what the model has read |
//! | `beams.rs` | [`generate_beams`]: several texts at once, of which the best one stays |
//! | `tokens.rs` | [`generate_tokens`]: token by token, until something ends it |
//! | `model.rs` | [`LanguageModel`], what a model must be, and [`Context`], its tokens so far |
//! | `last_logits.rs` | a prompt needs the logits of its last position alone |
//! | `template.rs` | [`ChatTemplate`]: the messages of a chat as one text |
//! | `tokenizer.rs` | [`TextTokenizer`]: text as tokens, and [`TextStream`], tokens as text |
//! | `tokenizer_ir.rs` | the tokenizer and the detokenizer of OpenVINO's files |
//! | `tokenizer_json.rs` | the tokenizer of Hugging Face's file |
//! | `tokenize.rs` | what a tokenizer does |
//! | `stop.rs` | [`StopStrings`]: strings that end a text |
//! | `threads.rs` | the threads that a model runs on |
//! | `sampling.rs` | [`Sampler`]: which token comes next |
//! | `config.rs` | [`GenerationConfig`]: the settings, and what `config.json` says |
//! | `system.rs` | the time and random numbers, where there are any |
//! | `files.rs` | [`Files`] in memory, or in a folder |
//!
//! # Features
//!
//! * `multithread-mm`, on by default: models run on several threads. A [`TextGenerator`] has one for each core, or as many as
//!   `TRACT_OPENVINO_THREADS` or [`with_threads`](TextGenerator::with_threads) says; what is below it runs on the executor that
//!   the program gives to tract.
//! * `tokenizer-ir`, on by default: the tokenizer of a model may be `openvino_tokenizer.xml` with `openvino_detokenizer.xml`.
//! * `tokenizer-json`, on by default: the tokenizer of a model may be `tokenizer.json` of Hugging Face, which the crate
//!   [`tokenizers`](https://docs.rs/tokenizers) reads.
//! * `js`: for `wasm32-unknown-unknown`, where the crate of the tokenizers asks JavaScript for random numbers. Without it, the program
//!   says where [`getrandom`](https://docs.rs/getrandom/0.3) gets them.
//!
//! # Without a system
//!
//! On `wasm32-unknown-unknown` there are no threads, files, clocks and random numbers: leave out the default features, and give the
//! bytes of the model ([`TextGenerator::from_files`]), the seed of what is drawn ([`GenerationConfig::seed`]) and the time, if the
//! chat template asks for it ([`Chat::with_time`]).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod beams;
mod config;
mod files;
mod last_logits;
mod model;
mod sampling;
mod stop;
mod system;
mod template;
mod text;
mod threads;
mod tokenize;
mod tokenizer;
#[cfg(feature = "tokenizer-ir")]
mod tokenizer_ir;
#[cfg(feature = "tokenizer-json")]
mod tokenizer_json;
mod tokens;

pub use beams::generate_beams;
pub use config::{EarlyStopping, GenerationConfig, MAX_NEW_TOKENS};
pub use files::Files;
pub use model::{Context, LanguageModel, rounding_kernels};
pub use sampling::Sampler;
pub use stop::StopStrings;
pub use template::{ChatTemplate, Message};
pub use text::{Chat, Generated, Generation, TextGenerator};
pub use tokenizer::{TextStream, TextTokenizer};
pub use tokens::{EndReason, GeneratedTokens, Statistics, generate_tokens};

/// The crates that this one is built on.
#[cfg(feature = "tokenizer-json")]
pub use tokenizers;
pub use {tract_openvino_ir, tract_openvino_kernels};

/// What most programs need, of this crate and of tract.
pub mod prelude {
    pub use crate::{GenerationConfig, Message, TextGenerator};
    #[doc(no_inline)]
    pub use tract_core::prelude::*;
}

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
