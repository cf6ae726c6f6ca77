//! A cell over time: a loop of steps.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::gru_seq::GruSeq;
use tract_core::ops::logic::{Iff, comp_lt};
use tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};
use tract_openvino_kernels::checks::listed;

use super::cell::{Cell, Kind};
use super::{expect_operand, expect_shape, operand, refuse_peepholes};
use crate::context::LayerContext;
use crate::workarounds::equal_shape::EqualShape;
use crate::workarounds::opaque::Separate;

/// **LSTMSequence-1**, **LSTMSequence-5**, **GRUSequence-5**, **RNNSequence-5**: a cell over time. The inputs
/// are X `[batch, time, input]`, the states `[batch, directions, hidden_size]`, sequence_lengths `[batch]`,
/// and W, R and B with an axis of directions in front. The outputs are Y `[batch, directions, time,
/// hidden_size]` and the last states.
///
/// After the end of a sequence, Y is zero, and the states do not change. The reverse direction starts at the
/// last step of the sequence. The last states of a sequence without steps are zeros, as OpenVINO has them: the
/// specification does not say what they are.
pub(super) fn sequence(ctx: &mut LayerContext, kind: Kind) -> TractResult<TVec<OutletId>> {
    let directions: &[Direction] = ctx.attribute_among(
        "direction",
        &[
            ("forward", &[Direction::Forward] as &[_]),
            ("reverse", &[Direction::Reverse]),
            ("bidirectional", &[Direction::Forward, Direction::Reverse]),
        ],
        None,
    )?;
    let cell = Cell::new(ctx, kind, directions.len())?;
    let names = kind.states();
    let lengths = 1 + names.len();
    let weights = lengths + 1;
    match ctx.since() {
        1 => ctx.expect_inputs(weights + 3..=weights + 4)?,
        _ => ctx.expect_inputs(weights + 3..=weights + 3)?,
    }
    if ctx.input_count() > weights + 3 {
        refuse_peepholes(ctx, weights + 3)?;
    }
    let shape = ctx.shape(0)?;
    let [batch, time, features] = &*shape else {
        bail!("input 0 (X) has shape {shape}, but must have rank 3", shape = listed(&shape))
    };
    ensure!(
        *time != 0.to_dim(),
        "input 0 (X) has shape {shape}, but must have one step or more",
        shape = listed(&shape)
    );
    let leading = directions.len().to_dim();
    for (number, name) in names.iter().enumerate() {
        let expected = [batch.clone(), leading.clone(), cell.hidden.to_dim()];
        expect_operand(ctx, 1 + number, name, cell.dt, &expected)?;
    }
    expect_shape(ctx, lengths, "sequence_lengths", std::slice::from_ref(batch))?;
    cell.check_weights(ctx, weights, &[leading], features)?;
    let within = steps_within(ctx, lengths, time)?;
    let mut outputs: Vec<TVec<OutletId>> = vec![tvec!(); 1 + names.len()];
    for (number, direction) in directions.iter().enumerate() {
        let sequence = Sequence { cell: cell.of_direction(number), within };
        let of_direction = sequence.direction(ctx, number, *direction, weights)?;
        outputs.iter_mut().zip(of_direction).for_each(|(output, part)| output.push(part));
    }
    let mut result = tvec!();
    for (number, parts) in outputs.iter().enumerate() {
        let name = if number == 0 { "" } else { kind.states()[number - 1] };
        let whole = match directions.len() {
            1 => parts[0],
            _ => ctx.wire(name, TypedConcat::new(1), parts)?,
        };
        result.push(ctx.cast(name, whole, cell.dt)?);
    }
    Ok(result)
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Reverse,
}

impl Direction {
    /// What names of nodes begin with, and the steps that tract's loop takes.
    fn prefix_and_chunk(self) -> (&'static str, isize) {
        match self {
            Direction::Forward => ("forward.", 1),
            Direction::Reverse => ("reverse.", -1),
        }
    }
}

