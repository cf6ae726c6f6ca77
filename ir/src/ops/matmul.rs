//! Products of matrices, and attention.

use std::collections::HashSet;

use tract_core::internal::*;
use tract_core::ops::array::{GatherNd, MultiBroadcastTo, Tile, TypedConcat};
use tract_core::ops::binary::TypedBinOp;
use tract_core::ops::cast::Cast;
use tract_core::ops::change_axes::perm_to_ops;
use tract_core::ops::einsum::EinSum;
use tract_core::ops::element_wise::ElementWiseOp;
use tract_core::ops::logic::{Iff, comp_lte};
use tract_core::ops::math::{add, mul, rsqrt};
use tract_core::ops::nn::SoftmaxKind;

use super::reduce::sum;
use super::softmax::softmax;
use crate::operators::opaque::Opaque;
use crate::operators::range::Range;
use crate::registry::Registry;
use crate::translate::{LayerContext, Table};

pub(super) fn register(registry: &mut Registry) {
    registry.add("MatMul", 1, mat_mul);
    registry.add("Einsum", 7, einsum);
    registry.add("ScaledDotProductAttention", 13, scaled_dot_product_attention);
}

/// **MatMul-1**: NumPy's product of matrices. `transpose_a` and `transpose_b` swap the last two axes, unless
/// the input is a vector.
fn mat_mul(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(2..=2)?;
    let transpose_a = ctx.attribute_or("transpose_a", false)?;
    let transpose_b = ctx.attribute_or("transpose_b", false)?;
    let a = ctx.input(0)?;
    if transpose_b
        && !transpose_a
        && ctx.type_of(a)? == DatumType::F32
        && let Some(table) = ctx.table(1)?
    {
        return Ok(tvec!(product_with_table(ctx, a, table)?));
    }
    let b = ctx.input(1)?;
    Ok(tvec!(product(ctx, "", [a, b], [transpose_a, transpose_b])?))
}

/// The product of rows and the transpose of a table, which stays packed.
fn product_with_table(
    ctx: &mut LayerContext,
    rows: OutletId,
    table: Table,
) -> TractResult<OutletId> {
    let (mut shape, matrix) = (ctx.shape_of(rows)?, ctx.shape(1)?);
    let doing = format!("multiplies {shape:?} by the transpose of {matrix:?}");
    let (Some(width), [_, summed]) = (shape.last_mut(), &*matrix) else {
        bail!("factor 0 has shape {shape:?} and factor 1 {matrix:?}, but must have rank 1 and 2")
    };
    ctx.equal(width, summed, &doing)?;
    *width = summed.clone();
    let last = shape.len() - 1;
    let rows = ctx.with_shape(rows, shape)?;
    // tract would take a reshape in front of it for one of the table, which has no other shapes.
    let rows = ctx.wire("rows", Opaque, &[rows])?;
    let batch: String = ellipsis(last, "gkn")?.into_iter().collect();
    let labels = |of_rows: char, of_table: &str| {
        let inputs = [format!("{batch}{of_rows}"), of_table.to_string()];
        let axes = AxesMapping::from_strs(&inputs, &[format!("{batch}n")])?;
        TractResult::Ok(EinSum::new(axes, DatumType::F32))
    };
    let offsets = table.offsets.clone();
    let table = ctx.wire_table(1, table, &[1])?;
    let Some(offsets) = offsets else {
        return ctx.wire("", labels('k', "gnk")?, &[rows, table]);
    };
    // An offset is multiplied by the sum of a group.
    let product = ctx.wire("product", labels('k', "gnk")?, &[rows, table])?;
    let groups = offsets.shape()[1].to_dim();
    let sizes = tvec![groups.clone(), summed.clone() / groups.to_usize()?];
    let groups = AxisOp::Reshape(last, tvec![summed.clone()], sizes);
    let groups = ctx.wire("groups", groups, &[rows])?;
    let sums = sum(ctx, "sums", groups, &[last + 1])?;
    let sums = ctx.wire("sums.axes", AxisOp::Rm(last + 1), &[sums])?;
    let offsets = ctx.add_const("offsets", offsets)?;
    let corrections = ctx.wire("corrections", labels('g', "ng")?, &[sums, offsets])?;
    ctx.wire("", add(), &[product, corrections])
}

