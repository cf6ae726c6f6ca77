//! If.

use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use super::{BodyModel, body, symbols, whole_constant};
use crate::context::LayerContext;
use crate::document::{Body, BodyRole, PortMap};
use crate::operators::control;
use crate::typed_op::one_element;

/// **If-8**: one of two bodies. The first input is the condition that chooses. If it is a constant, the
/// chosen body becomes a part of the model.
///
/// Otherwise the outputs of both bodies must have the same types and ranks. A size that is not the same in
/// both is a symbol, which gets its value when the model runs.
pub(super) fn if_8(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let then_body = body(ctx, BodyRole::Then, "then_body")?;
    let else_body = body(ctx, BodyRole::Else, "else_body")?;
    let outputs = ctx.layer().outputs.len();
    ctx.expect_one_element(0, "condition")?;
    if let Some(condition) = ctx.constant_opt(0)? {
        let chosen = if one_element(&condition)? { then_body } else { else_body };
        let externals = externals(chosen)?;
        let inputs = externals.iter().map(|input| ctx.input_value(*input));
        let inputs = inputs.collect::<TractResult<Vec<_>>>()?;
        let results = ctx.body(chosen, inputs)?;
        let sources = output_sources(&chosen.outputs, outputs)?;
        return sources.into_iter().map(|result| ctx.wired(&results[result])).collect();
    }
    let before = symbols(ctx);
    let mut node_inputs = tvec![ctx.input(0)?];
    let mut branches = vec![];
    for body in [then_body, else_body] {
        let mut built = BodyModel::new(ctx);
        let mut values = vec![];
        for input in externals(body)? {
            values.push(match whole_constant(ctx, input)? {
                Some(constant) => constant,
                None => {
                    built.inputs.push(node_inputs.len());
                    node_inputs.push(ctx.input(input)?);
                    let fact = ctx.fact(input)?.without_value();
                    built.source(ctx, body, values.len(), fact)?
                }
            });
        }
        let results = built.translate(ctx, body, values)?;
        let sources = output_sources(&body.outputs, outputs)?;
        let chosen: Vec<OutletId> = sources.iter().map(|result| results[*result]).collect();
        built.model.select_output_outlets(&chosen)?;
        branches.push(built);
    }
    let [on_true, on_false] = &*branches else { bail!("If has two bodies") };
    let mut facts = tvec![];
    for output in 0..outputs {
        let (a, b) = (on_true.model.output_fact(output)?, on_false.model.output_fact(output)?);
        ensure!(
            a.datum_type == b.datum_type && a.rank() == b.rank(),
            "output {output} is of type {:?} and shape {} in then_body, but of type {:?} and shape {} in \
             else_body: type and rank must be the same, as the condition is only known when the model runs",
            a.datum_type,
            listed(&a.shape),
            b.datum_type,
            listed(&b.shape)
        );
        let mut shape = tvec![];
        for (a, b) in a.shape.iter().zip(b.shape.iter()) {
            let same = a == b && a.symbols().is_subset(&before);
            shape.push(if same { a.clone() } else { ctx.size_at_run_time("size")?.to_dim() });
        }
        facts.push(a.datum_type.fact(shape));
    }
    let mut branches = branches.into_iter();
    let (Some(on_true), Some(on_false)) = (branches.next(), branches.next()) else {
        bail!("If has two bodies")
    };
    let op = control::If {
        then_body: control::Body::new(on_true.model),
        then_inputs: on_true.inputs,
        else_body: control::Body::new(on_false.model),
        else_inputs: on_false.inputs,
        facts,
    };
    ctx.finish(op, &node_inputs)
}

/// For each parameter of a body, the layer's input that it is.
fn externals(body: &Body) -> TractResult<Vec<usize>> {
    let mut externals = vec![None; body.graph.parameters.len()];
    for entry in &body.inputs {
        externals[entry.internal] = entry.external;
    }
    let names = body.graph.parameters.iter().map(|layer| &body.graph.layers[*layer]);
    let external = |(external, layer): (Option<usize>, _)| {
        external.with_context(|| format!("no input of the layer is {layer} of the body"))
    };
    externals.into_iter().zip(names).map(external).collect()
}

/// For each output of the layer, the result of the body that it is.
fn output_sources(entries: &[PortMap], outputs: usize) -> TractResult<Vec<usize>> {
    // The last entry for an output counts.
    let results: HashMap<usize, usize> =
        entries.iter().filter_map(|entry| Some((entry.external?, entry.internal))).collect();
    let source = |output| {
        results.get(&output).copied().with_context(|| {
            format!("output {output} is in one port_map only, but each branch must have it")
        })
    };
    (0..outputs).map(source).collect()
}