/// Which steps are within their sequences: booleans `[batch, time, 1]`, or `None` if all steps are.
fn steps_within(
    ctx: &mut LayerContext,
    input: usize,
    time: &TDim,
) -> TractResult<Option<OutletId>> {
    ctx.expect_integers(input, "sequence_lengths")?;
    let whole = match ctx.constant_opt(input)? {
        Some(_) => {
            let lengths = ctx.dims(input, "sequence_lengths")?;
            for length in &lengths {
                let beyond = (length.clone() - time).to_i64().is_ok_and(|beyond| beyond > 0);
                let negative = length.to_i64().is_ok_and(|length| length < 0);
                ensure!(
                    !beyond && !negative,
                    "input {input} (sequence_lengths) has {length}, but must be in [0, {time}]"
                );
            }
            lengths.iter().all(|length| length == time)
        }
        None => ctx.fact(input)?.uniform_tdim.as_ref() == Some(time),
    };
    if whole {
        return Ok(None);
    }
    let steps = ctx.positions("steps", time)?;
    let steps = ctx.change_axes("steps", steps, [AxisOp::Add(0), AxisOp::Add(2)])?;
    let lengths = ctx.input(input)?;
    let lengths = ctx.cast("lengths", lengths, DatumType::I64)?;
    let lengths = ctx.change_axes("lengths", lengths, [AxisOp::Add(1), AxisOp::Add(2)])?;
    ctx.wire("within", TypedBinOp(comp_lt(), None), &[steps, lengths]).map(Some)
}

struct Sequence {
    cell: Cell,
    within: Option<OutletId>,
}

