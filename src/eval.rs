//! From tract's tensors to the kernel and back.

use crate::index::{IndexOutOfRange, IndexPolicy, NegativeIndex};
use crate::kernel::{self, BadIndex, Geometry, Indices};
use crate::revision::Row;
use crate::shape;
use tract_core::internal::*;

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
            let sizes: TVec<_> = self.dims.iter().copied().map(Some).collect();
            kernel::check(entries, &sizes, self.policy).map_err(located)?;
            return Tensor::zero_dt(dt, &self.output_shape);
        }
        // Without a zero in the output's shape these products are below its volume.
        let geometry = Geometry {
            batch: self.batch.iter().product(),
            outer: self.outer.iter().product(),
            count: self.count.iter().product(),
            dims: self.dims,
            block: self.block.iter().product(),
        };
        ensure_allocatable(self.row, volume * dt.size_of())?;
        if dt.is_copy() {
            let mut output = Tensor::zero_dt(dt, &self.output_shape)?;
            let zero = Tensor::zero_scalar_dt(dt)?;
            self.gather_bytes(
                geometry,
                dt.size_of(),
                data.try_as_plain_ram()?.as_bytes(),
                entries,
                zero.try_as_plain_ram()?.as_bytes(),
                output.try_as_plain_ram_mut()?.as_bytes_mut(),
            )
            .map_err(located)?;
            return Ok(output);
        }
        match dt {
            DatumType::String => self.gather_values::<String>(geometry, data, entries, volume),
            DatumType::TDim => self.gather_values::<TDim>(geometry, data, entries, volume),
            DatumType::Blob => self.gather_values::<Blob>(geometry, data, entries, volume),
            _ => bail!("{}: data has element type {dt:?}, which is not supported", self.row.name),
        }?
        .map_err(located)
    }

    /// Elements that own memory: `default()` is the empty string, the empty blob, dimension zero.
    fn gather_values<T: Datum + Default>(
        &self,
        geometry: Geometry<'_>,
        data: &Tensor,
        indices: Indices<'_>,
        volume: usize,
    ) -> TractResult<Result<Tensor, BadIndex>> {
        let data = data.try_as_plain_ram()?.as_slice::<T>()?;
        let zero = T::default();
        let mut output = vec![zero.clone(); volume];
        if let Err(bad) = kernel::gather(geometry, self.policy, data, indices, &zero, &mut output) {
            return Ok(Err(bad));
        }
        let output = tract_ndarray::ArrayD::from_shape_vec(&*self.output_shape, output)?;
        Ok(Ok(output.into_tensor()))
    }

    /// Elements that are bytes. Narrow blocks become single elements of the kernel, which are copied
    /// without a call each.
    fn gather_bytes(
        &self,
        geometry: Geometry<'_>,
        size: usize,
        data: &[u8],
        indices: Indices<'_>,
        zero: &[u8],
        output: &mut [u8],
    ) -> Result<(), BadIndex> {
        let block = geometry.block;
        match (block * size, size) {
            (1, _) => self.gather_chunks::<1>(
                Geometry { block: 1, ..geometry },
                data,
                indices,
                zero,
                output,
            ),
            (2, _) => self.gather_chunks::<2>(
                Geometry { block: 1, ..geometry },
                data,
                indices,
                zero,
                output,
            ),
            (4, _) => self.gather_chunks::<4>(
                Geometry { block: 1, ..geometry },
                data,
                indices,
                zero,
                output,
            ),
            (8, _) => self.gather_chunks::<8>(
                Geometry { block: 1, ..geometry },
                data,
                indices,
                zero,
                output,
            ),
            (12, _) => self.gather_chunks::<12>(
                Geometry { block: 1, ..geometry },
                data,
                indices,
                zero,
                output,
            ),
            (16, _) => self.gather_chunks::<16>(
                Geometry { block: 1, ..geometry },
                data,
                indices,
                zero,
                output,
            ),
            (_, 1) => self.gather_chunks::<1>(geometry, data, indices, zero, output),
            (_, 2) => self.gather_chunks::<2>(geometry, data, indices, zero, output),
            (_, 4) => self.gather_chunks::<4>(geometry, data, indices, zero, output),
            (_, 8) => self.gather_chunks::<8>(geometry, data, indices, zero, output),
            (_, 16) => self.gather_chunks::<16>(geometry, data, indices, zero, output),
            _ => unreachable!("no element type of tract has {size} bytes"),
        }
    }

    fn gather_chunks<const N: usize>(
        &self,
        geometry: Geometry<'_>,
        data: &[u8],
        indices: Indices<'_>,
        zero: &[u8],
        output: &mut [u8],
    ) -> Result<(), BadIndex> {
        let zero: [u8; N] = std::array::from_fn(|i| zero[i % zero.len()]);
        let (data, []) = data.as_chunks::<N>() else { unreachable!("data is made of elements") };
        let (output, []) = output.as_chunks_mut::<N>() else {
            unreachable!("output is made of elements")
        };
        kernel::gather(geometry, self.policy, data, indices, &zero, output)
    }

    /// The error for the entry number `bad`.
    fn locate(&self, bad: BadIndex, entries: Indices<'_>, indices_shape: &[usize]) -> TractError {
        let component = bad.0 % self.dims.len();
        index_error(
            self.row,
            self.policy.negative,
            bad,
            entries,
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
    indices: &Tensor,
) -> TractResult<()> {
    let Ok(integers) = IntegerTensor::new(row, "indices", indices, &SymbolValues::default()) else {
        // Dimensions without a value yet.
        return Ok(());
    };
    let entries = integers.entries()?;
    let sizes: TVec<Option<usize>> = dims.iter().map(|dim| dim.as_usize()).collect();
    kernel::check(entries, &sizes, policy).map_err(|bad| {
        let component = bad.0 % dims.len();
        let size = sizes[component].expect("entries of unknown axes are not checked");
        index_error(row, policy.negative, bad, entries, indices.shape(), axis + component, size)
    })
}

pub(crate) fn ensure_plain(row: &Row, input: &str, is_plain: bool) -> TractResult<()> {
    ensure!(
        is_plain,
        "{}: {input} is block-quantized or packed, which is not supported: only plain tensors are",
        row.name
    );
    Ok(())
}

fn index_error(
    row: &Row,
    negative: NegativeIndex,
    BadIndex(number): BadIndex,
    entries: Indices<'_>,
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
    let value = entries.get(number);
    IndexOutOfRange { operator: row.name, position, value, axis, size, negative }.into()
}

/// Refuses an output that the allocator would refuse: tract's own allocation aborts the process.
fn ensure_allocatable(row: &Row, bytes: usize) -> TractResult<()> {
    const SURELY: usize = 1 << 28;
    if bytes > SURELY {
        Vec::<u8>::new()
            .try_reserve_exact(bytes)
            .with_context(|| format!("{}: no memory for an output of {bytes} bytes", row.name))?;
    }
    Ok(())
}
