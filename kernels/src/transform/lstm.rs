//! Loops over the steps of an LSTM.

use tract_core::internal::*;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::lstm_cell::LstmEpilogue;
use tract_core::ops::math::Add;
use tract_core::ops::scan::Scan;

use super::found::{Found, constant, is_binary, is_single, labels};
use super::rule::{Rewrite, Session, refuse, refuse_if};
use crate::fully_connected::FullyConnected;
use crate::lstm::{LstmOutput, LstmSequence};
use crate::memory::floats;
use crate::product::activation::Activation;

/// A loop whose body is tract's `LstmEpilogue` and the product of the state and constant weights.
pub(super) fn rewrite(session: &Session, model: &TypedModel, node: &TypedNode) -> Found<Rewrite> {
    rule_if_some!(scan = node.op_as::<Scan>());
    rule_if_some!(epilogue = scan.body.nodes().iter().find(|it| it.op_is::<LstmEpilogue>()));
    refuse_if!(
        !scan.reset_every_turn || scan.skip > 0,
        "it must begin with its first states in each run (`reset_every_turn`), and skip no steps"
    );
    let Some((op, inputs)) = (LstmBody { scan, epilogue }).find(session, model, node)? else {
        refuse!(
            "a step must be a product of the state and constant weights, to which the products of the data and constants are added, \
             and tract's LstmEpilogue, whose outputs are the next states"
        )
    };
    Ok(Some(TypedModelPatch::replace_single_op(model, node, &inputs, op)?.into()))
}

struct LstmBody<'a> {
    scan: &'a Scan,
    epilogue: &'a TypedNode,
}

impl LstmBody<'_> {
    /// The operator, and its inputs.
    fn find(
        &self,
        session: &Session,
        model: &TypedModel,
        node: &TypedNode,
    ) -> Found<(LstmSequence, TVec<OutletId>)> {
        let LstmBody { scan: Scan { body, input_mapping, output_mapping, .. }, epilogue } = *self;
        rule_if_some!(hidden = epilogue.op_as().map(|op: &LstmEpilogue| op.hidden));
        rule_if_let!([sum, cell] = *epilogue.inputs);
        rule_if_some!((products, product, bias) = addends(body, sum, 4 * hidden)?);
        rule_if_some!((state, weights, transposed) = recurrent_weights(body, product, hidden)?);
        // What the inputs of the loop are, and whether the outputs of the body are the next states.
        let input = |outlet: OutletId| body.inputs.iter().position(|it| *it == outlet);
        rule_if_let!(
            [Some(products), Some(h), Some(c)] = [products, state, origin(body, cell)?].map(input)
        );
        rule_if_let!(Some(steps) = input_mapping[products].as_scan());
        rule_if!(body.inputs.len() == 3 && steps.chunk.unsigned_abs() == 1);
        // Nothing is broadcast.
        let volume =
            |slot: usize| TractResult::Ok(body.outlet_fact(body.inputs[slot])?.shape.volume());
        let of_state = volume(h)?;
        rule_if!(volume(products)? == of_state.clone() * 4 && volume(c)? == of_state);
        let mut states = [h, c];
        rule_if!(states.iter().all(|slot| input_mapping[*slot].is_state()));
        states.sort_unstable();
        let mut outputs = tvec![];
        let mut next = vec![];
        for (outlet, mapping) in body.outputs.iter().zip(output_mapping) {
            let outlet = origin(body, *outlet)?;
            rule_if!(outlet.node == epilogue.id && mapping.full_dim_hint.is_none());
            if mapping.state {
                next.push(if outlet.slot == 0 { h } else { c });
            }
            if let Some((slot, all)) = mapping.scan {
                let state = &body.outlet_fact(body.inputs[h])?.shape;
                rule_if!(outlet.slot == 0 && all.chunk == steps.chunk);
                rule_if!(state.get(all.axis).is_some_and(|size| size.is_one()));
                outputs.push((slot, LstmOutput::Steps(all.axis)));
            }
            if let Some(slot) = mapping.last_value_slot {
                let last = [LstmOutput::LastHidden, LstmOutput::LastCell][outlet.slot];
                outputs.push((slot, last));
            }
        }
        rule_if!(next == states);
        outputs.sort_unstable_by_key(|(slot, _)| *slot);
        let outputs: TVec<LstmOutput> = outputs.into_iter().map(|(_, output)| output).collect();
        let of_steps = |it: &&LstmOutput| matches!(it, LstmOutput::Steps(_));
        rule_if!(outputs.iter().filter(of_steps).count() <= 1);
        let inputs: TVec<OutletId> =
            [products, h, c].iter().map(|slot| node.inputs[*slot]).collect();
        let facts = inputs.iter().map(|input| model.outlet_fact(*input));
        let facts = facts.collect::<TractResult<TVec<_>>>()?;
        rule_if!(facts.iter().all(|fact| is_single(fact)));
        let recurrent = FullyConnected::new(
            &weights,
            transposed,
            bias,
            Activation::Identity,
            None,
            session.bf16(),
            std::iter::empty(),
        )?;
        let (axis, is_backward) = (steps.axis, steps.chunk < 0);
        let op = LstmSequence { hidden, recurrent, axis, is_backward, outputs };
        let found = TypedOp::output_facts(&op, &facts)?;
        let is_same = found.len() == node.outputs.len()
            && found.iter().zip(&node.outputs).all(|(it, old)| it.shape == old.fact.shape);
        Ok(is_same.then_some((op, inputs)))
    }
}