impl Sequence {
    /// Wires one direction. Gives Y and the last states, each with an axis of size 1 for the direction.
    fn direction(
        &self,
        ctx: &mut LayerContext,
        number: usize,
        direction: Direction,
        first_weight: usize,
    ) -> TractResult<TVec<OutletId>> {
        let cell = &self.cell;
        let (prefix, chunk) = direction.prefix_and_chunk();
        let mut wrb = [OutletId::new(0, 0); 3];
        for (offset, name) in ["w", "r", "b"].into_iter().enumerate() {
            let name = format!("{prefix}{name}.all");
            let slice = Slice::new(0, number, number + 1);
            let input = operand(ctx, first_weight + offset)?;
            let weight = ctx.wire(&name, slice, &[input])?;
            wrb[offset] = ctx.wire(&name, AxisOp::Rm(0), &[weight])?;
        }
        let weights = cell.weights(ctx, prefix, wrb)?;
        let x = operand(ctx, 0)?;
        // tract's loop gives no last state where there is no step.
        let x = ctx.with_least_sizes(x, [(1, 1)])?;
        let xw = cell.input_product(ctx, prefix, "bsi,gi->bsg", x, &weights)?;
        let outer_batch = ctx.shape_of(x)?[0].clone();
        if cell.is_plain_gru()
            && self.within.is_none()
            && ctx.constant_opt(first_weight + 1)?.is_some()
            && let Some(recurrent_bias) = weights.recurrent_bias
        {
            let inputs = [xw, weights.r, recurrent_bias];
            return self.gru(ctx, number, direction, inputs);
        }

        // A step cannot tell the symbols of an expression from its value: there it is a symbol of its own. So is 0, as
        // tract takes what has no elements as constant, but not the input of a step.
        let mut batch = outer_batch.clone();
        let mut xw = xw;
        if !matches!(batch, TDim::Val(1..) | TDim::Sym(_)) {
            batch = ctx.size_at_run_time("batch")?.to_dim();
            let shape = with_batch(ctx, xw, &batch)?;
            xw = ctx.wire(&format!("{prefix}batch"), EqualShape::naming(shape), &[xw])?;
        }
        let mut scan = Loop::new(ctx);
        let scanned = InputMapping::Scan(ScanInfo { axis: 1, chunk });
        let step_shape = [batch.clone(), 1.to_dim(), cell.rows()?.to_dim()];
        let step = scan.input("x_w", xw, f32::fact(step_shape), scanned.clone())?;
        let step = scan.wire("x_w.step", AxisOp::Rm(1).into(), &[step])?[0];
        let r = scan.whole(ctx, "r", weights.r)?;
        let recurrent_bias = match weights.recurrent_bias {
            Some(bias) => Some(scan.whole(ctx, "rb", bias)?),
            None => None,
        };
        let mut states = tvec!();
        let mut matrices = tvec!();
        for (offset, name) in cell.kind.states().iter().enumerate() {
            let shape = [batch.clone(), 1.to_dim(), cell.hidden.to_dim()];
            let mut initial = self.initial(ctx, prefix, number, offset, &shape)?;
            if offset > 0 {
                initial = ctx.wire(&format!("{prefix}{name}.separate"), Separate, &[initial])?;
            }
            let state = scan.input(name, initial, f32::fact(shape), InputMapping::State)?;
            states.push(state);
            matrices.push(scan.wire(&format!("{name}.matrix"), AxisOp::Rm(1).into(), &[state])?[0]);
        }
        let within = match self.within {
            Some(within) => {
                let shape = with_batch(ctx, within, &batch)?;
                let within = ctx.with_shape(within, shape)?;
                let fact = bool::fact([batch, 1.to_dim(), 1.to_dim()]);
                Some(scan.input("within", within, fact, scanned)?)
            }
            None => None,
        };
        let new = cell.step(
            &mut |name, op, inputs| scan.wire(name, op, inputs),
            step,
            &matrices,
            r,
            recurrent_bias,
        )?;
        let mut outputs: Vec<OutputMapping<TDim>> = vec![];
        let full = Some((0, ScanInfo { axis: 1, chunk }));
        let mut results = vec![];
        for (offset, (matrix, old)) in new.into_iter().zip(&states).enumerate() {
            let name = cell.kind.states()[offset];
            let mut new = scan.wire(&format!("{name}.new"), AxisOp::Add(1).into(), &[matrix])?[0];
            let mut mapping = OutputMapping {
                scan: full.filter(|_| offset == 0),
                full_dim_hint: None,
                last_value_slot: Some(1 + offset),
                state: true,
            };
            if let Some(within) = within {
                if offset == 0 {
                    let zero = scan.body.add_const("zero", tensor3(&[[[0f32]]]))?;
                    results.push(scan.wire("y", Iff.into(), &[within, new, zero])?[0]);
                    mapping.scan = None;
                    outputs.push(OutputMapping { scan: full, ..OutputMapping::default() });
                }
                let name = format!("{name}.kept");
                new = scan.wire(&name, Iff.into(), &[within, new, *old])?[0];
            }
            results.push(new);
            outputs.push(mapping);
        }
        scan.body.select_output_outlets(&results)?;
        let mut op = Scan::new(scan.body, scan.mappings, outputs, 0)?;
        // Each run starts from the initial states.
        op.reset_every_turn = true;
        let mut outlets = ctx.wire_all(&format!("{prefix}loop"), op, &scan.inputs)?;
        for outlet in &mut outlets {
            let shape = with_batch(ctx, *outlet, &outer_batch)?;
            *outlet = ctx.with_shape(*outlet, shape)?;
        }
        outlets[0] = ctx.wire(&format!("{prefix}y"), AxisOp::Add(1), &[outlets[0]])?;
        Ok(outlets)
    }

