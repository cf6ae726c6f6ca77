use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use super::activation::{Activation, exp};
use super::{
    Addend, Bf16Pair, Element, GemmBlock, OperandA, OperandB, Output, PackedB, PackedGemm, Tile,
    Vectors,
};
use crate::bf16::BF16;
use crate::isa::tests::with_all_instructions;
use crate::memory::{Aligned, Scratch};

pub use crate::isa::tests::with_all_vectors;

/// Numbers that are small integers, so that sums of products are exact.
pub fn integers(count: usize) -> Vec<f32> {
    (0..count).map(|number| (number * 37 % 11) as f32 - 5.).collect()
}

/// Shares cover a product once, in the order of their outputs.
#[cfg(feature = "multithread-mm")]
#[test]
fn shares_cover_a_product_evenly() {
    use tract_core::prelude::multithread::{
        Executor, multithread_tract_scope, set_threading_element_threshold,
    };

    use super::Shares;
    use crate::threads::{Division, PartsOfThread, next_part};

    set_threading_element_threshold(0);
    with_all_vectors(|| {
        let tile = Tile::of(Vectors::detect());
        let cases = [1, 2, 3, 4].into_iter().flat_map(|threads| {
            let columns = (1..8 * tile.columns).step_by(5);
            columns.flat_map(move |columns| [1, 63, 64, 100].map(|rows| (threads, rows, columns)))
        });
        for (threads, rows, columns) in cases {
            let shares = multithread_tract_scope(Executor::multithread(threads), || {
                Shares::of_product(&Division::of(1 << 30), [rows, columns]).shares
            });
            let mut met = vec![0; rows * columns];
            for share in &shares {
                assert!(!share.rows.is_empty() && !share.columns.is_empty());
                assert!(
                    share.rows.start % tile.rows == 0 && share.columns.start % tile.columns == 0
                );
                for row in share.rows.clone() {
                    met[row * columns..][share.columns.clone()].iter_mut().for_each(|it| *it += 1);
                }
            }
            let case = format!("{threads} threads, {rows} rows, {columns} columns: {shares:?}");
            assert!(met.iter().all(|it| *it == 1), "{case}");
            let key = |share: &super::Share| (share.columns.start, share.rows.start);
            assert!(shares.is_sorted_by_key(key), "{case}");
        }
        // An odd number of panels for two threads.
        for panels in [7, 11, 43] {
            let (rows, columns) = (16 * tile.rows, panels * tile.columns);
            let shares = multithread_tract_scope(Executor::multithread(2), || {
                Shares::of_product(&Division::of(1 << 30), [rows, columns]).shares
            });
            let half = shares.len() / 2;
            let left = [0..half, half..shares.len()].map(PartsOfThread::new);
            let mut of_threads = [0, 0];
            for _ in &shares {
                let thread = usize::from(of_threads[0] > of_threads[1]);
                let share = &shares[next_part(&left, thread).unwrap()];
                of_threads[thread] += share.rows.len() * share.columns.len();
            }
            assert_eq!(of_threads, [rows * columns / 2; 2], "{shares:?}");
        }
    });
}

/// All sizes around those of tiles and vectors, in parts of the steps, against the definition. Integers of this size are the same in bf16.
#[test]
fn products() {
    with_all_instructions(|_| {
        products_of::<f32>();
        products_of::<Bf16Pair>();
    });
}

