//! Which axes of the inputs correspond to which axes of the output, in Gather and GatherND: for `axes_mapping`,
//! `slice` and `change_axes`.

use tract_core::internal::*;

/// The number of axes in each group:
///
/// ```text
/// data    [batch][outer][gathered][inner]
/// indices [batch][index][tuple]
/// output  [batch][outer][index][inner]
/// ```
///
/// Gather has one gathered axis and no tuple axis; GatherND has no outer axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub batch: usize,
    pub outer: usize,
    pub gathered: usize,
    pub index: usize,
    pub inner: usize,
    /// 1 for GatherND, 0 for Gather.
    pub tuple: usize,
    /// Whether more than one batch axis become one axis of the output.
    pub fuses_batch: bool,
}

/// The layout that a change of axes leads to, and the changes of inputs and output that go with it.
type Changed = (Layout, TVec<(InOut, AxisOp)>);

const DATA: InOut = InOut::In(0);
const INDICES: InOut = InOut::In(1);
const OUTPUT: InOut = InOut::Out(0);

/// The groups of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Batch,
    Outer,
    Index,
    Inner,
}

impl Layout {
    fn fused(&self) -> bool {
        self.fuses_batch && self.batch > 1
    }

    /// Where a group begins in an input or the output, and how many axes it has; `None` if it is not there.
    fn span(&self, io: InOut, group: Group) -> Option<(usize, usize)> {
        let Layout { batch, outer, gathered, index, inner, .. } = *self;
        let batch_in_output = if self.fused() { 1 } else { batch };
        match (io, group) {
            (OUTPUT, Group::Batch) if self.fused() => None,
            (_, Group::Batch) => Some((0, batch)),
            (DATA, Group::Outer) => Some((batch, outer)),
            (DATA, Group::Inner) => Some((batch + outer + gathered, inner)),
            (INDICES, Group::Index) => Some((batch, index)),
            (OUTPUT, Group::Outer) => Some((batch_in_output, outer)),
            (OUTPUT, Group::Index) => Some((batch_in_output + outer, index)),
            (OUTPUT, Group::Inner) => Some((batch_in_output + outer + index, inner)),
            _ => None,
        }
    }

    /// The group that an axis belongs to, and its number there.
    fn group_of(&self, io: InOut, axis: usize) -> Option<(Group, usize)> {
        [Group::Batch, Group::Outer, Group::Index, Group::Inner].into_iter().find_map(|group| {
            let (start, length) = self.span(io, group)?;
            (start..start + length).contains(&axis).then(|| (group, axis - start))
        })
    }

    /// Gathered axes, tuple axes and fused axes correspond to no other axis.
    pub fn axes_mapping(&self) -> TractResult<AxesMapping> {
        let data_rank = self.batch + self.outer + self.gathered + self.inner;
        let indices_rank = self.batch + self.index + self.tuple;
        let batch_in_output = if self.fused() { 1 } else { self.batch };
        let output_rank = batch_in_output + self.outer + self.index + self.inner;
        let mut names = 'a'..;
        let mut axis = || Axis::new(names.next().expect("there are more letters than axes"), 2, 1);
        let mut axes: TVec<Axis> = tvec!();
        let ios = [(DATA, data_rank), (INDICES, indices_rank), (OUTPUT, output_rank)];
        for group in [Group::Batch, Group::Outer, Group::Index, Group::Inner] {
            for number in 0..self.length(group) {
                let mut axis = axis();
                for (io, _) in ios {
                    if let Some((start, _)) = self.span(io, group) {
                        axis = add(axis, io, start + number);
                    }
                }
                axes.push(axis);
            }
        }
        for (io, rank) in ios {
            for position in (0..rank).filter(|it| self.group_of(io, *it).is_none()) {
                axes.push(add(axis(), io, position));
            }
        }
        AxesMapping::new(2, 1, axes)
    }

    fn length(&self, group: Group) -> usize {
        match group {
            Group::Batch => self.batch,
            Group::Outer => self.outer,
            Group::Index => self.index,
            Group::Inner => self.inner,
        }
    }

