//! What the translations of all operations need of a layer.

use tract_openvino_ir::internal::*;
use tract_openvino_kernels::checks::check_input_count;

use crate::strings::Strings;
use crate::text_op::{Compute, TextOp};

/// A dimension that only a run knows: how many strings, bytes or tokens there are.
pub(crate) fn new_dim(layer: &LayerContext, prefix: &str) -> TractResult<TDim> {
    Ok(layer.size_at_run_time(prefix)?.to_dim())
}

/// What is known of strings: begins, ends and bytes.
pub(crate) fn string_facts(
    layer: &LayerContext,
    shape: TVec<TDim>,
) -> TractResult<TVec<(DatumType, TVec<TDim>)>> {
    let bytes = new_dim(layer, "bytes")?;
    Ok(tvec!(
        (DatumType::I32, shape.clone()),
        (DatumType::I32, shape),
        (DatumType::U8, tvec!(bytes))
    ))
}

/// Wires an operation on these inputs of the layer. If all are constants, it is computed now.
pub(crate) fn wire(
    layer: &mut LayerContext,
    operation: &'static str,
    inputs: impl IntoIterator<Item = usize>,
    outputs: TVec<(DatumType, TVec<TDim>)>,
    compute: impl Fn(&[TValue]) -> TractResult<TVec<Tensor>> + Send + Sync + 'static,
) -> TractResult<TVec<OutletId>> {
    let inputs: TVec<usize> = inputs.into_iter().collect();
    let constants = inputs.iter().map(|input| {
        let constant = layer.constant_opt(*input)?;
        Ok(constant.filter(|constant| !constant.datum_type().is_tdim()))
    });
    let constants = constants.collect::<TractResult<Option<TVec<Arc<Tensor>>>>>();
    if let Some(constants) = constants? {
        let constants: TVec<TValue> = constants.into_iter().map(|it| it.into_tvalue()).collect();
        let tensors = compute(&constants)?.into_iter().enumerate();
        return tensors.map(|(n, tensor)| layer.add_const(&n.to_string(), tensor)).collect();
    }
    let inputs = inputs.into_iter().map(|input| {
        let outlet = layer.input(input)?;
        match layer.type_of(outlet)? {
            DatumType::TDim => layer.cast(&format!("numbers_{input}"), outlet, DatumType::I32),
            _ => Ok(outlet),
        }
    });
    let inputs = inputs.collect::<TractResult<TVec<OutletId>>>()?;
    let compute: Arc<Compute> = Arc::new(compute);
    layer.finish(TextOp { operation, compute, outputs }, &inputs)
}

/// Checks that the number of inputs is one of these.
pub(crate) fn expect_one_of(layer: &LayerContext, counts: &[usize]) -> TractResult<usize> {
    let count = layer.input_count();
    if let [only] = counts {
        check_input_count(count, *only..=*only)?;
    }
    ensure!(
        counts.contains(&count),
        "the number of inputs is {count}, but must be one of {counts:?}"
    );
    Ok(count)
}

/// Checks the element type of an input.
pub(crate) fn expect_type(
    layer: &LayerContext,
    input: usize,
    expected: DatumType,
    what: &str,
) -> TractResult<()> {
    let dt = layer.datum_type(input)?;
    // Sizes are `TDim` while they are symbolic, where the file has integers.
    ensure!(
        dt == expected || (dt.is_tdim() && expected == DatumType::I32),
        "input {input} ({what}) is of type {dt:?}, but must be {expected:?}"
    );
    Ok(())
}

/// Checks the types of strings at these inputs, and gives the shape of their begins.
pub(crate) fn expect_strings(layer: &LayerContext, first: usize) -> TractResult<TVec<TDim>> {
    expect_type(layer, first, DatumType::I32, "begins of strings")?;
    expect_type(layer, first + 1, DatumType::I32, "ends of strings")?;
    expect_type(layer, first + 2, DatumType::U8, "bytes of strings")?;
    layer.shape(first)
}

/// Checks the types of rows of strings at the first five inputs, and gives the shapes of the rows' begins and of the strings' begins.
pub(crate) fn expect_rows_of_strings(
    layer: &LayerContext,
) -> TractResult<(TVec<TDim>, TVec<TDim>)> {
    expect_type(layer, 0, DatumType::I32, "begins of rows")?;
    expect_type(layer, 1, DatumType::I32, "ends of rows")?;
    Ok((layer.shape(0)?, expect_strings(layer, 2)?))
}

/// Strings that must be constants, as three tensors.
pub(crate) struct ConstantStrings([Arc<Tensor>; 3]);

impl ConstantStrings {
    pub fn new(layer: &LayerContext, first: usize, what: &str) -> TractResult<ConstantStrings> {
        let tensors = [
            layer.constant(first, what)?,
            layer.constant(first + 1, what)?,
            layer.constant(first + 2, what)?,
        ];
        let strings = ConstantStrings(tensors);
        strings
            .try_view()
            .with_context(|| format!("in inputs {first} to {} ({what})", first + 2))?;
        Ok(strings)
    }

    fn try_view(&self) -> TractResult<Strings<'_>> {
        let [begins, ends, bytes] = &self.0;
        Strings::new(&[begins, ends, bytes])
    }

    pub fn view(&self) -> Strings<'_> {
        self.try_view().expect("these were checked")
    }
}

/// The text of a constant input of bytes.
pub(crate) fn constant_text(layer: &LayerContext, input: usize, what: &str) -> TractResult<String> {
    let bytes = constant_bytes(layer, input, what)?;
    let text = String::from_utf8(bytes);
    text.ok().with_context(|| format!("input {input} ({what}) is not UTF-8"))
}

/// A constant input of bytes.
pub(crate) fn constant_bytes(
    layer: &LayerContext,
    input: usize,
    what: &str,
) -> TractResult<Vec<u8>> {
    let tensor = layer.constant(input, what)?;
    ensure!(
        tensor.datum_type() == DatumType::U8,
        "input {input} ({what}) is of type {:?}, but must be U8",
        tensor.datum_type()
    );
    Ok(tensor.try_as_plain_ram()?.as_slice::<u8>()?.to_vec())
}
