//! Recurrent cells and sequences of them.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::cast;
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::konst::Const;
use tract_core::ops::logic::{Iff, comp_lt};
use tract_core::ops::lstm_cell::LstmEpilogue;
use tract_core::ops::math;
use tract_core::ops::nn::sigmoid;
use tract_core::ops::scan::{InputMapping, OutputMapping, Scan, ScanInfo};

use crate::operators::opaque::Separate;
use crate::registry::Registry;
use crate::translate::LayerContext;

pub(super) fn register(registry: &mut Registry) {
    registry.add("LSTMCell", 1, |ctx| cell(ctx, Kind::Lstm));
    registry.add("LSTMCell", 4, |ctx| cell(ctx, Kind::Lstm));
    registry.add("GRUCell", 3, |ctx| cell(ctx, Kind::Gru));
    registry.add("RNNCell", 1, |ctx| cell(ctx, Kind::Rnn));
    registry.add("LSTMSequence", 1, |ctx| sequence(ctx, Kind::Lstm));
    registry.add("LSTMSequence", 5, |ctx| sequence(ctx, Kind::Lstm));
    registry.add("GRUSequence", 5, |ctx| sequence(ctx, Kind::Gru));
    registry.add("RNNSequence", 5, |ctx| sequence(ctx, Kind::Rnn));
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

impl Kind {
    /// The gates in the weights, one above the other: f, i, c, o; z, r, h.
    fn gates(self) -> usize {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Rnn => 1,
        }
    }

    /// The inputs that are states, as the specification calls them.
    fn states(self) -> &'static [&'static str] {
        match self {
            Kind::Lstm => &["initial_hidden_state", "initial_cell_state"],
            _ => &["initial_hidden_state"],
        }
    }

    fn activations(self) -> &'static [Activation] {
        match self {
            Kind::Lstm => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
            Kind::Gru => &[Activation::Sigmoid, Activation::Tanh],
            Kind::Rnn => &[Activation::Tanh],
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Activation {
    Sigmoid,
    Tanh,
    Relu,
}

const ACTIVATIONS: [(&str, Activation); 3] =
    [("sigmoid", Activation::Sigmoid), ("tanh", Activation::Tanh), ("relu", Activation::Relu)];

/// Adds a node: to the model, or to the body of a loop.
type Wire<'a> = dyn FnMut(&str, Box<dyn TypedOp>, &[OutletId]) -> TractResult<TVec<OutletId>> + 'a;

/// What a layer says of its cell.
struct Cell {
    kind: Kind,
    hidden: usize,
    activations: TVec<Activation>,
    clip: Option<f32>,
    linear_before_reset: bool,
    dt: DatumType,
}

/// The weights of one direction, as nodes: each gate's rows one above the other.
struct Weights {
    /// `[gates * hidden, input]`
    w: OutletId,
    /// `[gates * hidden, hidden]`
    r: OutletId,
    /// `[gates * hidden]`
    bias: OutletId,
    /// `[hidden]`: what a GRU with "linear_before_reset" adds before it resets.
    recurrent_bias: Option<OutletId>,
}

impl Cell {
    /// "activations_alpha" and "activations_beta" say nothing of the three activations that there are.
    fn new(ctx: &LayerContext, kind: Kind) -> TractResult<Cell> {
        let hidden: usize = ctx.attribute("hidden_size")?;
        ensure!(hidden > 0, "attribute hidden_size is 0, but must be 1 or more");
        let default = kind.activations();
        let activations = match ctx.attribute_opt::<Vec<String>>("activations")? {
            None => default.into(),
            Some(words) => {
                ensure!(
                    words.len() == default.len(),
                    "attribute activations has {} items, but must have {}",
                    words.len(),
                    default.len()
                );
                words.iter().map(|word| activation(word)).collect::<TractResult<_>>()?
            }
        };
        let clip: f32 = ctx.attribute_or("clip", 0.)?;
        ensure!(clip >= 0., "attribute clip is {clip}, but must be 0 or more");
        let forget: bool = ctx.attribute_or("input_forget", false)?;
        ensure!(!forget, "attribute input_forget is true, which is not supported");
        let dt = ctx.datum_type(0)?;
        ensure!(
            [DatumType::F32, DatumType::F16].contains(&dt),
            "input 0 (X) is of type {dt:?}, but must be f32 or f16"
        );
        Ok(Cell {
            kind,
            hidden,
            activations,
            clip: Some(clip).filter(|clip| *clip > 0. && clip.is_finite()),
            linear_before_reset: kind == Kind::Gru
                && ctx.attribute_or("linear_before_reset", false)?,
            dt,
        })
    }

    /// The rows of the weights.
    fn rows(&self) -> TractResult<usize> {
        self.kind.gates().checked_mul(self.hidden).context("attribute hidden_size is too large")
    }

    fn bias_rows(&self) -> TractResult<usize> {
        self.rows()?
            .checked_add(if self.linear_before_reset { self.hidden } else { 0 })
            .context("attribute hidden_size is too large")
    }

    /// Checks the inputs W, R and, where it is there, B, of which W is at `first`; they have `leading` axes in front.
    fn check_weights(
        &self,
        ctx: &mut LayerContext,
        first: usize,
        leading: &[TDim],
        x: &TDim,
    ) -> TractResult<()> {
        let rows = self.rows()?.to_dim();
        let expected = [
            ("W", vec![rows.clone(), x.clone()]),
            ("R", vec![rows, self.hidden.to_dim()]),
            ("B", vec![self.bias_rows()?.to_dim()]),
        ];
        for (input, (name, dims)) in (first..ctx.input_count()).zip(expected) {
            expect_shape(ctx, input, name, &[leading, &dims].concat())?;
        }
        Ok(())
    }

    /// The gates of one direction's weights in the order in which tract has them, and the bias as what is
    /// added to the product with the input, and to the one with the state.
    fn weights(
        &self,
        ctx: &mut LayerContext,
        prefix: &str,
        wrb: [OutletId; 3],
    ) -> TractResult<Weights> {
        let [w, r, b] = wrb;
        let mut weights = Weights { w, r, bias: b, recurrent_bias: None };
        match self.kind {
            Kind::Lstm => {
                for (name, weight) in
                    [("w", &mut weights.w), ("r", &mut weights.r), ("b", &mut weights.bias)]
                {
                    *weight = self.tract_order(ctx, &format!("{prefix}{name}"), *weight)?;
                }
            }
            Kind::Gru if self.linear_before_reset => {
                let rows = self.rows()?;
                let end = self.bias_rows()?;
                weights.bias = ctx.wire(&format!("{prefix}b"), Slice::new(0, 0, rows), &[b])?;
                let recurrent = Slice::new(0, rows, end);
                weights.recurrent_bias = Some(ctx.wire(&format!("{prefix}rb"), recurrent, &[b])?);
            }
            _ => (),
        }
        Ok(weights)
    }

    /// From f, i, c, o to i, o, f, c.
    fn tract_order(
        &self,
        ctx: &mut LayerContext,
        name: &str,
        weight: OutletId,
    ) -> TractResult<OutletId> {
        let mut gates = tvec!();
        for (letter, gate) in [("i", 1), ("o", 3), ("f", 0), ("c", 2)] {
            let slice = Slice::new(0, gate * self.hidden, (gate + 1) * self.hidden);
            gates.push(ctx.wire(&format!("{name}.{letter}"), slice, &[weight])?);
        }
        ctx.wire(name, TypedConcat::new(0), &gates)
    }

    /// X · Wᵀ + B, for all steps at once: `axes` is like `bi,gi->bg`.
    fn input_product(
        &self,
        ctx: &mut LayerContext,
        prefix: &str,
        axes: &str,
        x: OutletId,
        weights: &Weights,
    ) -> TractResult<OutletId> {
        let product = EinSum::new(axes.parse()?, self.dt);
        let product = ctx.wire(&format!("{prefix}x_w"), product, &[x, weights.w])?;
        let operands = ctx.broadcast(&[product, weights.bias])?;
        ctx.wire(&format!("{prefix}x_w_b"), math::add(), &operands)
    }

    /// One step: from X · Wᵀ + B and the states, `[batch, gates * hidden]` and `[batch, hidden]`, to the
    /// states.
    fn step(
        &self,
        wire: &mut Wire,
        xw: OutletId,
        states: &[OutletId],
        r: OutletId,
        recurrent_bias: Option<OutletId>,
    ) -> TractResult<TVec<OutletId>> {
        let hidden = self.hidden;
        let state = states[0];
        let mut one = |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
            wire(name, op, inputs).map(|outlets| outlets[0])
        };
        let product = EinSum::new("bk,gk->bg".parse()?, self.dt);
        // The rows from gate `start` to gate `end`.
        let gates = |axis: usize, start: usize, end: usize| -> Box<dyn TypedOp> {
            Box::new(Slice::new(axis, start * hidden, end * hidden))
        };
        match self.kind {
            Kind::Lstm => {
                let hr = one("h_r", product.into(), &[state, r])?;
                let sum = one("gates", Box::new(math::add()), &[xw, hr])?;
                if self.clip.is_none() && *self.activations == *self.kind.activations() {
                    return wire("cell", Box::new(LstmEpilogue { hidden }), &[sum, states[1]]);
                }
                let sum = self.clipped(&mut one, "gates", sum)?;
                let mut gate = |name: &str, number: usize, activation: usize| {
                    let gate = one(name, gates(1, number, number + 1), &[sum])?;
                    self.activated(&mut one, name, activation, gate)
                };
                let (i, o) = (gate("i", 0, 0)?, gate("o", 1, 0)?);
                let (f, c) = (gate("f", 2, 0)?, gate("c", 3, 1)?);
                let kept = one("f_c", Box::new(math::mul()), &[f, states[1]])?;
                let new = one("i_c", Box::new(math::mul()), &[i, c])?;
                let c = one("cell_state", Box::new(math::add()), &[kept, new])?;
                let shown = self.activated(&mut one, "cell_state", 2, c)?;
                let h = one("hidden_state", Box::new(math::mul()), &[o, shown])?;
                Ok(tvec!(h, c))
            }
            Kind::Gru => {
                let r_zr = one("r_zr", gates(0, 0, 2), &[r])?;
                let r_h = one("r_h", gates(0, 2, 3), &[r])?;
                let h_zr = one("h_r_zr", product.clone().into(), &[state, r_zr])?;
                let x_zr = one("x_zr", gates(1, 0, 2), &[xw])?;
                let x_h = one("x_h", gates(1, 2, 3), &[xw])?;
                let zr = one("zr", Box::new(math::add()), &[x_zr, h_zr])?;
                let zr = self.clipped(&mut one, "zr", zr)?;
                let zr = self.activated(&mut one, "zr", 0, zr)?;
                let z = one("z", gates(1, 0, 1), &[zr])?;
                let reset = one("r", gates(1, 1, 2), &[zr])?;
                let h_h = match recurrent_bias {
                    Some(bias) => {
                        let h_h = one("h_r_h", product.into(), &[state, r_h])?;
                        let bias = one("rb", AxisOp::Add(0).into(), &[bias])?;
                        let h_h = one("h_r_h_b", Box::new(math::add()), &[h_h, bias])?;
                        one("reset_h_r_h", Box::new(math::mul()), &[reset, h_h])?
                    }
                    None => {
                        let h = one("reset_h", Box::new(math::mul()), &[reset, state])?;
                        one("h_r_h", product.into(), &[h, r_h])?
                    }
                };
                let h = one("h", Box::new(math::add()), &[x_h, h_h])?;
                let h = self.clipped(&mut one, "h", h)?;
                let h = self.activated(&mut one, "h", 1, h)?;
                // (1 - z) * h + z * state
                let difference = one("difference", Box::new(math::sub()), &[state, h])?;
                let kept = one("kept", Box::new(math::mul()), &[z, difference])?;
                Ok(tvec!(one("hidden_state", Box::new(math::add()), &[h, kept])?))
            }
            Kind::Rnn => {
                let hr = one("h_r", product.into(), &[state, r])?;
                let sum = one("sum", Box::new(math::add()), &[xw, hr])?;
                let sum = self.clipped(&mut one, "sum", sum)?;
                Ok(tvec!(self.activated(&mut one, "sum", 0, sum)?))
            }
        }
    }

    fn clipped(
        &self,
        one: &mut impl FnMut(&str, Box<dyn TypedOp>, &[OutletId]) -> TractResult<OutletId>,
        name: &str,
        outlet: OutletId,
    ) -> TractResult<OutletId> {
        let Some(clip) = self.clip else { return Ok(outlet) };
        let upper = one(&format!("{name}.upper"), constant(clip, self.dt)?, &[])?;
        let lower = one(&format!("{name}.lower"), constant(-clip, self.dt)?, &[])?;
        let outlet = one(&format!("{name}.min"), Box::new(math::min()), &[outlet, upper])?;
        one(&format!("{name}.max"), Box::new(math::max()), &[outlet, lower])
    }

    fn activated(
        &self,
        one: &mut impl FnMut(&str, Box<dyn TypedOp>, &[OutletId]) -> TractResult<OutletId>,
        name: &str,
        number: usize,
        outlet: OutletId,
    ) -> TractResult<OutletId> {
        let name = format!("{name}.activated");
        match self.activations[number] {
            Activation::Sigmoid => one(&name, Box::new(sigmoid()), &[outlet]),
            Activation::Tanh => one(&name, Box::new(math::tanh()), &[outlet]),
            Activation::Relu => {
                let zero = one(&format!("{name}.zero"), constant(0., self.dt)?, &[])?;
                one(&name, Box::new(math::max()), &[outlet, zero])
            }
        }
    }
}

