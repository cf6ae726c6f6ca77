//! One step of a recurrent network.

use tract_core::internal::*;
use tract_core::ops::array::{Slice, TypedConcat};
use tract_core::ops::change_axes::AxisOp;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::konst::Const;
use tract_core::ops::lstm_cell::LstmEpilogue;
use tract_core::ops::math;
use tract_core::ops::nn::sigmoid;
use tract_openvino_kernels::checks::listed;

use super::{expect_operand, operand, refuse_peepholes};
use crate::context::LayerContext;

/// **LSTMCell-1**, **LSTMCell-4**, **GRUCell-3**, **RNNCell-1**: one step. The inputs are X `[batch, input]`,
/// the states `[batch, hidden_size]`, W, R and B. In LSTMCell-1 and RNNCell-1, B is optional. In LSTMCell-1, a last
/// input P has the weights of peepholes, which OpenVINO ignores. Its `weights_format` says nothing: OpenVINO writes
/// `ifco`, but the order of the gates is the same as later.
pub(super) fn cell(ctx: &mut LayerContext, kind: Kind) -> TractResult<TVec<OutletId>> {
    let cell = Cell::new(ctx, kind, 1)?;
    let states = kind.states();
    let weights = 1 + states.len();
    match (ctx.since(), kind) {
        (1, Kind::Lstm) => ctx.expect_inputs(weights + 2..=weights + 4)?,
        (1, _) => ctx.expect_inputs(weights + 2..=weights + 3)?,
        _ => ctx.expect_inputs(weights + 3..=weights + 3)?,
    }
    if ctx.input_count() > weights + 3 {
        refuse_peepholes(ctx, weights + 3)?;
    }
    let shape = ctx.shape(0)?;
    let [batch, features] = &*shape else {
        bail!("input 0 (X) has shape {shape}, but must have rank 2", shape = listed(&shape))
    };
    let hidden = cell.hidden.to_dim();
    for (number, name) in states.iter().enumerate() {
        expect_operand(ctx, 1 + number, name, cell.dt, &[batch.clone(), hidden.clone()])?;
    }
    cell.check_weights(ctx, weights, &[], features)?;
    let bias = match ctx.input_count() > weights + 2 {
        true => operand(ctx, weights + 2)?,
        false => {
            let shape = [cell.bias_rows()?];
            ctx.add_computed("b", DatumType::F32, &shape, || Tensor::zero::<f32>(&shape))?
        }
    };
    let wrb = [operand(ctx, weights)?, operand(ctx, weights + 1)?, bias];
    let weights = cell.weights(ctx, "", wrb)?;
    let x = operand(ctx, 0)?;
    let xw = cell.input_product(ctx, "", "bi,gi->bg", x, &weights)?;
    let states = (1..=states.len()).map(|it| operand(ctx, it)).collect::<TractResult<TVec<_>>>()?;
    let mut wire =
        |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| ctx.wire_all(name, op, inputs);
    let new = cell.step(&mut wire, xw, &states, weights.r, weights.recurrent_bias)?;
    new.into_iter().map(|state| ctx.cast("new", state, cell.dt)).collect()
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Lstm,
    Gru,
    Rnn,
}

impl Kind {
    /// The number of gates, whose weights are one above the other: f, i, c, o for LSTM; z, r, h for GRU.
    fn gates(self) -> usize {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Rnn => 1,
        }
    }

    /// The inputs that are states, as the specification calls them.
    pub(super) fn states(self) -> &'static [&'static str] {
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
pub(super) enum Activation {
    Sigmoid,
    Tanh,
    Relu,
}

const ACTIVATIONS: [(&str, Activation); 3] =
    [("sigmoid", Activation::Sigmoid), ("tanh", Activation::Tanh), ("relu", Activation::Relu)];

fn activation(word: &str) -> TractResult<Activation> {
    let found = ACTIVATIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word.trim()));
    found.map(|(_, activation)| *activation).with_context(|| {
        let known: Vec<&str> = ACTIVATIONS.iter().map(|(known, _)| *known).collect();
        format!("attribute activations has {word:?}, but each must be one of {}", known.join(", "))
    })
}

/// Adds a node: to the model, or to the body of a loop.
pub(super) type Wire<'a> =
    dyn FnMut(&str, Box<dyn TypedOp>, &[OutletId]) -> TractResult<TVec<OutletId>> + 'a;

/// What a layer says of its cell. It computes in single precision: in half precision, each step loses digits.
pub(super) struct Cell {
    pub kind: Kind,
    pub hidden: usize,
    /// Those of one direction after the other.
    activations: TVec<Activation>,
    clip: Option<f32>,
    linear_before_reset: bool,
    /// The type of the inputs and outputs.
    pub dt: DatumType,
}

/// The weights of one direction, as nodes: each gate's rows one above the other.
pub(super) struct Weights {
    /// `[gates * hidden, input]`
    pub w: OutletId,
    /// `[gates * hidden, hidden]`
    pub r: OutletId,
    /// `[gates * hidden]`
    pub bias: OutletId,
    /// `[hidden]`: the bias that a GRU with `linear_before_reset` adds before it applies its reset gate.
    pub recurrent_bias: Option<OutletId>,
}