fn products_of<T: Element>() {
    let vectors = Vectors::detect();
    let tile = Tile::of(vectors);
    for (rows, columns, depth) in [
        (1, 1, 1),
        (7, tile.columns - 1, 5),
        (8, tile.columns, 3),
        (15, tile.columns + 1, 4),
        (16, 2 * tile.columns + tile.lanes + 1, 9),
        (3, tile.lanes, 2),
        (15, 2 * tile.columns + tile.lanes + 1, 250),
        (9, 2 * tile.lanes, 121),
    ] {
        let (a, b) = (integers(rows * depth), integers(depth * columns + 3)[3..].to_vec());
        let bias = integers(columns);
        let mut transposed = vec![0.; b.len()];
        for (number, element) in b.iter().enumerate() {
            transposed[number % columns * depth + number / columns] = *element;
        }
        let packed = OperandA::<Scratch<T>>::pack_scratch(&a, depth, rows, depth, tile);
        let on_threads = OperandA::<Scratch<T>>::pack_on_threads(&a, rows, depth, tile);
        assert_eq!(packed.view(), on_threads.view());
        let right = PackedB::<Aligned<T>>::pack(&b, false, depth, columns, tile);
        assert_eq!(right, PackedB::pack(&transposed, true, depth, columns, tile));
        let addends = [Addend::OfColumns(&bias), Addend::Zero];
        let clamp = Activation::Clamp { min: -20., max: 30. };
        let activations = [Activation::Identity, clamp, Activation::HARD_SWISH];
        let cases = addends.iter().flat_map(|it| activations.map(|activation| (*it, activation)));
        let in_place = OperandA::in_place(&a, rows, depth, tile);
        let lefts = [Some(packed.view()), in_place].into_iter().flatten();
        for (left, (addend, activation)) in
            lefts.flat_map(|left| cases.clone().map(move |case| (left, case)))
        {
            let mut output = vec![f32::NAN; rows * columns];
            let count = T::count(depth);
            for steps in [0..count / 2, count / 2..count] {
                vectors.run(GemmBlock {
                    left,
                    right: OperandB {
                        panels: &right.elements,
                        begin: steps.start,
                        depth: count,
                        next: None,
                        asks: true,
                    },
                    rows: 0..rows,
                    columns,
                    depth: count,
                    output: Output::matrix(&mut output, columns),
                    addend,
                    activation,
                    steps,
                });
            }
            for (number, found) in output.iter().enumerate() {
                let (row, column) = (number / columns, number % columns);
                let terms =
                    (0..depth).map(|step| a[row * depth + step] * b[step * columns + column]);
                let first = match addend {
                    Addend::Zero => 0.,
                    Addend::OfColumns(numbers) => numbers[column],
                };
                let sum = first + terms.sum::<f32>();
                let expected = match activation {
                    Activation::Clamp { min, max } => sum.clamp(min, max),
                    Activation::HARD_SWISH => sum * (sum + 3.).clamp(0., 6.) / 6.,
                    _ => sum,
                };
                // A sixth is rounded.
                let is_it = (found - expected).abs() <= 1e-6 * expected.abs();
                assert!(
                    is_it,
                    "{found} for {expected}, {activation:?}, {rows} {columns} {depth}, {:?}, at {row} {column}, {vectors:?}",
                    left.layout
                );
            }
        }
    }
}

/// A number that is rounded to bf16, by its definition.
pub fn rounded_to_bf16(number: f32) -> f32 {
    let bits = number.to_bits();
    let [below, above] = [bits & 0xffff_0000, (bits & 0xffff_0000).wrapping_add(0x1_0000)];
    match () {
        () if !number.is_finite() => number,
        () if number.is_subnormal() => 0f32.copysign(number),
        () if bits & 0xffff < 0x8000 => f32::from_bits(below),
        () if bits & 0xffff > 0x8000 || below & 0x1_0000 != 0 => f32::from_bits(above),
        () => f32::from_bits(below),
    }
}

/// Numbers, as a tensor in bf16.
pub fn rounded(tensor: &Tensor) -> Tensor {
    let tensor = tensor.try_as_plain_ram().unwrap();
    let numbers = tensor.as_slice::<f32>().unwrap().iter();
    let bits: Vec<u16> = numbers.map(|it| (rounded_to_bf16(*it).to_bits() >> 16) as u16).collect();
    Tensor::from_shape(tensor.shape(), &bits).unwrap()
}

/// The numbers of a tensor, which may be in bf16.
pub fn widened(tensor: &Tensor) -> Tensor {
    if tensor.datum_type() != BF16 {
        return tensor.clone();
    }
    let tensor = tensor.try_as_plain_ram().unwrap();
    let bits = tensor.as_slice::<u16>().unwrap().iter();
    let numbers: Vec<f32> = bits.map(|it| f32::from_bits(u32::from(*it) << 16)).collect();
    Tensor::from_shape(tensor.shape(), &numbers).unwrap()
}

