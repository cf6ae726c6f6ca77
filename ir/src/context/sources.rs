//! Inputs and constants: what their layers say of them.

use tract_core::internal::*;
use tract_openvino_kernels::checks::volume;

use crate::document::{ElementType, Layer, PartialShape, Port};
use crate::limits::{MAX_AXES, MAX_DECLARED_ELEMENTS};
use crate::weights::{Blob, datum_type, held_type};

/// The shape that a `Parameter` declares, unless it leaves the number of dimensions open.
pub(crate) fn parameter_shape(layer: &Layer) -> TractResult<Option<PartialShape>> {
    let shape = layer.attributes.get("shape");
    let shape = shape.with_context(|| format!("{layer} has no attribute shape"))?;
    if PartialShape::leaves_rank_open(shape) {
        return Ok(None);
    }
    let shape = PartialShape::parse(shape).with_context(|| format!("in {layer}"))?;
    check_sizes(&shape).with_context(|| format!("in {layer}"))?;
    Ok(Some(shape))
}

/// Checks the number of axes of a tensor.
pub(super) fn check_rank(rank: usize) -> TractResult<()> {
    ensure!(rank <= MAX_AXES, "a tensor would have {rank} axes, but may have {MAX_AXES} at most");
    Ok(())
}

/// Checks the number of axes, and the product of the sizes that are known. A size of 0 counts as 1: the other sizes
/// may not be too large to multiply, although the tensor has no elements.
fn check_sizes(shape: &PartialShape) -> TractResult<()> {
    check_rank(shape.dims().len())?;
    let sizes: Vec<usize> = shape.dims().iter().filter_map(|dim| dim.size()).collect();
    ensure!(
        may_be_declared(&sizes),
        "shape {shape} has more than {MAX_DECLARED_ELEMENTS} elements"
    );
    Ok(())
}

/// Whether the product of sizes that a file states is so small that they can be multiplied and added later.
fn may_be_declared(sizes: &[usize]) -> bool {
    let sizes: Vec<usize> = sizes.iter().map(|size| *size.max(&1)).collect();
    volume(&sizes).is_some_and(|volume| volume <= MAX_DECLARED_ELEMENTS)
}

/// Checks the shape of an input that no document has declared: as [`check_sizes`] does.
pub(crate) fn check_shape(shape: &[TDim]) -> TractResult<()> {
    check_rank(shape.len())?;
    let mut sizes = vec![];
    for size in shape.iter().filter_map(TDim::as_i64) {
        let valid = usize::try_from(size);
        sizes.push(valid.map_err(|_| format_err!("a dimension is {size}, but must be 0 or more"))?);
    }
    ensure!(
        may_be_declared(&sizes),
        "sizes are {sizes:?}, whose product is more than {MAX_DECLARED_ELEMENTS}"
    );
    Ok(())
}

/// Checks the sizes of an output port, if they are to be believed.
pub(crate) fn check_port(port: &Port) -> TractResult<()> {
    check_rank(port.dims.len())?;
    let sizes: Vec<usize> = port.dims.iter().flatten().copied().collect();
    ensure!(
        may_be_declared(&sizes),
        "output port {} has the sizes {sizes:?}, whose product is more than {MAX_DECLARED_ELEMENTS}",
        port.id
    );
    Ok(())
}

/// The element type that a `Parameter` declares, which must be one that tract has.
pub(crate) fn parameter_type(layer: &Layer) -> TractResult<DatumType> {
    let text = layer.attributes.get("element_type").map_or("", |text| text);
    let element_type = ElementType::from_text(text).with_context(|| {
        format!("{layer}: element_type is {text:?}, which is not an element type")
    })?;
    datum_type(element_type).with_context(|| {
        format!("{layer}: inputs of type {element_type} are not supported: tract has no such type")
    })
}

/// The element type that a `Parameter` of a body declares. `bf16` and floats of 8 bits are single-precision ones there.
pub(crate) fn body_parameter_type(layer: &Layer) -> TractResult<DatumType> {
    let text = layer.attributes.get("element_type");
    let element_type = text.and_then(|text| ElementType::from_text(text));
    element_type.and_then(held_type).map_or_else(|| parameter_type(layer), Ok)
}

/// **Const-1**: `element_type`, `shape`, and where the bytes are (`offset` and `size`).
pub(crate) fn constant(layer: &Layer) -> TractResult<Blob> {
    let text = |name: &str| {
        let value = layer.attributes.get(name);
        value.with_context(|| format!("there is no attribute {name}"))
    };
    let number = |name: &str| -> TractResult<u64> {
        let text = text(name)?;
        text.trim()
            .parse()
            .map_err(|_| format_err!("{name} is {text:?}, but must be a whole number, 0 or more"))
    };
    let element_type = text("element_type")?;
    let shape = text("shape")?;
    let sizes = PartialShape::parse(shape)?;
    check_sizes(&sizes)?;
    let dims = sizes.dims().iter().map(|dim| dim.size());
    let dims: Option<Vec<usize>> = dims.collect();
    Ok(Blob {
        element_type: ElementType::from_text(element_type).with_context(|| {
            format!("element_type is {element_type:?}, which is not an element type")
        })?,
        shape: dims
            .with_context(|| format!("shape is {shape:?}, but a constant must have known sizes"))?,
        offset: number("offset")?,
        size: number("size")?,
    })
}
