//! From tract's tensors to the kernel and back.

use crate::geometry::{self, BadIndex, Geometry, Indices};
use crate::index::{IndexOutOfRange, IndexPolicy, NegativeIndex};
use crate::kernel::{self, Operands};
use crate::revision::Row;
use crate::shape;
use tract_core::internal::*;
use tract_core::tract_data::TooEarly;

/// Whether `indices` or `axis` may have this type: all integers, and the `TDim` that tract makes of
/// dimensions.
pub(crate) fn is_integer(dt: DatumType) -> bool {
    use DatumType::*;
    matches!(dt, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | TDim)
}

pub(crate) fn ensure_integer(row: &Row, input: &str, dt: DatumType) -> TractResult<()> {
    ensure!(
        is_integer(dt),
        "{}: {input} has element type {dt:?}, but must be an integer: I8, I16, I32, I64, U8, U16, \
         U32, U64 or TDim",
        row.name
    );
    Ok(())
}

/// The entries of an `indices` or `axis` tensor.
///
/// `TDim` entries become numbers here, with the values that `symbols` gives; where one is missing
/// the error's root cause is `TooEarly`, which tract takes as "ask again later".
pub(crate) struct IntegerTensor<'a> {
    tensor: &'a Tensor,
    dims: Vec<i64>,
}

impl<'a> IntegerTensor<'a> {
    pub fn new(
        row: &Row,
        input: &str,
        tensor: &'a Tensor,
        symbols: &SymbolValues,
    ) -> TractResult<Self> {
        ensure_integer(row, input, tensor.datum_type())?;
        let plain = tensor.try_as_plain_ram()?;
        let dims = if tensor.datum_type() == TDim::datum_type() {
            let evaluate = |dim: &TDim| dim.eval_to_i64(symbols);
            plain.as_slice::<TDim>()?.iter().map(evaluate).collect::<TractResult<_>>()?
        } else {
            vec![]
        };
        Ok(Self { tensor, dims })
    }

    /// The entries of a constant; `None` where one is a dimension without a value yet.
    pub fn if_known(row: &Row, input: &str, tensor: &'a Tensor) -> TractResult<Option<Self>> {
        known(Self::new(row, input, tensor, &SymbolValues::default()))
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
            other => bail!("{other:?} is not an integer type"),
        })
    }
}