/// Numbers of many sizes, of which few are as they are in bf16.
pub fn fractions(count: usize) -> Vec<f32> {
    let number = |number: usize| {
        let fraction = (number as f32 * 0.618_034).fract() - 0.5;
        fraction * [1., 17., 0.01][number % 3]
    };
    (0..count).map(number).collect()
}

/// Rounded factors, against sums in double precision.
#[test]
fn products_of_rounded_factors() {
    with_all_instructions(|instructions| {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        for (rows, columns, depth) in
            [(1, 50, 1), (13, 100, 777), (40, 33, 1024), (15, 33, 2048), (9, 48, 64)]
        {
            let (a, b) = (fractions(rows * depth), fractions(columns * depth));
            let left = OperandA::<Scratch<Bf16Pair>>::pack_scratch(&a, depth, rows, depth, tile);
            let right = PackedB::<Aligned<Bf16Pair>>::pack(&b, true, depth, columns, tile);
            let mut output = vec![f32::NAN; rows * columns];
            let place = Output::matrix(&mut output, columns);
            PackedGemm::of(left.view(), right.view(), place).run(vectors);
            let [a, b] = [a, b].map(|it| it.into_iter().map(rounded_to_bf16).collect::<Vec<_>>());
            for (number, found) in output.iter().enumerate() {
                let (row, column) =
                    (&a[number / columns * depth..], &b[number % columns * depth..]);
                let pairs = row[..depth].iter().zip(&column[..depth]);
                let terms = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b));
                let (sum, sizes) = (terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>());
                let error = (f64::from(*found) - sum).abs();
                assert!(
                    error <= 4e-6 * sizes,
                    "{found} for {sum}, {rows} {columns} {depth}, {instructions:?}"
                );
            }
        }
    });
}

/// NaN and infinities, numbers that become infinite, and what is below normal numbers.
#[test]
fn rounded_factors_that_are_no_common_numbers() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let tiny = f32::MIN_POSITIVE / 4.;
    with_all_instructions(|instructions| {
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        for (row, column, expected) in [
            ([inf, 1.], [2., 3.], inf),
            ([inf, 1.], [-2., 3.], -inf),
            ([inf, 1.], [0., 3.], nan),
            ([1., inf], [inf, -1.], nan),
            ([nan, 0.], [0., 0.], nan),
            ([0., 1.], [0., nan], nan),
            ([f32::MAX, 0.], [1., 0.], inf),
            ([3e38, 3e38], [1., 1.], inf),
            ([tiny, 0.], [f32::MAX / 2., 1.], 0.),
            ([-0., 0.], [1., 1.], 0.),
        ] {
            // In the first, the last and the odd last steps of several.
            for (before, depth) in [(0, 2), (48, 50), (48, 99)] {
                let operand = |pair: [f32; 2]| {
                    let mut all = vec![0.; depth];
                    all[before..before + 2].copy_from_slice(&pair);
                    all
                };
                let (a, b) = (operand(row), operand(column));
                let left = OperandA::<Scratch<Bf16Pair>>::pack_scratch(&a, depth, 1, depth, tile);
                let right = PackedB::<Aligned<Bf16Pair>>::pack(&b, true, depth, 1, tile);
                let mut output = [f32::MIN];
                let place = Output::matrix(&mut output, 1);
                PackedGemm::of(left.view(), right.view(), place).run(vectors);
                assert!(
                    output[0] == expected || output[0].is_nan() && expected.is_nan(),
                    "{row:?} and {column:?} gave {}, not {expected}: {instructions:?}",
                    output[0]
                );
            }
        }
    });
}

/// Applies a function to numbers, in vectors.
struct Map<'a, F>(&'a mut [f32], F);

trait OfVectors {
    fn call<S: Simd>(&self, simd: S, x: S::f32s) -> S::f32s;
}

