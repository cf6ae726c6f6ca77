//! Operators of detectors: boxes with scores, and regions of feature maps.

pub(crate) mod boxes;
pub(crate) mod deformable_psroi_pooling;
pub(crate) mod detection_output;
pub(crate) mod detectron_output;
pub(crate) mod generate_proposals;
pub(crate) mod matrix_nms;
pub(crate) mod multiclass_nms;
pub(crate) mod non_max_suppression;
pub(crate) mod prior_box;
pub(crate) mod prior_box_clustered;
pub(crate) mod prior_boxes;
pub(crate) mod prior_grid;
pub(crate) mod proposal;
pub(crate) mod psroi_pooling;
pub(crate) mod roi_align;
pub(crate) mod roi_align_rotated;
pub(crate) mod roi_feature_extractor;
pub(crate) mod roi_pooling;
pub(crate) mod selection;
pub(crate) mod top_k_rois;

mod feature_map;
mod rotated;

use tract_core::internal::*;
use tract_openvino_kernels::checks::{ensure_allocatable, volume};

use super::{SetSymbols, check_volume, floats, impl_op, impl_plain_op, integers, set_symbols};
use crate::limits::MAX_BOXES;

/// The number of boxes of an output that may be large although the inputs are small.
fn check_boxes(operator: &str, sizes: &[usize]) -> TractResult<usize> {
    let boxes = if sizes.contains(&0) { Some(0) } else { volume(sizes) };
    let boxes = boxes.filter(|boxes| *boxes <= MAX_BOXES).with_context(|| {
        format!(
            "{operator}: the output would have {} boxes, but must have {MAX_BOXES} or fewer",
            sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
        )
    })?;
    // A prior box has four coordinates and four variances.
    ensure_allocatable(operator, boxes * 8 * size_of::<f32>())?;
    Ok(boxes)
}

/// The one element of an optional input, or a default. An input that is empty counts as absent.
fn float_or(inputs: &[TValue], input: usize, default: f32) -> TractResult<f32> {
    let Some(tensor) = inputs.get(input) else { return Ok(default) };
    Ok(floats(tensor)?.first().copied().unwrap_or(default))
}

/// Single precision, in the type of the data.
fn in_type_of(data: &Tensor, shape: &[usize], elements: &[f32]) -> TractResult<TValue> {
    let tensor = Tensor::from_shape(shape, elements)?;
    Ok(tensor.cast_to_dt(data.datum_type())?.into_owned().into_tvalue())
}
