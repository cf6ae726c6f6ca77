//! Which token comes next, from the logits of all tokens.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_core::internal::*;

use crate::config::GenerationConfig;
use crate::system;

/// Chooses tokens as a [`GenerationConfig`] says: first the penalty for repetitions, then temperature, top-k, top-p and
/// min-p, in the order of the Python library transformers.
///
/// ```
/// use tract_openvino_generation::{GenerationConfig, Sampler};
///
/// let mut sampler = Sampler::new(&GenerationConfig::default())?;
/// assert_eq!(sampler.next(vec![0.5, 2., 1.], &[])?, 1);
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug)]
pub struct Sampler {
    config: GenerationConfig,
    random: StdRng,
    /// Room for the next token's.
    candidates: Vec<Candidate>,
}

/// A token that may be drawn.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// How far its logit is below the largest one, divided by the temperature.
    distance: f32,
    token: u32,
    /// Its probability, divided by that of the most probable token.
    weight: f32,
}

impl Candidate {
    /// Orders candidates: the most probable ones come first, and of equally probable ones the first tokens.
    fn rank(&self) -> u64 {
        // A number from 0 has the order of its bits.
        (u64::from(self.distance.to_bits()) << 32) | u64::from(self.token)
    }
}

impl Sampler {
    /// A sampler with the random numbers of the seed, or with others each time if there is none. Another version of this crate may
    /// draw others with the same seed.
    ///
    /// # Errors
    ///
    /// A setting is out of its range, or there is no seed where there are no random numbers to choose it by.
    pub fn new(config: &GenerationConfig) -> TractResult<Sampler> {
        Sampler::with_seed_of(config, system::seed)
    }

    /// A sampler with another seed where the settings have none.
    fn with_seed_of(
        config: &GenerationConfig,
        other: impl Fn() -> Option<u64>,
    ) -> TractResult<Sampler> {
        config.validate()?;
        let seed = match config.seed {
            Some(seed) => seed,
            None if config.do_sample => other().context(
                "seed is missing, and there are no random numbers here to choose one by: it must be given",
            )?,
            // Nothing is drawn.
            None => 0,
        };
        let random = StdRng::seed_from_u64(seed);
        Ok(Sampler { config: config.clone(), random, candidates: vec![] })
    }

    /// The next token, from the logits of the whole vocabulary and the tokens of the text so far.
    ///
    /// # Errors
    ///
    /// A logit is NaN or infinite, or there is none.
    pub fn next(&mut self, mut logits: Vec<f32>, text: &[u32]) -> TractResult<u32> {
        penalize_repetitions(&mut logits, text, self.config.repetition_penalty);
        if !self.config.do_sample {
            return most_probable(&logits);
        }
        let candidates = &mut self.candidates;
        choose(&logits, &self.config, candidates)?;
        let sum: f64 = candidates.iter().map(|it| f64::from(it.weight)).sum();
        let mut left = self.random.random::<f64>() * sum;
        for candidate in &*candidates {
            left -= f64::from(candidate.weight);
            if left < 0. {
                return Ok(candidate.token);
            }
        }
        // Sums are rounded.
        let most = candidates.iter().min_by_key(|it| it.rank());
        Ok(most.expect("the most probable token stays").token)
    }
}

/// The token with the largest logit, and of those the first one.
///
/// # Errors
///
/// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
pub(crate) fn most_probable(logits: &[f32]) -> TractResult<u32> {
    let Maxima { of_blocks, largest } = Maxima::new(logits)?;
    let block = of_blocks.iter().position(|it| *it == largest).expect("it is that of a block");
    let in_block = logits[block * BLOCK..].iter().position(|it| *it == largest);
    Ok((block * BLOCK + in_block.expect("it is in this block")) as u32)
}

/// Divides the logits of tokens that are in the text by the penalty, or multiplies them if they are negative.
pub(crate) fn penalize_repetitions(logits: &mut [f32], text: &[u32], penalty: f32) {
    if penalty == 1. {
        return;
    }
    let mut tokens = text.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    for token in tokens {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit = if *logit < 0. { *logit * penalty } else { *logit / penalty };
        }
    }
}