fn activation(word: &str) -> TractResult<Activation> {
    let found = ACTIVATIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word.trim()));
    found.map(|(_, activation)| *activation).with_context(|| {
        let known: Vec<&str> = ACTIVATIONS.iter().map(|(known, _)| *known).collect();
        format!("attribute activations has {word:?}, but must have items of {}", known.join(", "))
    })
}

/// A scalar that broadcasts to matrices.
fn constant(number: f32, dt: DatumType) -> TractResult<Box<dyn TypedOp>> {
    let tensor = tensor2(&[[number]]).cast_to_dt(dt)?.into_owned();
    Ok(Box::new(Const::new(tensor.into_arc_tensor())?))
}

/// Checks the shape of an input, and notes what open dimensions must be.
fn expect_shape(
    ctx: &mut LayerContext,
    input: usize,
    name: &str,
    expected: &[TDim],
) -> TractResult<()> {
    let shape = ctx.shape(input)?;
    let doing = format!("has input {input} ({name}) of shape {shape:?}");
    ctx.equal_shapes(&shape, expected, None, &doing)
}

/// **LSTMCell-1/4**, **GRUCell-3**, **RNNCell-3**: one step. X `[batch, input]`, the states
/// `[batch, hidden_size]`, W, R, B. In revision 1 of LSTMCell, B is optional, P is for a cell with peepholes
/// that nobody computes, and "weights_format" says nothing: its gates are in the same order as later, and
/// OpenVINO writes `ifco` all the same.
fn cell(ctx: &mut LayerContext, kind: Kind) -> TractResult<TVec<OutletId>> {
    let cell = Cell::new(ctx, kind)?;
    let states = kind.states();
    let weights = 1 + states.len();
    match ctx.since() {
        1 => ctx.expect_inputs(weights + 2..=weights + 4)?,
        _ => ctx.expect_inputs(weights + 3..=weights + 3)?,
    }
    if ctx.input_count() > weights + 3 {
        refuse_peepholes(ctx, weights + 3)?;
    }
    let shape = ctx.shape(0)?;
    let [batch, features] = &*shape else {
        bail!("input 0 (X) has shape {shape:?}, but must have rank 2")
    };
    let hidden = cell.hidden.to_dim();
    for (number, name) in states.iter().enumerate() {
        expect_shape(ctx, 1 + number, name, &[batch.clone(), hidden.clone()])?;
    }
    cell.check_weights(ctx, weights, &[], features)?;
    let bias = match ctx.input_count() > weights + 2 {
        true => ctx.input(weights + 2)?,
        false => {
            let zeros = Tensor::zero_dt(cell.dt, &[cell.bias_rows()?])?;
            ctx.add_const("b", zeros.into_arc_tensor())?
        }
    };
    let wrb = [ctx.input(weights)?, ctx.input(weights + 1)?, bias];
    let weights = cell.weights(ctx, "", wrb)?;
    let x = ctx.input(0)?;
    let xw = cell.input_product(ctx, "", "bi,gi->bg", x, &weights)?;
    let states = (1..=states.len()).map(|it| ctx.input(it)).collect::<TractResult<TVec<_>>>()?;
    let mut wire =
        |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| ctx.wire_all(name, op, inputs);
    cell.step(&mut wire, xw, &states, weights.r, weights.recurrent_bias)
}

