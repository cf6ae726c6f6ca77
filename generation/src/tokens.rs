//! Generation of tokens, without text.

use std::ops::ControlFlow;
use std::time::Duration;

use tract_core::internal::*;

use crate::config::GenerationConfig;
use crate::model::Context;
use crate::sampling::{Sampler, exclude};
use crate::system::Stopwatch;

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The model gave one of the end tokens.
    EndToken,
    /// A stop string came.
    StopString,
    /// There are [`max_new_tokens`](GenerationConfig::max_new_tokens), or [`max_length`](GenerationConfig::max_length) with the
    /// prompt.
    MaxNewTokens,
    /// The text has as many tokens as the model has positions.
    ContextFull,
    /// The caller wanted no more.
    Stopped,
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EndReason::EndToken => "end token",
            EndReason::StopString => "stop string",
            EndReason::MaxNewTokens => "max new tokens",
            EndReason::ContextFull => "context full",
            EndReason::Stopped => "stopped",
        })
    }
}

/// How many tokens there were in prefill and decode, and how long that took. Times are zero on `wasm32-unknown-unknown`, which has no
/// clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// The tokens of prefill: those of the prompt that the model had not seen yet.
    pub prompt_tokens: usize,
    /// The time for them, which is the time to first token.
    pub prompt_time: Duration,
    /// The tokens that were generated, without the end token.
    pub tokens: usize,
    /// How often the model ran for them: the first one comes from the prompt.
    pub steps: usize,
    /// The time for these steps, with the choice of tokens.
    pub time: Duration,
}

impl Statistics {
    /// Tokens per second of prefill.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Tokens per second of decode: 0 if there were none.
    pub fn rate(&self) -> f64 {
        rate(self.steps, self.time)
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    if time.is_zero() { 0. } else { count as f64 / time.as_secs_f64() }
}

/// Tokens that were generated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GeneratedTokens {
    /// The tokens, without the end token.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub end: EndReason,
    /// Counts and times.
    pub statistics: Statistics,
}

/// Adds a prompt to the only row of a context, and generates what follows, token by token. Each is told to `on_token`, which
/// may end the generation. The context has the prompt and the tokens then, without the last one, and continues from there.
///
/// The prompt may be empty if the context is not.
///
/// # Errors
///
/// A setting is out of its range, or asks for beams, of which [`generate_beams`](crate::generate_beams) takes care; the prompt is
/// too long, or there is none; the context has several rows; or the model or `on_token` fails.
pub fn generate_tokens(
    context: &mut Context,
    prompt: &[u32],
    config: &GenerationConfig,
    mut on_token: impl FnMut(u32) -> TractResult<ControlFlow<()>>,
) -> TractResult<GeneratedTokens> {
    let mut steps = TokenSteps::new(context, prompt, config)?;
    while let Some(token) = steps.next(context)? {
        if on_token(token)?.is_break() {
            break;
        }
    }
    Ok(steps.generated())
}

/// [`generate_tokens`], one token at a time.
#[derive(Debug)]
pub(crate) struct TokenSteps {
    sampler: Sampler,
    min_new_tokens: usize,
    eos_token_id: Vec<u32>,
    most: usize,
    tokens: Vec<u32>,
    end: Option<EndReason>,
    statistics: Statistics,
}

impl TokenSteps {
    /// Reads the prompt.
    pub(crate) fn new(
        context: &mut Context,
        prompt: &[u32],
        config: &GenerationConfig,
    ) -> TractResult<TokenSteps> {
        let sampler = Sampler::new(config)?;
        ensure!(config.num_beams == 1, "num_beams is {}, but must be 1 here", config.num_beams);
        let most = config.most_new_tokens(context.len() + prompt.len())?;
        let statistics = read_prompt(context, prompt)?;
        let GenerationConfig { min_new_tokens, eos_token_id, .. } = config.clone();
        let (tokens, end) = (vec![], None);
        Ok(TokenSteps { sampler, min_new_tokens, eos_token_id, most, tokens, end, statistics })
    }

    /// The next token, if nothing ends it. The context, which is the one of the step before, has those before this one then.
    pub(crate) fn next(&mut self, context: &mut Context) -> TractResult<Option<u32>> {
        let started = Stopwatch::start();
        if self.end.is_none() {
            self.end = self.step(context)?;
        }
        self.statistics.time += started.elapsed();
        Ok(self.tokens.last().copied().filter(|_| self.end.is_none()))
    }

