//! Normalization of rows: LayerNormalization and RMSNormalization, as ONNX names them.

use std::sync::Arc;

use pulp::{Simd, WithSimd};
use tract_core::internal::*;

use crate::checks::check_named_inputs;
use crate::cost;
use crate::memory::{filled_output, floats};
use crate::product::{Vectors, load, store};
use crate::sums::total;
use crate::threads::fill_rows;

/// `(x - mean) / sqrt(variance + epsilon) * scale + shift`, of the elements along the last axis; or the same without the mean,
/// with the mean of the squares in place of the variance ("Root Mean Square Layer Normalization", equation 4).
///
/// The data has any shape with an axis, and is of type F32. So is the output, and a second input, if there is one: the data is the sum
/// of both then.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Normalization {
    /// Whether there are two inputs.
    pub is_of_sum: bool,
    /// Whether the mean is subtracted.
    pub is_centred: bool,
    pub epsilon: f32,
    /// For each index of the last axis.
    pub scale: Option<Arc<Vec<f32>>>,
    pub shift: Option<Arc<Vec<f32>>>,
}

impl Normalization {
    /// The names of the inputs.
    fn inputs(&self) -> &'static [&'static str] {
        if self.is_of_sum { &["data", "addend"] } else { &["data"] }
    }
}

/// Some rows, each of so many elements.
struct NormalizedRows<'a> {
    op: &'a Normalization,
    data: &'a [f32],
    addend: Option<&'a [f32]>,
    size: usize,
    output: &'a mut [f32],
}

impl WithSimd for NormalizedRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let NormalizedRows { op, data, addend, size, output } = self;
        for (number, output) in output.chunks_exact_mut(size).enumerate() {
            let data = &data[number * size..][..size];
            let lanes = S::F32_LANES;
            match addend {
                None => {
                    let row = RowStatistics::new(simd, op, data);
                    let parts = data.chunks(lanes).zip(output.chunks_mut(lanes));
                    for (part, (data, output)) in parts.enumerate() {
                        store(simd, output, row.normalized(simd, part * lanes, data));
                    }
                }
                // While a row is in the first-level cache.
                Some(addend) => {
                    let addend = &addend[number * size..][..size];
                    let parts = data.chunks(lanes).zip(addend.chunks(lanes));
                    for ((a, b), output) in parts.zip(output.chunks_mut(lanes)) {
                        store(simd, output, simd.add_f32s(load(simd, a), load(simd, b)));
                    }
                    let row = RowStatistics::new(simd, op, output);
                    for (part, output) in output.chunks_mut(lanes).enumerate() {
                        let numbers = row.normalized(simd, part * lanes, output);
                        store(simd, output, numbers);
                    }
                }
            }
        }
    }
}

/// What all elements of a row have in common.
struct RowStatistics<'a, S: Simd> {
    op: &'a Normalization,
    mean: S::f32s,
    factor: S::f32s,
}

impl<S: Simd> RowStatistics<'_, S> {
    #[inline(always)]
    fn new<'a>(simd: S, op: &'a Normalization, data: &[f32]) -> RowStatistics<'a, S> {
        let count = data.len() as f32;
        let mean = if op.is_centred { total::<S, false>(simd, data, 0.) / count } else { 0. };
        let variance = total::<S, true>(simd, data, mean) / count;
        let factor = simd.splat_f32s(1. / (variance + op.epsilon).sqrt());
        RowStatistics { op, mean: simd.splat_f32s(mean), factor }
    }

    /// A vector of numbers, or the last ones of a row, from an element on.
    #[inline(always)]
    fn normalized(&self, simd: S, first: usize, data: &[f32]) -> S::f32s {
        let mut numbers = simd.mul_f32s(simd.sub_f32s(load(simd, data), self.mean), self.factor);
        if let Some(scale) = &self.op.scale {
            numbers = simd.mul_f32s(numbers, load(simd, &scale[first..][..data.len()]));
        }
        if let Some(shift) = &self.op.shift {
            numbers = simd.add_f32s(numbers, load(simd, &shift[first..][..data.len()]));
        }
        numbers
    }
}

impl_plain_op!(
    Normalization,
    name = |op| if op.is_centred { "LayerNormalization" } else { "RmsNormalization" },
    info = |op| {
        let has = |numbers: &Option<Arc<Vec<f32>>>| if numbers.is_some() { "with" } else { "no" };
        let (scale, shift) = (has(&op.scale), has(&op.shift));
        let of_sum = if op.is_of_sum { ", of the sum of two inputs" } else { "" };
        vec![format!("epsilon: {}, {scale} scale, {shift} shift{of_sum}", op.epsilon)]
    },
    validation = |_| Validation::Rounding
);

