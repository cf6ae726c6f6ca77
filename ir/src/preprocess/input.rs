//! The steps before a model: its input becomes that of the tensor, or one for each plane.

use std::collections::{HashMap, HashSet};

use tract_core::internal::*;
use tract_core::ops::source::TypedSource;
use tract_openvino_kernels::checks::listed;

use super::info::{InputInfo, TensorShape};
use super::layout::{Layout, check_order, inverse};
use super::wire::{Image, Target};
use crate::context::{check_shape, given_shape, new_size, solved};
use crate::stated_layouts::{End, state_layout};
use crate::translate::with_layers;
use crate::workarounds::equal_shape::EqualShape;

/// Puts the steps before an input of a model. Gives the number of inputs that take its place.
pub(super) fn build(
    model: &mut TypedModel,
    position: usize,
    input: &InputInfo,
) -> TractResult<usize> {
    if input.is_empty() {
        return Ok(1);
    }
    let taken = model.input_fact(position)?.clone();
    let (mut tensor, open) = InputTensor::new(model, input, &taken)?;
    // What comes of the steps says what open sizes must be, before anything is added to the model.
    let mut draft = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let planes = tensor.planes.iter().enumerate().map(|(number, shape)| {
        draft.add_source(format!("plane {number}"), tensor.element_type.fact(shape))
    });
    let planes = planes.collect::<TractResult<_>>()?;
    let found = tensor.wire(&mut draft, input, planes, &taken)?;
    let found = draft.outlet_fact(found)?.shape.to_tvec();
    let sizes = Sizes::of(&found, &taken.shape, open)?;
    if !sizes.of_model.is_empty() {
        let labels = model.inputs.iter().map(|it| model.outlet_label(*it).map(String::from));
        let labels: Vec<Option<String>> = labels.collect();
        *model = model.set_symbols(&sizes.of_model)?;
        // tract forgets those of inputs that nothing needs.
        for (input, label) in labels.into_iter().enumerate() {
            if let Some(label) = label {
                model.set_outlet_label(model.inputs[input], label)?;
            }
        }
    }
    for dim in tensor.planes.iter_mut().flatten() {
        *dim = dim.substitute_all(&sizes.of_tensor)?.simplify();
    }
    tensor.replace(model, position, input)?;
    state_layout(model, End::Input, &input.name, None);
    let sources = model.inputs[position..][..tensor.planes.len()].to_vec();
    for source in sources.into_iter().filter(|_| !tensor.layout.is_empty()) {
        let name = model.outlet_label(source).unwrap_or(&model.node(source.node).name).to_string();
        state_layout(model, End::Input, &name, Some(tensor.layout.to_string()));
    }
    Ok(tensor.planes.len())
}

/// The tensor of an input.
struct InputTensor {
    /// The shape of each plane.
    planes: Vec<TVec<TDim>>,
    element_type: DatumType,
    layout: Layout,
    /// The layout of what the model takes.
    layout_of_model: Layout,
}

impl InputTensor {
    /// The tensor from which the steps lead to what the model takes, and the symbols of its open dimensions.
    fn new(
        model: &TypedModel,
        input: &InputInfo,
        taken: &TypedFact,
    ) -> TractResult<(InputTensor, Vec<Symbol>)> {
        let mut open = OpenSizes { scope: &model.symbols, input: &input.name, symbols: vec![] };
        let InputInfo { tensor, steps, .. } = input;
        let mut shape: Vec<TDim> = vec![];
        for (axis, dim) in taken.shape.iter().enumerate() {
            shape.push(if dim.as_i64().is_some() { dim.clone() } else { open.size(axis)? });
        }
        let mut layout = tensor.layout.clone().unwrap_or_else(|| tensor.format.default_layout());
        let layout_of_model = match &input.model.layout {
            Some(layout) => layout.clone(),
            None if tensor.layout.is_some() => steps.layout_after(&layout)?,
            None => Layout::default(),
        };
        if layout.is_empty() || layout_of_model.is_empty() || layout == layout_of_model {
            let mut before = layout_of_model.clone();
            for order in steps.orders().rev() {
                check_order(order)?;
                ensure!(
                    order.len() == shape.len(),
                    "the dimensions are put into order {order:?}, but the model takes {} dimensions",
                    shape.len()
                );
                let back = inverse(order);
                shape = back.iter().map(|axis| shape[*axis].clone()).collect();
                before = before.permuted(&back)?;
            }
            if layout.is_empty() {
                layout = before;
            }
        } else {
            let mut of_model = layout_of_model.clone();
            if let Some((lost, left)) = of_model.squeezed_to(&layout)? {
                ensure!(
                    of_model.fits(shape.len()),
                    "layout {of_model} does not fit what the model takes, which has rank {}",
                    shape.len()
                );
                for axis in lost.into_iter().rev() {
                    shape.remove(axis);
                }
                of_model = left;
            }
            if let Some(order) = of_model.order_to(&layout, shape.len())? {
                shape = order.iter().map(|axis| shape[*axis].clone()).collect();
            }
        }
        match &tensor.shape {
            TensorShape::OfModel => (),
            TensorShape::Given(given) => {
                let dims = given_shape(&model.symbols, given.text())
                    .context("in the shape of the tensor")?;
                let dims = dims.into_iter().enumerate();
                let dims = dims.map(|(axis, dim)| dim.map_or_else(|| open.size(axis), Ok));
                shape = dims.collect::<TractResult<_>>()?;
            }
            TensorShape::Image(size) => {
                for (name, size) in [("H", size.map(|it| it.0)), ("W", size.map(|it| it.1))] {
                    let axis = layout.axis(name, shape.len()).with_context(|| {
                        format!("the tensor has a height and a width, but its layout {layout} has no {name}: set one that has (set_layout)")
                    })?;
                    shape[axis] = match size {
                        Some(size) => size.to_dim(),
                        None => open.size(axis)?,
                    };
                }
            }
        }
        if tensor.format.is_subsampled() {
            // Four pixels have their colors in common: these sizes are even.
            for name in ["H", "W"] {
                if let Some(axis) = layout.axis(name, shape.len())
                    && let TDim::Sym(symbol) = &shape[axis]
                    && open.symbols.contains(symbol)
                {
                    shape[axis] = open.size(axis)? * 2;
                }
            }
        }
        ensure!(
            layout.fits(shape.len()),
            "layout {layout} does not fit the tensor, whose shape is {}",
            listed(&shape)
        );
        check_shape(&shape).context("in the shape of the tensor")?;
        let planes = tensor.format.shapes(&shape, &layout)?;
        let element_type = tensor.element_type.unwrap_or(taken.datum_type);
        Ok((InputTensor { planes, element_type, layout, layout_of_model }, open.symbols))
    }

