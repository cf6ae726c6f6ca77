//! Convolutions without the taps that meet nothing but padding.

use tract_core::internal::*;
use tract_core::ops::cnn::{PaddingSpec, PoolSpec};

/// The window of a convolution without those rows and columns of its kernel that meet nothing but padding, and the rest of its
/// weights, for data of these spatial sizes. None if it has no such.
///
/// Wide dilations have them: a kernel of 3 by 3 with dilations of 24, on data of 20 by 20, is one element.
pub(crate) fn trimmed(
    spec: &PoolSpec,
    weights: &Tensor,
    sizes: &[usize],
) -> TractResult<Option<(PoolSpec, Tensor)>> {
    let mut kept = tvec![];
    let (mut begin, mut end) = (tvec![], tvec![]);
    for (axis, padding) in spec.computed_padding(sizes).iter().enumerate() {
        let (dilation, stride) = (spec.dilation(axis), spec.stride(axis));
        // Whether an element meets data, for one of the pixels.
        let meets = |element: &usize| {
            let positions =
                (0..padding.convoluted).map(|pixel| pixel * stride + element * dilation);
            let data = padding.pad_before..padding.pad_before + sizes[axis];
            positions.into_iter().any(|position| data.contains(&position))
        };
        let mut elements = 0..spec.kernel_shape[axis];
        let (mut before, mut after) = (padding.pad_before, padding.pad_after);
        if let (Some(first), Some(last)) =
            (elements.clone().find(meets), elements.clone().rfind(meets))
            // The rest begins within the padding, and ends there.
            && let Some(less_before) = before.checked_sub(first * dilation)
            && let Some(less_after) = after.checked_sub((elements.end - 1 - last) * dilation)
        {
            elements = first..last + 1;
            (before, after) = (less_before, less_after);
        }
        kept.push(elements);
        begin.push(before);
        end.push(after);
    }
    let kernel: TVec<usize> = kept.iter().map(|elements| elements.len()).collect();
    if kernel == spec.kernel_shape {
        return Ok(None);
    }
    let mut trimmed = weights.clone();
    for (axis, elements) in kept.into_iter().enumerate() {
        trimmed = trimmed.slice(axis + 2, elements.start, elements.end)?;
    }
    let padding = PaddingSpec::Explicit(begin, end);
    Ok(Some((PoolSpec { kernel_shape: kernel, padding, ..spec.clone() }, trimmed)))
}
