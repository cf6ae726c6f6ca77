//! Operations that find the sequences that a network means.

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino::GatherTree;

use crate::context::LayerContext;
use crate::operators::ctc::CtcGreedyDecoder;
use crate::operators::ctc_loss::CtcLoss;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("CTCGreedyDecoder", 1, ctc_greedy_decoder);
    registry.add("CTCGreedyDecoderSeqLen", 6, ctc_greedy_decoder_seq_len);
    registry.add("CTCLoss", 4, ctc_loss);
    registry.add("GatherTree", 1, gather_tree);
}

/// **CTCGreedyDecoder-1**: of each step the most probable class, without blanks, which are the last class, and
/// with `ctc_merge_repeated` without repeated ones. A sequence ends in front of the first zero of the mask.
fn ctc_greedy_decoder(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let dt = ctx.expect_floats(0, "data")?;
    ctx.expect_numbers(1, "sequence_mask")?;
    let merge_repeated = ctx.attribute_or("ctc_merge_repeated", true)?;
    let (data, mask) = (ctx.shape_of_rank(0, "data", 3)?, ctx.shape(1)?);
    ctx.equal_shapes(&data[..2], &mask, None, "has a mask for each step of each sequence")?;
    // The steps come first in both inputs.
    let batch_first = [AxisOp::Move(0, 1)];
    let mut inputs = tvec![];
    for (input, name) in [(0, "data"), (1, "mask")] {
        let outlet = ctx.number_input(input)?;
        inputs.push(ctx.change_axes(name, outlet, batch_first.clone())?);
    }
    let decoder = CtcGreedyDecoder { merge_repeated, blank: None };
    let classes = ctx.wire("classes", decoder, &inputs)?;
    let classes = ctx.cast("floats", classes, dt)?;
    Ok(tvec!(ctx.change_axes("", classes, [AxisOp::Add(2), AxisOp::Add(3)])?))
}

/// **CTCGreedyDecoderSeqLen-6**: as CTCGreedyDecoder-1, but with the length of each sequence, and any class for
/// blanks. The second output is the number of classes of each sequence.
fn ctc_greedy_decoder_seq_len(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=3)?;
    ctx.expect_floats(0, "data")?;
    ctx.expect_integers(1, "sequence_length")?;
    let merge_repeated = ctx.attribute_or("merge_repeated", true)?;
    let blank = match ctx.input_count() {
        3 => Some(ctx.integer(2, "blank_index")?),
        _ => None,
    };
    let types = [
        ctx.index_type("classes_index_type", DatumType::I32)?,
        ctx.index_type("sequence_length_type", DatumType::I32)?,
    ];
    let (data, lengths) = (ctx.shape_of_rank(0, "data", 3)?, ctx.shape(1)?);
    ctx.equal_shapes(&data[..1], &lengths, None, "has a length for each sequence")?;
    let inputs = [ctx.input(0)?, ctx.number_input(1)?];
    let outputs = ctx.finish(CtcGreedyDecoder { merge_repeated, blank }, &inputs)?;
    outputs.iter().zip(types).map(|(output, dt)| ctx.cast("numbers", *output, dt)).collect()
}

/// **CTCLoss-4**: the negative logarithm of the probability of each sequence of labels: of all paths that give it.
/// Attributes say what becomes of labels that are there more than once.
fn ctc_loss(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=5)?;
    let dt = ctx.expect_floats(0, "logits")?;
    let logits = ctx.shape_of_rank(0, "logits", 3)?;
    let labels = ctx.shape_of_rank(2, "labels", 2)?;
    ctx.require_equal(&logits[0], &labels[0], "has labels for each sequence")?;
    let mut inputs = tvec![ctx.input(0)?];
    inputs[0] = ctx.cast("single", inputs[0], DatumType::F32)?;
    for (input, name) in [(1, "logit_length"), (2, "labels"), (3, "label_length")] {
        ctx.expect_integers(input, name)?;
        inputs.push(ctx.number_input(input)?);
        if name != "labels" {
            let lengths = ctx.shape(input)?;
            ctx.equal_shapes(&logits[..1], &lengths, None, "has lengths for each sequence")?;
        }
    }
    let blank = match ctx.input_count() {
        5 => Some(ctx.integer(4, "blank_index")?),
        _ => None,
    };
    let op = CtcLoss {
        collapse_repeated: ctx.attribute_or("preprocess_collapse_repeated", false)?,
        merge_repeated: ctx.attribute_or("ctc_merge_repeated", true)?,
        unique: ctx.attribute_or("unique", false)?,
        blank,
    };
    let losses = ctx.wire("losses", op, &inputs)?;
    Ok(tvec!(ctx.cast("", losses, dt)?))
}

/// **GatherTree-1**: the sequences of a beam search, from the last step to the first: the parent of a beam says
/// which one it comes from.
fn gather_tree(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(4..=4)?;
    let names = GatherTree::INPUTS;
    let mut inputs = tvec![];
    for (input, name) in names.into_iter().enumerate() {
        ctx.expect_numbers(input, name)?;
        inputs.push(ctx.number_input(input)?);
    }
    ctx.same_type(&[inputs[0], inputs[3]])?;
    ctx.expect_one_element(3, names[3])?;
    let steps = ctx.shape_of_rank(0, names[0], 3)?;
    let (parents, lengths) = (ctx.shape(1)?, ctx.shape(2)?);
    ctx.equal_shapes(&steps, &parents, None, "has a parent for each beam of each step")?;
    ctx.equal_shapes(&steps[1..2], &lengths, None, "has a length for each sequence")?;
    ctx.finish(GatherTree, &inputs)
}
