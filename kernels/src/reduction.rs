//! Sums, products, minima and maxima along axes.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use crate::bf16::{BF16, convert};
use crate::checks::{expect_input_count, extent};
use crate::cost;
use crate::isa::{max_or_second, min_or_second};
use crate::memory::{FLOATS_OF_LINE, Scratch, elements, filled_output, floats};
use crate::product::{Vectors, load, store};
use crate::sums::fold_row;
use crate::threads::fill_rows;

/// What elements are reduced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reducer {
    Sum,
    Product,
    /// The least element. NaN is ignored, and of nothing else it is the greatest of all finite numbers, as tract begins with it.
    Min,
    /// The greatest element. NaN is ignored, and of nothing else it is the least of all finite numbers.
    Max,
}

impl Reducer {
    /// What changes nothing: the reduction of no elements.
    fn neutral(self) -> f32 {
        match self {
            Reducer::Sum => 0.,
            Reducer::Product => 1.,
            Reducer::Min => f32::MAX,
            Reducer::Max => f32::MIN,
        }
    }

    /// Two elements as one, or of each lane. `x` may be NaN, where the reduction so far is none.
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, so_far: S::f32s, x: S::f32s) -> S::f32s {
        match self {
            Reducer::Sum => simd.add_f32s(so_far, x),
            Reducer::Product => simd.mul_f32s(so_far, x),
            Reducer::Min => min_or_second(simd, x, so_far),
            Reducer::Max => max_or_second(simd, x, so_far),
        }
    }

    /// Calls a function, whose loops are compiled for each reducer if it is inlined.
    #[inline(always)]
    fn apart<R>(self, function: impl FnOnce(Reducer) -> R) -> R {
        match self {
            Reducer::Sum => function(Reducer::Sum),
            Reducer::Product => function(Reducer::Product),
            Reducer::Min => function(Reducer::Min),
            Reducer::Max => function(Reducer::Max),
        }
    }

    #[inline(always)]
    fn of_lanes<S: Simd>(self, simd: S, lanes: S::f32s) -> f32 {
        match self {
            Reducer::Sum => simd.reduce_sum_f32s(lanes),
            Reducer::Product => simd.reduce_product_f32s(lanes),
            Reducer::Min => simd.reduce_min_f32s(lanes),
            Reducer::Max => simd.reduce_max_f32s(lanes),
        }
    }
}

/// Reduces axes that are neighbours, which stay with size 1. The data is of type F32, or in bf16 ([`BF16`]); the output is of type F32.
///
/// Sums and products are rounded as vectors are added and multiplied: not one element after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReductionOfAxes {
    pub axes: Range<usize>,
    pub reducer: Reducer,
}

/// How many elements of a reduction are kept in the first-level cache, while rows are added to them.
const BLOCK: usize = 1024;

/// So many rows are added to each other before they are added to others: the more are added one after the other, the more a sum is
/// rounded.
const ROWS: usize = 512;

/// Rows of fewer elements are reduced several at once.
const SHORT: usize = 64;

/// So many blocks of rows are reduced first, so that each thread reads rows that it probably wrote. Their number is fixed, so that
/// results do not depend on threads.
const BLOCKS: usize = 8;

/// Blocks have this many rows at least.
const LEAST_ROWS: usize = 4;

/// Of more columns each thread has enough for itself.
const MOST_COLUMNS: usize = 4 * BLOCK;