impl Normalization {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<Tensor> {
        check_named_inputs(&self.name(), self.inputs(), inputs.len())?;
        let shape = inputs[0].shape();
        let size =
            *shape.last().with_context(|| format!("{}: the data has no axis", self.name()))?;
        for numbers in [&self.scale, &self.shift].into_iter().flatten() {
            ensure!(
                numbers.len() == size,
                "{}: the data has shape {shape:?}, but must have size {} on the last axis",
                self.name(),
                numbers.len()
            );
        }
        for addend in &inputs[1..] {
            ensure!(
                addend.shape() == shape,
                "{}: the addend has shape {:?}, but must have that of the data, {shape:?}",
                self.name(),
                addend.shape()
            );
        }
        let data = floats(&inputs[0])?;
        let addend = inputs.get(1).map(|addend| floats(addend)).transpose()?;
        let vectors = Vectors::detect();
        let fill = |output: &mut [f32]| {
            fill_rows(output, size, cost::ELEMENT.of(data.len()), |first, output| {
                let data = &data[first * size..];
                let addend = addend.map(|addend| &addend[first * size..]);
                vectors.run(NormalizedRows { op: self, data, addend, size, output });
                Ok(())
            })
        };
        filled_output(&self.name(), shape, fill)
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TypedFact> {
        check_named_inputs(&self.name(), self.inputs(), inputs.len())?;
        let data = inputs[0];
        ensure!(
            data.datum_type == DatumType::F32 && data.rank() > 0,
            "{}: the data is {data:?}, but must be of type F32 and have an axis",
            self.name()
        );
        for addend in &inputs[1..] {
            ensure!(
                addend.datum_type == data.datum_type && addend.shape == data.shape,
                "{}: the addend is {addend:?}, but must be like the data, {data:?}",
                self.name()
            );
        }
        Ok(data.without_value())
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math::{add, mul, square, sub};
    use tract_core::ops::nn::{Reduce, Reducer, RmsNorm};

    use super::*;
    use crate::WithKernels;
    use crate::product::tests::with_all_vectors;

    /// What else needs the sum, or the data less its mean.
    #[derive(Debug, Clone, Copy)]
    enum Shared {
        No,
        Output,
        Node,
    }

    /// What a model has around its RmsNorm.
    #[derive(Debug, Clone, Copy)]
    struct NormalizationCase {
        axis: usize,
        /// What the sum is multiplied by before it is subtracted, if it is.
        part: Option<f32>,
        /// The size of the last axis of what is added first, if anything is.
        addend: Option<usize>,
        shared: Shared,
        has_scale: bool,
        has_shift: bool,
    }

    const LAST: NormalizationCase = NormalizationCase {
        axis: 2,
        part: None,
        addend: None,
        shared: Shared::No,
        has_scale: false,
        has_shift: false,
    };

    fn numbers(count: usize, from: usize) -> Vec<f32> {
        (from..from + count).map(|it| (it * 37 % 101) as f32 / 10. - 3.).collect()
    }

    impl NormalizationCase {
        fn model(self, shape: [usize; 3]) -> TractResult<TypedModel> {
            let mut model = TypedModel::default();
            let axis = self.axis;
            let data = model.add_source("data", f32::fact(shape))?;
            let mut last = data;
            let mut outputs = tvec!();
            let mut share = |model: &mut TypedModel, outlet: OutletId| {
                match self.shared {
                    Shared::No => (),
                    Shared::Output => outputs.push(outlet),
                    Shared::Node => outputs.push(model.wire_node("node", square(), &[outlet])?[0]),
                }
                TractResult::Ok(())
            };
            if let Some(size) = self.addend {
                let addend = model.add_source("addend", f32::fact([shape[0], shape[1], size]))?;
                last = model.wire_node("both", add(), &[data, addend])?[0];
                share(&mut model, last)?;
            }
            if let Some(part) = self.part {
                let sum = Reduce::new(tvec!(axis), Reducer::Sum);
                let sum = model.wire_node("sum", sum, &[last])?[0];
                let part = model.add_const("part", Tensor::from_shape(&[1, 1, 1], &[part])?)?;
                let mean = model.wire_node("mean", mul(), &[sum, part])?[0];
                last = model.wire_node("centred", sub(), &[last, mean])?[0];
                if self.addend.is_none() {
                    share(&mut model, last)?;
                }
            }
            let op = RmsNorm { axis, eps: tensor0(1e-5f32).into_arc_tensor() };
            last = model.wire_node("norm", op, &[last])?[0];
            let mut of_axis = [1; 3];
            of_axis[axis] = shape[axis];
            for (name, is_there, op) in
                [("scale", self.has_scale, mul()), ("shift", self.has_shift, add())]
            {
                if is_there {
                    let numbers = Tensor::from_shape(&of_axis, &numbers(shape[axis], name.len()))?;
                    let numbers = model.add_const(format!("{name}s"), numbers)?;
                    last = model.wire_node(name, op, &[last, numbers])?[0];
                }
            }
            outputs.push(last);
            model.select_output_outlets(&outputs)?;
            Ok(model)
        }

        /// Runs it as it is, and with kernels: the operators that it has then.
        fn check(self, shape: [usize; 3]) -> TractResult<Vec<String>> {
            let model = self.model(shape)?;
            let input = |size: usize, from: usize| {
                let shape = [shape[0], shape[1], size];
                let numbers = numbers(shape.iter().product(), from);
                Tensor::from_shape(&shape, &numbers).map(TValue::from)
            };
            let mut inputs = tvec!(input(shape[2], 0)?);
            if let Some(size) = self.addend {
                inputs.push(input(size, 5)?);
            }
            let expected = model.clone().into_runnable()?.run(inputs.clone())?;
            let with_kernels = model.with_kernels()?;
            let names = with_kernels.nodes().iter().map(|node| node.op.name().to_string());
            let names = names.collect();
            with_all_vectors(|| {
                let model = with_kernels.clone().into_optimized().unwrap();
                let found = model.into_runnable().unwrap().run(inputs.clone()).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    // Where a shift takes away most of a number of 7, tract's are wrong by 4e-6, and these by 2e-6 (AVX2).
                    found.close_enough(expected, Approximation::Custom(1e-5, 2e-6, 0.)).unwrap();
                }
            });
            Ok(names)
        }
    }

