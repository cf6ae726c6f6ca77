//! Products of two factors that are both computed when the model runs.

use std::ops::Range;

use tract_core::internal::*;
use tract_core::ndarray::Dimension;
use tract_core::ops::einsum::EinSum;

use crate::checks::{expect_inputs, volume};
use crate::cost;
use crate::isa::Bf16Isa;
use crate::memory::{Scratch, filled_output, floats, zero_output};
use crate::product::{
    Bf16Pair, Element, OperandA, Output, PARTS, PackedB, PackedGemm, Tile, UnpackedB, Vectors,
};
use crate::strided::strides;
use crate::threads::{Division, PartSize};

/// A product of matrices, or of many: which axes of the two factors and of the result belong together. The last axis
/// of the result has its columns. The factor that has this axis is the right one, and may be the first input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Contraction {
    pub left: usize,
    pub right: usize,
    /// The axis of the rows, in the left factor and in the result.
    pub rows: [usize; 2],
    /// An axis of the right factor.
    columns: usize,
    /// The axes that are summed over, in the inputs' order. The one of the left factor is followed by axes of one
    /// element only, and so is that of the right factor, or its columns.
    summed: [usize; 2],
    pub batch: TVec<BatchAxis>,
    /// Whether factors are rounded to bf16.
    pub bf16: Option<Bf16Isa>,
}

/// An axis of the result that is neither rows nor columns, and where the factors have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchAxis {
    pub left: Option<usize>,
    pub right: Option<usize>,
    pub output: usize,
}

impl Contraction {
    /// The contraction of two factors of these shapes, if it is one of these.
    pub fn of(op: &EinSum, shapes: [&[TDim]; 2]) -> Option<Contraction> {
        let axes = &op.axes;
        if axes.input_count() != 2 || axes.output_count() != 1 || op.q_params.is_some() {
            return None;
        }
        let last = axes.rank(InOut::Out(0)).checked_sub(1)?;
        let has_one_element = |inputs: [Option<usize>; 2]| {
            inputs
                .iter()
                .zip(shapes)
                .all(|(axis, shape)| axis.is_none_or(|axis| shape[axis].is_one()))
        };
        let mut right = None;
        let (mut summed, mut others) = (None, tvec!());
        for axis in axes.iter_all_axes() {
            let once = |places: &[usize]| (places.len() < 2).then(|| places.first().copied());
            let inputs = [once(&axis.inputs[0])?, once(&axis.inputs[1])?];
            match (inputs, once(&axis.outputs[0])?) {
                ([Some(a), Some(b)], None)
                    if summed.is_none() && !has_one_element([Some(a), Some(b)]) =>
                {
                    summed = Some([a, b]);
                }
                ([None, Some(columns)], Some(output)) if output == last => {
                    right = Some((1, columns));
                }
                ([Some(columns), None], Some(output)) if output == last => {
                    right = Some((0, columns));
                }
                (inputs, Some(output)) if output != last => others.push((inputs, output)),
                // It has one element, which changes nothing.
                (inputs, None) if has_one_element(inputs) => (),
                _ => return None,
            }
        }
        let ((right, columns), summed) = (right?, summed?);
        let left = 1 - right;
        let is_last = |slot: usize, axis: usize| shapes[slot][axis + 1..].iter().all(TDim::is_one);
        let is_read_in_rows = is_last(left, summed[left])
            && (is_last(right, columns) || is_last(right, summed[right]));
        if !is_read_in_rows {
            return None;
        }
        others.sort_by_key(|(_, output)| *output);
        let is_row = |(inputs, _): &([Option<usize>; 2], usize)| {
            inputs[left].is_some() && inputs[right].is_none()
        };
        let (inputs, output) = others.remove(others.iter().rposition(is_row)?);
        let rows = [inputs[left]?, output];
        let batch = others.into_iter().map(|(inputs, output)| BatchAxis {
            left: inputs[left],
            right: inputs[right],
            output,
        });
        let (batch, bf16) = (batch.collect(), None);
        Some(Contraction { left, right, rows, columns, summed, batch, bf16 })
    }

    /// The same, of factors that are rounded to bf16, or are not.
    pub fn rounded_to(self, bf16: Option<Bf16Isa>) -> Contraction {
        Contraction { bf16, ..self }
    }