/// The product of matrices. Each of the two may be transposed. Batches are broadcast.
fn product(
    ctx: &mut LayerContext,
    suffix: &str,
    inputs: [OutletId; 2],
    transposed: [bool; 2],
) -> TractResult<OutletId> {
    let shapes = [ctx.shape_of(inputs[0])?, ctx.shape_of(inputs[1])?];
    for (number, shape) in shapes.iter().enumerate() {
        ensure!(!shape.is_empty(), "factor {number} is a scalar, but must have rank 1 or more");
    }
    let batches = shapes.clone().map(|shape| shape[..shape.len().saturating_sub(2)].into());
    let batch_rank = ctx.broadcast_shapes(&batches)?.len();
    let batches = ellipsis(batch_rank, "kmn")?;
    let batch = |rank: usize| batches[batch_rank - rank..].iter().collect::<String>();
    // A vector is a row on the left and a column on the right. The result does not have that axis.
    let (mut labels, mut output) = ([String::new(), String::new()], batch(batch_rank));
    for (number, matrix) in [['m', 'k'], ['k', 'n']].into_iter().enumerate() {
        let rank = shapes[number].len();
        labels[number] = match rank {
            1 => "k".into(),
            _ if transposed[number] => format!("{}{}{}", batch(rank - 2), matrix[1], matrix[0]),
            _ => format!("{}{}{}", batch(rank - 2), matrix[0], matrix[1]),
        };
        output.extend(matrix.into_iter().filter(|label| rank > 1 && *label != 'k'));
    }
    let summed = |number: usize| {
        let axis = labels[number].chars().position(|label| label == 'k');
        axis.map_or_else(TDim::default, |axis| shapes[number][axis].clone())
    };
    ctx.equal(&summed(0), &summed(1), &format!("multiplies {:?} by {:?}", shapes[0], shapes[1]))?;
    contract(ctx, suffix, inputs, [&labels[0], &labels[1]], &output)
}

/// Labels for axes without a letter: letters that are not used. tract takes each label for one byte.
fn ellipsis(rank: usize, used: &str) -> TractResult<Vec<char>> {
    let letters = ('A'..='Z').chain('a'..='z').filter(|letter| !used.contains(*letter));
    let labels: Vec<char> = letters.take(rank).collect();
    ensure!(
        labels.len() == rank,
        "there are {rank} axes without a letter, for which there are not enough letters"
    );
    Ok(labels)
}

/// Contracts two tensors by the labels of their axes. The output has their type.
///
/// tract only has products of floats and of `i32`.
fn contract(
    ctx: &mut LayerContext,
    suffix: &str,
    inputs: [OutletId; 2],
    labels: [&str; 2],
    output: &str,
) -> TractResult<OutletId> {
    let [dt, other] = [ctx.type_of(inputs[0])?, ctx.type_of(inputs[1])?];
    ensure!(dt == other, "the factors are of types {dt:?} and {other:?}, but must be of one type");
    ensure!(dt.is_number() || dt.is_tdim(), "the factors are of type {dt:?}, but must be numbers");
    let operating = match dt {
        dt if dt.is_float() => dt,
        DatumType::I8 | DatumType::U8 | DatumType::I16 | DatumType::U16 => DatumType::I32,
        DatumType::I32 => dt,
        // These are exact up to 2^53.
        _ => DatumType::F64,
    };
    let mut factors = tvec!();
    for (input, suffix) in inputs.into_iter().zip(["a", "b"]) {
        let factor = ctx.cast(suffix, input, operating)?;
        factors.push(match is_broadcast(ctx.model, factor) {
            true => ctx.wire("opaque", Opaque, &[factor])?,
            false => factor,
        });
    }
    // tract does not compare them when it runs.
    let (a, mut b) = (ctx.shape_of(factors[0])?, ctx.shape_of(factors[1])?);
    for (label, dim) in labels[1].chars().zip(b.iter_mut()) {
        if let Some(axis) = labels[0].chars().position(|other| other == label)
            && !a[axis].is_one()
            && !dim.is_one()
        {
            *dim = a[axis].clone();
        }
    }
    factors[1] = ctx.with_shape(factors[1], b)?;
    let op = EinSum::new(AxesMapping::from_strs(&labels, &[output])?, operating);
    let product = ctx.wire(if operating == dt { suffix } else { "product" }, op, &factors)?;
    ctx.cast(suffix, product, dt)
}

