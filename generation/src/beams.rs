//! Beam search: several texts at once, of which the most probable ones continue.

use tract_core::internal::*;

use crate::config::{EarlyStopping, GenerationConfig};
use crate::model::Context;
use crate::sampling::{exclude, log_probabilities, penalize_repetitions};
use crate::system::Stopwatch;
use crate::tokens::{EndReason, GeneratedTokens, read_prompt};

/// A text that a beam search found.
#[derive(Debug, Clone, PartialEq)]
struct Hypothesis {
    /// The tokens, without the end token.
    tokens: Vec<u32>,
    /// The sum of the logarithms of the tokens' probabilities, with that of the end token, divided by the length to the power
    /// `length_penalty`.
    score: f32,
    /// Whether an end token came. If not, there are as many tokens as may be.
    has_ended: bool,
}

/// Searches the text with the best score, as the Python library transformers does: of all tokens in all beams, the most probable
/// ones continue, and those that end a text compete for the result.
///
/// `first` is the logarithm of the probability of each token at the beginning. `next` gets, for each beam that continues, the
/// number of the beam of before (0 at first) and the token that it got, and gives the logarithms for what comes after that. Of
/// equal candidates, the first beam and then the first token win.
///
/// There are `most` tokens at most. The settings are `num_beams`, `length_penalty`, `early_stopping`, `eos_token_id` and
/// `min_new_tokens`.
///
/// # Errors
///
/// No token is possible, `next` fails or gives another number of beams, or a probability is NaN.
fn beam_search(
    config: &GenerationConfig,
    most: usize,
    first: &[f32],
    mut next: impl FnMut(&[usize], &[u32]) -> TractResult<Vec<Vec<f32>>>,
) -> TractResult<Hypothesis> {
    let mut finished = Finished { config, most, best: vec![] };
    let mut beams = vec![Beam::default()];
    let mut rows = vec![first.to_vec()];
    for length in 1..=most {
        if length <= config.min_new_tokens {
            rows.iter_mut().for_each(|row| exclude(row, &config.eos_token_id));
        }
        let candidates = candidates(config, &beams, &rows)?;
        ensure!(!candidates.is_empty(), "no token is possible");
        let mut chosen: Vec<Candidate> = vec![];
        for (rank, candidate) in candidates.iter().enumerate() {
            if chosen.len() == config.num_beams {
                break;
            }
            if !config.eos_token_id.contains(&candidate.token) {
                chosen.push(*candidate);
            } else if rank < config.num_beams {
                // An end is worth what a beam is.
                finished.add(&beams[candidate.beam].tokens, candidate.sum, length, true);
            }
        }
        let extended = |candidate: &Candidate| {
            let tokens = [&beams[candidate.beam].tokens[..], &[candidate.token]].concat();
            Beam { tokens, sum: candidate.sum }
        };
        beams = chosen.iter().map(extended).collect();
        // As in transformers, it is the best beam that continues which may become better, and not a text that has just ended.
        let Some(best) = beams.first() else { break };
        if length == most || finished.is_done(best.sum, length) {
            break;
        }
        let parents: Vec<usize> = chosen.iter().map(|candidate| candidate.beam).collect();
        let tokens: Vec<u32> = chosen.iter().map(|candidate| candidate.token).collect();
        rows = next(&parents, &tokens)?;
        ensure!(
            rows.len() == beams.len(),
            "there are probabilities for {} beams, but must be for {}",
            rows.len(),
            beams.len()
        );
    }
    // Texts that have not ended compete, too, unless the search ended before.
    let length = beams.first().map_or(0, |beam| beam.tokens.len());
    if length == most {
        beams.iter().for_each(|beam| finished.add(&beam.tokens, beam.sum, length, false));
    }
    finished.best.into_iter().next().context("no token is possible")
}

