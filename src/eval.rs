//! Evaluation: from tract's tensors to the kernel, and from its errors to those of users.

use crate::geometry::{self, BadIndex, Geometry, Indices};
use crate::index::{IndexError, IndexPolicy};
use crate::kernel::{self, Operands};
use crate::revision::Spec;
use crate::shape;
use tract_core::internal::*;
use tract_core::tract_data::TooEarly;
use tract_openvino_kernels::checks::{expect_inputs, listed};

/// Whether `indices` or `axis` may have this type: an integer, or `TDim`, which tract makes of dimensions.
pub(crate) fn is_integer(dt: DatumType) -> bool {
    use DatumType::*;
    matches!(dt, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | TDim)
}

pub(crate) fn ensure_integer(spec: &Spec, input: &str, dt: DatumType) -> TractResult<()> {
    ensure!(
        is_integer(dt),
        "{}: {input} has element type {dt:?}, but must have an integer type: I8, I16, I32, I64, U8, U16, \
         U32, U64 or TDim",
        spec.name
    );
    Ok(())
}

/// The entries of an `indices` or `axis` tensor.
///
/// `TDim` entries become numbers here, by the values in `symbols`. Where a value is missing, the error's root
/// cause is `TooEarly`, which tract takes as "ask again later".
pub(crate) struct IntegerTensor<'a> {
    tensor: &'a Tensor,
    dims: Vec<i64>,
}

impl<'a> IntegerTensor<'a> {
    pub fn new(
        spec: &Spec,
        input: &str,
        tensor: &'a Tensor,
        symbols: &SymbolValues,
    ) -> TractResult<Self> {
        ensure_integer(spec, input, tensor.datum_type())?;
        let plain = tensor.try_as_plain_ram()?;
        let dims = if tensor.datum_type() == TDim::datum_type() {
            let evaluate = |dim: &TDim| dim.eval_to_i64(symbols);
            plain.as_slice::<TDim>()?.iter().map(evaluate).collect::<TractResult<_>>()?
        } else {
            vec![]
        };
        Ok(Self { tensor, dims })
    }

    /// The entries of a constant; `None` if one is a symbol without a value yet.
    pub fn if_known(spec: &Spec, input: &str, tensor: &'a Tensor) -> TractResult<Option<Self>> {
        unless_too_early(Self::new(spec, input, tensor, &SymbolValues::default()))
    }

    pub fn entries(&self) -> TractResult<Indices<'_>> {
        use DatumType as T;
        let plain = self.tensor.try_as_plain_ram()?;
        Ok(match self.tensor.datum_type() {
            T::I8 => Indices::I8(plain.as_slice()?),
            T::I16 => Indices::I16(plain.as_slice()?),
            T::I32 => Indices::I32(plain.as_slice()?),
            T::I64 => Indices::I64(plain.as_slice()?),
            T::U8 => Indices::U8(plain.as_slice()?),
            T::U16 => Indices::U16(plain.as_slice()?),
            T::U32 => Indices::U32(plain.as_slice()?),
            T::U64 => Indices::U64(plain.as_slice()?),
            T::TDim => Indices::I64(&self.dims),
            other => bail!("indices have element type {other:?}, but must have an integer type"),
        })
    }
}

/// Refuses what is surely not a scalar or a 1-D tensor of one element. (Gather, "Inputs", 3: "Scalar or 1D
/// tensor".)
pub(crate) fn check_one_element<D: DimLike>(
    spec: &Spec,
    input: &str,
    shape: &[D],
) -> TractResult<()> {
    ensure!(
        shape.len() <= 1 && shape.iter().all(|dim| dim.compatible_with(&D::one())),
        "{}: {input} has shape {}, but must be a scalar or a 1-D tensor of one element",
        spec.name,
        listed(shape)
    );
    Ok(())
}

/// The entry of the `axis` tensor.
pub(crate) fn axis(spec: &Spec, axis: &Tensor, symbols: &SymbolValues) -> TractResult<i128> {
    check_one_element(spec, "axis", axis.shape())?;
    Ok(IntegerTensor::new(spec, "axis", axis, symbols)?.entries()?.get(0))
}

