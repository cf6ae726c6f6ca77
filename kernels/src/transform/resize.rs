//! Resize.

use tract_core::internal::*;
use tract_core::ops::nn::resize::{self, NearestUpsample};

use super::found::{Found, constant};
use super::rule::{Rewrite, Session, or_refuse, refuse, refuse_if};
use crate::resize::{ResizeAxes, ResizedAxis, Taps};

/// The taps of an axis are computed when the model is transformed, so there must be memory for them.
const MOST_SIZE: usize = 1 << 20;

/// tract's Resize, which ONNX's is in most models, and its NearestUpsample, where sizes are known.
pub(super) fn rewrite(_: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    let resize = node.op_as::<resize::Resize>();
    let upsample = node.op_as::<NearestUpsample>();
    rule_if!(resize.is_some() || upsample.is_some());
    let data = model.outlet_fact(node.inputs[0])?;
    refuse_if!(data.datum_type != DatumType::F32, "its data is of type {:?}", data.datum_type);
    let scales = match resize.and_then(|op| op.optional_scales_input) {
        Some(input) => {
            let scales = constant(model, node.inputs[input])?;
            let scales = or_refuse!(scales.ok_or("its scales are no constant"));
            scales.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec()
        }
        None => vec![],
    };
    let mut axes = tvec!();
    let outputs = node.outputs[0].fact.shape.iter();
    for (axis, (before, after)) in data.shape.iter().zip(outputs).enumerate() {
        // As tract: scales of another number are none.
        let scale = (scales.len() == data.rank()).then(|| scales[axis]);
        if before == after && scale.is_none_or(|scale| scale == 1.) {
            continue;
        }
        let size = |dim: &TDim| dim.to_usize().ok().filter(|size| *size > 0);
        let (Some(input), Some(output)) = (size(before), size(after)) else {
            refuse!("axis {axis} has sizes {before} and {after}");
        };
        refuse_if!(
            output > MOST_SIZE,
            "axis {axis} would have size {output}, but must have {MOST_SIZE} or less"
        );
        let mut taps = Taps::default();
        match resize {
            Some(op) => {
                let scale = scale.unwrap_or(output as f32 / input as f32);
                let plan = op.plan_axis(scale, input, output);
                let weights = plan.weights.chunks_exact(plan.window);
                for (at, weights) in plan.indices.chunks_exact(plan.window).zip(weights) {
                    let all = at.iter().copied().zip(weights.iter().copied());
                    taps.push(all.filter(|(_, weight)| *weight != 0.));
                }
            }
            None => (0..output).for_each(|at| taps.push([(at / (output / input), 1.)])),
        }
        axes.push(ResizedAxis { axis, size: input, taps: taps.into() });
    }
    let op = ResizeAxes { axes };
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &node.inputs[..1], op)?.into()))
}
