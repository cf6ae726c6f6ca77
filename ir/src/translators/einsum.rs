//! Sums of products, by the labels of axes.

use tract_core::internal::*;
use tract_core::ops::array::{GatherNd, TypedConcat};
use tract_core::ops::change_axes::perm_to_ops;

use super::matmul::{contract, ellipsis, unseen_positions};
use super::reduce::sum;
use crate::context::LayerContext;
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("Einsum", 7, einsum);
}

/// **Einsum-7**: letters name axes, and `...` stands for axes without a letter, which are aligned at the last
/// one. A letter that comes twice in one input takes the diagonal. Without `->` the output has the letters
/// that come once, in alphabetical order.
fn einsum(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=usize::MAX)?;
    let equation: String = ctx.attribute("equation")?;
    let ranks: Vec<usize> =
        (0..ctx.input_count()).map(|input| ctx.rank(input)).collect::<TractResult<_>>()?;
    let (labels, output) = parse_equation(&equation, &ranks)
        .with_context(|| format!("equation is {equation:?} for inputs of ranks {ranks:?}"))?;
    let mut operands = vec![];
    let dt = ctx.datum_type(0)?;
    for (input, labels) in labels.into_iter().enumerate() {
        let outlet = ctx.input(input)?;
        let same = ctx.type_of(outlet)? == dt;
        ensure!(same || dt != DatumType::F16, "the inputs are of different types");
        let operand = Operand { outlet: ctx.single("single", outlet)?, labels };
        operands.push(operand.with_diagonals(ctx)?);
    }
    agree(ctx, &operands, &equation)?;
    let mut operands = operands.into_iter();
    let mut result = operands.next().context("there are no inputs")?;
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
    let output = ctx.change_axes("transpose", result.outlet, perm_to_ops(&order))?;
    Ok(tvec!(if dt == DatumType::F16 { ctx.cast("", output, dt)? } else { output }))
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
            "the output has {label:?} twice, but may have it only once"
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
            let size = ctx.require_equal(&shape[first], &shape[second], "takes a diagonal")?;
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
                    ctx.require_equal(
                        size,
                        &dim,
                        &format!("has one size for each label of {equation:?}"),
                    )?;
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
    use crate::typed_op::fails;

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
        let not_letters = "must be letters, with one ellipsis at most";
        for (equation, ranks, expected) in [
            ("ij->ik", &[2][..], "the output has 'k', but no input has it"),
            ("ij->ii", &[2], "the output has 'i' twice"),
            ("ij", &[3], "term \"ij\" does not fit rank 3"),
            ("i...j", &[1], "term \"i...j\" does not fit rank 1"),
            ("ij,jk->ik", &[2], "it has 2 terms, but must have one for each input"),
            ("i j->ij", &[3], not_letters),
            ("......", &[2], not_letters),
            ("..i", &[1], not_letters),
            ("i->i->i", &[1], not_letters),
        ] {
            fails(parse_equation(equation, ranks), expected);
        }
    }
}