    /// The first value of a state in one direction: zeros where the sequence has no steps.
    fn initial(
        &self,
        ctx: &mut LayerContext,
        prefix: &str,
        number: usize,
        offset: usize,
        shape: &[TDim],
    ) -> TractResult<OutletId> {
        let name = self.cell.kind.states()[offset];
        let initial = operand(ctx, 1 + offset)?;
        let slice = Slice::new(1, number, number + 1);
        let initial = ctx.wire(&format!("{prefix}{name}.start"), slice, &[initial])?;
        let initial = ctx.with_shape(initial, shape.into())?;
        let Some(within) = self.within else { return Ok(initial) };
        let first = ctx.wire(&format!("{prefix}{name}.first"), Slice::new(1, 0, 1), &[within])?;
        let zero = ctx.add_const(&format!("{prefix}{name}.zero"), tensor3(&[[[0f32]]]))?;
        ctx.wire(&format!("{prefix}{name}.start_or_zero"), Iff, &[first, initial, zero])
    }

    /// One direction of a GRU by tract's operator for it. The inputs are X · Wᵀ + B, R and the recurrent bias.
    fn gru(
        &self,
        ctx: &mut LayerContext,
        number: usize,
        direction: Direction,
        [xw, r, recurrent_bias]: [OutletId; 3],
    ) -> TractResult<TVec<OutletId>> {
        let hidden = self.cell.hidden;
        let (prefix, chunk) = direction.prefix_and_chunk();
        let name = |suffix: &str| format!("{prefix}{suffix}");
        let initial = operand(ctx, 1)?;
        let slice = Slice::new(1, number, number + 1);
        let initial = ctx.wire(&name("start"), slice, &[initial])?;
        // The operator adds a number for each gate to the product with the state. In front of these are those that
        // are in the product with the input already.
        let shape = [hidden.checked_mul(5).context("hidden_size is too large")?];
        let zeros = || Tensor::zero::<f32>(&shape);
        let zeros = ctx.add_computed(&name("zeros"), DatumType::F32, &shape, zeros)?;
        let bias = ctx.wire(&name("b6"), TypedConcat::new(0), &[zeros, recurrent_bias])?;
        let op = GruSeq {
            hidden,
            has_bias: true,
            chunk,
            emit_y: true,
            reset_every_turn: true,
            projected: true,
            packed_r: None,
        };
        let mut outlets = ctx.wire_all(&name("loop"), op, &[xw, r, bias, initial])?;
        outlets[0] = ctx.wire(&name("y"), AxisOp::Add(1), &[outlets[0]])?;
        Ok(outlets)
    }
}

/// The shape of a tensor, with another first dimension.
fn with_batch(ctx: &LayerContext, outlet: OutletId, batch: &TDim) -> TractResult<TVec<TDim>> {
    let mut shape = ctx.shape_of(outlet)?;
    shape[0] = batch.clone();
    Ok(shape)
}

/// A loop that is being put together.
struct Loop {
    body: TypedModel,
    inputs: TVec<OutletId>,
    mappings: Vec<InputMapping>,
}

impl Loop {
    fn new(ctx: &LayerContext) -> Loop {
        let body = TypedModel { symbols: ctx.model.symbols.clone(), ..TypedModel::default() };
        Loop { body, inputs: tvec!(), mappings: vec![] }
    }

    /// Adds an input of the loop. `step` is the fact of what one step sees of it.
    fn input(
        &mut self,
        name: &str,
        outer: OutletId,
        step: TypedFact,
        mapping: InputMapping,
    ) -> TractResult<OutletId> {
        self.inputs.push(outer);
        self.mappings.push(mapping);
        self.body.add_source(name, step)
    }

    /// Adds an input of which each step sees all.
    fn whole(&mut self, ctx: &LayerContext, name: &str, outer: OutletId) -> TractResult<OutletId> {
        let fact = ctx.model.outlet_fact(outer)?.without_value();
        self.input(name, outer, fact, InputMapping::Full)
    }

    fn wire(
        &mut self,
        name: &str,
        op: Box<dyn TypedOp>,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let name = self.body.unique_name(name).into_owned();
        self.body.wire_node(name, op, inputs)
    }
}