    fn length_mut(&mut self, group: Group) -> &mut usize {
        match group {
            Group::Batch => &mut self.batch,
            Group::Outer => &mut self.outer,
            Group::Index => &mut self.index,
            Group::Inner => &mut self.inner,
        }
    }

    /// What a change of axes of an input or the output makes of the layout, and which other changes it takes; `None`
    /// if there is no such layout.
    ///
    /// `indices_are_constant` decides whether a new axis in front of `data` is a batch axis, which `indices` gets
    /// too, or an outer axis.
    pub fn change_axes(
        &self,
        io: InOut,
        change: &AxisOp,
        indices_are_constant: bool,
    ) -> Option<Changed> {
        match change.canonical().as_ref() {
            AxisOp::Add(axis) => {
                let group = self.group_that_takes(io, *axis, indices_are_constant)?;
                let number = axis - self.span(io, group)?.0;
                self.change_group(group, 1, 0, |start| AxisOp::Add(start + number))
            }
            AxisOp::Rm(axis) => {
                let (group, number) = self.group_of(io, *axis)?;
                self.change_group(group, 0, 1, |start| AxisOp::Rm(start + number))
            }
            &AxisOp::Move(from, to) => {
                self.move_in_group(io, from, to).or_else(|| self.move_anywhere(io, from, to))
            }
            AxisOp::Reshape(at, from, to) => {
                let (group, number) = self.group_of(io, *at)?;
                let (_, length) = self.span(io, group)?;
                if number + from.len() > length {
                    return None;
                }
                self.change_group(group, to.len(), from.len(), |start| {
                    AxisOp::Reshape(start + number, from.clone(), to.clone())
                })
            }
        }
    }

    fn move_in_group(&self, io: InOut, from: usize, to: usize) -> Option<Changed> {
        let (group, from) = self.group_of(io, from)?;
        let (start, length) = self.span(io, group)?;
        let to = to.checked_sub(start).filter(|to| *to < length)?;
        self.change_group(group, 0, 0, |start| AxisOp::Move(start + from, start + to))
    }