/// The tokens that temperature, top-k, top-p and min-p leave. The most probable one is among them.
///
/// # Errors
///
/// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
fn choose(
    logits: &[f32],
    config: &GenerationConfig,
    candidates: &mut Vec<Candidate>,
) -> TractResult<()> {
    let maxima = Maxima::new(logits)?;
    // With the largest one at zero, none overflows.
    let distance = |logit: f32| (maxima.largest - logit) / config.temperature;
    // Tokens as far away as the last of the top k stay, too.
    let farthest = distance(maxima.top(logits, config.top_k)).min(f32::MAX);
    candidates.clear();
    for (block, most) in maxima.of_blocks.iter().enumerate() {
        if distance(*most) > farthest {
            continue;
        }
        for (token, logit) in (block * BLOCK..).zip(logits[block * BLOCK..].iter().take(BLOCK)) {
            let distance = distance(*logit);
            if distance <= farthest {
                let (token, weight) = (token as u32, (-distance).exp());
                candidates.push(Candidate { distance, token, weight });
            }
        }
    }
    keep_top_p(candidates, config.top_p);
    keep_min_p(candidates, config.min_p);
    Ok(())
}

/// Keeps the most probable candidates, as many as have the probability `top_p` together. One stays at least.
fn keep_top_p(candidates: &mut Vec<Candidate>, top_p: f32) {
    if top_p >= 1. {
        return;
    }
    let sum = |candidates: &[Candidate]| -> f64 {
        candidates.iter().map(|it| f64::from(it.weight)).sum()
    };
    let all = sum(candidates);
    let enough = f64::from(top_p) * all;
    // Even if all had less than this, they would have less than what may go.
    let least = (all - enough) / (2 * candidates.len()) as f64;
    candidates.retain(|it| f64::from(it.weight) >= least);
    // The first `kept` have `before` together, and are not enough; the first `end` are.
    let (mut kept, mut before, mut end) = (0, 0., candidates.len());
    while end - kept > 1 {
        let middle = (end - kept) / 2;
        let open = &mut candidates[kept..end];
        open.select_nth_unstable_by_key(middle, Candidate::rank);
        let with_first = before + sum(&open[..middle]);
        if with_first >= enough {
            end = kept + middle;
        } else {
            (kept, before) = (kept + middle, with_first);
        }
    }
    candidates.truncate(end);
}

/// Keeps the candidates that have at least this part of the probability of the most probable one.
fn keep_min_p(candidates: &mut Vec<Candidate>, min_p: f32) {
    if min_p > 0. {
        candidates.retain(|it| it.weight >= min_p);
    }
}

/// Makes tokens impossible.
pub(crate) fn exclude(logits: &mut [f32], tokens: &[u32]) {
    for token in tokens {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Logarithms of the probabilities that the logits stand for.
///
/// # Errors
///
/// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
pub(crate) fn log_probabilities(logits: &[f32]) -> TractResult<Vec<f32>> {
    let Maxima { largest, .. } = Maxima::new(logits)?;
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    let sum = sum.ln() + f64::from(largest);
    Ok(logits.iter().map(|logit| (f64::from(*logit) - sum) as f32).collect())
}

/// Logits in a block.
const BLOCK: usize = 128;

/// The largest logit of a block, and whether none is NaN or infinite. With indices, and not inlined, it is compiled to vectors.
#[inline(never)]
#[allow(clippy::needless_range_loop)]
fn maximum(block: &[f32]) -> (f32, bool) {
    // As many as fit any vector.
    const LANES: usize = 16;
    let (mut lanes, mut faults) = ([f32::NEG_INFINITY; LANES], [0u32; LANES]);
    let (chunks, rest) = block.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let logit = chunk[lane];
            lanes[lane] = if logit > lanes[lane] { logit } else { lanes[lane] };
            faults[lane] |= u32::from(logit.is_nan() | (logit == f32::INFINITY));
        }
    }
    let is_number = faults.iter().all(|it| *it == 0) && rest.iter().all(|it| *it < f32::INFINITY);
    (lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max), is_number)
}