/// Old files have an input for peepholes, which OpenVINO never made use of.
fn refuse_peepholes(ctx: &LayerContext, input: usize) -> TractResult<()> {
    let zeros = ctx.floats(input, "P")?.iter().all(|weight| *weight == 0.);
    ensure!(zeros, "input {input} (P) has weights, but peepholes are not supported");
    Ok(())
}

/// **LSTMSequence-1/5**, **GRUSequence-5**, **RNNSequence-5**: X `[batch, time, input]`, the states
/// `[batch, directions, hidden_size]`, sequence_lengths `[batch]`, W, R, B with the directions in front.
/// Outputs: Y `[batch, directions, time, hidden_size]`, and the last states.
///
/// Past a sequence's length, Y is zero, and the states are not changed; the reverse direction starts at the
/// sequence's last step.
fn sequence(ctx: &mut LayerContext, kind: Kind) -> TractResult<TVec<OutletId>> {
    let cell = Cell::new(ctx, kind)?;
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
    let directions: &[Direction] = ctx.attribute_among(
        "direction",
        &[
            ("forward", &[Direction::Forward] as &[_]),
            ("reverse", &[Direction::Reverse]),
            ("bidirectional", &[Direction::Forward, Direction::Reverse]),
        ],
        None,
    )?;
    let shape = ctx.shape(0)?;
    let [batch, time, features] = &*shape else {
        bail!("input 0 (X) has shape {shape:?}, but must have rank 3")
    };
    ensure!(*time != 0.to_dim(), "input 0 (X) has no steps: its shape is {shape:?}");
    let leading = directions.len().to_dim();
    for (number, name) in names.iter().enumerate() {
        let expected = [batch.clone(), leading.clone(), cell.hidden.to_dim()];
        expect_shape(ctx, 1 + number, name, &expected)?;
    }
    expect_shape(ctx, lengths, "sequence_lengths", std::slice::from_ref(batch))?;
    cell.check_weights(ctx, weights, &[leading], features)?;
    let sequence = Sequence { cell, within: steps_within(ctx, lengths, time)? };
    let mut outputs: Vec<TVec<OutletId>> = vec![tvec!(); 1 + names.len()];
    for (number, direction) in directions.iter().enumerate() {
        let of_direction = sequence.direction(ctx, number, *direction, weights)?;
        outputs.iter_mut().zip(of_direction).for_each(|(output, part)| output.push(part));
    }
    let mut result = tvec!();
    for (number, parts) in outputs.iter().enumerate() {
        let name = if number == 0 { "" } else { kind.states()[number - 1] };
        result.push(match directions.len() {
            1 => parts[0],
            _ => ctx.wire(name, TypedConcat::new(1), parts)?,
        });
    }
    Ok(result)
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Reverse,
}

