//! How long the choice of a token takes, from the logits of a large vocabulary: milliseconds for each setting.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_openvino_generation::Sampler;
use tract_openvino_generation::prelude::*;

/// The one of the tool.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// That of Qwen2.
const VOCABULARY: usize = 152_000;

fn main() -> TractResult<()> {
    let mut random = StdRng::seed_from_u64(1);
    // The sum of several is nearly normal: a few tokens are far above the others.
    let mut logit = || (0..8).map(|_| random.random_range(-1f32..1.)).sum::<f32>();
    let logits: Vec<f32> = (0..VOCABULARY).map(|_| logit()).collect();
    let sampled = GenerationConfig::default().with_do_sample(true).with_seed(1);
    for (name, config) in [
        ("greedy", GenerationConfig::default()),
        ("top-k 20, top-p 0.8", sampled.clone().with_top_k(20).with_top_p(0.8)),
        (
            "top-p 0.95, temperature 0.7",
            sampled.clone().with_top_k(0).with_top_p(0.95).with_temperature(0.7),
        ),
        ("temperature 2", sampled.with_top_k(0).with_temperature(2.)),
    ] {
        let mut sampler = Sampler::new(&config)?;
        let mut times = vec![];
        for _ in 0..101 {
            let logits = logits.clone();
            let started = Instant::now();
            sampler.next(logits, &[])?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("{name}: {:.3} ms", times[times.len() / 2]);
    }
    Ok(())
}