/// The largest logits.
#[derive(Debug)]
struct Maxima {
    /// The largest of each block, with which most blocks need not be looked at again.
    of_blocks: Vec<f32>,
    largest: f32,
}

impl Maxima {
    /// Those of logits.
    ///
    /// # Errors
    ///
    /// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
    fn new(logits: &[f32]) -> TractResult<Maxima> {
        let mut are_numbers = true;
        let of_blocks = logits.chunks(BLOCK).map(|block| {
            let (most, is_number) = maximum(block);
            are_numbers &= is_number;
            most
        });
        let of_blocks: Vec<f32> = of_blocks.collect();
        if !are_numbers {
            let token = logits.iter().position(|it| it.is_nan() || *it == f32::INFINITY);
            let token = token.expect("there is one");
            let what = if logits[token].is_nan() { "NaN" } else { "infinite" };
            bail!("the logit of token {token} is {what}");
        }
        ensure!(!logits.is_empty(), "there are no logits, but there must be one for each token");
        let largest = of_blocks.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let is_possible = largest > f32::NEG_INFINITY;
        ensure!(is_possible, "all logits are minus infinity: no token is possible");
        Ok(Maxima { of_blocks, largest })
    }

    /// The last of the `top_k` largest logits, or minus infinity if there are fewer. 0 is all.
    fn top(&self, logits: &[f32], top_k: usize) -> f32 {
        let mut least = f32::NEG_INFINITY;
        if top_k == 0 || top_k >= logits.len() {
            return least;
        }
        let mut top: Vec<f32> = vec![];
        let cut = |top: &mut Vec<f32>| {
            let (_, last, _) = top.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a));
            let last = *last;
            top.truncate(top_k);
            last
        };
        for (block, most) in logits.chunks(BLOCK).zip(&self.of_blocks) {
            if *most > least {
                top.extend(block.iter().filter(|logit| **logit > least));
            }
            if top.len() >= 2 * top_k + BLOCK {
                least = cut(&mut top);
            }
        }
        if top.len() < top_k { f32::NEG_INFINITY } else { cut(&mut top) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOT: f32 = f32::NEG_INFINITY;

    /// Where there are no random numbers, only what needs none has no seed.
    #[test]
    fn seeds_that_nobody_gives() -> TractResult<()> {
        let config = GenerationConfig::default();
        let drawing = config.clone().with_do_sample(true).with_temperature(100.);
        assert_eq!(Sampler::with_seed_of(&config, || None)?.next(vec![1., 2.], &[])?, 1);
        let error = Sampler::with_seed_of(&drawing, || None).unwrap_err().to_string();
        assert!(error.contains("seed is missing"), "{error}");
        let draws = |config: &GenerationConfig, seed| -> TractResult<Vec<u32>> {
            let mut sampler = Sampler::with_seed_of(config, || seed)?;
            (0..40).map(|_| sampler.next(vec![1., 2.], &[])).collect()
        };
        assert_eq!(draws(&drawing.clone().with_seed(7), None)?, draws(&drawing, Some(7))?);
        assert_ne!(draws(&drawing, Some(8))?, draws(&drawing, Some(7))?);
        Ok(())
    }

    #[test]
    fn the_first_of_equal_logits() -> TractResult<()> {
        assert_eq!(most_probable(&[1., 3., 3., NOT])?, 1);
        Ok(())
    }

    #[test]
    fn logits_that_are_no_numbers() {
        for (logits, error) in [
            (vec![1., f32::NAN], "the logit of token 1 is NaN"),
            (vec![f32::NAN, 1.], "the logit of token 0 is NaN"),
            (vec![1., f32::INFINITY], "the logit of token 1 is infinite"),
            (vec![NOT, NOT], "no token is possible"),
            (vec![], "there are no logits"),
        ] {
            for config in
                [GenerationConfig::default(), GenerationConfig::default().with_do_sample(true)]
            {
                let next = Sampler::new(&config).unwrap().next(logits.clone(), &[]);
                let found = next.unwrap_err().to_string();
                assert!(found.contains(error), "{found}");
            }
            assert!(log_probabilities(&logits).is_err());
        }
    }

    #[test]
    fn repetitions_become_less_probable() {
        let mut logits = [2., -2., 3.];
        penalize_repetitions(&mut logits, &[0, 1, 0, 99], 2.);
        assert_eq!(logits, [1., -4., 3.]);
    }

    /// A configuration that keeps all tokens.
    fn all() -> GenerationConfig {
        GenerationConfig::default().with_do_sample(true).with_top_k(0)
    }

    /// The tokens that stay, with their probabilities, and 0 for the others.
    fn kept(logits: &[f32], config: &GenerationConfig) -> Vec<f64> {
        let mut candidates = vec![];
        choose(logits, config, &mut candidates).unwrap();
        let sum: f64 = candidates.iter().map(|it| f64::from(it.weight)).sum();
        let mut probabilities = vec![0.; logits.len()];
        for candidate in candidates {
            let probability = &mut probabilities[candidate.token as usize];
            assert_eq!(*probability, 0., "token {} is there twice", candidate.token);
            *probability = f64::from(candidate.weight) / sum;
        }
        probabilities
    }

    fn count(probabilities: &[f64]) -> usize {
        probabilities.iter().filter(|it| **it > 0.).count()
    }

    /// The processors of transformers, one after the other, each on the logits of the whole vocabulary.
    fn literally(logits: &[f32], config: &GenerationConfig) -> Vec<f64> {
        let mut logits: Vec<f64> =
            logits.iter().map(|it| f64::from(*it) / f64::from(config.temperature)).collect();
        let probabilities = |logits: &[f64]| {
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logits.iter().map(|it| (it - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            weights.into_iter().map(|it| it / sum).collect::<Vec<f64>>()
        };
        if (1..logits.len()).contains(&config.top_k) {
            let mut sorted = logits.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let least = sorted[config.top_k - 1];
            logits.iter_mut().filter(|it| **it < least).for_each(|it| *it = f64::NEG_INFINITY);
        }
        let of_all = probabilities(&logits);
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| of_all[*b].total_cmp(&of_all[*a]));
        let mut before = 0.;
        for (place, token) in order.into_iter().enumerate() {
            if place > 0 && before >= f64::from(config.top_p) && config.top_p < 1. {
                logits[token] = f64::NEG_INFINITY;
            }
            before += of_all[token];
        }
        let of_all = probabilities(&logits);
        let most = of_all.iter().copied().fold(0., f64::max);
        for (logit, probability) in logits.iter_mut().zip(of_all) {
            if probability < f64::from(config.min_p) * most {
                *logit = f64::NEG_INFINITY;
            }
        }
        probabilities(&logits)
    }

    #[test]
    fn top_k_keeps_ties() {
        let kept = kept(&[1., 4., 2., 2., 3.], &all().with_top_k(3));
        let stay: Vec<bool> = kept.iter().map(|it| *it > 0.).collect();
        assert_eq!(stay, [false, true, true, true, true]);
    }

    #[test]
    fn top_p_keeps_what_is_needed() {
        let logits = [0.5f32, 0.125, 0.25, 0.125].map(f32::ln);
        for (top_p, expected) in [(0.1, 1), (0.45, 1), (0.6, 2), (0.8, 3), (0.95, 4), (1., 4)] {
            let kept = kept(&logits, &all().with_top_p(top_p));
            assert_eq!(count(&kept), expected, "{top_p}");
            assert!(kept[0] > 0.);
        }
        // Of equally probable tokens, the first ones stay.
        let kept = kept(&[0.; 200], &all().with_top_p(0.25));
        assert!(count(&kept) == 50 && kept[49] > 0., "{kept:?}");
    }

    #[test]
    fn min_p_keeps_what_is_probable_enough() {
        let logits = [0.5f32, 0.125, 0.25, 0.125].map(f32::ln);
        for (min_p, expected) in [(0., 4), (0.2, 4), (0.3, 2), (0.6, 1), (1., 1)] {
            let kept = kept(&logits, &all().with_min_p(min_p));
            assert_eq!(count(&kept), expected, "{min_p}");
            assert!(kept[0] > 0.);
        }
    }

    #[test]
    fn min_p_is_asked_for() -> TractResult<()> {
        let config = GenerationConfig::default().with_do_sample(true).with_min_p(0.9).with_seed(1);
        let mut sampler = Sampler::new(&config)?;
        for _ in 0..50 {
            assert_eq!(sampler.next(vec![1., 1.2, 1., 1.], &[])?, 1);
        }
        Ok(())
    }

    #[test]
    fn any_temperature_is_possible() -> TractResult<()> {
        for temperature in [1e-45, 1e-39, f32::MAX] {
            let config =
                GenerationConfig::default().with_do_sample(true).with_temperature(temperature);
            let token = Sampler::new(&config)?.next(vec![-3., 9., 8., NOT], &[])?;
            assert!(token == 1 || temperature > 1., "{temperature} gives {token}");
        }
        Ok(())
    }

    #[test]
    fn draws_follow_the_probabilities() -> TractResult<()> {
        let logits = [0.5f32, 0.125, 0., 0.375].map(f32::ln);
        let mut sampler = Sampler::new(&all().with_seed(1))?;
        let mut counts = [0; 4];
        for _ in 0..8000 {
            counts[sampler.next(logits.to_vec(), &[])? as usize] += 1;
        }
        for (count, expected) in counts.into_iter().zip([4000, 1000, 0, 3000]) {
            assert!(i32::abs(count - expected) < 200, "{counts:?}");
        }
        assert_eq!(counts[2], 0);
        Ok(())
    }

    #[test]
    fn a_seed_gives_the_same_tokens() -> TractResult<()> {
        let config = GenerationConfig::default().with_do_sample(true).with_seed(3);
        let draw = || {
            let mut sampler = Sampler::new(&config)?;
            (0..20).map(|_| sampler.next(vec![0.; 40], &[])).collect::<TractResult<Vec<u32>>>()
        };
        assert_eq!(draw()?, draw()?);
        Ok(())
    }

    proptest! {
        #[test]
        fn probabilities_add_up(logits in prop::collection::vec(-50f32..50., 1..40)) {
            let sum: f64 =
                log_probabilities(&logits).unwrap().iter().map(|it| f64::from(*it).exp()).sum();
            prop_assert!((sum - 1.).abs() < 1e-4, "{}", sum);
        }

        #[test]
        fn what_is_kept_is_what_the_processors_keep(
            logits in prop::collection::vec((-40i8..40).prop_map(|it| f32::from(it) / 8.), 1..400),
            impossible in prop::collection::vec(0u32..400, 0..9),
            temperature in prop::sample::select(vec![0.25f32, 0.7, 1., 2.]),
            top_k in prop_oneof![Just(0usize), 1..50usize, 1..400usize],
            top_p in prop_oneof![Just(1f32), 0.01f32..1.],
            min_p in prop_oneof![Just(0f32), 0f32..0.5],
        ) {
            let mut logits = logits;
            exclude(&mut logits[1..], &impossible);
            let config = all().with_temperature(temperature).with_top_k(top_k);
            let config = config.with_top_p(top_p).with_min_p(min_p);
            let (found, expected) = (kept(&logits, &config), literally(&logits, &config));
            for (token, (found, expected)) in found.iter().zip(&expected).enumerate() {
                prop_assert!(
                    (found - expected).abs() <= 1e-5 * expected,
                    "token {} has {}, but should have {}", token, found, expected
                );
            }
        }

        #[test]
        fn the_most_probable_is_the_first_of_the_largest(
            logits in prop::collection::vec((-9i8..9).prop_map(f32::from), 1..400),
        ) {
            let largest = logits.iter().copied().fold(NOT, f32::max);
            let first = logits.iter().position(|it| *it == largest).unwrap();
            prop_assert_eq!(most_probable(&logits).unwrap(), first as u32);
        }

        #[test]
        fn little_of_top_p_is_greedy(logits in prop::collection::vec(-5f32..5., 1..40), seed: u64) {
            let config = GenerationConfig::default().with_do_sample(true).with_top_p(1e-6).with_seed(seed);
            let token = Sampler::new(&config).unwrap().next(logits.clone(), &[]).unwrap();
            prop_assert_eq!(token, most_probable(&logits).unwrap());
        }
    }
}