    /// Wires the steps from the planes.
    fn wire(
        &self,
        model: &mut TypedModel,
        input: &InputInfo,
        planes: TVec<OutletId>,
        taken: &TypedFact,
    ) -> TractResult<OutletId> {
        let target = Target {
            layout: self.layout_of_model.clone(),
            element_type: Some(taken.datum_type),
            shape: taken.shape.to_tvec(),
        };
        with_layers(model, &input.name, |ctx| {
            let (layout, format) = (self.layout.clone(), input.tensor.format);
            let mut image =
                Image { ctx, planes, layout, format, target: &target, step: String::new() };
            image.wire(&input.steps.steps)
        })
    }

    /// Puts the tensor and the steps into the place of the input of a model.
    fn replace(
        &self,
        model: &mut TypedModel,
        position: usize,
        input: &InputInfo,
    ) -> TractResult<()> {
        let source = model.inputs[position];
        let taken = model.outlet_fact(source)?.clone();
        let planes = self.sources(model, position, input)?;
        let node = &mut model.nodes[source.node];
        let consumers = std::mem::take(&mut node.outputs[source.slot].successors);
        let mut found = self.wire(model, input, planes, &taken)?;
        if model.outlet_fact(found)?.shape != taken.shape {
            let inputs = model.inputs.iter().map(|it| model.outlet_fact(*it));
            let inputs = inputs.collect::<TractResult<Vec<_>>>()?;
            let known: HashSet<Symbol> =
                inputs.iter().flat_map(|it| it.shape.iter()).flat_map(TDim::symbols).collect();
            if let Some(dim) = taken.shape.iter().find(|it| !it.symbols().is_subset(&known)) {
                bail!(
                    "a dimension of what the model takes is {dim}, which does not follow from the tensor: give it a size"
                )
            }
            let name = model.unique_name(format!("{}.equal_shape", input.name)).into_owned();
            let equal = EqualShape::new(taken.shape.to_tvec());
            found = model.wire_node(name, equal, &[found])?[0];
        }
        // The source is taken again where nothing was wired.
        for consumer in consumers {
            model.add_edge(found, consumer)?;
        }
        model.outputs.iter_mut().filter(|it| **it == source).for_each(|it| *it = found);
        Ok(())
    }

    /// Makes the input of a model the one of the first plane, and adds those of the others after it.
    fn sources(
        &self,
        model: &mut TypedModel,
        position: usize,
        input: &InputInfo,
    ) -> TractResult<TVec<OutletId>> {
        let source = model.inputs[position];
        let fact = self.element_type.fact(&self.planes[0]);
        let node = &mut model.nodes[source.node];
        node.op = Box::new(TypedSource::new(fact.clone()));
        node.outputs[source.slot].fact = fact;
        let mut sources = tvec!(source);
        if self.planes.len() == 1 {
            return Ok(sources);
        }
        for (number, shape) in self.planes.iter().enumerate() {
            let plane = input.tensor.plane_names.get(number).cloned();
            let name = format!("{}/{}", input.name, plane.unwrap_or(number.to_string()));
            let is_taken = model.nodes().iter().any(|node| node.name == name)
                || model.outlet_labels.values().any(|label| *label == name);
            ensure!(
                !is_taken,
                "the plane would have the name {name:?}, which is taken in the model: give the planes other names"
            );
            if number == 0 {
                model.nodes[source.node].name = name.clone();
            } else {
                sources.push(model.add_source(&name, self.element_type.fact(shape))?);
                // It is the last one.
                if let Some(added) = model.inputs.pop() {
                    model.inputs.insert(position + number, added);
                }
            }
            model.set_outlet_label(sources[number], name)?;
        }
        Ok(sources)
    }
}