/// The same for a constant; `None` if it is a symbol without a value yet.
pub(crate) fn axis_if_known(spec: &Spec, tensor: &Tensor) -> TractResult<Option<i128>> {
    unless_too_early(axis(spec, tensor, &SymbolValues::default()))
}

/// `None` if the error is that a symbol has no value yet.
fn unless_too_early<T>(result: TractResult<T>) -> TractResult<Option<T>> {
    match result {
        Err(error) if error.root_cause().is::<TooEarly>() => Ok(None),
        result => result.map(Some),
    }
}

/// One evaluation of a node: everything but the values of its inputs. Their dimensions are grouped as in
/// [`Geometry`], which has the products.
pub(crate) struct Evaluation<'a> {
    pub spec: &'static Spec,
    pub policy: IndexPolicy,
    /// The dimensions that `data` and `indices` share.
    pub batch: &'a [usize],
    /// The dimensions of `data` between those and the gathered ones.
    pub outer: &'a [usize],
    /// The dimensions of `indices` after the batch; for GatherND, without the last one.
    pub tuples: &'a [usize],
    /// The dimensions of `data` that the entries of a tuple index.
    pub gathered: &'a [usize],
    /// GatherElements: the dimensions of `data` after the gathered one. They are among `tuples` too.
    pub columns: &'a [usize],
    /// The dimensions of `data` after all those.
    pub block: &'a [usize],
    pub output_shape: TVec<usize>,
}

impl Evaluation<'_> {
    pub fn run(
        &self,
        data: &Tensor,
        indices: &Tensor,
        symbols: &SymbolValues,
    ) -> TractResult<Tensor> {
        ensure_plain(self.spec, "data", data.is_plain_ram())?;
        ensure_plain(self.spec, "indices", indices.is_plain_ram())?;
        let dt = data.datum_type();
        let volume = shape::volume(self.spec, dt, &self.output_shape)?;
        let integers = IntegerTensor::new(self.spec, "indices", indices, symbols)?;
        let entries = integers.entries()?;
        let index_error = |bad| self.index_error(bad, entries, indices.shape());
        if volume == 0 {
            // There is nothing to copy, but a bad index is still an error.
            geometry::check(entries, self.gathered, self.policy).map_err(index_error)?;
            return Tensor::zero_dt(dt, &self.output_shape);
        }
        // No dimension of the output is 0. So no product here exceeds the volume of the output; that of the
        // gathered dimensions does not exceed the volume of data.
        let geometry = Geometry {
            batch: self.batch.iter().product(),
            outer: self.outer.iter().product(),
            tuples_per_batch: self.tuples.iter().product(),
            gathered_dims: self.gathered,
            columns: self.columns.iter().product(),
            block: self.block.iter().product(),
        };
        let output = match dt {
            DatumType::String => self.gather_values::<String>(geometry, data, entries),
            DatumType::TDim => self.gather_values::<TDim>(geometry, data, entries),
            DatumType::Blob => self.gather_values::<Blob>(geometry, data, entries),
            _ => self.gather_bytes(geometry, data, entries),
        };
        output?.map_err(index_error)
    }

    /// For elements that own memory. Their zero is `default()`: the empty string, the empty blob, dimension 0.
    fn gather_values<T: Datum + Default>(
        &self,
        geometry: Geometry<'_>,
        data: &Tensor,
        indices: Indices<'_>,
    ) -> TractResult<Result<Tensor, BadIndex>> {
        let data = data.try_as_plain_ram()?.as_slice::<T>()?;
        let zero = &[T::default()];
        let mut output = vec![T::default(); geometry.output_blocks() * geometry.block];
        let operands = Operands::new(geometry, self.policy, data, indices, zero);
        if let Err(bad) = kernel::gather_values(&operands, &mut output) {
            return Ok(Err(bad));
        }
        let output = tract_ndarray::ArrayD::from_shape_vec(&*self.output_shape, output)?;
        Ok(Ok(output.into_tensor()))
    }

    /// For elements that are plain bytes.
    fn gather_bytes(
        &self,
        geometry: Geometry<'_>,
        data: &Tensor,
        indices: Indices<'_>,
    ) -> TractResult<Result<Tensor, BadIndex>> {
        let dt = data.datum_type();
        let size = dt.size_of();
        let geometry = Geometry { block: geometry.block * size, ..geometry };
        // The zero of a quantized type is its zero point; that of any other type has zero bytes only.
        let zero = if dt.is_quantized() { Some(Tensor::zero_scalar_dt(dt)?) } else { None };
        let zero = match &zero {
            Some(zero) => zero.try_as_plain_ram()?.as_bytes(),
            None => &[0],
        };
        let data = data.try_as_plain_ram()?.as_bytes();
        let operands = Operands::new(geometry, self.policy, data, indices, zero);
        kernel::gather_bytes(&operands, dt, &self.output_shape)
    }

    fn index_error(
        &self,
        bad: BadIndex,
        entries: Indices<'_>,
        indices_shape: &[usize],
    ) -> TractError {
        let component = bad.0 % self.gathered.len();
        index_error(
            self.spec,
            self.policy,
            bad.0,
            entries.get(bad.0),
            indices_shape,
            self.batch.len() + self.outer.len() + component,
            self.gathered[component],
        )
    }
}