    /// The axes of the right factor that have the columns and the steps of the sum.
    pub fn axes_of_right(&self) -> [usize; 2] {
        [self.columns, self.summed[self.right]]
    }

    /// Whether factors of these shapes make a result of this one, as far as symbols tell. tract's own operator also sums
    /// over one element of a factor and many of the other.
    pub fn takes(&self, left: &[TDim], right: &[TDim], output: &[TDim]) -> bool {
        left[self.summed[self.left]] == right[self.summed[self.right]]
            && self.shape(left, right).is_ok_and(|shape| *shape == *output)
    }

    /// The shape of the result.
    pub fn shape<D: DimLike>(&self, left: &[D], right: &[D]) -> TractResult<TVec<D>> {
        let mut shape = tvec![D::one(); self.batch.len() + 2];
        shape[self.rows[1]] = left[self.rows[0]].clone();
        shape[self.batch.len() + 1] = right[self.columns].clone();
        for axis in &self.batch {
            let sizes = [axis.left.map(|it| &left[it]), axis.right.map(|it| &right[it])];
            let mut sizes = sizes.into_iter().flatten().filter(|size| !size.is_one());
            let Some(size) = sizes.next() else { continue };
            ensure!(
                sizes.all(|it| it == size),
                "the factors have different sizes in axis {} of the product, one of which is {size}",
                axis.output
            );
            shape[axis.output] = size.clone();
        }
        Ok(shape)
    }

    /// How the factors are read and the result is written.
    pub fn sizes(&self, left: &[usize], right: &[usize]) -> TractResult<ContractionSizes> {
        let depth = left[self.summed[self.left]];
        let summed = self.summed[self.right];
        ensure!(
            right[summed] == depth,
            "the axis that is summed has size {depth} in one factor and {} in the other",
            right[summed]
        );
        let shape = self.shape(left, right)?;
        ensure!(
            volume(&shape).is_some(),
            "the product would have shape {shape:?}, which is too large"
        );
        let (in_left, in_right, in_output) = (strides(left), strides(right), strides(&shape));
        let stride = |sizes: &[usize], strides: &[usize], axis: Option<usize>| match axis {
            Some(axis) if sizes[axis] > 1 => strides[axis],
            _ => 0,
        };
        let batch = self.batch.iter().map(|axis| AxisStrides {
            size: shape[axis.output],
            left: stride(left, &in_left, axis.left),
            right: stride(right, &in_right, axis.right),
            output: in_output[axis.output],
        });
        Ok(ContractionSizes {
            rows: AxisStrides {
                size: shape[self.rows[1]],
                left: in_left[self.rows[0]],
                right: 0,
                output: in_output[self.rows[1]],
            },
            right: UnpackedB {
                depth,
                columns: right[self.columns],
                stride: in_right[self.columns.min(summed)],
                is_transposed: self.columns < summed,
            },
            batch: batch.collect(),
            shape,
        })
    }
}

/// A contraction of known shapes.
#[derive(Debug)]
pub(crate) struct ContractionSizes {
    pub rows: AxisStrides,
    pub right: UnpackedB,
    pub batch: TVec<AxisStrides>,
    pub shape: TVec<usize>,
}

/// The distances of neighbours along an axis. 0 where there is no such axis, or one element for all.
#[derive(Debug)]
pub(crate) struct AxisStrides {
    pub size: usize,
    pub left: usize,
    pub right: usize,
    pub output: usize,
}

/// How threads share the output of products.
pub(crate) struct OutputShares {
    /// So many elements belong to an index along the axes that are shared, and such numbers of indices are in a part.
    unit: usize,
    size: PartSize,
    /// How many indices there are without the last of these axes.
    outer: usize,
    division: Division,
    /// Whether a part has some rows of each matrix.
    pub are_rows: bool,
}

impl ContractionSizes {
    /// The product with more rows, if it has one and the right factor is the same along an axis of the batch: queries of one
    /// token, of which several have the same keys. It is packed once then.
    fn with_rows_of_batch(mut self) -> ContractionSizes {
        let is_shared = |axis: &&mut AxisStrides| axis.size > 1 && axis.right == 0 && axis.left > 0;
        if self.rows.size == 1
            && let Some(axis) = self.batch.iter_mut().find(is_shared)
        {
            std::mem::swap(axis, &mut self.rows);
        }
        self
    }