/// For sequences that may be shorter than the time: which steps there are, `[batch, time, 1]`. `None` if all
/// steps are computed.
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
    let lengths = ctx.wire("lengths", cast(DatumType::I64), &[lengths])?;
    let lengths = ctx.change_axes("lengths", lengths, [AxisOp::Add(1), AxisOp::Add(2)])?;
    ctx.wire("within", TypedBinOp(comp_lt(), None), &[steps, lengths]).map(Some)
}

struct Sequence {
    cell: Cell,
    within: Option<OutletId>,
}

impl Sequence {
    /// Y and the last states of one direction, each with an axis for the directions.
    fn direction(
        &self,
        ctx: &mut LayerContext,
        number: usize,
        direction: Direction,
        first_weight: usize,
    ) -> TractResult<TVec<OutletId>> {
        let cell = &self.cell;
        let (prefix, chunk) = match direction {
            Direction::Forward => ("forward.", 1),
            Direction::Reverse => ("reverse.", -1),
        };
        let mut wrb = [OutletId::new(0, 0); 3];
        for (offset, name) in ["w", "r", "b"].into_iter().enumerate() {
            let name = format!("{prefix}{name}.all");
            let slice = Slice::new(0, number, number + 1);
            let input = ctx.input(first_weight + offset)?;
            let weight = ctx.wire(&name, slice, &[input])?;
            wrb[offset] = ctx.wire(&name, AxisOp::Rm(0), &[weight])?;
        }
        let weights = cell.weights(ctx, prefix, wrb)?;
        let x = ctx.input(0)?;
        let xw = cell.input_product(ctx, prefix, "bsi,gi->bsg", x, &weights)?;
        let batch = ctx.shape_of(x)?[0].clone();

        let mut scan = Loop::new(ctx);
        let scanned = InputMapping::Scan(ScanInfo { axis: 1, chunk });
        let step_shape = [batch.clone(), 1.to_dim(), cell.rows()?.to_dim()];
        let step = scan.input("x_w", xw, cell.dt.fact(step_shape), scanned.clone())?;
        let step = scan.wire("x_w.step", AxisOp::Rm(1).into(), &[step])?[0];
        let r = scan.whole(ctx, "r", weights.r)?;
        let recurrent_bias = match weights.recurrent_bias {
            Some(bias) => Some(scan.whole(ctx, "rb", bias)?),
            None => None,
        };
        let mut states = tvec!();
        let mut matrices = tvec!();
        for (offset, name) in cell.kind.states().iter().enumerate() {
            let initial = ctx.input(1 + offset)?;
            let slice = Slice::new(1, number, number + 1);
            let mut initial = ctx.wire(&format!("{prefix}{name}.start"), slice, &[initial])?;
            if offset > 0 {
                initial = ctx.wire(&format!("{prefix}{name}.separate"), Separate, &[initial])?;
            }
            let shape = [batch.clone(), 1.to_dim(), cell.hidden.to_dim()];
            let state = scan.input(name, initial, cell.dt.fact(shape), InputMapping::State)?;
            states.push(state);
            matrices.push(scan.wire(&format!("{name}.matrix"), AxisOp::Rm(1).into(), &[state])?[0]);
        }
        let within = match self.within {
            Some(within) => {
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
                    let zero = tensor3(&[[[0f32]]]).cast_to_dt(cell.dt)?.into_owned();
                    let zero = scan.body.add_const("zero", zero)?;
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
        outlets[0] = ctx.wire(&format!("{prefix}y"), AxisOp::Add(1), &[outlets[0]])?;
        Ok(outlets)
    }
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

    /// An input of the loop, with what a step sees of it.
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

    /// An input of which each step sees all.
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
