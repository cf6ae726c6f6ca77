//! The steps after a model.

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::color::ColorFormat;
use super::info::OutputInfo;
use super::wire::{Image, Target};
use crate::stated_layouts::{End, state_layout};
use crate::translate::with_layers;

/// Puts the steps after an output of a model.
pub(super) fn build(
    model: &mut TypedModel,
    position: usize,
    output: &OutputInfo,
) -> TractResult<()> {
    let outlet = model.outputs[position];
    let fact = model.outlet_fact(outlet)?.clone();
    let layout = output.model.layout.clone().unwrap_or_default();
    ensure!(
        layout.fits(fact.rank()),
        "layout {layout} does not fit what the model has, whose shape is {}",
        listed(&fact.shape)
    );
    let target = Target {
        layout: output.tensor.layout.clone().unwrap_or_default(),
        element_type: output.tensor.element_type,
        shape: fact.shape.to_tvec(),
    };
    let (found, layout) = with_layers(model, &output.name, |ctx| {
        let (planes, format) = (tvec!(outlet), ColorFormat::Undefined);
        let mut image = Image { ctx, planes, layout, format, target: &target, step: String::new() };
        Ok((image.wire(&output.steps.steps)?, image.layout))
    })?;
    let layout = Some(layout).filter(|layout| !layout.is_empty());
    state_layout(model, End::Output, &output.name, layout.map(|layout| layout.to_string()));
    let rank = model.outlet_fact(found)?.rank();
    ensure!(
        target.layout.fits(rank),
        "layout {} does not fit the tensor, which has rank {rank}",
        target.layout
    );
    if found == outlet {
        return Ok(());
    }
    model.outputs[position] = found;
    // Names lead to one outlet. That of an input, or of another output, stays.
    if !model.inputs.contains(&outlet) && !model.outputs.contains(&outlet) {
        model.outlet_labels.remove(&outlet);
    }
    if model.outlet_label(found).is_none() {
        model.set_outlet_label(found, output.name.clone())?;
    }
    Ok(())
}