/// Checks constant indices, as far as the sizes of the axes are known, so that a bad index is an error when the
/// model is loaded.
pub(crate) fn check_constant_indices(
    spec: &Spec,
    policy: IndexPolicy,
    axis: usize,
    dims: &[TDim],
    indices: &TypedFact,
) -> TractResult<()> {
    let Some(indices) = &indices.konst else { return Ok(()) };
    let Some(integers) = IntegerTensor::if_known(spec, "indices", indices)? else { return Ok(()) };
    let entries = integers.entries()?;
    let size = |dim: &TDim| dim.as_i64().and_then(|size| usize::try_from(size).ok());
    let sizes: TVec<Option<usize>> = dims.iter().map(size).collect();
    geometry::check_where_known(entries, &sizes, policy).map_err(|bad| {
        let component = bad.0 % dims.len();
        let size = sizes[component].expect("entries of unknown axes are not checked");
        let value = entries.get(bad.0);
        index_error(spec, policy, bad.0, value, indices.shape(), axis + component, size)
    })
}

/// The cost of a node: the bytes that it writes, as it computes nothing.
pub(crate) fn bytes_moved(output: &TypedFact) -> TractResult<TVec<(Cost, TDim)>> {
    let bytes = output.shape.volume() * output.datum_type.size_of();
    Ok(tvec!((Cost::Custom(false, "Bytes moved".into()), bytes)))
}

#[cfg(feature = "onnx")]
pub(crate) fn check_number_of_outputs(spec: &Spec, number: usize) -> TractResult<()> {
    ensure!(number == 1, "{}: the number of outputs is {number}, but must be 1", spec.name);
    Ok(())
}

/// The two inputs of a node, with everything checked but their shapes.
pub(crate) fn data_and_indices<'a>(
    spec: &Spec,
    inputs: &[&'a TypedFact],
) -> TractResult<[&'a TypedFact; 2]> {
    let [data, indices] = expect_inputs(spec.name, ["data", "indices"], inputs)?;
    ensure_plain(spec, "data", data.is_plain())?;
    ensure_plain(spec, "indices", indices.is_plain())?;
    ensure_integer(spec, "indices", indices.datum_type)?;
    Ok([data, indices])
}

pub(crate) fn ensure_plain(spec: &Spec, input: &str, is_plain: bool) -> TractResult<()> {
    ensure!(
        is_plain,
        "{}: {input} is block-quantized or packed, but must be a plain tensor",
        spec.name
    );
    Ok(())
}

/// The error for entry `number` of `indices`, in row-major order.
pub(crate) fn index_error(
    spec: &Spec,
    policy: IndexPolicy,
    number: usize,
    value: i128,
    indices_shape: &[usize],
    axis: usize,
    size: usize,
) -> TractError {
    let mut rest = number;
    let mut position = vec![0; indices_shape.len()];
    for (coordinate, &dim) in position.iter_mut().zip(indices_shape).rev() {
        *coordinate = rest % dim;
        rest /= dim;
    }
    IndexError::new(spec.name, position, value, axis, size, policy).into()
}