/// Whether tract would find that an outlet is broadcast, now or after it has rewritten the nodes in between.
fn is_broadcast(model: &TypedModel, outlet: OutletId) -> bool {
    let mut next = vec![outlet];
    let mut seen = HashSet::new();
    while let Some(outlet) = next.pop().filter(|_| seen.len() < MOST_SEEN) {
        let node = model.node(outlet.node);
        let op = &node.op;
        if !seen.insert(outlet.node) || node.outputs[outlet.slot].fact.konst.is_some() {
            continue;
        }
        if op.is::<MultiBroadcastTo>() || op.is::<Tile>() {
            return true;
        }
        // What is concatenated tract multiplies part by part, with a reshape behind it or not.
        let is_concat = |input: &OutletId| model.node(input.node).op.is::<TypedConcat>();
        let moves =
            |op: &AxisOp| !matches!(op, AxisOp::Reshape(..)) || node.inputs.iter().any(is_concat);
        if op.is::<TypedConcat>()
            || op.is::<Cast>()
            || op.is::<ElementWiseOp>()
            || op.downcast_ref().is_some_and(moves)
        {
            next.extend(&node.inputs);
        }
    }
    false
}

/// The most nodes in front of a product that are looked at.
const MOST_SEEN: usize = 64;

/// **ScaledDotProductAttention-13**: `Softmax(q * k^T * scale + mask) * v`. A boolean mask keeps the scores
/// where it is true; another is added to them. With `causal` a query sees the keys up to its own position,
/// and the mask is not used. `scale` is `1 / sqrt(width)` by default. A query that sees no key gives NaN.
fn scaled_dot_product_attention(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=5)?;
    let causal = ctx.attribute("causal")?;
    let dt = ctx.datum_type(0)?;
    // In half precision each step would be rounded.
    let single = if dt == DatumType::F16 { DatumType::F32 } else { dt };
    let mut factors = tvec!();
    for (input, name) in ["query", "key", "value"].into_iter().enumerate() {
        let (rank, found) = (ctx.rank(input)?, ctx.datum_type(input)?);
        ensure!(rank >= 2, "input {input} ({name}) has rank {rank}, but must have rank 2 or more");
        ensure!(
            found == dt && dt.is_float(),
            "input {input} ({name}) is of type {found:?}, but must be floats of one type"
        );
        let factor = ctx.input(input)?;
        factors.push(ctx.cast(name, factor, single)?);
    }
    let scores = product(ctx, "scores", [factors[0], factors[1]], [false, true])?;
    let scale = scale(ctx, single)?;
    let operands = ctx.broadcast(&[scores, scale])?;
    let mut scores = ctx.wire("scaled", mul(), &operands)?;
    if causal {
        let shape = ctx.shape_of(scores)?;
        let [.., queries, keys] = &*shape else { bail!("the scores have shape {shape:?}") };
        let queries = unseen_positions(ctx, "queries", queries)?;
        let queries = ctx.wire("query_position", AxisOp::Add(1), &[queries])?;
        let keys = unseen_positions(ctx, "keys", keys)?;
        let keys = ctx.wire("key_position", AxisOp::Add(0), &[keys])?;
        let keep = ctx.wire("causal", TypedBinOp(comp_lte(), None), &[keys, queries])?;
        scores = masked(ctx, scores, keep)?;
    } else if ctx.input_count() > 3 {
        let (mask, fact) = (ctx.input(3)?, ctx.fact(3)?);
        let nothing = fact.konst.as_ref().is_some_and(|mask| mask.is_all_zero().unwrap_or(false));
        if fact.datum_type == DatumType::Bool {
            scores = masked(ctx, scores, mask)?;
        } else if !(fact.rank() == 0 && nothing) {
            ensure!(
                fact.datum_type == dt,
                "input 3 (attention_mask) is of type {:?}, but must be boolean or {dt:?}",
                fact.datum_type
            );
            let mask = ctx.cast("mask", mask, single)?;
            let operands = ctx.broadcast(&[scores, mask])?;
            scores = ctx.wire("masked", add(), &operands)?;
        }
    }
    let last = ctx.shape_of(scores)?.len() - 1;
    let weights = softmax(ctx, "weights", scores, last, SoftmaxKind::Softmax)?;
    let suffix = if dt == single { "" } else { "single" };
    let output = product(ctx, suffix, [weights, factors[2]], [false, false])?;
    Ok(tvec!(ctx.cast("", output, dt)?))
}