impl<F: OfVectors> WithSimd for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for part in self.0.chunks_mut(S::F32_LANES) {
            let result = self.1.call(simd, super::load(simd, part));
            super::store(simd, part, result);
        }
    }
}

impl OfVectors for Activation {
    fn call<S: Simd>(&self, simd: S, x: S::f32s) -> S::f32s {
        self.apply(simd, x)
    }
}

struct Exp;

impl OfVectors for Exp {
    fn call<S: Simd>(&self, simd: S, x: S::f32s) -> S::f32s {
        exp(simd, x)
    }
}

#[test]
fn exponentials() {
    with_all_vectors(|| {
        let numbers: Vec<f32> = (-87_000..88_000).step_by(7).map(|n| n as f32 * 1e-3).collect();
        let mut results = numbers.clone();
        Vectors::detect().run(Map(&mut results, Exp));
        for (x, found) in numbers.iter().zip(results) {
            let expected = f64::from(*x).exp();
            assert!(
                (f64::from(found) / expected - 1.).abs() < 3e-7,
                "exp({x}) is {expected}, not {found}"
            );
        }
    });
}

#[test]
fn activations() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    with_all_vectors(|| {
        let run = |activation: Activation, x: f32| {
            let mut numbers = [x; 17];
            Vectors::detect().run(Map(&mut numbers, activation));
            assert!(numbers.iter().all(|it| it.to_bits() == numbers[0].to_bits()));
            numbers[0]
        };
        let relu = Activation::Clamp { min: 0., max: inf };
        for (x, expected) in [(-inf, 0.), (-1., 0.), (2.5, 2.5), (inf, inf), (nan, 0.)] {
            assert_eq!(run(relu, x), expected, "Relu of {x}");
        }
        for (x, expected) in [(-4., 0.), (-1., -1. / 3.), (0., 0.), (3., 3.), (7., 7.), (inf, inf)]
        {
            let found = run(Activation::HARD_SWISH, x);
            assert!(
                found == expected || (found - expected).abs() < 1e-6,
                "HSwish of {x} is {found}"
            );
        }
        assert!(run(Activation::HARD_SWISH, nan).is_nan());
        let scaled = Activation::HardSwish { factor: -0.5, addend: 2. };
        for (x, expected) in [(-4., 2.), (-1., 3.), (0., 2.), (3., -7.), (7., -19.)] {
            assert_eq!(run(scaled, x), expected, "HSwish of {x}, scaled");
        }
        for x in [-100f32, -20., -1., -1e-3, 0., 0.5, 10., 80., 1e30] {
            let expected = f64::from(x) / (1. + (-f64::from(x)).exp());
            let found = f64::from(run(Activation::Swish, x));
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs() + 1e-30,
                "Swish of {x} is {found}"
            );
        }
        // `x * scipy.special.ndtr(x)`.
        for (x, expected) in [
            (-1e30f32, 0.),
            (-10., -7.619_853e-23),
            (-3., -0.004_049_694),
            (-1., -0.158_655_25),
            (-1e-3, -4.996_011e-4),
            (0., 0.),
            (0.5, 0.345_731_23),
            (2., 1.954_499_7),
            (10., 10.),
            (1e30, 1e30),
        ] {
            let found = run(Activation::Gelu, x);
            assert!((found - expected).abs() <= 3e-7 * (1. + expected), "Gelu of {x} is {found}");
        }
        for x in [-1e30f32, -200., -88., -30., -1., -1e-3, 0., 1e-3, 1., 15., 88., 1000., 1e30] {
            let exact = f64::from(x);
            let twice = (8. / std::f64::consts::PI).sqrt() * (exact + 0.044715 * exact.powi(3));
            let expected = exact / (1. + (-twice).exp());
            let found = f64::from(run(Activation::GeluTanh, x));
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs() + 1e-30,
                "GeluTanh of {x} is {found}"
            );
        }
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Swish] {
            assert!(run(activation, nan).is_nan(), "{activation:?}");
            assert_eq!(run(activation, inf), inf, "{activation:?}");
            assert_eq!(run(activation, -1e38), 0., "{activation:?}");
        }
    });
}