/// A "scalar or 1D tensor" of one element, as the specification says of the third input of Gather. What is
/// not known of the shape passes.
pub(crate) fn check_one_element<D: DimLike>(
    row: &Row,
    input: &str,
    shape: &[D],
) -> TractResult<()> {
    ensure!(
        shape.len() <= 1 && shape.iter().all(|dim| dim.compatible_with(&D::one())),
        "{}: {input} has shape [{}], but must be a scalar or a 1-D tensor of one element",
        row.name,
        shape.iter().map(|dim| dim.to_string()).collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

/// The entry of the `axis` tensor.
pub(crate) fn axis(row: &Row, axis: &Tensor, symbols: &SymbolValues) -> TractResult<i128> {
    check_one_element(row, "axis", axis.shape())?;
    Ok(IntegerTensor::new(row, "axis", axis, symbols)?.entries()?.get(0))
}

/// The same of a constant; `None` if it is a dimension without a value yet.
pub(crate) fn axis_if_known(row: &Row, tensor: &Tensor) -> TractResult<Option<i128>> {
    known(axis(row, tensor, &SymbolValues::default()))
}

/// `None` where the error is that a dimension has no value yet.
fn known<T>(result: TractResult<T>) -> TractResult<Option<T>> {
    match result {
        Err(error) if error.root_cause().is::<TooEarly>() => Ok(None),
        result => result.map(Some),
    }
}

/// What a node picks: everything about it but the values. The dimensions of its inputs, grouped as
/// the [`Geometry`] of the kernel wants their products.
pub(crate) struct Picking<'a> {
    pub row: &'static Row,
    pub policy: IndexPolicy,
    /// The axes that `data` and `indices` share.
    pub batch: &'a [usize],
    /// The axes of `data` between those and the gathered ones.
    pub outer: &'a [usize],
    /// The axes of `indices` that number the tuples of a batch.
    pub count: &'a [usize],
    /// The axes of `data` that the entries of a tuple walk.
    pub dims: &'a [usize],
    /// The axes behind those that `data` and `indices` share: they are in `count` too.
    pub columns: &'a [usize],
    /// The axes of `data` behind those.
    pub block: &'a [usize],
    pub output_shape: TVec<usize>,
}

impl Picking<'_> {
    /// Runs the node.
    pub fn gather(
        &self,
        data: &Tensor,
        indices: &Tensor,
        symbols: &SymbolValues,
    ) -> TractResult<Tensor> {
        ensure_plain(self.row, "data", data.is_plain_ram())?;
        ensure_plain(self.row, "indices", indices.is_plain_ram())?;
        let dt = data.datum_type();
        let volume = shape::volume(self.row, dt, &self.output_shape)?;
        let integers = IntegerTensor::new(self.row, "indices", indices, symbols)?;
        let entries = integers.entries()?;
        let located = |bad| self.locate(bad, entries, indices.shape());
        if volume == 0 {
            // There is nothing to move, but an empty slice does not excuse a bad index.
            geometry::check(entries, self.dims, self.policy).map_err(located)?;
            return Tensor::zero_dt(dt, &self.output_shape);
        }
        // Without a zero in the output's shape these products are not greater than its volume, but
        // for that of the gathered axes, which is not greater than data's.
        let geometry = Geometry {
            batch: self.batch.iter().product(),
            outer: self.outer.iter().product(),
            count: self.count.iter().product(),
            dims: self.dims,
            columns: self.columns.iter().product(),
            block: self.block.iter().product(),
        };
        ensure_allocatable(self.row, volume * dt.size_of())?;
        let output = match dt {
            DatumType::String => self.gather_values::<String>(geometry, data, entries),
            DatumType::TDim => self.gather_values::<TDim>(geometry, data, entries),
            DatumType::Blob => self.gather_values::<Blob>(geometry, data, entries),
            _ => self.gather_bytes(geometry, data, entries),
        };
        output?.map_err(located)
    }

    /// Elements that own memory: `default()` is the empty string, the empty blob, dimension zero.
    fn gather_values<T: Datum + Default>(
        &self,
        geometry: Geometry<'_>,
        data: &Tensor,
        indices: Indices<'_>,
    ) -> TractResult<Result<Tensor, BadIndex>> {
        let data = data.try_as_plain_ram()?.as_slice::<T>()?;
        let zero = &[T::default()];
        let mut output = vec![T::default(); geometry.blocks() * geometry.block];
        let operands = Operands::new(geometry, self.policy, data, indices, zero);
        if let Err(bad) = kernel::gather_values(&operands, &mut output) {
            return Ok(Err(bad));
        }
        let output = tract_ndarray::ArrayD::from_shape_vec(&*self.output_shape, output)?;
        Ok(Ok(output.into_tensor()))
    }

    /// Elements that are bytes.
    fn gather_bytes(
        &self,
        geometry: Geometry<'_>,
        data: &Tensor,
        indices: Indices<'_>,
    ) -> TractResult<Result<Tensor, BadIndex>> {
        let dt = data.datum_type();
        let size = dt.size_of();
        let geometry = Geometry { block: geometry.block * size, ..geometry };
        // All types but the quantized have a zero of zero bytes.
        let zero = if dt.is_quantized() { Some(Tensor::zero_scalar_dt(dt)?) } else { None };
        let zero = match &zero {
            Some(zero) => zero.try_as_plain_ram()?.as_bytes(),
            None => &[0],
        };
        let data = data.try_as_plain_ram()?.as_bytes();
        let operands = Operands::new(geometry, self.policy, data, indices, zero);
        kernel::gather_bytes(&operands, dt, &self.output_shape)
    }

    /// The error for the entry number `bad`.
    fn locate(&self, bad: BadIndex, entries: Indices<'_>, indices_shape: &[usize]) -> TractError {
        let component = bad.0 % self.dims.len();
        index_error(
            self.row,
            self.policy.negative,
            bad.0,
            entries.get(bad.0),
            indices_shape,
            self.batch.len() + self.outer.len() + component,
            self.dims[component],
        )
    }
}