    /// How threads share the output. Parts have about `least_rows` rows or more, if there are so many for two threads.
    pub fn shares(&self, least_rows: usize) -> OutputShares {
        let output: usize = self.shape.iter().product();
        let division = Division::of(cost::PRODUCT.of(output.saturating_mul(self.right.depth)));
        let threads = division.threads();
        let wanted = if threads > 1 { PARTS * threads } else { 1 };
        // The elements for each index along the axes that are shared, and how many indices there are without the last of them.
        let (mut unit, mut outer, mut parts) = (output, 1, 1);
        for size in &self.shape[..self.shape.len() - 1] {
            let is_rows = *size > 1 && unit / size == self.rows.output;
            if parts >= wanted || (is_rows && parts > 1) {
                break;
            }
            (unit, outer, parts) = (unit / size, parts, parts * size);
            if is_rows {
                break;
            }
        }
        let rows = self.rows.size;
        let are_rows = rows > 1 && self.rows.output == unit;
        let size = match are_rows && threads > 1 {
            true => PartSize {
                least: rows.div_ceil(wanted).max(least_rows),
                multiple: Tile::of(Vectors::detect()).rows,
            },
            false => PartSize::ANY,
        };
        let division =
            if are_rows { division.at_most(rows.div_ceil(least_rows)) } else { division };
        let are_rows = are_rows && division.threads() > 1;
        OutputShares { unit, outer, size, division, are_rows }
    }

    /// Calls a function with each product of two matrices: the index along the axes of the batch, the rows, and a part
    /// of the output that begins with the first of these. Threads share the first axes of the output, which has elements.
    pub fn for_each(
        &self,
        shares: OutputShares,
        output: &mut [f32],
        product: impl Fn(&[usize], Range<usize>, &mut [f32]) -> TractResult<()> + Send + Sync,
    ) -> TractResult<()> {
        let OutputShares { unit, outer, size, division, .. } = shares;
        division.fill_parts(output, unit, size, |first, output| {
            let part = if outer == 1 { output.len() } else { unit };
            for (number, output) in output.chunks_mut(part).enumerate() {
                let begin = first * unit + number * part;
                let range = |axis: &AxisStrides| match axis.size > 1 && axis.output >= unit {
                    true => {
                        let index = begin / axis.output % axis.size;
                        index..index + (output.len() / axis.output).max(1)
                    }
                    false => 0..axis.size,
                };
                let rows = range(&self.rows);
                let batch: TVec<Range<usize>> = self.batch.iter().map(range).collect();
                let sizes: TVec<usize> = batch.iter().map(Range::len).collect();
                for offsets in tract_ndarray::indices(&*sizes) {
                    let index = batch.iter().zip(offsets.slice());
                    let index: TVec<usize> =
                        index.map(|(range, offset)| range.start + offset).collect();
                    let place = offset(&index, &self.batch, |axis| axis.output);
                    let place = place + rows.start * self.rows.output - begin;
                    product(&index, rows.clone(), &mut output[place..])?;
                }
            }
            Ok(())
        })
    }
}

/// Where an index along the axes of a batch is.
pub(crate) fn offset(
    index: &[usize],
    batch: &[AxisStrides],
    stride: impl Fn(&AxisStrides) -> usize,
) -> usize {
    index.iter().zip(batch).map(|(index, axis)| index * stride(axis)).sum()
}

const OPERATOR: &str = "Contraction";

impl_plain_op!(
    Contraction,
    OPERATOR,
    info = |op| vec![format!("{op:?}")],
    validation = |_| Validation::Rounding
);