/// The elements of the data.
#[derive(Clone, Copy)]
enum Elements<'a> {
    Singles(&'a [f32]),
    Bf16(&'a [[u8; 2]]),
}

/// How many elements in bf16 are converted at once.
const CONVERTED: usize = if cfg!(test) { 1 << 6 } else { 1 << 14 };

impl Elements<'_> {
    /// Of each row of so many elements, from one on.
    fn reduce_rows(self, reducer: Reducer, first: usize, size: usize, output: &mut [f32]) {
        let vectors = Vectors::detect();
        match self {
            Elements::Singles(numbers) => {
                let rows = &numbers[first * size..];
                vectors.run(ReduceRows { reducer, rows, size, output });
            }
            Elements::Bf16(numbers) => {
                let at_once = (CONVERTED / size.max(1)).max(1);
                let mut rows = numbers[first * size..].chunks(at_once * size);
                for output in output.chunks_mut(at_once) {
                    let numbers = &rows.next().unwrap_or(&[])[..output.len() * size];
                    let mut rows = Scratch::new(numbers.len());
                    convert(numbers, &mut rows);
                    vectors.run(ReduceRows { reducer, rows: &rows, size, output });
                }
            }
        }
    }

    /// Of the elements of some columns, which begin with this one: so many rows that are `size` elements apart.
    fn reduce_columns(
        self,
        reducer: Reducer,
        begin: usize,
        [size, count]: [usize; 2],
        output: &mut [f32],
    ) {
        let vectors = Vectors::detect();
        let numbers = match self {
            Elements::Singles(numbers) => {
                let rows = &numbers[begin..];
                return ReduceColumns { reducer, rows, size, count, output }.run(vectors);
            }
            Elements::Bf16(numbers) => &numbers[begin..],
        };
        let width = output.len();
        let at_once = (CONVERTED / size.max(1)).max(1);
        // What there is so far, and that of the next rows.
        let mut both = Scratch::new(2 * width);
        let (so_far, next) = both.split_at_mut(width);
        so_far.fill(reducer.neutral());
        for first in (0..count).step_by(at_once) {
            let count = at_once.min(count - first);
            let numbers = &numbers[first * size..][..(count - 1) * size + width];
            let mut rows = Scratch::new(numbers.len());
            convert(numbers, &mut rows);
            ReduceColumns { reducer, rows: &rows, size, count, output: next }.run(vectors);
            let rows = &[&*so_far, &*next].concat();
            ReduceColumns { reducer, rows, size: width, count: 2, output: so_far }.run(vectors);
        }
        output.copy_from_slice(so_far);
    }
}

/// Of each row of some data.
struct ReduceRows<'a> {
    reducer: Reducer,
    rows: &'a [f32],
    size: usize,
    output: &'a mut [f32],
}

impl WithSimd for ReduceRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.output.iter_mut().zip(self.rows.chunks_exact(self.size));
        self.reducer.apart(
            #[inline(always)]
            |reducer| {
                // A loop, as a closure of it need not be inlined.
                for (place, row) in rows {
                    *place = of_row(simd, reducer, row);
                }
            },
        );
    }
}

#[inline(always)]
fn of_row<S: Simd>(simd: S, reducer: Reducer, row: &[f32]) -> f32 {
    let neutral = simd.splat_f32s(reducer.neutral());
    let lanes = fold_row(
        simd,
        row,
        neutral,
        #[inline(always)]
        |x| x,
        #[inline(always)]
        |so_far, x| reducer.of(simd, so_far, x),
        #[inline(always)]
        |a, b| reducer.of(simd, a, b),
    );
    reducer.of_lanes(simd, lanes)
}

/// Of the elements of some columns: `rows` begin with the first of these, and are `size` elements apart.
struct ReduceColumns<'a> {
    reducer: Reducer,
    rows: &'a [f32],
    size: usize,
    count: usize,
    output: &'a mut [f32],
}

impl WithSimd for ReduceColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.reducer.apart(
            #[inline(always)]
            |reducer| self.reduce(simd, reducer),
        );
    }
}

impl ReduceColumns<'_> {
    /// Once in the program: it is compiled for each reducer and all vectors.
    #[inline(never)]
    fn run(self, vectors: Vectors) {
        vectors.run(self);
    }

    #[inline(always)]
    fn reduce<S: Simd>(self, simd: S, reducer: Reducer) {
        let ReduceColumns { rows, size, count, output, .. } = self;
        output.fill(reducer.neutral());
        if size < SHORT && size == output.len() {
            short_rows(simd, reducer, &rows[..size * count], output);
            return;
        }
        let width = output.len().min(BLOCK);
        let mut block = Scratch::new(if count > ROWS { width } else { 0 });
        for (number, output) in output.chunks_mut(width.max(1)).enumerate() {
            columns(simd, reducer, &rows[number * width..], [size, count], &mut block, output);
        }
    }
}

/// Reduces so many rows in a distance to what is there already, and many of them to a block before.
#[inline(always)]
fn columns<S: Simd>(
    simd: S,
    reducer: Reducer,
    rows: &[f32],
    [size, count]: [usize; 2],
    block: &mut [f32],
    output: &mut [f32],
) {
    if count <= ROWS {
        return few_rows(simd, reducer, rows, [size, count], output);
    }
    let block = &mut block[..output.len()];
    for first in (0..count).step_by(ROWS) {
        block.fill(reducer.neutral());
        few_rows(simd, reducer, &rows[first * size..], [size, ROWS.min(count - first)], block);
        few_rows(simd, reducer, block, [0, 1], output);
    }
}