/// Adds a prompt to the only row of a context, and searches what follows with `num_beams` beams. The context has the prompt then,
/// and not what was found.
///
/// The prompt may be empty if the context is not. The penalty for repetitions counts as in transformers: it is applied to the
/// logarithms of probabilities.
///
/// # Errors
///
/// A setting is out of its range; the prompt is too long, or there is none; the context has several rows; there are several beams,
/// but the model has no input `beam_idx`; or the model fails.
pub fn generate_beams(
    context: &mut Context,
    prompt: &[u32],
    config: &GenerationConfig,
) -> TractResult<GeneratedTokens> {
    config.validate()?;
    let beams = config.num_beams;
    ensure!(
        beams == 1 || context.model().can_reorder(),
        "num_beams is {beams}, but the model has no input beam_idx: it must be 1"
    );
    let most = config.most_new_tokens(context.len() + prompt.len())?;
    let mut statistics = read_prompt(context, prompt)?;
    let mut search = context.clone();
    let started = Stopwatch::start();
    let scores = |context: &Context| -> TractResult<Vec<Vec<f32>>> {
        let of_row = |(row, logits): (usize, &Vec<f32>)| {
            let mut scores = log_probabilities(logits)?;
            penalize_repetitions(&mut scores, context.tokens(row), config.repetition_penalty);
            Ok(scores)
        };
        context.logits().iter().enumerate().map(of_row).collect()
    };
    // The last token of a text is not fed.
    let possible = search.room().saturating_add(1).min(most);
    let first = scores(&search)?.swap_remove(0);
    let found = beam_search(config, possible, &first, |parents, tokens| {
        let tokens: Vec<[u32; 1]> = tokens.iter().map(|token| [*token]).collect();
        search.extend_rows(parents, &tokens)?;
        statistics.steps += 1;
        scores(&search)
    })?;
    (statistics.tokens, statistics.time) = (found.tokens.len(), started.elapsed());
    let end = match found.has_ended {
        true => EndReason::EndToken,
        false if possible < most => EndReason::ContextFull,
        false => EndReason::MaxNewTokens,
    };
    Ok(GeneratedTokens { tokens: found.tokens, end, statistics })
}

/// A text that continues.
#[derive(Debug, Clone, Default)]
struct Beam {
    tokens: Vec<u32>,
    sum: f32,
}

/// A token that a beam could continue with.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    beam: usize,
    token: u32,
    sum: f32,
}

/// The best tokens of all beams, best first: enough for all beams to continue if those that end a text are left out.
fn candidates(
    config: &GenerationConfig,
    beams: &[Beam],
    rows: &[Vec<f32>],
) -> TractResult<Vec<Candidate>> {
    let count = config.num_beams * (1 + config.eos_token_id.len().max(1));
    let better = |a: &Candidate, b: &Candidate| {
        b.sum.total_cmp(&a.sum).then((a.beam, a.token).cmp(&(b.beam, b.token)))
    };
    let mut best: Vec<Candidate> = vec![];
    for (beam, (row, before)) in rows.iter().zip(beams).enumerate() {
        if let Some(token) = row.iter().position(|it| it.is_nan()) {
            bail!("the probability of token {token} is NaN");
        }
        let candidate = |(token, it): (usize, &f32)| Candidate {
            beam,
            token: token as u32,
            sum: before.sum + it,
        };
        let possible = |candidate: &Candidate| candidate.sum > f32::NEG_INFINITY;
        best.extend(row.iter().enumerate().map(candidate).filter(possible));
        if best.len() > count {
            best.select_nth_unstable_by(count - 1, better);
            best.truncate(count);
        }
    }
    best.sort_by(better);
    Ok(best)
}

/// The best texts so far that may be the result, at most as many as there are beams, best first.
struct Finished<'a> {
    config: &'a GenerationConfig,
    /// The most tokens of a text.
    most: usize,
    best: Vec<Hypothesis>,
}

