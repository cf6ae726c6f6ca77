//! Which token comes next, from the logits of all tokens.

use std::cmp::Ordering;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_core::internal::*;

use crate::config::GenerationConfig;

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
}

impl Sampler {
    /// A sampler with the random numbers of the seed, or with others each time if there is none. Another version of this crate may
    /// draw others with the same seed.
    ///
    /// # Errors
    ///
    /// A setting is out of its range.
    pub fn new(config: &GenerationConfig) -> TractResult<Sampler> {
        config.validate()?;
        let seed = config.seed.unwrap_or_else(rand::random);
        Ok(Sampler { config: config.clone(), random: StdRng::seed_from_u64(seed) })
    }

    /// The next token, from the logits of the whole vocabulary and the tokens of the text so far.
    ///
    /// # Errors
    ///
    /// A logit is NaN or infinite, or there is none.
    pub fn next(&mut self, mut logits: Vec<f32>, text: &[u32]) -> TractResult<u32> {
        let config = &self.config;
        penalize_repetitions(&mut logits, text, config.repetition_penalty);
        if !config.do_sample {
            return most_probable(&logits);
        }
        // With the largest one at zero, none overflows.
        let largest = logits[check(&logits)?];
        logits.iter_mut().for_each(|logit| *logit = (*logit - largest) / config.temperature);
        keep_top_k(&mut logits, config.top_k);
        keep_top_p(&mut logits, config.top_p);
        keep_min_p(&mut logits, config.min_p);
        draw(&logits, &mut self.random)
    }
}

/// The token with the largest logit, and of those the first one.
///
/// # Errors
///
/// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
pub(crate) fn most_probable(logits: &[f32]) -> TractResult<u32> {
    Ok(check(logits)? as u32)
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

/// Makes all but the `top_k` largest logits minus infinity. Those equal to the smallest of them stay, too. 0 keeps all.
fn keep_top_k(logits: &mut [f32], top_k: usize) {
    if top_k == 0 || top_k >= logits.len() {
        return;
    }
    let mut sorted = logits.to_vec();
    let (_, least, _) = sorted.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a));
    let least = *least;
    logits.iter_mut().filter(|logit| **logit < least).for_each(|logit| *logit = f32::NEG_INFINITY);
}

/// Makes all but the most probable tokens, as many as have the probability `top_p` together, minus infinity. One stays at least.
fn keep_top_p(logits: &mut [f32], top_p: f32) {
    if top_p >= 1. {
        return;
    }
    let weights = weights(logits);
    let mut order: Vec<usize> = (0..logits.len()).filter(|token| weights[*token] > 0.).collect();
    // Of equally probable tokens, the first ones stay.
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let enough = f64::from(top_p) * weights.iter().sum::<f64>();
    let mut sum = 0.;
    let mut kept = 0;
    while kept < order.len() && (kept == 0 || sum < enough) {
        sum += weights[order[kept]];
        kept += 1;
    }
    order[kept..].iter().for_each(|token| logits[*token] = f32::NEG_INFINITY);
}

/// Makes all tokens minus infinity that have less than this part of the probability of the most probable one.
fn keep_min_p(logits: &mut [f32], min_p: f32) {
    let weights = weights(logits);
    let few = |(_, weight): &(&mut f32, f64)| *weight < f64::from(min_p);
    logits.iter_mut().zip(weights).filter(few).for_each(|(logit, _)| *logit = f32::NEG_INFINITY);
}