/// Reduces so many rows in a distance to what is there already.
#[inline(always)]
fn few_rows<S: Simd>(
    simd: S,
    reducer: Reducer,
    rows: &[f32],
    [size, count]: [usize; 2],
    output: &mut [f32],
) {
    const AT_ONCE: usize = 4;
    let lanes = S::F32_LANES;
    let width = output.len();
    let mut first = 0;
    while first + AT_ONCE <= count {
        // Loops, as functions of arrays need not be inlined.
        let mut these: [&[f32]; AT_ONCE] = [&[]; AT_ONCE];
        for row in 0..AT_ONCE {
            these[row] = &rows[(first + row) * size..][..width];
        }
        for (number, place) in output.chunks_mut(lanes).enumerate() {
            let range = number * lanes..number * lanes + place.len();
            let mut vectors = [simd.splat_f32s(0.); AT_ONCE];
            for row in 0..AT_ONCE {
                vectors[row] = load(simd, &these[row][range.clone()]);
            }
            let [a, b, c, d] = vectors;
            // What is there already is no NaN of a row.
            let so_far = load(simd, place);
            let all = match reducer {
                Reducer::Sum | Reducer::Product => reducer.of(
                    simd,
                    so_far,
                    reducer.of(simd, reducer.of(simd, a, b), reducer.of(simd, c, d)),
                ),
                Reducer::Min | Reducer::Max => {
                    [a, b, c, d].into_iter().fold(so_far, |so_far, x| reducer.of(simd, so_far, x))
                }
            };
            store(simd, place, all);
        }
        first += AT_ONCE;
    }
    for row in first..count {
        let row = &rows[row * size..][..width];
        for (place, row) in output.chunks_mut(lanes).zip(row.chunks(lanes)) {
            let all = reducer.of(simd, load(simd, place), load(simd, row));
            store(simd, place, all);
        }
    }
}

/// Reduces rows of few elements to one: several of them at once, as if they were one row.
#[inline(always)]
fn short_rows<S: Simd>(simd: S, reducer: Reducer, rows: &[f32], output: &mut [f32]) {
    let size = output.len();
    let together = SHORT.div_ceil(size);
    let count = rows.len() / size;
    let (longer, mut rest) = (count / together, rows);
    if longer > 1 {
        let width = together * size;
        let mut all = [0.; 2 * SHORT];
        let mut block = [0.; 2 * SHORT];
        let (all, block) = (&mut all[..width], &mut block[..width]);
        all.fill(reducer.neutral());
        columns(simd, reducer, rows, [width, longer], block, all);
        rest = &rows[longer * width..];
        each(reducer, all, output);
    }
    each(reducer, rest, output);
}

/// Reduces rows to one, element by element.
fn each(reducer: Reducer, rows: &[f32], output: &mut [f32]) {
    for row in rows.chunks_exact(output.len()) {
        for (place, x) in output.iter_mut().zip(row) {
            *place = reducer.of(pulp::Scalar::new(), *place, *x);
        }
    }
}

impl_plain_op!(
    ReductionOfAxes,
    "ReductionOfAxes",
    info = |op| vec![format!("{:?} along axes {:?}", op.reducer, op.axes)],
    validation = |op| match op.reducer {
        Reducer::Sum | Reducer::Product => Validation::Rounding,
        Reducer::Min | Reducer::Max => Validation::Accurate,
    }
);