/// The factor of an attention's scores.
fn scale(ctx: &mut LayerContext, dt: DatumType) -> TractResult<OutletId> {
    if ctx.input_count() > 4 {
        ctx.expect_one_element(4, "scale")?;
        let scale = ctx.input(4)?;
        return ctx.cast("scale", scale, dt);
    }
    let shape = ctx.shape(0)?;
    let width = shape[shape.len() - 1].clone();
    if let Some(width) = width.as_i64() {
        return ctx.scalar("scale", 1. / (width as f64).sqrt(), dt, 0);
    }
    let width = ctx.add_const("size", tensor0(width))?;
    let width = ctx.cast("width", width, dt)?;
    ctx.wire("scale", rsqrt(), &[width])
}

/// Keeps scores where `keep` is true, and has negative infinity elsewhere.
fn masked(ctx: &mut LayerContext, scores: OutletId, keep: OutletId) -> TractResult<OutletId> {
    let dt = ctx.type_of(scores)?;
    let infinity = ctx.scalar("minus_infinity", f64::NEG_INFINITY, dt, 0)?;
    let operands = ctx.broadcast(&[keep, scores, infinity])?;
    ctx.wire("masked", Iff, &operands)
}

/// The numbers from 0 up to a size.
///
/// Not by tract's own operator, for the reason that [`Range`] gives.
fn unseen_positions(ctx: &mut LayerContext, suffix: &str, size: &TDim) -> TractResult<OutletId> {
    let ends = ctx.range_ends(suffix, size)?;
    ctx.wire(suffix, Range::new(DatumType::I64, size.clone()), &ends)
}

/// **Einsum-7**: letters name axes, and `...` stands for axes without a letter, which are aligned at the last
/// one. A letter that comes twice in one input takes the diagonal. Without `->` the output has the letters
/// that come once, in alphabetical order.
fn einsum(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    let equation: String = ctx.attribute("equation")?;
    let ranks: Vec<usize> =
        (0..ctx.input_count()).map(|input| ctx.rank(input)).collect::<TractResult<_>>()?;
    let (labels, output) = parse_equation(&equation, &ranks)
        .with_context(|| format!("equation is {equation:?} for inputs of ranks {ranks:?}"))?;
    let mut operands = vec![];
    for (input, labels) in labels.into_iter().enumerate() {
        let operand = Operand { outlet: ctx.input(input)?, labels };
        operands.push(operand.with_diagonals(ctx)?);
    }
    agree(ctx, &operands, &equation)?;
    let mut operands = operands.into_iter();
    let mut result = operands.next().context("there are no inputs, but must be 1 or more")?;
    while let Some(operand) = operands.next() {
        let rest = operands.as_slice();
        let needed = |label: char| {
            output.contains(&label) || rest.iter().any(|it| it.labels.contains(&label))
        };
        let last = rest.is_empty().then_some(&*output);
        result = result.times(ctx, operand, needed, last)?;
    }
    let result = result.summed(ctx, |label| output.contains(&label))?;
    let order: TVec<usize> =
        output.iter().filter_map(|label| result.labels.iter().position(|it| it == label)).collect();
    Ok(tvec!(ctx.change_axes("transpose", result.outlet, perm_to_ops(&order))?))
}