/// What the sums of the gates are made of: the products of the data, those of the state, and constants that are added. `width` is the
/// length of a row of gates.
fn addends(
    body: &TypedModel,
    sum: OutletId,
    width: usize,
) -> Found<(OutletId, &TypedNode, Vec<f32>)> {
    let (mut products, mut product, mut bias) = (None, None, vec![0.; width]);
    let mut waiting = vec![sum];
    while let Some(outlet) = waiting.pop() {
        if let Some(numbers) = constant(body, outlet)? {
            rule_if!(is_single(body.outlet_fact(outlet)?));
            rule_if!(numbers.shape().last() == Some(&width) && numbers.len() == width);
            for (sum, number) in bias.iter_mut().zip(floats(numbers)?) {
                *sum += number;
            }
            continue;
        }
        let outlet = origin(body, outlet)?;
        let node = body.node(outlet.node);
        if is_binary::<Add>(node) {
            waiting.extend(&node.inputs);
        } else if node.op_is::<EinSum>() {
            rule_if!(product.replace(node).is_none());
        } else {
            rule_if!(products.replace(outlet).is_none());
        }
    }
    Ok(products.zip(product).map(|(products, product)| (products, product, bias)))
}

/// The state that is multiplied by constant weights, these as a matrix, and whether it has a row for each column of the product: a
/// product of `[batch, hidden]` to `[batch, 4 * hidden]`, around which there may be axes of size 1.
fn recurrent_weights(
    body: &TypedModel,
    product: &TypedNode,
    hidden: usize,
) -> Found<(OutletId, Arc<Tensor>, bool)> {
    rule_if_some!(op = product.op_as::<EinSum>());
    rule_if!(op.q_params.is_none() && op.operating_dt == DatumType::F32);
    rule_if_let!([a, b] = *product.inputs);
    let long = |slot: InOut, fact: &TypedFact| -> Vec<char> {
        let sizes = fact.shape.iter();
        let all = labels(op, slot).into_iter().zip(sizes);
        all.filter(|(_, size)| !size.is_one()).map(|(label, _)| label).collect()
    };
    let output = long(InOut::Out(0), &product.outputs[0].fact);
    for (slot, weights, data) in [(1, b, a), (0, a, b)] {
        let (weights_fact, data_fact) = (body.outlet_fact(weights)?, body.outlet_fact(data)?);
        let Some(tensor) = constant(body, weights)? else { continue };
        rule_if!(is_single(weights_fact) && is_single(data_fact));
        let (matrix, data_labels) =
            (long(InOut::In(slot), weights_fact), long(InOut::In(1 - slot), data_fact));
        rule_if_let!(
            (&[first, second], Some((summed, batch))) = (&*matrix, data_labels.split_last())
        );
        let transposed = second == *summed;
        let column = if transposed { first } else { second };
        rule_if!(transposed || first == *summed);
        rule_if!(output == [batch, &[column]].concat() && batch.len() <= 1);
        rule_if!(!output.contains(summed));
        let shape = if transposed { [4 * hidden, hidden] } else { [hidden, 4 * hidden] };
        let sizes = tensor.shape().iter().filter(|size| **size != 1);
        rule_if!(sizes.eq(&shape));
        let tensor = tensor.clone().into_tensor().into_shape(&shape)?.into_arc_tensor();
        return Ok(Some((origin(body, data)?, tensor, transposed)));
    }
    Ok(None)
}

