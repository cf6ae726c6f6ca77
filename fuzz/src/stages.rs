//! A model that was read, on its way through tract.

use std::borrow::Cow;

use arbitrary::{Result, Unstructured};
use model_cases::{Stage, StagedModel, Tolerance, compare_within};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::{DimLike, IntoTensor, TDim};

use crate::panics;

/// Inputs have so many elements together at most, and their product is no greater than the second.
const MOST_ELEMENTS: usize = 1 << 12;
const MOST_COMBINATIONS: usize = 1 << 20;

/// An input: its type, where it is known, and its dimensions.
pub type Input = (Option<DatumType>, Vec<TDim>);

/// Tensors for the inputs of a model, their symbols with values from the bytes. `None` if they would be
/// too large, or of a type or a shape that nobody can feed.
pub fn feed(u: &mut Unstructured, inputs: &[Input]) -> Result<Option<Vec<Tensor>>> {
    let mut symbols = SymbolValues::default();
    let mut tensors: Vec<Tensor> = vec![];
    for (dt, dims) in inputs {
        for symbol in dims.iter().flat_map(|dim| dim.symbols()) {
            if symbols.get(&symbol).is_none() {
                // Where the bytes have come to their end it is 2: most models run with that.
                symbols.set(&symbol, (u.int_in_range(0..=5)? + 2) % 6);
            }
        }
        let shape: Option<Vec<usize>> =
            dims.iter().map(|dim| dim.eval(&symbols).to_usize().ok()).collect();
        let volume = |shape: &Vec<usize>| {
            shape.iter().try_fold(1usize, |volume, dim| volume.checked_mul((*dim).max(1)))
        };
        let Some((volume, shape)) = shape.and_then(|it| Some((volume(&it)?, it))) else {
            return Ok(None);
        };
        let all = tensors.iter().map(|tensor| tensor.len().max(1));
        let (sum, product) = all.fold((0, 1), |(sum, product), it| (sum + it, product * it));
        if volume > MOST_ELEMENTS - sum.min(MOST_ELEMENTS) || volume > MOST_COMBINATIONS / product {
            return Ok(None);
        }
        let dt = dt.unwrap_or(DatumType::I64);
        let mut entries = Vec::with_capacity(volume);
        for _ in 0..shape.iter().product() {
            entries.push(match u.arbitrary::<u8>()? {
                wild @ 250.. => u.arbitrary::<i64>()?.wrapping_add(wild.into()),
                small => i64::from(small % 5),
            });
        }
        let entries =
            tract_ndarray::ArrayD::from_shape_vec(&*shape, entries).unwrap().into_tensor();
        let Ok(tensor) = entries.cast_to_dt(dt) else { return Ok(None) };
        tensors.push(tensor.into_owned());
    }
    Ok(Some(tensors))
}

/// What has to hold for the outputs of a model.
pub struct Expected {
    /// How far two stages may be apart, if they are comparable.
    pub tolerance: Option<Tolerance>,
    /// Whether that which is known of the outputs beforehand has to hold: all operators are ours.
    pub facts: bool,
}

/// Runs a model at each stage that `at` gives and compares what comes out. Says whether there was an output.
///
/// A stage may fail where another does not: where tract's optimiser removes a node, it removes its errors.
/// But where two stages have outputs, they are the same.
pub fn compare_stages(
    inputs: &[Tensor],
    expected: Expected,
    stages: &[Stage],
    at: impl Fn(Stage) -> TractResult<StagedModel>,
) -> bool {
    let mut first: Option<(Stage, Vec<Tensor>)> = None;
    for stage in stages.iter().copied() {
        let run = || -> TractResult<_> {
            let mut model = at(stage)?;
            let outputs = model.run(inputs)?;
            Ok((model, outputs))
        };
        let Some(Ok((model, outputs))) = panics::catch(run) else { continue };
        // Before a model is typed, it may be that nothing is known.
        let known = expected.facts && stage != Stage::Loaded;
        if known && let Err(error) = model.check_facts(inputs, &outputs) {
            panic!("{stage:?}: {error:?}");
        }
        let Some((earlier, first)) = &first else {
            first = Some((stage, outputs));
            continue;
        };
        assert_eq!(first.len(), outputs.len());
        for (first, got) in first.iter().zip(&outputs) {
            assert_eq!(first.datum_type(), got.datum_type());
            assert_eq!(first.shape(), got.shape(), "{earlier:?} and {stage:?}");
            if let Some(tolerance) = expected.tolerance
                && (tolerance == Tolerance::EXACT || is_finite(first) && is_finite(got))
                && let Err(difference) = if tolerance == Tolerance::EXACT {
                    compare_within(first, got, tolerance)
                } else {
                    // A small sum of large numbers is what rounding leaves of it.
                    let atol = tolerance.atol.max(greatest(first) * OF_GREATEST);
                    let tolerance = Tolerance { atol, ..tolerance };
                    compare_within(&as_rounded(first), &as_rounded(got), tolerance)
                }
            {
                panic!("{earlier:?} and {stage:?} differ: {difference}\n{first:?}\n{got:?}");
            }
        }
    }
    first.is_some()
}

/// How much of the greatest element an element may differ.
const OF_GREATEST: f64 = 1e-5;

/// The greatest magnitude of a float in a tensor.
fn greatest(tensor: &Tensor) -> f64 {
    let floats = tensor.cast_to::<f64>().ok().filter(|_| tensor.datum_type().is_float());
    let floats = floats.and_then(|it| Some(it.to_plain_array_view::<f64>().ok()?.to_owned()));
    floats.map_or(0., |floats| floats.iter().fold(0., |most, it| most.max(it.abs())))
}

/// Integers that single precision cannot have as floats: pools compute in it, and round.
fn as_rounded(tensor: &Tensor) -> Cow<'_, Tensor> {
    const MOST: f64 = (1 << f32::MANTISSA_DIGITS) as f64;
    match tensor.cast_to::<f64>() {
        Ok(floats)
            if tensor.datum_type().is_integer()
                && !all_floats(&floats, |number| number.abs() <= MOST) =>
        {
            floats
        }
        _ => Cow::Borrowed(tensor),
    }
}

/// Whether all floats of a tensor are finite. What NaN and infinities come to depends on the kernel: where the
/// maximum of NaN and a number is taken, or an infinity multiplied by 0.
fn is_finite(tensor: &Tensor) -> bool {
    all_floats(tensor, |it| it.is_finite())
}

/// Whether something holds for all elements of a tensor, if they are floats.
pub fn all_floats(tensor: &Tensor, holds: impl Fn(f64) -> bool) -> bool {
    !tensor.datum_type().is_float()
        || tensor.cast_to::<f64>().is_ok_and(|floats| {
            floats.to_plain_array_view::<f64>().is_ok_and(|all| all.iter().all(|it| holds(*it)))
        })
}