    /// Adds a token, or says why there is none.
    fn step(&mut self, context: &mut Context) -> TractResult<Option<EndReason>> {
        if let Some(last) = self.tokens.last() {
            if self.tokens.len() >= self.most {
                return Ok(Some(EndReason::MaxNewTokens));
            }
            if context.room() == 0 {
                return Ok(Some(EndReason::ContextFull));
            }
            context.extend(&[*last])?;
            self.statistics.steps += 1;
        }
        let mut logits = context.logits()[0].clone();
        if self.tokens.len() < self.min_new_tokens {
            exclude(&mut logits, &self.eos_token_id);
        }
        let token = self.sampler.next(logits, context.tokens(0))?;
        if self.eos_token_id.contains(&token) {
            return Ok(Some(EndReason::EndToken));
        }
        self.tokens.push(token);
        Ok(None)
    }

    /// Why there are no more tokens, if there are none.
    pub(crate) fn end(&self) -> Option<EndReason> {
        self.end
    }

    /// The tokens so far. If nothing has ended them, the caller has.
    pub(crate) fn generated(self) -> GeneratedTokens {
        let TokenSteps { tokens, end, mut statistics, .. } = self;
        statistics.tokens = tokens.len();
        GeneratedTokens { tokens, end: end.unwrap_or(EndReason::Stopped), statistics }
    }
}

/// Adds a prompt to the only row of a context.
pub(crate) fn read_prompt(context: &mut Context, prompt: &[u32]) -> TractResult<Statistics> {
    let started = Stopwatch::start();
    context.check_one_row()?;
    if !prompt.is_empty() || context.is_empty() {
        ensure!(!prompt.is_empty(), "the prompt has no tokens, but must have at least one");
        context.extend(prompt).context("reading the prompt")?;
    }
    let (prompt_tokens, prompt_time) = (prompt.len(), started.elapsed());
    Ok(Statistics { prompt_tokens, prompt_time, ..Statistics::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::without_beams;

    const GO_ON: TractResult<ControlFlow<()>> = Ok(ControlFlow::Continue(()));

    #[test]
    fn every_end() -> TractResult<()> {
        let model = without_beams().with_max_positions(12);
        let config = GenerationConfig::default().with_max_new_tokens(8);
        let all = generate_tokens(&mut model.start()?, &[1, 2], &config, |_| GO_ON)?;
        assert_eq!((all.tokens.len(), all.end), (8, EndReason::MaxNewTokens));
        assert_eq!((all.statistics.prompt_tokens, all.statistics.steps), (2, 7));

        let end = all.tokens[4];
        let first = all.tokens.iter().position(|token| *token == end).unwrap();
        let ends = config.clone().with_eos_token_id([9999, end]);
        let mut told = vec![];
        let ended = generate_tokens(&mut model.start()?, &[1, 2], &ends, |token| {
            told.push(token);
            GO_ON
        })?;
        assert_eq!((&ended.tokens[..], ended.end), (&all.tokens[..first], EndReason::EndToken));
        assert_eq!(told, ended.tokens);
        // An end token may not come before there are so many others.
        let late = ends.with_min_new_tokens(first + 1);
        let later = generate_tokens(&mut model.start()?, &[1, 2], &late, |_| GO_ON)?;
        assert_eq!(later.tokens[..first], all.tokens[..first]);
        assert!(later.tokens.len() > first && !later.tokens.contains(&end));

        let mut context = model.start()?;
        let stopped = generate_tokens(&mut context, &[1, 2], &config, |token| {
            Ok(if token == all.tokens[2] {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        assert_eq!(stopped.end, EndReason::Stopped);
        // It can go on.
        let last = *stopped.tokens.last().unwrap();
        let rest = generate_tokens(&mut context, &[last], &config, |_| GO_ON)?;
        assert_eq!(rest.tokens[..3], all.tokens[stopped.tokens.len()..][..3]);

        let short = config.clone().with_max_length(6);
        let short = generate_tokens(&mut model.start()?, &[1, 2], &short, |_| GO_ON)?;
        assert_eq!((&short.tokens[..], short.end), (&all.tokens[..4], EndReason::MaxNewTokens));

        let long = config.with_max_new_tokens(100);
        let full = generate_tokens(&mut model.start()?, &[1, 2], &long, |_| GO_ON)?;
        assert_eq!((full.tokens.len(), full.end), (11, EndReason::ContextFull));
        let error = generate_tokens(&mut model.start()?, &[], &long, |_| GO_ON).unwrap_err();
        assert!(error.to_string().contains("the prompt has no tokens"));
        let error = generate_tokens(&mut model.start()?, &[1; 13], &long, |_| GO_ON).unwrap_err();
        assert!(format!("{error:#}").contains("12 positions"));
        Ok(())
    }

    #[test]
    fn several_rows() -> TractResult<()> {
        let mut context = without_beams().start()?;
        context.extend_rows(&[0, 0], &[[1, 2], [3, 4]])?;
        for prompt in [&[][..], &[5]] {
            let generated =
                generate_tokens(&mut context, prompt, &GenerationConfig::default(), |_| GO_ON);
            let error = format!("{:#}", generated.unwrap_err());
            assert!(error.contains("the context has 2 rows, but must have one"), "{error}");
        }
        Ok(())
    }
}