impl Contraction {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        match self.bf16 {
            None => self.multiply::<f32>(&inputs),
            Some(_) => self.multiply::<Bf16Pair>(&inputs),
        }
    }

    fn multiply<T: Element>(&self, inputs: &[TValue]) -> TractResult<Tensor> {
        let (left, right) = (&inputs[self.left], &inputs[self.right]);
        let sizes = self.sizes(left.shape(), right.shape())?.with_rows_of_batch();
        let UnpackedB { depth, .. } = sizes.right;
        if depth == 0 {
            return zero_output(OPERATOR, &sizes.shape);
        }
        let (left, right) = (floats(left)?, floats(right)?);
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        // Each part packs the right factor. So rows are not parted into too few.
        const ROWS: usize = 64;
        let multiply = |index: &[usize], rows: Range<usize>, output: &mut [f32]| {
            let first =
                offset(index, &sizes.batch, |axis| axis.left) + rows.start * sizes.rows.left;
            let (left, stride) = (&left[first..], sizes.rows.left);
            let left = OperandA::<Scratch<T>>::pack_scratch(left, stride, rows.len(), depth, tile);
            let first = offset(index, &sizes.batch, |axis| axis.right);
            let right = PackedB::pack_scratch(&right[first..], sizes.right, tile);
            let output = Output::matrix(output, sizes.rows.output);
            PackedGemm::of(left.view(), right.view(), output).run(vectors);
            Ok(())
        };
        let fill = |output: &mut [f32]| sizes.for_each(sizes.shares(ROWS), output, multiply);
        filled_output(OPERATOR, &sizes.shape, fill)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        let [_, _] = expect_inputs(OPERATOR, ["A", "B"], inputs)?;
        let shape = self.shape(&inputs[self.left].shape, &inputs[self.right].shape)?;
        Ok(f32::fact(shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::tests::{integers, with_all_vectors};

    fn einsum(axes: &str) -> TractResult<EinSum> {
        Ok(EinSum::new(axes.parse()?, DatumType::F32))
    }

    fn of(op: &EinSum, shapes: &[Vec<usize>]) -> Option<Contraction> {
        let [left, right] = shapes else { panic!("two factors") };
        let dims = |shape: &[usize]| shape.iter().map(ToDim::to_dim).collect::<TVec<TDim>>();
        Contraction::of(op, [&dims(left), &dims(right)])
    }

    /// The shapes of the two factors, from the sizes of their axes.
    fn shapes(op: &EinSum, sizes: &[(char, usize)]) -> Vec<Vec<usize>> {
        let size = |label: char| sizes.iter().find(|it| it.0 == label).expect("it has a size").1;
        let labels = |slot| op.axes.axes(InOut::In(slot)).map(|axis| size(axis.repr)).collect();
        vec![labels(0), labels(1)]
    }

    #[test]
    fn products_are_those_of_tract() -> TractResult<()> {
        let sizes = [('a', 2), ('b', 3), ('m', 21), ('k', 13), ('n', 50), ('i', 1), ('j', 1)];
        for axes in [
            "mk,kn->mn",
            "mk,nk->mn",
            "kn,mk->mn",
            "amk,akn->amn",
            "ambk,anbk->abmn",
            "bmk,kbn->mbn",
            // One factor has an axis, or one element of it.
            "abmk,kn->abmn",
            "mk,abkn->abmn",
            "amk,bnk->abmn",
            "imbk,inbk->bmn",
            "bmk,ikbn->imbn",
            "mikj,kn->mn",
        ] {
            let op = einsum(axes)?;
            let shapes = shapes(&op, &sizes);
            let product = of(&op, &shapes).with_context(|| format!("{axes} is none of these"))?;
            let factor = |shape: &[usize]| {
                let elements = integers(shape.iter().product());
                TractResult::Ok(Tensor::from_shape(shape, &elements)?.into_tvalue())
            };
            let factors = tvec!(factor(&shapes[0])?, factor(&shapes[1])?);
            let expected = op.eval(&EvalContext::out_of_plan(), factors.clone())?;
            with_all_vectors(|| {
                let found = product.eval(factors.clone()).unwrap();
                assert_eq!(found, *expected[0], "{axes}");
            });
            let facts: TVec<TypedFact> = shapes.iter().map(|it| f32::fact(&**it)).collect();
            let fact = &product.output_facts(&facts.iter().collect::<TVec<_>>())?[0];
            assert_eq!(fact.shape.as_concrete(), Some(expected[0].shape()), "{axes}");
        }
        Ok(())
    }

    /// In several blocks, on one thread and on several.
    #[test]
    #[cfg(feature = "multithread-mm")]
    fn many_rows() -> TractResult<()> {
        use tract_core::prelude::multithread::*;
        set_threading_element_threshold(0);
        let op = einsum("mk,kn->mn")?;
        for (rows, depth, columns) in [(150, 500, 50), (65, 9, 130), (203, 900, 7)] {
            let shapes = shapes(&op, &[('m', rows), ('k', depth), ('n', columns)]);
            let product = of(&op, &shapes).context("it is one of these")?;
            let factor = |shape: &[usize]| {
                let elements = integers(shape.iter().product());
                TractResult::Ok(Tensor::from_shape(shape, &elements)?.into_tvalue())
            };
            let factors = tvec!(factor(&shapes[0])?, factor(&shapes[1])?);
            let expected = op.eval(&EvalContext::out_of_plan(), factors.clone())?;
            for threads in 1..=4 {
                multithread_tract_scope(Executor::multithread(threads), || {
                    with_all_vectors(|| {
                        let found = product.eval(factors.clone()).unwrap();
                        assert_eq!(found, *expected[0], "{threads} threads, {rows} rows");
                    });
                });
            }
        }
        Ok(())
    }

    /// Queries of one token, of which several have the same keys.
    #[test]
    fn rows_of_a_batch() -> TractResult<()> {
        let sizes = [('a', 2), ('b', 7), ('m', 1), ('k', 13), ('n', 50)];
        for axes in ["abmk,ank->abmn", "abmk,akn->abmn", "amk,bnk->abmn", "bamk,ank->bamn"] {
            let op = einsum(axes)?;
            let shapes = shapes(&op, &sizes);
            let product = of(&op, &shapes).with_context(|| format!("{axes} is none of these"))?;
            let known = product.sizes(&shapes[product.left], &shapes[product.right])?;
            assert!(known.with_rows_of_batch().rows.size > 1, "{axes}");
            let factor = |shape: &[usize]| {
                let elements = integers(shape.iter().product());
                TractResult::Ok(Tensor::from_shape(shape, &elements)?.into_tvalue())
            };
            let factors = tvec!(factor(&shapes[0])?, factor(&shapes[1])?);
            let expected = op.eval(&EvalContext::out_of_plan(), factors.clone())?;
            with_all_vectors(|| {
                assert_eq!(product.eval(factors.clone()).unwrap(), *expected[0], "{axes}");
            });
        }
        Ok(())
    }

    #[test]
    fn others_stay() -> TractResult<()> {
        let sizes = [('b', 3), ('m', 4), ('k', 5), ('n', 6), ('j', 2)];
        for axes in [
            // Two sums; no rows; no columns; a factor whose rows are not together; a sum of one factor.
            "mkj,kjn->mn",
            "bk,bkn->bn",
            "mk,k->m",
            "km,kn->mn",
            "mkj,kn->mn",
        ] {
            let op = einsum(axes)?;
            assert_eq!(of(&op, &shapes(&op, &sizes)), None, "{axes}");
        }
        Ok(())
    }

    #[test]
    fn an_axis_of_one_element_is_repeated() -> TractResult<()> {
        let op = einsum("amk,akn->amn")?;
        let shapes = [vec![4, 3, 2], vec![1, 2, 5]];
        let product = of(&op, &shapes).context("it is one of these")?;
        let left = Tensor::from_shape(&shapes[0], &integers(24))?.into_tvalue();
        let right = Tensor::from_shape(&shapes[1], &integers(10))?.into_tvalue();
        let found = product.eval(tvec!(left.clone(), right.clone()))?;
        let expected = op.eval(&EvalContext::out_of_plan(), tvec!(left.clone(), right))?;
        assert_eq!(found, *expected[0]);
        let other = Tensor::zero::<f32>(&[3, 2, 5])?.into_tvalue();
        let error = product.eval(tvec!(left, other)).unwrap_err().to_string();
        assert!(error.contains("different sizes in axis 0"), "{error}");
        Ok(())
    }

    #[test]
    fn nothing_gives_zeros() -> TractResult<()> {
        let op = einsum("amk,akn->amn")?;
        for (left, right) in
            [([2, 3, 0], [2, 0, 4]), ([2, 0, 3], [2, 3, 4]), ([0, 2, 3], [0, 3, 4])]
        {
            let product = of(&op, &[left.into(), right.into()]).context("it is one of these")?;
            let zeros =
                |shape: [usize; 3]| TractResult::Ok(Tensor::zero::<f32>(&shape)?.into_tvalue());
            let inputs = tvec!(zeros(left)?, zeros(right)?);
            let found = product.eval(inputs)?;
            assert_eq!(found, Tensor::zero::<f32>(&[left[0], left[1], right[2]])?);
        }
        Ok(())
    }
}