/// Checks indices that are constants, as far as the sizes of the axes are known: a bad one fails
/// the load of the model and not its first run.
pub(crate) fn check_constant_indices(
    row: &Row,
    policy: IndexPolicy,
    axis: usize,
    dims: &[TDim],
    indices: &TypedFact,
) -> TractResult<()> {
    let Some(indices) = &indices.konst else { return Ok(()) };
    let Some(integers) = IntegerTensor::if_known(row, "indices", indices)? else { return Ok(()) };
    let entries = integers.entries()?;
    let size = |dim: &TDim| dim.as_i64().and_then(|size| usize::try_from(size).ok());
    let sizes: TVec<Option<usize>> = dims.iter().map(size).collect();
    geometry::check_known(entries, &sizes, policy).map_err(|bad| {
        let component = bad.0 % dims.len();
        let size = sizes[component].expect("entries of unknown axes are not checked");
        let value = entries.get(bad.0);
        index_error(row, policy.negative, bad.0, value, indices.shape(), axis + component, size)
    })
}

/// The cost of a node: what it writes. It computes nothing.
pub(crate) fn bytes_moved(output: &TypedFact) -> TractResult<TVec<(Cost, TDim)>> {
    let bytes = output.shape.volume() * output.datum_type.size_of();
    Ok(tvec!((Cost::Custom(false, "Bytes moved".into()), bytes)))
}

/// The inputs of a node, as many as have these names.
pub(crate) fn inputs<T: Copy, const N: usize>(
    row: &Row,
    names: &str,
    inputs: &[T],
) -> TractResult<[T; N]> {
    let number = inputs.len();
    let error = |_| format_err!("{}: got {number} inputs, expected {names}", row.name);
    inputs.try_into().map_err(error)
}

/// Checks what can be said of the inputs without their shapes, and takes them apart.
pub(crate) fn data_and_indices<'a>(
    row: &Row,
    inputs: &[&'a TypedFact],
) -> TractResult<[&'a TypedFact; 2]> {
    let [data, indices] = self::inputs(row, "data and indices", inputs)?;
    ensure_plain(row, "data", data.is_plain())?;
    ensure_plain(row, "indices", indices.is_plain())?;
    ensure_integer(row, "indices", indices.datum_type)?;
    Ok([data, indices])
}

pub(crate) fn ensure_plain(row: &Row, input: &str, is_plain: bool) -> TractResult<()> {
    ensure!(
        is_plain,
        "{}: {input} is block-quantized or packed, which is not supported: only plain tensors are",
        row.name
    );
    Ok(())
}

/// The error for entry number `number` of `indices`.
pub(crate) fn index_error(
    row: &Row,
    negative: NegativeIndex,
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
    IndexOutOfRange { operator: row.name, position, value, axis, size, negative }.into()
}

/// Refuses an output that the allocator would refuse: tract's own allocation panics. A process that is
/// refused less than this has no memory to go on with.
pub(crate) fn ensure_allocatable(row: &Row, bytes: usize) -> TractResult<()> {
    const SURELY: usize = 1 << 24;
    if bytes > SURELY {
        let mut tried = Vec::<u8>::new();
        tried
            .try_reserve_exact(bytes)
            .with_context(|| format!("{}: no memory for an output of {bytes} bytes", row.name))?;
        // Or the compiler may leave the attempt out.
        std::hint::black_box(tried);
    }
    Ok(())
}