/// Makes tokens impossible.
pub(crate) fn exclude(logits: &mut [f32], tokens: &[u32]) {
    for token in tokens {
        if let Some(logit) = logits.get_mut(*token as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// Draws a token with the probabilities that the logits stand for.
///
/// # Errors
///
/// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
fn draw(logits: &[f32], random: &mut impl RngExt) -> TractResult<u32> {
    let largest = check(logits)?;
    let weights = weights(logits);
    let mut left = random.random::<f64>() * weights.iter().sum::<f64>();
    for (token, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0. {
            return Ok(token as u32);
        }
    }
    // Sums are rounded.
    Ok(largest as u32)
}

/// Logarithms of the probabilities that the logits stand for.
///
/// # Errors
///
/// A logit is NaN or infinite (minus infinity is a token that is not possible), or there is none.
pub(crate) fn log_probabilities(logits: &[f32]) -> TractResult<Vec<f32>> {
    let largest = f64::from(logits[check(logits)?]);
    let sum = weights(logits).iter().sum::<f64>().ln() + largest;
    Ok(logits.iter().map(|logit| (f64::from(*logit) - sum) as f32).collect())
}

/// The probabilities that the logits stand for, but for a factor: the largest is 1.
fn weights(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().map(|logit| f64::from(logit - largest).exp()).collect()
}

/// The position of the first of the largest logits.
fn check(logits: &[f32]) -> TractResult<usize> {
    let mut largest = 0;
    for (token, logit) in logits.iter().enumerate() {
        match logit.partial_cmp(&logits[largest]) {
            _ if *logit == f32::INFINITY => bail!("the logit of token {token} is infinite"),
            None => bail!("the logit of token {token} is NaN"),
            Some(Ordering::Greater) => largest = token,
            Some(_) => (),
        }
    }
    match logits.get(largest) {
        None => bail!("there are no logits, but there must be one for each token"),
        Some(&f32::NEG_INFINITY) => bail!("all logits are minus infinity: no token is possible"),
        Some(_) => Ok(largest),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOT: f32 = f32::NEG_INFINITY;

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

    #[test]
    fn top_k_keeps_ties() {
        let mut logits = [1., 4., 2., 2., 3.];
        keep_top_k(&mut logits, 3);
        assert_eq!(logits, [NOT, 4., 2., 2., 3.]);
    }

    #[test]
    fn top_p_keeps_what_is_needed() {
        let logits = [0.5f32, 0.125, 0.25, 0.125].map(f32::ln);
        for (top_p, expected) in [(0.1, 1), (0.45, 1), (0.6, 2), (0.8, 3), (0.95, 4), (1., 4)] {
            let mut kept = logits;
            keep_top_p(&mut kept, top_p);
            assert_eq!(kept.iter().filter(|logit| **logit > NOT).count(), expected, "{top_p}");
            assert!(kept[0] > NOT);
        }
    }

    #[test]
    fn min_p_keeps_what_is_probable_enough() {
        let logits = [0.5f32, 0.125, 0.25, 0.125].map(f32::ln);
        for (min_p, expected) in [(0., 4), (0.2, 4), (0.3, 2), (0.6, 1), (1., 1)] {
            let mut kept = logits;
            keep_min_p(&mut kept, min_p);
            assert_eq!(kept.iter().filter(|logit| **logit > NOT).count(), expected, "{min_p}");
            assert!(kept[0] > NOT);
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
        let mut random = StdRng::seed_from_u64(1);
        let mut counts = [0; 4];
        for _ in 0..8000 {
            counts[draw(&logits, &mut random)? as usize] += 1;
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
        fn what_is_kept_is_the_largest(
            logits in prop::collection::vec((-40i8..40).prop_map(|it| f32::from(it) / 8.), 1..40),
            top_k in 0usize..50,
            top_p in 0.01f32..1.,
        ) {
            let mut kept = logits.clone();
            keep_top_k(&mut kept, top_k);
            let count = |kept: &[f32]| kept.iter().filter(|logit| **logit > NOT).count();
            let all = if top_k == 0 { logits.len() } else { top_k.min(logits.len()) };
            prop_assert!(count(&kept) >= all);
            keep_top_p(&mut kept, top_p);
            prop_assert!(count(&kept) >= 1);
            let least = kept.iter().copied().filter(|it| *it > NOT).fold(f32::INFINITY, f32::min);
            for (kept, logit) in kept.iter().zip(&logits) {
                prop_assert!(kept == logit || (*kept == NOT && *logit <= least));
            }
            prop_assert_eq!(most_probable(&kept).unwrap(), most_probable(&logits).unwrap());
        }

        #[test]
        fn little_of_top_p_is_greedy(logits in prop::collection::vec(-5f32..5., 1..40), seed: u64) {
            let config = GenerationConfig::default().with_do_sample(true).with_top_p(1e-6).with_seed(seed);
            let token = Sampler::new(&config).unwrap().next(logits.clone(), &[]).unwrap();
            prop_assert_eq!(token, most_probable(&logits).unwrap());
        }
    }
}