/// Reads an equation: the labels of the axes of each input, and of the output.
fn parse_equation(equation: &str, ranks: &[usize]) -> TractResult<(Vec<Vec<char>>, Vec<char>)> {
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    ensure!(
        terms.len() == ranks.len(),
        "it has {} terms, but must have one for each input",
        terms.len()
    );
    let mut longest = 0;
    for (term, rank) in terms.iter().zip(ranks) {
        let letters = term.chars().filter(|label| *label != '.').count();
        let unnamed = rank.checked_sub(letters);
        let unnamed = unnamed.filter(|unnamed| term.contains("...") || *unnamed == 0);
        longest = longest
            .max(unnamed.with_context(|| format!("term {term:?} does not fit rank {rank}"))?);
    }
    let ellipsis = ellipsis(longest, equation)?;
    let expand = |term: &str, unnamed: usize| -> TractResult<Vec<char>> {
        let (before, after) = term.split_once("...").unwrap_or((term, ""));
        let letters = |text: &str| text.chars().all(|label| label.is_ascii_alphabetic());
        ensure!(
            letters(before) && letters(after),
            "term {term:?} must be letters, with one ellipsis at most"
        );
        let unnamed = if term.contains("...") { unnamed } else { 0 };
        let ellipsis = &ellipsis[longest - unnamed..];
        Ok(before.chars().chain(ellipsis.iter().copied()).chain(after.chars()).collect())
    };
    let inputs = terms
        .iter()
        .zip(ranks)
        .map(|(term, rank)| {
            let letters = term.chars().filter(|label| *label != '.').count();
            expand(term, rank - letters)
        })
        .collect::<TractResult<Vec<_>>>()?;
    let occurrences = |label: char| inputs.iter().flatten().filter(|it| **it == label).count();
    let output = match right {
        Some(right) => expand(right, longest)?,
        None => {
            let mut once: Vec<char> =
                inputs.iter().flatten().copied().filter(|label| occurrences(*label) == 1).collect();
            once.retain(|label| !ellipsis.contains(label));
            once.sort_unstable();
            ellipsis.iter().copied().chain(once).collect()
        }
    };
    for (axis, label) in output.iter().enumerate() {
        ensure!(occurrences(*label) > 0, "the output has {label:?}, but no input has it");
        ensure!(
            !output[..axis].contains(label),
            "the output has {label:?} twice, but may have it once"
        );
    }
    Ok((inputs, output))
}

/// A tensor with a label for each axis.
struct Operand {
    outlet: OutletId,
    labels: Vec<char>,
}

impl Operand {
    /// Takes diagonals, so that each label is there once.
    fn with_diagonals(mut self, ctx: &mut LayerContext) -> TractResult<Operand> {
        let twice = |labels: &[char]| {
            labels.iter().enumerate().find_map(|(second, label)| {
                let first = labels[..second].iter().position(|it| it == label)?;
                Some((first, second))
            })
        };
        while let Some((first, second)) = twice(&self.labels) {
            let shape = ctx.shape_of(self.outlet)?;
            let size = ctx.equal(&shape[first], &shape[second], "takes a diagonal")?;
            let moves = [AxisOp::Move(first, 0), AxisOp::Move(second, 1)];
            let square = ctx.change_axes("square", self.outlet, moves)?;
            let positions = unseen_positions(ctx, "positions", &size)?;
            let column = ctx.wire("column", AxisOp::Add(1), &[positions])?;
            let pairs = ctx.wire("pairs", TypedConcat { axis: 1 }, &[column, column])?;
            let diagonal = ctx.wire("diagonal", GatherNd { batch_dims: 0 }, &[square, pairs])?;
            self.outlet = ctx.change_axes("in_place", diagonal, [AxisOp::Move(0, first)])?;
            self.labels.remove(second);
        }
        Ok(self)
    }

    /// Sums the axes that are not needed.
    fn summed(
        mut self,
        ctx: &mut LayerContext,
        needed: impl Fn(char) -> bool,
    ) -> TractResult<Operand> {
        let axes: Vec<usize> =
            (0..self.labels.len()).filter(|axis| !needed(self.labels[*axis])).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let summed = sum(ctx, "sum", self.outlet, &axes)?;
        let removed = axes.iter().rev().map(|axis| AxisOp::Rm(*axis));
        self.outlet = ctx.change_axes("squeeze", summed, removed)?;
        self.labels.retain(|label| needed(*label));
        Ok(self)
    }

