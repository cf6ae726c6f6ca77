//! Products with a matrix that is a constant.

use std::any::Any;
use std::ops::Range;
use std::ptr;
use std::sync::Weak;

use tract_core::internal::*;
use tract_core::ops::array::MultiBroadcastTo;

use crate::checks::expect_input_count;
use crate::compressed::{self, CompressedMatrix, Precision};
use crate::cost;
use crate::isa::Bf16Isa;
use crate::memory::{Aligned, filled_output, floats};
use crate::operator::map_unchanged_axes;
use crate::product::activation::Activation;
use crate::product::{
    Bf16Pair, Element, OperandA, Output, PARTS, PackedB, PackedGemm, Shares, Tile, Vectors,
    multiply_row_by_row,
};
use crate::threads::{Division, PartSize};

/// Threads share the rows of the data where each share has so many, and the columns otherwise: then all rows meet a panel of weights
/// before the next one. With fewer rows that is faster; with these, what a thread packs it has written itself, and it fits its cache.
const MANY_ROWS: usize = 64;

/// The product of the rows of its input, which are its last axis, and a constant matrix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FullyConnected {
    weights: LayerWeights,
    depth: usize,
    columns: usize,
    /// A number for each column.
    bias: Arc<Vec<f32>>,
    activation: Activation,
}

#[derive(Debug, Clone)]
enum LayerWeights {
    /// The weights, packed for this machine. Those of the layer are the columns from the first one on, which begins a panel.
    Packed { weights: PackedWeights, first: usize, origin: Origin },
    /// The weights as they are in the model, a row for each column of the result. For one row of data, reading them is all that
    /// takes time, so packing them gains nothing.
    Transposed(Arc<Tensor>),
    /// Compressed weights, as they are in the model, too.
    Compressed(Arc<CompressedMatrix>, Precision),
}

/// In single precision, or rounded to bf16.
#[derive(Debug, Clone)]
enum PackedWeights {
    F32(Arc<PackedB>),
    Bf16(Arc<PackedB<Aligned<Bf16Pair>>>, Bf16Isa),
}

impl PackedWeights {
    fn pack(
        matrix: &[f32],
        transposed: bool,
        [depth, columns]: [usize; 2],
        bf16: Option<Bf16Isa>,
    ) -> PackedWeights {
        let tile = Tile::of(Vectors::detect());
        match bf16 {
            None => {
                PackedWeights::F32(PackedB::pack(matrix, transposed, depth, columns, tile).into())
            }
            Some(isa) => {
                let packed = PackedB::pack(matrix, transposed, depth, columns, tile);
                PackedWeights::Bf16(packed.into(), isa)
            }
        }
    }

    fn is_in_bf16(&self) -> bool {
        matches!(self, PackedWeights::Bf16(..))
    }
}