    #[test]
    fn it_is_what_models_compute() -> TractResult<()> {
        for size in [2, 7, 16, 33, 80, 768] {
            for (is_centred, has_scale, has_shift) in [
                (false, false, false),
                (false, true, false),
                (true, false, false),
                (true, true, true),
            ] {
                let part = is_centred.then_some(1. / size as f32);
                let names =
                    NormalizationCase { part, has_scale, has_shift, ..LAST }.check([2, 5, size])?;
                let name = if is_centred { "LayerNormalization" } else { "RmsNormalization" };
                assert_eq!(names, ["Source", name], "{size}");
                let case =
                    NormalizationCase { part, addend: Some(size), has_scale, has_shift, ..LAST };
                assert_eq!(case.check([2, 5, size])?, ["Source", "Source", name], "{size}");
            }
        }
        Ok(())
    }

    /// Along another axis it stays, and so does a difference from something else, or one that is needed.
    #[test]
    fn others_stay() -> TractResult<()> {
        let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
        let names = NormalizationCase { axis: 1, part: Some(0.2), ..LAST }.check([2, 5, 16])?;
        assert!(has(&names, "RmsNorm"), "{names:?}");
        let part = Some(1. / 16.);
        for case in [
            NormalizationCase { part: Some(0.5), ..LAST },
            NormalizationCase { part, shared: Shared::Output, ..LAST },
        ] {
            let names = case.check([2, 5, 16])?;
            assert!(has(&names, "RmsNormalization") && has(&names, "ReductionOfAxes"), "{names:?}");
        }
        Ok(())
    }

    /// A sum that something else needs stays, and one of another shape.
    #[test]
    fn other_sums_stay() -> TractResult<()> {
        for part in [None, Some(1. / 16.)] {
            for (addend, shared) in [(16, Shared::Output), (16, Shared::Node), (1, Shared::No)] {
                let case = NormalizationCase { part, addend: Some(addend), shared, ..LAST };
                let names = case.check([2, 5, 16])?;
                assert_eq!(names[..3], ["Source", "Source", "Elementwise"], "{case:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn inputs_of_other_shapes_are_an_error() {
        let op = Normalization {
            is_of_sum: true,
            is_centred: false,
            epsilon: 0.,
            scale: None,
            shift: None,
        };
        let eval = |shapes: &[&[usize]]| {
            let inputs = shapes.iter().map(|shape| Tensor::zero::<f32>(shape).unwrap().into());
            let error = op.eval(inputs.collect()).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            eval(&[&[2, 4], &[1, 4]]),
            "RmsNormalization: the addend has shape [1, 4], but must have that of the data, [2, 4]"
        );
        assert_eq!(
            eval(&[&[2, 4]]),
            "RmsNormalization: the number of inputs is 1, but must be 2: data, addend"
        );
    }

    #[test]
    fn rows_of_another_size_are_an_error() {
        let scale = Some(Arc::new(vec![1.; 3]));
        let op =
            Normalization { is_of_sum: false, is_centred: true, epsilon: 0., scale, shift: None };
        let eval = |shape: &[usize]| {
            let data = Tensor::zero::<f32>(shape).unwrap().into_tvalue();
            op.eval(tvec!(data)).unwrap_err().to_string()
        };
        assert_eq!(
            eval(&[2, 4]),
            "LayerNormalization: the data has shape [2, 4], but must have size 3 on the last axis"
        );
        assert_eq!(eval(&[]), "LayerNormalization: the data has no axis");
    }
}
