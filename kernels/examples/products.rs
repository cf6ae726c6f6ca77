//! Products of a matrix with a constant one, on tract and on the kernels, beside what the processor can do: the tables of
//! `docs/tract.md`.
//!
//! ```text
//! cargo run --release -p tract-openvino-kernels --example products
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use pulp::{Simd, WithSimd};
use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_openvino_kernels::{Vectors, WithKernels};

/// Rows, columns and steps: of BERT, and of convolutions of ResNet-50.
const SHAPES: [[usize; 3]; 5] =
    [[128, 3072, 768], [3072, 128, 768], [768, 128, 3072], [64, 3136, 576], [256, 196, 2304]];

fn main() -> TractResult<()> {
    let peak = fastest(|| {
        black_box(Vectors::detect().run(Peak));
    });
    let peak = Peak::operations() / peak.as_secs_f64() / 1e9;
    println!("peak: {peak:.0} GFLOPS");
    println!(
        "| m, n, k | GFLOPS of tract | GFLOPS of tract-openvino-kernels | share of {peak:.0} |"
    );
    println!("| --- | ---: | ---: | ---: |");
    for [m, n, k] in SHAPES {
        let data: TValue = Tensor::from_shape(&[m, k], &numbers(m * k))?.into();
        let gflops = |run: &dyn Fn(TVec<TValue>) -> TractResult<TVec<TValue>>| {
            let time = fastest(|| drop(run(tvec!(data.clone())).expect("the product runs")));
            2. * (m * n * k) as f64 / time.as_secs_f64() / 1e9
        };
        let of_tract = model(m, n, k)?.into_optimized()?.into_runnable()?;
        let with_kernels = model(m, n, k)?.into_runnable_with_kernels()?;
        let (tract, ours) =
            (gflops(&|data| of_tract.run(data)), gflops(&|data| with_kernels.run(data)));
        println!("| {m}, {n}, {k} | {tract:.0} | {ours:.0} | {:.2} |", ours / peak);
    }
    Ok(())
}

fn model(m: usize, n: usize, k: usize) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let data = model.add_source("data", f32::fact([m, k]))?;
    let weights = model.add_const("weights", Tensor::from_shape(&[k, n], &numbers(k * n))?)?;
    let product = EinSum::new("mk,kn->mn".parse()?, f32::datum_type());
    let product = model.wire_node("product", product, &[data, weights])?;
    model.select_output_outlets(&product)?;
    Ok(model)
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|number| (number % 17) as f32 - 8.).collect()
}

/// The least time of some calls.
fn fastest(mut function: impl FnMut()) -> Duration {
    let started = Instant::now();
    let mut least = Duration::MAX;
    while started.elapsed() < Duration::from_millis(700) {
        let started = Instant::now();
        function();
        least = least.min(started.elapsed());
    }
    least
}

/// Multiplications and additions alone, of numbers in registers.
struct Peak;

const ROUNDS: usize = 100_000;
/// Enough that none waits for the one before it.
const SUMS: usize = 12;

impl Peak {
    fn operations() -> f64 {
        struct Lanes;
        impl WithSimd for Lanes {
            type Output = usize;

            fn with_simd<S: Simd>(self, _simd: S) -> usize {
                S::F32_LANES
            }
        }
        (2 * ROUNDS * SUMS * Vectors::detect().run(Lanes)) as f64
    }
}

impl WithSimd for Peak {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.splat_f32s(black_box(1.)); SUMS];
        let (factor, addend) = (simd.splat_f32s(black_box(0.5)), simd.splat_f32s(black_box(1.)));
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, factor, addend);
            }
        }
        sums.into_iter().map(|sum| simd.reduce_sum_f32s(sum)).sum()
    }
}