    /// Moves an axis of `data` across the gathered one, or the gathered one itself, if there is at most one index
    /// axis.
    fn move_anywhere(&self, io: InOut, from: usize, to: usize) -> Option<Changed> {
        let Layout { batch, outer, index, inner, .. } = *self;
        let axis = batch + outer;
        let (data_from, data_to) = match io {
            _ if self.tuple > 0 || from < batch || to < batch => return None,
            DATA => (from, to),
            OUTPUT if from == axis && index == 1 => (from, to),
            OUTPUT => {
                let (group, _) = self.group_of(io, from)?;
                let data_from = match group {
                    Group::Outer => from,
                    Group::Inner => from + 1 - index,
                    Group::Index | Group::Batch => return None,
                };
                // Where the index axes begin without the axis that moves.
                let rest = if data_from < axis { axis - 1 } else { axis };
                match to {
                    _ if to <= rest => (data_from, to),
                    _ if to >= rest + index => (data_from, to + 1 - index),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let in_data = AxisOp::Move(data_from, data_to);
        let moved_axis = in_data.transform_axis(axis)?;
        let in_output = |axis: usize, position: usize| {
            if position < axis { position } else { position + index - 1 }
        };
        let (output_from, output_to) = match (data_from == axis, index) {
            (true, 0) => (0, 0),
            (true, 1) => (axis, moved_axis),
            (true, _) => return None,
            (false, _) => (in_output(axis, data_from), in_output(moved_axis, data_to)),
        };
        let outer = moved_axis - batch;
        let changed = Layout { outer, inner: self.outer + inner - outer, ..*self };
        let mut changes = tvec!((DATA, in_data));
        if output_from != output_to {
            changes.push((OUTPUT, AxisOp::Move(output_from, output_to)));
        }
        Some((changed, changes))
    }

    /// The group that a new axis at this position joins. Between two groups there is a choice.
    fn group_that_takes(
        &self,
        io: InOut,
        axis: usize,
        indices_are_constant: bool,
    ) -> Option<Group> {
        let takes = |group: Group| {
            self.span(io, group).is_some_and(|(start, length)| {
                (start..=start + length).contains(&axis)
                    // GatherND has no outer axes.
                    && (group != Group::Outer || self.tuple == 0)
            })
        };
        let order = match io {
            // Batch first, as when a model is batched: data and indices both get the axis.
            DATA if !indices_are_constant => {
                [Group::Batch, Group::Outer, Group::Inner, Group::Index]
            }
            // Batch last: the other groups leave one input unchanged.
            _ => [Group::Outer, Group::Inner, Group::Index, Group::Batch],
        };
        order.into_iter().find(|group| takes(*group))
    }

    /// Makes the same change in each input and in the output, if it has the group.
    fn change_group(
        &self,
        group: Group,
        more: usize,
        less: usize,
        change: impl Fn(usize) -> AxisOp,
    ) -> Option<Changed> {
        let mut changed = *self;
        let length = changed.length_mut(group);
        *length = *length + more - less;
        let mut changes = tvec!();
        for io in [DATA, INDICES, OUTPUT] {
            if let Some((start, _)) = self.span(io, group) {
                changes.push((io, change(start)));
            }
        }
        // A fused batch has one axis in the output, which could not change in the same way.
        let fused = group == Group::Batch && (self.fused() || changed.fused());
        (!fused).then_some((changed, changes))
    }
}

fn add(axis: Axis, io: InOut, position: usize) -> Axis {
    match io {
        InOut::In(slot) => axis.input(slot, position),
        InOut::Out(slot) => axis.output(slot, position),
    }
}

/// The operator's part of `TypedOp::slice`: wires the node with inputs that tract has sliced, by the axes mapping.
///
/// Indices that only the rest of the output needs are not checked any more, like those of a node whose output is
/// not used.
pub(super) fn slice(
    op: impl Into<Box<dyn TypedOp>>,
    patch: &mut TypedModelPatch,
    name: &str,
    inputs: &[OutletId],
    output_axis: usize,
    length: TDim,
) -> TractResult<Option<TVec<OutletId>>> {
    let outputs = patch.wire_node(name, op, inputs)?;
    // tract has not sliced an axis that no input has, or an input of size 1.
    let is_sliced = patch.outlet_fact(outputs[0])?.shape[output_axis] == length;
    Ok(is_sliced.then_some(outputs))
}

/// Whether a slice of this axis of the output may be pushed to the inputs.
pub(super) fn can_slice(
    model: &TypedModel,
    node: &TypedNode,
    batch_dims: usize,
    output_axis: usize,
) -> TractResult<bool> {
    Ok(output_axis >= batch_dims || batch_dims_agree(model, node, batch_dims)?)
}

/// Whether the batch dimensions of both inputs surely are equal. As long as only a run can tell, they are neither
/// sliced nor changed, because the error would be lost.
fn batch_dims_agree(model: &TypedModel, node: &TypedNode, batch_dims: usize) -> TractResult<bool> {
    let [data, indices] = *model.node_input_facts(node.id)? else { return Ok(false) };
    Ok(data.shape[..batch_dims] == indices.shape[..batch_dims])
}

/// `TypedOp::change_axes`. `changed` makes the operator of a layout.
pub(super) fn change_axes(
    layout: Layout,
    model: &TypedModel,
    node: &TypedNode,
    io: InOut,
    change: &AxisOp,
    changed: impl FnOnce(Layout) -> Box<dyn TypedOp>,
) -> TractResult<Option<AxisChangeConsequence>> {
    let [_, indices] = *model.node_input_facts(node.id)? else { return Ok(None) };
    rule_if_some!((new, mut wire_changes) = layout.change_axes(io, change, indices.konst.is_some()));
    // tract compares changes of the same wire: this one must come back as it was asked for.
    wire_changes.iter_mut().filter(|(at, _)| *at == io).for_each(|(_, it)| *it = change.clone());
    // GatherND demands `batch_dims < data.rank`. With tuples of length 0 no axis might be left.
    rule_if!(new.gathered + new.inner > 0);
    let changes_batch = wire_changes.len() == 3 && !matches!(change, AxisOp::Add(_));
    rule_if!(!changes_batch || batch_dims_agree(model, node, layout.batch)?);
    let substitute_op = (new != layout).then(|| changed(new));
    Ok(Some(AxisChangeConsequence { substitute_op, wire_changes }))
}