impl PartialEq for PackedWeights {
    fn eq(&self, other: &PackedWeights) -> bool {
        match (self, other) {
            (PackedWeights::F32(a), PackedWeights::F32(b)) => Arc::ptr_eq(a, b) || a == b,
            (PackedWeights::Bf16(a, _), PackedWeights::Bf16(b, _)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl LayerWeights {
    /// What one of the other layers has, if that was packed from the same, and what `pack` gives otherwise.
    fn packed_once<'a>(
        origin: Origin,
        bf16: Option<Bf16Isa>,
        mut others: impl Iterator<Item = &'a FullyConnected>,
        pack: impl FnOnce() -> TractResult<PackedWeights>,
    ) -> TractResult<LayerWeights> {
        let packed = others.find_map(|other| match &other.weights {
            LayerWeights::Packed { weights, origin: of_other, .. }
                if *of_other == origin && weights.is_in_bf16() == bf16.is_some() =>
            {
                Some(weights.clone())
            }
            _ => None,
        });
        let weights = packed.map_or_else(pack, Ok)?;
        Ok(LayerWeights::Packed { weights, first: 0, origin })
    }
}

/// What was packed, which may be gone: layers that share their weights share them packed, too.
#[derive(Debug, Clone)]
struct Origin {
    /// The tensor, or the constant of the codes.
    weights: Weak<dyn Any + Send + Sync>,
    transposed: bool,
    /// Its steps and columns: a tensor of more axes may be several matrices.
    size: [usize; 2],
}

impl PartialEq for Origin {
    fn eq(&self, other: &Origin) -> bool {
        let is_same = ptr::addr_eq(self.weights.as_ptr(), other.weights.as_ptr());
        is_same && (self.transposed, self.size) == (other.transposed, other.size)
    }
}

/// Equal weights are equal wherever they come from. tract compares operators with each change of a model.
impl PartialEq for LayerWeights {
    fn eq(&self, other: &LayerWeights) -> bool {
        match (self, other) {
            (
                LayerWeights::Packed { weights: a, first, .. },
                LayerWeights::Packed { weights: b, first: other, .. },
            ) => first == other && a == b,
            (LayerWeights::Transposed(a), LayerWeights::Transposed(b)) => {
                Arc::ptr_eq(a, b) || a == b
            }
            (LayerWeights::Compressed(a, precision), LayerWeights::Compressed(b, other)) => {
                precision == other && (Arc::ptr_eq(a, b) || a == b)
            }
            _ => false,
        }
    }
}

impl_plain_op!(
    FullyConnected with {
        fn axes_mapping(
            &self,
            inputs: &[&TypedFact],
            outputs: &[&TypedFact],
        ) -> TractResult<AxesMapping> {
            map_unchanged_axes(inputs, outputs, |axis| axis + 1 == inputs[0].rank())
        }

        fn slice(
            &self,
            patch: &mut TypedModelPatch,
            model: &TypedModel,
            node: &TypedNode,
            prefix: &str,
            inputs: &[OutletId],
            output_axis: usize,
            start: &TDim,
            end: &TDim,
        ) -> TractResult<Option<TVec<OutletId>>> {
            let fact = &node.outputs[0].fact;
            // What is an output of the model is needed as a whole.
            rule_if!(model.output_outlets()?.iter().all(|outlet| outlet.node != node.id));
            // The last position of a language model is a slice of unknown sizes, which tract would take through the last attention, too: a
            // prompt of 4,096 tokens took 1.5 times as long then, and three times the memory.
            rule_if_let!((Ok(first), Ok(after_last)) = (start.to_usize(), end.to_usize()));
            if output_axis + 1 < fact.rank() {
                // tract slices no axis of size 1 of an input.
                rule_if!(!fact.shape[output_axis].is_one());
                return Ok(Some(patch.wire_node(prefix, self.clone(), inputs)?));
            }
            if first == after_last {
                // tract asks for what is before the slice and behind it, too.
                let zero = Tensor::zero_scalar::<f32>()?;
                let zero = patch.add_const(format!("{prefix}.zero"), zero)?;
                let mut shape = fact.shape.clone();
                shape.set(output_axis, 0.to_dim());
                let none = MultiBroadcastTo::new(shape);
                return Ok(Some(patch.wire_node(prefix, none, &[zero])?));
            }
            rule_if_some!(op = self.of_columns(first..after_last));
            Ok(Some(patch.wire_node(prefix, op, inputs)?))
        }
    },
    "FullyConnected",
    info = |op| {
        let format = match &op.weights {
            LayerWeights::Compressed(matrix, Precision::Exact) => format!(" {:?}", matrix.format),
            LayerWeights::Compressed(matrix, Precision::Dynamic) => {
                format!(" {:?} with dynamic quantization", matrix.format)
            }
            LayerWeights::Compressed(matrix, Precision::Bf16(_)) => {
                format!(" {:?}, prompts in bf16", matrix.format)
            }
            LayerWeights::Packed { weights: PackedWeights::Bf16(..), .. } => {
                " in bf16".to_string()
            }
            _ => String::new(),
        };
        let FullyConnected { depth, columns, activation, .. } = op;
        vec![format!("weights: {depth},{columns}{format}, {activation:?}")]
    },
    validation = |_| Validation::Rounding
);

impl FullyConnected {
    /// `weights` is `[steps, columns]`, or transposed. `rows` is how many rows the data has, if that is known, `bf16` says whether the
    /// factors are rounded to that, and `others` are operators of the same model.
    pub fn new<'a>(
        weights: &Arc<Tensor>,
        transposed: bool,
        bias: Vec<f32>,
        activation: Activation,
        rows: Option<usize>,
        bf16: Option<Bf16Isa>,
        others: impl Iterator<Item = &'a FullyConnected>,
    ) -> TractResult<FullyConnected> {
        let &[first, second] = weights.shape() else { bail!("the weights are no matrix") };
        let (depth, columns) = if transposed { (second, first) } else { (first, second) };
        let size = [depth, columns];
        ensure!(depth > 0 && columns > 0, "the weights have no elements");
        let weights = if transposed && rows == Some(1) && bf16.is_none() {
            LayerWeights::Transposed(weights.clone())
        } else {
            let origin = Origin { weights: Arc::downgrade(weights) as _, transposed, size };
            let pack = || Ok(PackedWeights::pack(floats(weights)?, transposed, size, bf16));
            LayerWeights::packed_once(origin, bf16, others, pack)?
        };
        FullyConnected::of(weights, size, bias, activation)
    }

    fn of(
        weights: LayerWeights,
        [depth, columns]: [usize; 2],
        bias: Vec<f32>,
        activation: Activation,
    ) -> TractResult<FullyConnected> {
        ensure!(bias.len() == columns, "the bias has another size");
        Ok(FullyConnected { weights, depth, columns, bias: bias.into(), activation })
    }

    /// With weights that stay compressed, a row for each column of the result.
    pub fn compressed(
        matrix: CompressedMatrix,
        precision: Precision,
        bias: Vec<f32>,
        activation: Activation,
    ) -> TractResult<FullyConnected> {
        let size = [matrix.depth, matrix.rows];
        let weights = LayerWeights::Compressed(matrix.into(), precision);
        FullyConnected::of(weights, size, bias, activation)
    }

    /// With compressed weights that are packed at once, as [`new`](Self::new) does it.
    pub fn decompressed<'a>(
        matrix: &CompressedMatrix,
        bias: Vec<f32>,
        activation: Activation,
        bf16: Option<Bf16Isa>,
        others: impl Iterator<Item = &'a FullyConnected>,
    ) -> TractResult<FullyConnected> {
        let weights = matrix.constant().identity();
        let size = [matrix.depth, matrix.rows];
        let origin = Origin { weights, transposed: true, size };
        let weights = LayerWeights::packed_once(origin, bf16, others, || {
            Ok(match bf16 {
                None => PackedWeights::F32(compressed::packed(matrix)?.into()),
                Some(isa) => PackedWeights::Bf16(compressed::packed(matrix)?.into(), isa),
            })
        })?;
        FullyConnected::of(weights, size, bias, activation)
    }

    /// The same for some columns, if these are whole panels of packed weights.
    fn of_columns(&self, columns: Range<usize>) -> Option<FullyConnected> {
        let LayerWeights::Packed { weights, first, origin } = &self.weights else { return None };
        let panel = Tile::of(Vectors::detect()).columns;
        let is_border = |column: usize| column.is_multiple_of(panel) || column == self.columns;
        if columns.is_empty() || !is_border(columns.start) || !is_border(columns.end) {
            return None;
        }
        let first = first + columns.start;
        Some(FullyConnected {
            weights: LayerWeights::Packed {
                weights: weights.clone(),
                first,
                origin: origin.clone(),
            },
            columns: columns.len(),
            bias: self.bias[columns].to_vec().into(),
            ..*self
        })
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        let input = args_1!(inputs);
        let FullyConnected { depth, columns, .. } = *self;
        let mut shape: TVec<usize> = input.shape().into();
        ensure!(
            shape.pop() == Some(depth),
            "FullyConnected: the data has shape {:?}, but its last axis must have size {depth}",
            input.shape()
        );
        shape.push(columns);
        let data = floats(&input)?;
        filled_output("FullyConnected", &shape, |elements| self.multiply(data, elements))
    }

    /// Multiplies rows, of which there are some.
    pub fn multiply(&self, data: &[f32], elements: &mut [f32]) -> TractResult<()> {
        match &self.weights {
            LayerWeights::Packed { weights, first, .. } => match weights {
                PackedWeights::F32(weights) => {
                    self.multiply_packed(weights.view().columns_from(*first), data, elements)
                }
                PackedWeights::Bf16(weights, _) => {
                    self.multiply_packed(weights.view().columns_from(*first), data, elements)
                }
            },
            LayerWeights::Compressed(matrix, precision) => {
                let (bias, activation) = (&self.bias, self.activation);
                compressed::multiply(matrix, data, *precision, bias, activation, elements)
            }
            LayerWeights::Transposed(weights) => {
                let (weights, depth) = (floats(weights)?, self.depth);
                multiply_row_by_row(data, weights, depth, &self.bias, self.activation, elements)
            }
        }
    }

    fn multiply_packed<T: Element>(
        &self,
        weights: PackedB<&[T]>,
        data: &[f32],
        elements: &mut [f32],
    ) -> TractResult<()> {
        let FullyConnected { depth, columns, .. } = *self;
        let count = elements.len() / columns;
        let vectors = Vectors::detect();
        let tile = Tile::of(vectors);
        let product = |left: OperandA<&[T]>, columns: Range<usize>, output: Output| {
            let (bias, activation) = (Some(&self.bias[..]), self.activation);
            let product = PackedGemm::of(left, weights, output);
            PackedGemm { columns, bias, activation, ..product }.run(vectors);
            Ok(())
        };
        let products = elements.len().saturating_mul(depth);
        let division = Division::of(cost::PRODUCT.of(products));
        let threads = division.threads();
        let rows_are_many = count >= MANY_ROWS * PARTS * threads;
        let panels_are_few = columns.div_ceil(tile.columns) < threads;
        if threads > 1 && (rows_are_many || panels_are_few) {
            // Threads share the rows.
            let size = PartSize { least: count.div_ceil(PARTS * threads), multiple: tile.rows };
            return division.fill_parts(elements, columns, size, |first, output| {
                let count = output.len() / columns;
                let data = &data[first * depth..][..count * depth];
                let mut packed = None;
                let pack = || OperandA::pack_scratch(data, depth, count, depth, tile);
                let rows = OperandA::in_place(data, count, depth, tile)
                    .unwrap_or_else(|| packed.insert(pack()).view());
                product(rows, 0..columns, Output::matrix(output, columns))
            });
        }
        let mut packed = None;
        let pack = || OperandA::pack_on_threads(data, count, depth, tile);
        let rows = OperandA::in_place(data, count, depth, tile)
            .unwrap_or_else(|| packed.insert(pack()).view());
        let shares = Shares::of_product(&division, [count, columns]);
        shares.for_each(elements, |share, output| {
            product(rows.part(share.rows), share.columns, output)
        })
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        expect_input_count("FullyConnected", inputs.len(), 1..=1)?;
        ensure!(
            inputs[0].rank() > 0,
            "FullyConnected: the data has rank 0, but must have rank 1 or more"
        );
        let mut fact = inputs[0].without_value();
        fact.shape.set(fact.rank() - 1, self.columns.to_dim());
        Ok(fact)
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::array::Slice;
    use tract_core::ops::einsum::EinSum;
    use tract_core::tract_data::half::f16;

    use super::*;
    use crate::compressed::DequantizedConst;
    use crate::isa::Instructions;
    use crate::isa::tests::with_all_instructions;
    use crate::lazy::LazyTensor;
    use crate::product::tests::{fractions, integers, rounded_to_bf16, with_all_vectors};

    fn matrix(shape: [usize; 2]) -> TractResult<Arc<Tensor>> {
        Ok(Tensor::from_shape(&shape, &integers(shape[0] * shape[1]))?.into_arc_tensor())
    }

    #[test]
    fn all_numbers_of_rows() -> TractResult<()> {
        let activation = Activation::Clamp { min: -40., max: 50. };
        for (depth, columns) in [(1, 1), (5, 144), (3 * 8 * 16 + 21, 37), (64, 97), (405, 97)] {
            let bias = integers(columns);
            for rows in [1, 2, 3, 8, 11] {
                let data = Tensor::from_shape(&[rows, depth], &integers(rows * depth))?;
                for (transposed, shape, axes) in
                    [(false, [depth, columns], "mk,kn->mn"), (true, [columns, depth], "mk,nk->mn")]
                {
                    let weights = matrix(shape)?;
                    let einsum = EinSum::new(axes.parse()?, DatumType::F32);
                    let inputs = tvec!(data.clone().into(), weights.clone().into_tvalue());
                    let mut expected =
                        einsum.eval(&EvalContext::out_of_plan(), inputs)?[0].clone().into_tensor();
                    let mut view = expected.try_as_plain_ram_mut()?;
                    for (number, element) in view.as_slice_mut::<f32>()?.iter_mut().enumerate() {
                        let bias = integers(columns)[number % columns];
                        *element = (*element + bias).clamp(-40., 50.);
                    }
                    with_all_vectors(|| {
                        for known in [Some(rows), None] {
                            let op = FullyConnected::new(
                                &weights,
                                transposed,
                                bias.clone(),
                                activation,
                                known,
                                None,
                                std::iter::empty(),
                            );
                            let found = op.unwrap().eval(tvec!(data.clone().into()));
                            let doing = format!("{rows} {depth} {columns} {axes} {known:?}");
                            assert_eq!(found.unwrap(), expected, "{doing}");
                        }
                    });
                }
            }
        }
        Ok(())
    }

    /// Rounded weights and data, if the processor multiplies such numbers, against sums in double precision.
    #[test]
    fn weights_in_bf16() -> TractResult<()> {
        for (rows, depth, columns) in [(1, 1, 1), (1, 70, 97), (7, 33, 48), (66, 405, 97)] {
            let (data, numbers) = (fractions(rows * depth), fractions(depth * columns));
            let bias = fractions(columns);
            let [a, b] = [&data, &numbers]
                .map(|it| it.iter().map(|it| f64::from(rounded_to_bf16(*it))).collect::<Vec<_>>());
            let data = Tensor::from_shape(&[rows, depth], &data)?;
            let weights = Tensor::from_shape(&[columns, depth], &numbers)?.into_arc_tensor();
            let run = |known, bf16| {
                let (bias, activation) = (bias.clone(), Activation::Identity);
                let others = std::iter::empty();
                let op =
                    FullyConnected::new(&weights, true, bias, activation, known, bf16, others)?;
                let nothing = op.eval(tvec!(Tensor::zero::<f32>(&[0, depth])?.into()))?;
                assert_eq!(nothing.shape(), [0, columns]);
                op.eval(tvec!(data.clone().into()))
            };
            with_all_instructions(|instructions| {
                let bf16 = instructions.bf16();
                for known in [Some(rows), None] {
                    let found = run(known, bf16).unwrap();
                    if bf16.is_none() {
                        assert_eq!(found, run(known, None).unwrap());
                        continue;
                    }
                    for (number, found) in floats(&found).unwrap().iter().enumerate() {
                        let (row, column) = (number / columns, number % columns);
                        let pairs = a[row * depth..][..depth].iter().zip(&b[column * depth..]);
                        let terms = pairs.map(|(a, b)| a * b);
                        let most = terms.clone().map(f64::abs).sum::<f64>();
                        let expected = terms.sum::<f64>() + f64::from(bias[column]);
                        let error = (f64::from(*found) - expected).abs();
                        assert!(
                            error <= 4e-6 * (most + 1.),
                            "{found} for {expected}, {rows} {depth} {columns} {known:?}"
                        );
                    }
                }
            });
        }
        Ok(())
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn threads_share_rows_or_columns() -> TractResult<()> {
        use tract_core::prelude::multithread::{
            Executor, multithread_tract_scope, set_threading_element_threshold,
        };

        set_threading_element_threshold(0);
        let (depth, columns) = (3, 700);
        let weights = matrix([depth, columns])?;
        let op = |known, bf16| {
            let (bias, activation) = (integers(columns), Activation::Identity);
            FullyConnected::new(&weights, false, bias, activation, known, bf16, std::iter::empty())
        };
        for rows in [2 * MANY_ROWS, 2 * MANY_ROWS * PARTS - 1, 2 * MANY_ROWS * PARTS + 5] {
            let data = Tensor::from_shape(&[rows, depth], &integers(rows * depth))?;
            let run = |op: &FullyConnected| op.eval(tvec!(data.clone().into()));
            for bf16 in [None, Instructions::detect().bf16()] {
                let op = op(Some(rows), bf16)?;
                let expected = multithread_tract_scope(Executor::SingleThread, || run(&op))?;
                let found = multithread_tract_scope(Executor::multithread(2), || run(&op))?;
                assert_eq!(found, expected, "{rows} rows");
            }
        }
        Ok(())
    }

    /// Where its packed weights are.
    fn place_of(op: &FullyConnected) -> *const () {
        match &op.weights {
            LayerWeights::Packed { weights: PackedWeights::F32(packed), .. } => {
                Arc::as_ptr(packed).cast()
            }
            LayerWeights::Packed { weights: PackedWeights::Bf16(packed, _), .. } => {
                Arc::as_ptr(packed).cast()
            }
            _ => panic!("they are packed"),
        }
    }

    #[cfg(feature = "multithread-mm")]
    #[test]
    fn threads_pack_codes() -> TractResult<()> {
        use tract_core::prelude::multithread::{
            Executor, multithread_tract_scope, set_threading_element_threshold,
        };

        set_threading_element_threshold(0);
        let size = [700, 50];
        for bf16 in [None, Instructions::detect().bf16()] {
            let packed = |executor| {
                multithread_tract_scope(executor, || {
                    let (_, matrix) = halves(size, 3.)?;
                    let (bias, activation) = (integers(size[0]), Activation::Identity);
                    let others = std::iter::empty();
                    FullyConnected::decompressed(&matrix, bias, activation, bf16, others)
                })
            };
            assert!(packed(Executor::SingleThread)? == packed(Executor::multithread(2))?);
        }
        Ok(())
    }

    #[test]
    fn shared_weights_are_packed_once() -> TractResult<()> {
        let (weights, other) = (matrix([4, 4])?, matrix([4, 4])?);
        let new_in = |bf16, weights: &Arc<Tensor>, transposed, others: &[&FullyConnected]| {
            let activation = Activation::Identity;
            let others = others.iter().copied();
            FullyConnected::new(weights, transposed, vec![0.; 4], activation, None, bf16, others)
        };
        let new = |weights: &Arc<Tensor>, transposed: bool, others: &[&FullyConnected]| {
            new_in(None, weights, transposed, others)
        };
        let first = new(&weights, false, &[])?;
        assert_eq!(place_of(&first), place_of(&new(&weights, false, &[&first])?));
        assert_ne!(place_of(&first), place_of(&new(&weights, true, &[&first])?));
        assert_ne!(place_of(&first), place_of(&new(&other, false, &[&first])?));
        let bf16 = Instructions::detect().bf16();
        let rounded = new_in(bf16, &weights, false, &[&first])?;
        assert_eq!(place_of(&first) != place_of(&rounded), bf16.is_some());
        assert_eq!(
            place_of(&rounded),
            place_of(&new_in(bf16, &weights, false, &[&first, &rounded])?)
        );
        Ok(())
    }

    /// A matrix of half precision that is read when it is needed, with a number that it begins with.
    fn halves(
        [rows, depth]: [usize; 2],
        first: f32,
    ) -> TractResult<(LazyTensor, CompressedMatrix)> {
        let mut numbers = integers(rows * depth);
        numbers[0] = first;
        let bytes: Vec<u8> =
            numbers.iter().flat_map(|it| f16::from_f32(*it / 8.).to_ne_bytes()).collect();
        let codes = LazyTensor::of_parts(DatumType::F16, &[rows, depth], move |begin, part| {
            part.copy_from_slice(&bytes[begin..][..part.len()]);
            Ok(())
        })?;
        let constant = DequantizedConst::new(codes.clone(), None, None)?;
        Ok((codes, CompressedMatrix::new(&constant, rows)?.unwrap()))
    }

    #[test]
    fn codes_are_packed_as_numbers_are() -> TractResult<()> {
        for (depth, columns) in [(1, 1), (3 * 8 * 16 + 21, 137), (64, 144), (405, 304)] {
            with_all_instructions(|instructions| {
                for bf16 in [None, instructions.bf16()] {
                    let (codes, matrix) = halves([columns, depth], 3.).unwrap();
                    let activation = Activation::Identity;
                    let of_codes = |matrix: &CompressedMatrix, others: &[&FullyConnected]| {
                        let (bias, others) = (integers(columns), others.iter().copied());
                        FullyConnected::decompressed(matrix, bias, activation, bf16, others)
                            .unwrap()
                    };
                    let found = of_codes(&matrix, &[]);
                    assert!(!codes.is_read(), "they are not kept");
                    let numbers = matrix.constant().value().unwrap();
                    let bias = integers(columns);
                    let expected = FullyConnected::new(
                        &numbers,
                        true,
                        bias,
                        activation,
                        None,
                        bf16,
                        std::iter::empty(),
                    );
                    let expected = expected.unwrap();
                    let data = Tensor::from_shape(&[7, depth], &integers(7 * depth)).unwrap();
                    let run = |op: &FullyConnected| op.eval(tvec!(data.clone().into())).unwrap();
                    assert_eq!(run(&found), run(&expected), "{depth} {columns} {bf16:?}");
                    assert!(found == expected, "{depth} {columns} {bf16:?}");
                    assert!(found == of_codes(&matrix, &[]), "of codes that are in memory now");
                    assert!(found != of_codes(&halves([columns, depth], 4.).unwrap().1, &[]));
                    assert_eq!(place_of(&found), place_of(&of_codes(&matrix, &[&found])));
                    let (_, other) = halves([columns, depth], 3.).unwrap();
                    assert_ne!(place_of(&found), place_of(&of_codes(&other, &[&found])));
                    if columns.is_multiple_of(2) {
                        // The same codes as another matrix.
                        let other = CompressedMatrix::new(matrix.constant(), columns / 2).unwrap();
                        let bias = vec![0.; columns / 2];
                        let other = FullyConnected::decompressed(
                            &other.unwrap(),
                            bias,
                            activation,
                            bf16,
                            [&found].into_iter(),
                        );
                        assert_ne!(place_of(&found), place_of(&other.unwrap()));
                    }
                }
            });
        }
        Ok(())
    }

    /// A layer of 2 panels of columns and 3 more, and slices of its result, each an output: the operators after tract's declutter, if the
    /// results are right.
    fn sliced(
        slices: &[(usize, Range<usize>)],
        is_output: bool,
        bf16: Option<Bf16Isa>,
    ) -> TractResult<Vec<StaticName>> {
        let (rows, depth, columns) = (5, 40, 2 * panel() + 3);
        let data = Tensor::from_shape(&[rows, depth], &integers(rows * depth))?;
        let op = FullyConnected::new(
            &matrix([columns, depth])?,
            true,
            integers(columns),
            Activation::Identity,
            None,
            bf16,
            std::iter::empty(),
        )?;
        let whole = op.eval(tvec!(data.clone().into_tvalue()))?;
        let mut model = TypedModel::default();
        let source = model.add_source("data", f32::fact([rows, depth]))?;
        let product = model.wire_node("product", op, &[source])?;
        let mut outputs = vec![];
        for (number, (axis, range)) in slices.iter().enumerate() {
            let slice = Slice::new(*axis, range.start, range.end);
            outputs.extend(model.wire_node(format!("slice_{number}"), slice, &product)?);
        }
        if is_output {
            outputs.extend(product);
        }
        model.select_output_outlets(&outputs)?;
        let model = model.into_decluttered()?;
        let found = model.clone().into_runnable()?.run(tvec!(data.into()))?;
        for (found, (axis, range)) in found.iter().zip(slices) {
            if range.is_empty() {
                assert_eq!(found.len(), 0);
                continue;
            }
            assert_eq!(**found, whole.slice(*axis, range.start, range.end)?, "{axis} {range:?}");
        }
        Ok(model.nodes.iter().map(|node| node.op.name()).collect())
    }

    fn panel() -> usize {
        Tile::of(Vectors::detect()).columns
    }

    /// Rows of the data, and whole panels of columns, are not computed where nobody needs them.
    #[test]
    fn slices_of_rows_and_columns() -> TractResult<()> {
        with_all_instructions(|instructions| {
            let panel = panel();
            let columns = 2 * panel + 3;
            for bf16 in [None, instructions.bf16()] {
                let of = |slices: &[_]| sliced(slices, false, bf16).unwrap();
                assert_eq!(of(&[(0, 2..4)]), ["Source", "Slice", "FullyConnected"]);
                assert_eq!(of(&[(0, 4..5)]), ["Source", "Slice", "FullyConnected"]);
                for range in [0..panel, panel..2 * panel, panel..columns, 2 * panel..columns] {
                    assert_eq!(of(&[(1, range)]), ["Source", "FullyConnected"]);
                }
                for range in [0..panel + 1, 1..panel, panel + 1..columns] {
                    assert_eq!(of(&[(1, range)]), ["Source", "FullyConnected", "Slice"]);
                }
                // Nothing of it: tract has a constant for that.
                for column in [0, panel, panel + 1, columns] {
                    of(&[(1, column..column)]);
                }
                // Several that are all of it, as queries, keys and values.
                let all = [(1, 0..panel), (1, panel..2 * panel), (1, 2 * panel..columns)];
                assert_eq!(
                    of(&all),
                    ["Source", "FullyConnected", "FullyConnected", "FullyConnected"]
                );
                let whole = sliced(&[(1, 0..panel)], true, bf16).unwrap();
                assert_eq!(whole, ["Source", "FullyConnected", "Slice"]);
            }
        });
        Ok(())
    }

    #[test]
    fn slices_of_slices() -> TractResult<()> {
        with_all_instructions(|_| {
            let panel = panel();
            let columns = 3 * panel + 1;
            let op = FullyConnected::new(
                &matrix([7, columns]).unwrap(),
                false,
                integers(columns),
                Activation::Identity,
                None,
                None,
                std::iter::empty(),
            );
            let op = op.unwrap();
            let data = Tensor::from_shape(&[2, 7], &integers(14)).unwrap();
            let run = |op: &FullyConnected| op.eval(tvec!(data.clone().into())).unwrap();
            let part = op.of_columns(panel..columns).unwrap().of_columns(panel..2 * panel).unwrap();
            assert_eq!(run(&part), run(&op).slice(1, 2 * panel, 3 * panel).unwrap());
            assert_eq!(place_of(&part), place_of(&op));
            assert!(part != op.of_columns(panel..2 * panel).unwrap());
            assert!(op.of_columns(panel..panel).is_none());
        });
        Ok(())
    }

    #[test]
    fn data_of_another_size_is_an_error() -> TractResult<()> {
        let activation = Activation::Identity;
        let op = FullyConnected::new(
            &matrix([4, 5])?,
            false,
            vec![0.; 5],
            activation,
            None,
            None,
            [].into_iter(),
        )?;
        let data = Tensor::zero::<f32>(&[2, 3])?;
        let error = op.eval(tvec!(data.into())).unwrap_err().to_string();
        assert!(error.contains("shape [2, 3], but its last axis must have size 4"), "{error}");
        let nothing = Tensor::zero::<f32>(&[0, 4])?;
        assert_eq!(op.eval(tvec!(nothing.into()))?, Tensor::zero::<f32>(&[0, 5])?);
        Ok(())
    }
}