/// The symbols of open dimensions of a tensor.
struct OpenSizes<'a> {
    scope: &'a SymbolScope,
    input: &'a str,
    symbols: Vec<Symbol>,
}

impl OpenSizes<'_> {
    fn size(&mut self, axis: usize) -> TractResult<TDim> {
        let symbol = new_size(self.scope, self.input, axis)?;
        self.symbols.push(symbol.clone());
        Ok(symbol.to_dim())
    }
}

/// What symbols must be so that what comes of the steps is what the model takes.
#[derive(Debug, Default)]
struct Sizes {
    of_tensor: HashMap<Symbol, TDim>,
    of_model: HashMap<Symbol, TDim>,
}

impl Sizes {
    /// `open` are the symbols of the tensor. Dimensions that are not equal then are compared when the model runs.
    fn of(found: &[TDim], taken: &[TDim], open: Vec<Symbol>) -> TractResult<Sizes> {
        let differ = || {
            let (found, taken) = (listed(found), listed(taken));
            format!(
                "the model takes shape {taken}, but what comes of the tensor and the steps has shape {found}"
            )
        };
        ensure!(found.len() == taken.len(), "{}", differ());
        let mut sizes = Sizes::default();
        for (found, taken) in found.iter().zip(taken) {
            let found = found.substitute_all(&sizes.of_tensor)?.substitute_all(&sizes.of_model)?;
            let taken = taken.substitute_all(&sizes.of_model)?.substitute_all(&sizes.of_tensor)?;
            let (found, taken) = (found.simplify(), taken.simplify());
            let difference = (found.clone() - &taken).simplify();
            if let Some(difference) = difference.as_i64() {
                ensure!(difference == 0, "{}", differ());
                continue;
            }
            // Of a known size: whether it comes of it can be seen.
            let comes_of = |symbol: &Symbol, size: &TDim| -> TractResult<bool> {
                Ok(taken.as_i64().is_none() || found.substitute(symbol, size)?.simplify() == taken)
            };
            let mut solution = None;
            for found in [unclamped(&found), uncut(&unclamped(&found))] {
                let difference = (found - &taken).simplify();
                let symbols = difference.symbols();
                for symbol in open.iter().filter(|symbol| symbols.contains(*symbol)) {
                    if let Some(size) = solved(&difference, symbol)
                        && comes_of(symbol, &size)?
                    {
                        solution = Some((symbol.clone(), size));
                    }
                }
                // What an open size is may be cut off.
                if solution.is_some() || taken.as_i64().is_none() {
                    break;
                }
            }
            match (solution, &taken) {
                (Some((symbol, size)), _) => {
                    ensure!(size.as_i64().is_none_or(|size| size >= 0), "{}", differ());
                    sizes.learn(true, symbol, size)?
                }
                (None, TDim::Sym(symbol)) if !found.symbols().contains(symbol) => {
                    sizes.learn(false, symbol.clone(), found)?
                }
                _ => (),
            }
        }
        Ok(sizes)
    }

    fn learn(&mut self, of_tensor: bool, symbol: Symbol, is: TDim) -> TractResult<()> {
        for known in self.of_tensor.values_mut().chain(self.of_model.values_mut()) {
            *known = known.substitute(&symbol, &is)?.simplify();
        }
        let sizes = if of_tensor { &mut self.of_tensor } else { &mut self.of_model };
        sizes.insert(symbol, is);
        Ok(())
    }
}

/// A dimension where sizes are so large that nothing is taken away beyond an end: `x-2` for the larger of `x-min(2,x)` and 0.
fn unclamped(dim: &TDim) -> TDim {
    match dim {
        TDim::Add(terms) => terms.iter().map(unclamped).sum::<TDim>().simplify(),
        TDim::MulInt(factor @ ..0, least) => match &**least {
            TDim::Min(terms) => {
                let number = terms.iter().filter_map(TDim::as_i64).next();
                number.map_or_else(|| dim.clone(), |number| (factor * number).to_dim())
            }
            _ => dim.clone(),
        },
        TDim::Max(terms) => match &**terms {
            [TDim::Val(_), other] | [other, TDim::Val(_)] => unclamped(other),
            _ => dim.clone(),
        },
        _ => dim.clone(),
    }
}

/// A dimension where sizes are so small that none is cut off: `x` for the smaller of it and 100.
fn uncut(dim: &TDim) -> TDim {
    match dim {
        TDim::Add(terms) => terms.iter().map(uncut).sum::<TDim>().simplify(),
        TDim::Min(terms) => match &**terms {
            [TDim::Val(_), other] | [other, TDim::Val(_)] => uncut(other),
            _ => dim.clone(),
        },
        _ => dim.clone(),
    }
}