impl ReductionOfAxes {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let data = args_1!(inputs);
        let fact = self.facts(&[&TypedFact::shape_and_dt_of(&data)])?;
        let shape = fact.shape.as_concrete().context("tensors have known sizes")?;
        let count = extent(&data.shape()[self.axes.clone()]);
        let size = extent(&data.shape()[self.axes.end..]);
        let reducer = self.reducer;
        let (work, is_empty) = (cost::ELEMENT.of(data.len()), data.len() == 0);
        let data = match data.datum_type() {
            BF16 => Elements::Bf16(elements(&data)?),
            _ => Elements::Singles(floats(&data)?),
        };
        let fill = |output: &mut [f32]| {
            if is_empty {
                output.fill(reducer.neutral());
                return Ok(());
            }
            if size == 1 {
                return fill_rows(output, 1, work, |first, output| {
                    data.reduce_rows(reducer, first, count, output);
                    Ok(())
                });
            }
            let has_blocks = count >= BLOCKS * LEAST_ROWS && output.len() <= MOST_COLUMNS;
            if size >= SHORT && has_blocks {
                return self.by_blocks(data, work, [count, size], output);
            }
            let of_threads = if size < SHORT { size } else { FLOATS_OF_LINE };
            fill_rows(output, of_threads, work, |first, mut output| {
                let mut at = first * of_threads;
                while !output.is_empty() {
                    let (outer, column) = (at / size, at % size);
                    let (part, rest) = output.split_at_mut((size - column).min(output.len()));
                    (at, output) = (at + part.len(), rest);
                    let begin = outer * count * size + column;
                    data.reduce_columns(reducer, begin, [size, count], part);
                }
                Ok(())
            })
        };
        filled_output("ReductionOfAxes", shape, fill)
    }

    /// Of rows of so many columns: blocks of them first, and then what these gave.
    fn by_blocks(
        &self,
        data: Elements,
        work: usize,
        [count, size]: [usize; 2],
        output: &mut [f32],
    ) -> TractResult<()> {
        let (reducer, vectors) = (self.reducer, Vectors::detect());
        let of_block = count.div_ceil(BLOCKS);
        let blocks = count.div_ceil(of_block);
        let mut of_blocks = Scratch::new(output.len() * blocks);
        fill_rows(&mut of_blocks, size, work, |first, of_blocks| {
            for (number, output) in of_blocks.chunks_exact_mut(size).enumerate() {
                let (outer, block) = ((first + number) / blocks, (first + number) % blocks);
                let first = block * of_block;
                let begin = (outer * count + first) * size;
                let count = of_block.min(count - first);
                data.reduce_columns(reducer, begin, [size, count], output);
            }
            TractResult::Ok(())
        })?;
        for (rows, output) in
            of_blocks.chunks_exact(blocks * size).zip(output.chunks_exact_mut(size))
        {
            ReduceColumns { reducer, rows, size, count: blocks, output }.run(vectors);
        }
        Ok(())
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("ReductionOfAxes", inputs.len(), 1..=1)?;
        let (data, axes) = (inputs[0], &self.axes);
        ensure!(
            [DatumType::F32, BF16].contains(&data.datum_type)
                && !axes.is_empty()
                && axes.end <= data.rank(),
            "ReductionOfAxes: the data is {data:?}, but must be of type F32 and have axes {axes:?}"
        );
        let mut fact = f32::fact(&*data.shape);
        axes.clone().for_each(|axis| fact.shape.set(axis, 1.to_dim()));
        Ok(fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::{integers, rounded, with_all_vectors};
    use model_cases::{MANY, TOO_MANY};

    const ALL: [Reducer; 4] = [Reducer::Sum, Reducer::Product, Reducer::Min, Reducer::Max];

    fn run(data: &Tensor, axes: Range<usize>, reducer: Reducer) -> TractResult<Tensor> {
        let op = ReductionOfAxes { axes, reducer };
        op.eval(tvec!(data.clone().into()))
    }

    /// Element by element.
    fn expected(numbers: &[f32], [outer, count, size]: [usize; 3], reducer: Reducer) -> Vec<f32> {
        let element = |outer: usize, row: usize, column: usize| {
            numbers[(outer * count + row) * size + column]
        };
        let of_place = |place: usize| {
            let elements = (0..count).map(|row| element(place / size, row, place % size));
            match reducer {
                Reducer::Sum => elements.sum(),
                Reducer::Product => elements.product(),
                Reducer::Min => elements.fold(f32::MAX, f32::min),
                Reducer::Max => elements.fold(f32::MIN, f32::max),
            }
        };
        (0..outer * size).map(of_place).collect()
    }

    #[test]
    fn of_axes_in_any_place() -> TractResult<()> {
        for (shape, axes) in [
            (&[2, 3, 7, 7][..], 2..4),
            (&[1, 5, 13, 20], 2..4),
            (&[4, 65], 1..2),
            (&[3, 1, 2], 0..3),
            (&[2, 0], 1..2),
            (&[0, 2], 1..2),
            (&[0, 2], 0..1),
            (&[2, 0, 3], 1..2),
            (&[17, 1], 1..2),
            (&[17, 1], 0..1),
            // Columns: of rows that are short, and of long ones.
            (&[3, 5, 7], 0..1),
            (&[3, 5, 7], 0..2),
            (&[2, 5, 7], 1..2),
            (&[3, 1100], 0..1),
            (&[2, 9, 17, 60], 1..2),
            (&[2, 9, 5, 67], 1..3),
            (&[2, 1030, 3], 1..2),
            (&[1000, 65], 0..1),
            (&[70_001, 1], 0..1),
            (&[70_001, 2], 0..1),
        ] {
            // Products of these are exact.
            let numbers: Vec<f32> = integers(shape.iter().product());
            let of_ones: Vec<f32> =
                numbers.iter().map(|it| if *it < 0. { -1. } else { 1. }).collect();
            let before = shape[..axes.start].iter().product();
            let after = shape[axes.end..].iter().product();
            let sizes = [before, shape[axes.clone()].iter().product(), after];
            let mut reduced = shape.to_vec();
            reduced[axes.clone()].fill(1);
            for reducer in ALL {
                let numbers = if reducer == Reducer::Product { &of_ones } else { &numbers };
                let expected = Tensor::from_shape(&reduced, &expected(numbers, sizes, reducer))?;
                let data = Tensor::from_shape(shape, numbers)?;
                with_all_vectors(|| {
                    // Integers of this size are the same in bf16.
                    for data in [&data, &rounded(&data)] {
                        let found = run(data, axes.clone(), reducer).unwrap();
                        assert_eq!(found, expected, "{reducer:?} {shape:?} {axes:?}");
                    }
                });
            }
        }
        let data = tensor1(&[1f32]);
        for axes in [0..2, 1..2, 0..0] {
            let error = run(&data, axes, Reducer::Sum).unwrap_err();
            assert!(error.to_string().contains("must be of type F32 and have axes"));
        }
        Ok(())
    }

    /// NaN is ignored, wherever it is.
    #[test]
    fn least_and_greatest_of_nan() {
        for (outer, count, size) in [(1, 37, 1), (2, 7, 3), (1, 9, 40), (1, 600, 67)] {
            let len = outer * count * size;
            let mut numbers = integers(len);
            (0..len).step_by(3).for_each(|place| numbers[place] = f32::NAN);
            // All of a column.
            (0..count).for_each(|row| numbers[row * size] = f32::NAN);
            let data = Tensor::from_shape(&[outer, count, size], &numbers).unwrap();
            for reducer in [Reducer::Min, Reducer::Max] {
                let expected = expected(&numbers, [outer, count, size], reducer);
                with_all_vectors(|| {
                    let found = run(&data, 1..2, reducer).unwrap();
                    let found = found.try_as_plain_ram().unwrap();
                    assert_eq!(found.as_slice::<f32>().unwrap(), expected);
                });
            }
        }
    }

    /// Long sums are not rounded more than a few times: each of so many numbers alone would change nothing.
    #[test]
    fn sums_of_many_rows() {
        let count = 1 << 20;
        let mut numbers = vec![1. / 16.; 2 * count];
        numbers[..2].fill((1 << 20) as f32);
        let data = Tensor::from_shape(&[count, 2], &numbers).unwrap();
        with_all_vectors(|| {
            let found = run(&data, 0..1, Reducer::Sum).unwrap();
            let expected = (1 << 20) as f32 * (1. + 1. / 16.);
            for sum in found.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap() {
                assert!((sum - expected).abs() < 64., "{sum} {expected}");
            }
        });
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn of_threads() -> TractResult<()> {
        use tract_core::prelude::multithread::{Executor, multithread_tract_scope};
        for (shape, axes) in [
            ([30, 40, 500], 1..2),
            ([1, 50, 20_011], 1..2),
            ([9000, 4, 9], 1..2),
            ([99, 99, 99], 2..3),
        ] {
            let data = Tensor::from_shape(&shape, &integers(shape.iter().product()))?;
            for reducer in ALL {
                let run = |threads| {
                    multithread_tract_scope(Executor::multithread(threads), || {
                        run(&data, axes.clone(), reducer)
                    })
                };
                assert_eq!(run(1)?, run(3)?);
            }
        }
        Ok(())
    }

    #[test]
    fn long_and_empty_axes() -> TractResult<()> {
        let many = MANY;
        let sum = |axes: Range<usize>, shape: &[usize]| -> TractResult<Tensor> {
            let data = Tensor::zero::<f32>(shape)?.into_tvalue();
            let op = ReductionOfAxes { axes, reducer: Reducer::Sum };
            op.eval(tvec!(data))
        };
        assert_eq!(sum(0..3, &[many, 0, many])?, Tensor::zero::<f32>(&[1, 1, 1])?);
        assert_eq!(sum(1..3, &[2, 0, many])?, Tensor::zero::<f32>(&[2, 1, 1])?);
        assert_eq!(sum(1..3, &[0, 1, many])?.shape(), [0, 1, 1]);
        let error = format!("{:#}", sum(1..3, &[TOO_MANY, 0, 1]).unwrap_err());
        assert!(error.contains(&format!("shape [{TOO_MANY}, 1, 1]")), "{error}");
        Ok(())
    }
}