impl Cell {
    /// Reads the attributes, of so many directions. The three activations do not use `activations_alpha` and
    /// `activations_beta`. A layer of two directions may list them once for both, or once for each, as ONNX does.
    pub(super) fn new(ctx: &LayerContext, kind: Kind, directions: usize) -> TractResult<Cell> {
        let hidden: usize = ctx.attribute("hidden_size")?;
        ensure!(hidden > 0, "attribute hidden_size is 0, but must be 1 or more");
        let default = kind.activations();
        let activations = match ctx.attribute_opt::<Vec<String>>("activations")? {
            None => default.repeat(directions),
            Some(words) => {
                let count = default.len();
                let of_both = if directions > 1 {
                    format!(" or {}", directions * count)
                } else {
                    String::new()
                };
                ensure!(
                    [count, directions * count].contains(&words.len()),
                    "attribute activations has length {}, but must have length {count}{of_both}",
                    words.len(),
                );
                let words = words.iter().map(|word| activation(word));
                let words = words.collect::<TractResult<Vec<_>>>()?;
                words.into_iter().cycle().take(directions * count).collect()
            }
        };
        let clip: f32 = ctx.attribute_or("clip", 0.)?;
        ensure!(clip >= 0., "attribute clip is {clip}, but must be 0 or more");
        let forget = kind == Kind::Lstm && ctx.attribute_or("input_forget", false)?;
        ensure!(!forget, "attribute input_forget is true, but only false is supported");
        let dt = ctx.datum_type(0)?;
        ensure!(
            [DatumType::F32, DatumType::F16].contains(&dt),
            "input 0 (X) is of type {dt:?}, but must be F32 or F16"
        );
        Ok(Cell {
            kind,
            hidden,
            activations: activations.into(),
            clip: Some(clip).filter(|clip| *clip > 0. && clip.is_finite()),
            linear_before_reset: kind == Kind::Gru
                && ctx.attribute_or("linear_before_reset", false)?,
            dt,
        })
    }

    /// The cell of one direction, which has its activations.
    pub(super) fn of_direction(&self, number: usize) -> Cell {
        let count = self.kind.activations().len();
        let activations = self.activations[number * count..][..count].into();
        Cell { activations, ..*self }
    }

    /// Whether tract has an operator for all steps of it: a GRU with `linear_before_reset` and nothing unusual.
    pub(super) fn is_plain_gru(&self) -> bool {
        self.linear_before_reset
            && self.clip.is_none()
            && *self.activations == *self.kind.activations()
    }

    /// The rows of the weights.
    pub(super) fn rows(&self) -> TractResult<usize> {
        self.kind.gates().checked_mul(self.hidden).context("attribute hidden_size is too large")
    }

    fn bias_rows(&self) -> TractResult<usize> {
        self.rows()?
            .checked_add(if self.linear_before_reset { self.hidden } else { 0 })
            .context("attribute hidden_size is too large")
    }

    /// Checks the shapes of the inputs W, R and B, if it is there. W is input `first`. The dimensions
    /// `leading` come before their own.
    pub(super) fn check_weights(
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
            expect_operand(ctx, input, name, self.dt, &[leading, &dims].concat())?;
        }
        Ok(())
    }

    /// Puts the gates of one direction's weights into tract's order, and splits the bias into what is added
    /// to the product with the input, and what is added to the product with the state.
    pub(super) fn weights(
        &self,
        ctx: &mut LayerContext,
        prefix: &str,
        wrb: [OutletId; 3],
    ) -> TractResult<Weights> {
        let [w, r, b] = wrb;
        // A loop must know its sizes.
        let r = ctx.with_shape(r, tvec![self.rows()?.to_dim(), self.hidden.to_dim()])?;
        let b = ctx.with_shape(b, tvec![self.bias_rows()?.to_dim()])?;
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

    /// X · Wᵀ + B, for all steps at once. `axes` is an equation like `bi,gi->bg`.
    pub(super) fn input_product(
        &self,
        ctx: &mut LayerContext,
        prefix: &str,
        axes: &str,
        x: OutletId,
        weights: &Weights,
    ) -> TractResult<OutletId> {
        // tract's product would repeat an axis of size 1 where it cannot tell that the other one has this size, too.
        let mut shape = ctx.shape_of(x)?;
        let last = shape.len() - 1;
        let features = &ctx.shape_of(weights.w)?[1];
        if features.as_i64().is_some() {
            shape[last] = features.clone();
        }
        let w = tvec![self.rows()?.to_dim(), shape[last].clone()];
        let operands = [ctx.with_shape(x, shape)?, ctx.with_shape(weights.w, w)?];
        let product = EinSum::new(axes.parse()?, f32::datum_type());
        let product = ctx.wire(&format!("{prefix}x_w"), product, &operands)?;
        let operands = ctx.broadcast(&[product, weights.bias])?;
        ctx.wire(&format!("{prefix}x_w_b"), math::add(), &operands)
    }

    /// One step: the new states, from X · Wᵀ + B `[batch, gates * hidden]` and the states `[batch, hidden]`.
    pub(super) fn step(
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
        let product = EinSum::new("bk,gk->bg".parse()?, f32::datum_type());
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
        let upper = one(&format!("{name}.upper"), constant(clip)?, &[])?;
        let lower = one(&format!("{name}.lower"), constant(-clip)?, &[])?;
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
                let zero = one(&format!("{name}.zero"), constant(0.)?, &[])?;
                one(&name, Box::new(math::max()), &[outlet, zero])
            }
        }
    }
}

/// A scalar that broadcasts to matrices.
fn constant(number: f32) -> TractResult<Box<dyn TypedOp>> {
    Ok(Box::new(Const::new(tensor2(&[[number]]).into_arc_tensor())?))
}