    /// Removes axes of size 1 that are not needed, if the other has them with another size.
    fn squeezed(
        mut self,
        ctx: &mut LayerContext,
        other: &Operand,
        needed: impl Fn(char) -> bool,
    ) -> TractResult<Operand> {
        let (shape, others) = (ctx.shape_of(self.outlet)?, ctx.shape_of(other.outlet)?);
        for axis in (0..self.labels.len()).rev().filter(|axis| shape[*axis].is_one()) {
            let label = self.labels[axis];
            let there = other.labels.iter().position(|it| *it == label);
            if !needed(label) && there.is_some_and(|there| !others[there].is_one()) {
                self.outlet = ctx.wire("squeeze", AxisOp::Rm(axis), &[self.outlet])?;
                self.labels.remove(axis);
            }
        }
        Ok(self)
    }

    /// The product of two. It has all axes that are needed, in the order of the output if it is the last
    /// product.
    fn times(
        self,
        ctx: &mut LayerContext,
        other: Operand,
        needed: impl Fn(char) -> bool,
        output: Option<&[char]>,
    ) -> TractResult<Operand> {
        let a = self.squeezed(ctx, &other, &needed)?;
        let b = other.squeezed(ctx, &a, &needed)?;
        let a_labels = a.labels.clone();
        let a = a.summed(ctx, |label| needed(label) || b.labels.contains(&label))?;
        let b = b.summed(ctx, |label| needed(label) || a_labels.contains(&label))?;
        let mut shared = a.labels.iter().filter(|label| b.labels.contains(label));
        let labels: Vec<char> = match output {
            // tract fails if several axes are summed to a scalar. So the first is summed later.
            Some([]) if shared.clone().count() > 1 => shared.next().copied().into_iter().collect(),
            Some(output) => output.into(),
            None => {
                let new = b.labels.iter().filter(|label| !a.labels.contains(label));
                a.labels.iter().chain(new).copied().filter(|label| needed(*label)).collect()
            }
        };
        let text = |labels: &[char]| labels.iter().collect::<String>();
        let terms = [text(&a.labels), text(&b.labels)];
        let suffix = if output.is_some() { "" } else { "product" };
        let inputs = [a.outlet, b.outlet];
        let outlet = contract(ctx, suffix, inputs, [&terms[0], &terms[1]], &text(&labels))?;
        Ok(Operand { outlet, labels })
    }
}

/// Notes that axes with the same label have the same size, or 1.
fn agree(ctx: &mut LayerContext, operands: &[Operand], equation: &str) -> TractResult<()> {
    let mut sizes: Vec<(char, TDim)> = vec![];
    for operand in operands {
        let shape = ctx.shape_of(operand.outlet)?;
        for (label, dim) in operand.labels.iter().zip(shape).filter(|(_, dim)| !dim.is_one()) {
            match sizes.iter().find(|(it, _)| it == label) {
                Some((_, size)) => {
                    ctx.equal(size, &dim, &format!("has one size for each label of {equation:?}"))?;
                }
                None => sizes.push((*label, dim)),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(equation: &str, ranks: &[usize]) -> (Vec<String>, String) {
        let (inputs, output) = parse_equation(equation, ranks).unwrap();
        let text = |labels: &Vec<char>| labels.iter().collect::<String>();
        (inputs.iter().map(text).collect(), text(&output))
    }

    #[test]
    fn equations() {
        let (inputs, output) = parsed("bD,Db", &[2, 2]);
        assert_eq!((inputs, &*output), (vec!["bD".into(), "Db".into()], ""));
        assert_eq!(parsed("cB,a", &[2, 1]).1, "Bac");
        assert_eq!(parsed("ij->", &[2]).1, "");
        let (inputs, output) = parsed("...ij,jk->...ik", &[4, 2]);
        assert_eq!(inputs, ["ABij", "jk"]);
        assert_eq!(output, "ABik");
        let (inputs, output) = parsed("a...,...", &[2, 3]);
        assert_eq!(inputs, ["aC", "ABC"]);
        assert_eq!(output, "ABCa");
    }

    #[test]
    fn equations_that_do_not_fit() {
        for (equation, ranks) in [
            ("ij->ik", &[2][..]),
            ("ij->ii", &[2]),
            ("ij", &[3]),
            ("i...j", &[1]),
            ("ij,jk->ik", &[2]),
            ("i j->ij", &[2]),
            ("......", &[2]),
            ("..i", &[1]),
            ("i->i->i", &[1]),
        ] {
            assert!(parse_equation(equation, ranks).is_err(), "{equation}");
        }
    }
}