/// What an outlet is a view of: before changes of its axes that leave its elements in their order.
fn origin(body: &TypedModel, mut outlet: OutletId) -> TractResult<OutletId> {
    loop {
        let node = body.node(outlet.node);
        let Some(op) = node.op_as::<AxisOp>() else { return Ok(outlet) };
        if let AxisOp::Move(from, to) = op {
            let shape = &body.outlet_fact(node.inputs[0])?.shape;
            let passed = if from < to { from + 1..to + 1 } else { *to..*from };
            if !shape[*from].is_one() && !passed.into_iter().all(|axis| shape[axis].is_one()) {
                return Ok(outlet);
            }
        }
        outlet = node.inputs[0];
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ops::math::{add, mul};
    use tract_core::ops::scan::{InputMapping, OutputMapping, ScanInfo};

    use super::*;
    use crate::{KernelsTransform, Outcome, WithKernels};

    const HIDDEN: usize = 5;

    /// A loop over the steps of an LSTM.
    #[derive(Debug, Clone)]
    struct Case {
        /// The axis of the steps: 0 or 1.
        axis: usize,
        chunk: isize,
        /// `None` is a symbol.
        batch: Option<usize>,
        /// Whether the weights have a row for each column of the product.
        transposed: bool,
        /// Which last states are outputs, and whether h of all steps is.
        outputs: [bool; 3],
        is_carried: bool,
        /// Whether a constant is added, as tract's reader of ONNX has it.
        has_bias: bool,
        /// Another operator in the body.
        is_scaled: bool,
        /// Whether each of the two states is what the other one is in an LSTM.
        are_swapped: bool,
        /// Whether all steps are put together along an axis that the states do not have.
        has_other_axis: bool,
    }

    const PLAIN: Case = Case {
        axis: 1,
        chunk: 1,
        batch: Some(1),
        transposed: true,
        outputs: [true; 3],
        is_carried: false,
        has_bias: false,
        is_scaled: false,
        are_swapped: false,
        has_other_axis: false,
    };

    fn numbers(shape: &[usize]) -> TractResult<Tensor> {
        let count = shape.iter().product();
        let numbers: Vec<f32> = (0..count).map(|it| (it * 37 % 23) as f32 / 10. - 1.).collect();
        Tensor::from_shape(shape, &numbers)
    }

    impl Case {
        fn model(&self) -> TractResult<TypedModel> {
            let mut model = TypedModel::default();
            let symbol = |name: &str| model.symbols.sym(name).to_dim();
            let batch = self.batch.map_or_else(|| symbol("B"), |batch| batch.to_dim());
            let time = symbol("T");
            let with_steps = |steps: TDim, last: usize| {
                let mut shape = vec![batch.clone(), last.to_dim()];
                shape.insert(self.axis, steps);
                shape
            };
            let mut body = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
            let step = body.add_source("x", f32::fact(with_steps(1.to_dim(), 4 * HIDDEN)))?;
            let states = ["h", "c"].map(|name| {
                let fact = f32::fact(with_steps(1.to_dim(), HIDDEN));
                body.add_source(name, fact)
            });
            let [h, c] = states;
            let (h, c) = (h?, c?);
            let rm = AxisOp::Rm(self.axis);
            let step = body.wire_node("step", rm.clone(), &[step])?;
            let h = body.wire_node("h_row", rm.clone(), &[h])?;
            let c = body.wire_node("c_row", rm, &[c])?;
            let (shape, axes) = match self.transposed {
                true => ([4 * HIDDEN, HIDDEN], "bi,gi->bg"),
                false => ([HIDDEN, 4 * HIDDEN], "bi,ig->bg"),
            };
            let r = body.add_const("r", numbers(&shape)?)?;
            let einsum = EinSum::new(axes.parse()?, DatumType::F32);
            let mut product = body.wire_node("h_r", einsum, &[h[0], r])?[0];
            if self.is_scaled {
                let two = body.add_const("two", tensor2(&[[2f32]]))?;
                product = body.wire_node("scaled", mul(), &[product, two])?[0];
            }
            let mut gates = body.wire_node("gates", add(), &[step[0], product])?[0];
            if self.has_bias {
                let bias = body.add_const("b", numbers(&[1, 4 * HIDDEN])?)?;
                gates = body.wire_node("preact", add(), &[gates, bias])?[0];
            }
            let new = body.wire_node("cell", LstmEpilogue { hidden: HIDDEN }, &[gates, c[0]])?;
            let mut results = vec![];
            for (name, new) in ["h_new", "c_new"].into_iter().zip(new) {
                results.push(body.wire_node(name, AxisOp::Add(self.axis), &[new])?[0]);
            }
            if self.are_swapped {
                results.swap(0, 1);
            }
            if self.has_other_axis {
                results.push(body.wire_node("longer", AxisOp::Add(3), &[results[0]])?[0]);
            }
            body.select_output_outlets(&results)?;
            let info = ScanInfo { axis: self.axis, chunk: self.chunk };
            let mut slots = 0..;
            let [all, last_h, last_c] = self.outputs.map(|it| it.then(|| slots.next().unwrap()));
            let output = |scan: Option<usize>, last_value_slot| OutputMapping {
                scan: scan.map(|slot| (slot, info)),
                full_dim_hint: None,
                last_value_slot,
                state: true,
            };
            let mut outputs = vec![output(all, last_h), output(None, last_c)];
            if self.has_other_axis {
                let info = ScanInfo { axis: 3, ..info };
                outputs.push(OutputMapping {
                    scan: Some((slots.next().unwrap(), info)),
                    ..OutputMapping::default()
                });
            }
            let mappings = vec![InputMapping::Scan(info), InputMapping::State, InputMapping::State];
            let mut scan = Scan::new(body, mappings, outputs, 0)?;
            scan.reset_every_turn = !self.is_carried;
            let x = model.add_source("x", f32::fact(with_steps(time, 4 * HIDDEN)))?;
            let [h, c] = ["h", "c"]
                .map(|name| model.add_source(name, f32::fact(with_steps(1.to_dim(), HIDDEN))));
            let outputs = model.wire_node("lstm", scan, &[x, h?, c?])?;
            model.select_output_outlets(&outputs)?;
            Ok(model)
        }

        /// What the rule decided; what the model gives is what it was.
        fn check(&self) -> TractResult<Outcome> {
            let model = self.model()?;
            let mut transformed = model.clone();
            let decisions =
                KernelsTransform::default().transform_with_decisions(&mut transformed)?;
            let plain = model.clone().into_optimized()?.into_runnable()?;
            let found = model.into_runnable_with_kernels()?;
            for time in [2, 3, 9] {
                let batch = self.batch.unwrap_or(3);
                let shape = |steps, last| match self.axis {
                    0 => [steps, batch, last],
                    _ => [batch, steps, last],
                };
                let inputs: TVec<TValue> = tvec![
                    numbers(&shape(time, 4 * HIDDEN))?.into_tvalue(),
                    numbers(&shape(1, HIDDEN))?.into_tvalue(),
                    numbers(&shape(1, HIDDEN))?.into_tvalue(),
                ];
                let expected = plain.run(inputs.clone())?;
                for (found, expected) in found.run(inputs)?.iter().zip(&expected) {
                    found.close_enough(expected, Approximation::Close)?;
                }
            }
            let of_rule = decisions.into_iter().find(|it| it.rule == "lstm" && it.op == "Scan");
            Ok(of_rule.context("the rule looked at it")?.outcome)
        }
    }

    #[test]
    fn loops_over_the_steps_of_an_lstm_are_one_operator() -> TractResult<()> {
        let replaced = Outcome::Replaced("LstmSequence".into());
        for axis in [0, 1] {
            for chunk in [1, -1] {
                for batch in [Some(1), Some(4), None] {
                    for transposed in [true, false] {
                        let case = Case { axis, chunk, batch, transposed, ..PLAIN };
                        assert_eq!(case.check()?, replaced, "{case:?}");
                    }
                }
            }
        }
        for outputs in [[true, false, false], [false, true, false], [false, false, true]] {
            for batch in [Some(1), Some(4), None] {
                let case = Case { outputs, batch, has_bias: true, ..PLAIN };
                assert_eq!(case.check()?, replaced, "{case:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn other_loops_stay() -> TractResult<()> {
        for (case, reason) in [
            (Case { is_carried: true, ..PLAIN }, "must begin with its first states"),
            (Case { are_swapped: true, ..PLAIN }, "a step must be a product"),
            (Case { has_other_axis: true, ..PLAIN }, "a step must be a product"),
            (Case { is_scaled: true, ..PLAIN }, "a step must be a product"),
        ] {
            let Outcome::Refused(found) = case.check()? else { bail!("{case:?} is replaced") };
            assert!(found.contains(reason), "{found}");
        }
        Ok(())
    }
}