impl Finished<'_> {
    fn score(&self, sum: f32, length: usize) -> f32 {
        sum / (length as f32).powf(self.config.length_penalty)
    }

    fn add(&mut self, tokens: &[u32], sum: f32, length: usize, has_ended: bool) {
        let score = self.score(sum, length);
        let place = self.best.iter().take_while(|other| other.score >= score).count();
        self.best.insert(place, Hypothesis { tokens: tokens.to_vec(), score, has_ended });
        self.best.truncate(self.config.num_beams);
    }

    /// Whether the search may end, when the best beam has this length and this sum.
    fn is_done(&self, best: f32, length: usize) -> bool {
        if self.best.len() < self.config.num_beams {
            return false;
        }
        let worst = self.best.last().expect("there is a beam at least").score;
        match self.config.early_stopping {
            EarlyStopping::Yes => true,
            EarlyStopping::No => worst >= self.score(best, length),
            EarlyStopping::Never => {
                // Sums are negative: dividing by a large number makes the most of them.
                let length = match self.config.length_penalty > 0. {
                    true => self.most,
                    false => length,
                };
                worst >= self.score(best, length)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use proptest::prelude::*;

    use super::*;
    use crate::model::tests as model;
    use crate::sampling::most_probable;
    use crate::tokens::generate_tokens;

    /// Probabilities that depend on the whole text.
    fn network(text: &[u32], size: usize, seed: u32) -> Vec<f32> {
        let mix = |state: u32, next: u32| (state ^ next).wrapping_mul(0x9E37_79B1).rotate_left(13);
        let state = text.iter().fold(mix(seed, 1), |state, token| mix(state, token + 7));
        let logit = |token: usize| (mix(state, token as u32 + 99) % 1000) as f32 / 200.;
        log_probabilities(&(0..size).map(logit).collect::<Vec<_>>()).unwrap()
    }

    fn most(config: &GenerationConfig) -> usize {
        config.most_new_tokens(0).unwrap()
    }

    fn search(config: &GenerationConfig, size: usize, seed: u32) -> Hypothesis {
        let mut texts = vec![vec![]];
        let next = |parents: &[usize], tokens: &[u32]| {
            let extended =
                |(parent, token): (&usize, &u32)| [&texts[*parent][..], &[*token]].concat();
            texts = parents.iter().zip(tokens).map(extended).collect();
            Ok(texts.iter().map(|text| network(text, size, seed)).collect())
        };
        beam_search(config, most(config), &network(&[], size, seed), next).unwrap()
    }

    /// The best of all texts.
    fn exhaustive(config: &GenerationConfig, size: usize, seed: u32) -> Hypothesis {
        let mut best: Option<Hypothesis> = None;
        let mut open = vec![(vec![], 0f32)];
        while let Some((text, sum)) = open.pop() {
            for (token, it) in network(&text, size, seed).into_iter().enumerate() {
                let (token, sum, length) = (token as u32, sum + it, text.len() + 1);
                let longer = [&text[..], &[token]].concat();
                let has_ended = config.eos_token_id.contains(&token);
                if !has_ended && length < most(config) {
                    open.push((longer, sum));
                    continue;
                }
                let score = sum / (length as f32).powf(config.length_penalty);
                if best.as_ref().is_none_or(|best| score > best.score) {
                    let tokens = if has_ended { text.clone() } else { longer };
                    best = Some(Hypothesis { tokens, score, has_ended });
                }
            }
        }
        best.unwrap()
    }

    #[test]
    fn beams_of_a_model() -> TractResult<()> {
        let model = model::with_beams();
        let config = GenerationConfig::default().with_max_new_tokens(6);
        let prompt = [4, 8, 15];
        let greedy = generate_tokens(&mut model.start()?, &prompt, &config, |_| {
            Ok(ControlFlow::Continue(()))
        })?;
        let one = generate_beams(&mut model.start()?, &prompt, &config)?;
        assert_eq!((&one.tokens, one.end), (&greedy.tokens, greedy.end));

        // The score of a text, all of it read at once.
        let score = |tokens: &[u32]| -> TractResult<f32> {
            let mut context = model.start()?;
            let mut sum = 0.;
            let mut next = context.extend(&prompt)?.to_vec();
            for token in tokens {
                sum += log_probabilities(&next)?[*token as usize];
                next = context.extend(&[*token])?.to_vec();
            }
            Ok(sum)
        };
        let mut context = model.start()?;
        let four = generate_beams(&mut context, &prompt, &config.clone().with_num_beams(4))?;
        assert_eq!(four.tokens.len(), 6);
        // The context goes on after the prompt.
        assert_eq!((context.rows(), context.tokens(0)), (1, &prompt[..]));
        let again = generate_tokens(&mut context, &[], &config, |_| Ok(ControlFlow::Continue(())))?;
        assert_eq!(again.tokens, greedy.tokens);
        assert!(score(&four.tokens)? >= score(&greedy.tokens)?);

        let full = model.clone().with_max_positions(5);
        let four = generate_beams(&mut full.start()?, &prompt, &config.clone().with_num_beams(4))?;
        assert_eq!((four.tokens.len(), four.end), (3, EndReason::ContextFull));
        let error = generate_beams(
            &mut model::without_beams().start()?,
            &prompt,
            &config.clone().with_num_beams(2),
        );
        assert!(error.unwrap_err().to_string().contains("no input beam_idx"));
        let mut rows = model.start()?;
        rows.extend_rows(&[0, 0], &[[1], [2]])?;
        let error = generate_beams(&mut rows, &prompt, &config).unwrap_err().to_string();
        assert!(error.contains("the context has 2 rows"), "{error}");
        Ok(())
    }

    /// As OpenVINO GenAI 2026.4.1 generates them.
    #[test]
    fn texts_of_genai() -> TractResult<()> {
        let model = model::with_beams();
        let config = |beams: usize, penalty: f32| {
            let config = GenerationConfig::default().with_num_beams(beams).with_max_new_tokens(24);
            config.with_eos_token_id([257]).with_length_penalty(penalty)
        };
        for (prompt, config, end, expected) in [
            (
                &[39u32, 68, 75, 75, 78][..],
                config(4, 1.),
                EndReason::MaxNewTokens,
                &[
                    224u32, 26, 154, 79, 216, 227, 170, 227, 17, 234, 108, 224, 242, 216, 205, 234,
                    199, 189, 256, 246, 72, 189, 108, 26,
                ][..],
            ),
            (
                &[39, 68, 75, 75, 78],
                config(3, 2.),
                EndReason::MaxNewTokens,
                &[
                    224, 26, 154, 169, 190, 242, 216, 72, 141, 151, 152, 190, 54, 242, 26, 0, 214,
                    170, 73, 72, 152, 26, 242, 205,
                ],
            ),
            (&[87], config(4, 0.), EndReason::EndToken, &[39, 17, 133, 70]),
        ] {
            let generated = generate_beams(&mut model.start()?, prompt, &config)?;
            assert_eq!((&*generated.tokens, generated.end), (expected, end));
        }
        Ok(())
    }

    /// As transformers 5.0.0 generates them.
    #[test]
    fn texts_of_transformers() -> TractResult<()> {
        let model = model::with_beams();
        let config = GenerationConfig::default().with_num_beams(3).with_max_new_tokens(16);
        let config = config.with_eos_token_id([26, 242, 165, 0]);
        for (penalty, early, end, expected) in [
            (
                1.,
                EarlyStopping::No,
                EndReason::MaxNewTokens,
                &[79u32, 163, 79, 141, 138, 216, 138, 64, 169, 194, 198, 97, 79, 17, 79, 39][..],
            ),
            (
                1.,
                EarlyStopping::Yes,
                EndReason::EndToken,
                &[79, 163, 79, 141, 138, 216, 199, 9, 122],
            ),
            (
                1.5,
                EarlyStopping::No,
                EndReason::EndToken,
                &[64, 169, 163, 141, 237, 234, 54, 131, 17, 73, 194, 70, 151, 79, 95],
            ),
            (
                1.5,
                EarlyStopping::Yes,
                EndReason::EndToken,
                &[64, 169, 163, 141, 237, 234, 54, 131, 17, 73, 194, 70, 151, 4],
            ),
        ] {
            let config = config.clone().with_repetition_penalty(penalty).with_early_stopping(early);
            let generated = generate_beams(&mut model.start()?, &[127, 137, 216], &config)?;
            assert_eq!((&*generated.tokens, generated.end), (expected, end));
        }
        Ok(())
    }

    #[test]
    fn wrong_probabilities() {
        let config = GenerationConfig::default().with_num_beams(2).with_max_new_tokens(2);
        let error = |first: &[f32], rows: Vec<Vec<f32>>| {
            beam_search(&config, 2, first, |_, _| Ok(rows.clone())).unwrap_err().to_string()
        };
        assert!(error(&[0., f32::NAN], vec![]).contains("token 1 is NaN"));
        assert!(error(&[f32::NEG_INFINITY], vec![]).contains("no token is possible"));
        assert!(error(&[-1., -1.], vec![vec![-1.]]).contains("for 1 beams, but must be for 2"));
    }

    /// More end tokens than there are beams do not leave the others without a token.
    #[test]
    fn many_end_tokens() {
        let config = GenerationConfig::default().with_num_beams(2).with_eos_token_id([0, 1, 2, 3]);
        let config = config.with_max_new_tokens(3).with_early_stopping(EarlyStopping::Never);
        // Only the last one goes on. It is the least probable at first, and the only one then.
        let first = [0.24f32, 0.24, 0.24, 0.18, 0.1].map(f32::ln);
        let then = [0.001f32, 0.001, 0.001, 0.001, 0.996].map(f32::ln).to_vec();
        let next = |_: &[usize], tokens: &[u32]| Ok(vec![then.clone(); tokens.len()]);
        let found = beam_search(&config, 3, &first, next).unwrap();
        assert_eq!((found.tokens, found.has_ended), (vec![4, 4, 4], false));
    }

    /// What transformers 5.0.0 gives: the best text that ends is found at once, but one that goes on for ever has a better score at
    /// its end.
    #[test]
    fn early_stopping_of_transformers() {
        for (early, expected) in [
            (EarlyStopping::No, vec![0]),
            (EarlyStopping::Yes, vec![0]),
            (EarlyStopping::Never, [&[0][..], &[1; 19]].concat()),
        ] {
            let config = GenerationConfig::default().with_num_beams(2).with_eos_token_id([2]);
            let config = config.with_max_new_tokens(20).with_early_stopping(early);
            let mut steps = 0;
            let found = beam_search(&config, 20, &[0.6f32, 0., 0.4].map(f32::ln), |_, tokens| {
                steps += 1;
                let after = [[0., 0.15, 0.85], [0f32, 1., 0.]][usize::from(steps > 1)].map(f32::ln);
                Ok(vec![after.to_vec(); tokens.len()])
            });
            assert_eq!(found.unwrap().tokens, expected, "{early:?}");
        }
    }

    #[test]
    fn no_end_before_min_new_tokens() {
        let config = GenerationConfig::default().with_num_beams(2).with_eos_token_id([1]);
        let config = config.with_max_new_tokens(9);
        let row = vec![0.1f32.ln(), 0.9f32.ln()];
        for (least, expected) in [(0, 0), (1, 1), (4, 4)] {
            let config = config.clone().with_min_new_tokens(least);
            let next = |_: &[usize], tokens: &[u32]| Ok(vec![row.clone(); tokens.len()]);
            let found = beam_search(&config, 9, &row, next).unwrap();
            assert_eq!((found.tokens, found.has_ended), (vec![0; expected], true));
        }
    }

    proptest! {
        #[test]
        fn one_beam_is_greedy(seed: u32, size in 2usize..9, length in 1usize..8, ends: bool) {
            let config = GenerationConfig::default().with_num_beams(1).with_max_new_tokens(length);
            let config = config.with_eos_token_id(ends.then_some(0));
            let mut text = vec![];
            let mut has_ended = false;
            while text.len() < length && !has_ended {
                let token = most_probable(&network(&text, size, seed)).unwrap();
                has_ended = ends && token == 0;
                text.extend((!has_ended).then_some(token));
            }
            let found = search(&config, size, seed);
            prop_assert_eq!((found.tokens, found.has_ended), (text, has_ended));
        }

        #[test]
        fn enough_beams_find_the_best(
            seed: u32,
            size in 2usize..4,
            length in 1usize..5,
            penalty in prop::sample::select(vec![-1f32, 0., 0.5, 1., 2.]),
        ) {
            let config = GenerationConfig::default().with_num_beams(256).with_eos_token_id([1]);
            let config = config.with_max_new_tokens(length).with_length_penalty(penalty);
            let (found, expected) = (search(&config, size, seed), exhaustive(&config, size, seed));
            prop_assert!((found.score - expected.score).abs() < 1e-5);
            prop_assert_eq!(found.tokens, expected.tokens);
        }

        /// Of two tokens, one of which ends, two beams lose no text: a search that never ends early finds the best.
        #[test]
        fn a_search_that_ends_never_early(
            seed: u32,
            length in 1usize..12,
            penalty in prop::sample::select(vec![-1f32, 0., 0.5, 1., 2.]),
        ) {
            let config = GenerationConfig::default().with_num_beams(2).with_eos_token_id([1]);
            let config = config.with_max_new_tokens(length).with_length_penalty(penalty);
            let config = config.with_early_stopping(EarlyStopping::Never);
            let (found, expected) = (search(&config, 2, seed), exhaustive(&config, 2, seed));
            prop_assert!((found.score - expected.score).abs() < 1e-5);
            prop_assert_eq!(found.tokens, expected.tokens);
        }

        #[test]
        fn beams_end(seed: u32, beams in 1usize..5, early in 0usize..3) {
            let early = [EarlyStopping::Yes, EarlyStopping::No, EarlyStopping::Never][early];
            let config = GenerationConfig::default().with_num_beams(beams).with_eos_token_id([1, 2]);
            let config = config.with_max_new_tokens(20).with_early_stopping(early);
            let found = search(&config, 6, seed);
            prop_assert!(found.score < 0. && found.tokens.len() <= 20);
            prop_assert!(found.has_ended || found.tokens.len() == 20);
        }
    }
}
