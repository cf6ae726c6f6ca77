//! `inspect`: prints the graph as a table.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{Debug, Display};
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{Cell, Color, ColumnConstraint, Width};
use model_cases::Stage;
use serde_json::{Value, json};
use tract_openvino::kernels::{Decision, KernelsTransform, Outcome};
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_core::ops::konst::Const;
use tract_openvino::tract_onnx::tract_hir::infer::Factoid;
use tract_openvino::tract_onnx::tract_hir::internal::{Fact, Op};
use tract_openvino_ir::document::{Document, Layer};

use crate::model::{Kind, Model, Names, ReadingOptions, document, ir, model_file, outlet_name};
use crate::panics::during;
use crate::report::{GOOD, error_with_help, output, print_table, printable, shorten, table};
use crate::tensors::elements;

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// A .onnx file, a .xml file of OpenVINO IR, a model folder, or an NNEF archive
    model: PathBuf,
    /// How far tract takes the model
    #[arg(long, value_name = "STAGE", default_value = "typed", value_parser = crate::stage_parser(&Stage::ALL))]
    stage: Stage,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Print the graph for Graphviz, without constants
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    #[command(flatten)]
    reading: ReadingOptions,
}

/// What tract knows about an outlet.
struct Known {
    element_type: Option<DatumType>,
    dims: Vec<Option<TDim>>,
    /// Whether there may be more dimensions.
    open: bool,
    constant: Option<Arc<Tensor>>,
}

/// The same with names: a symbol has one only as long as its model is there.
struct OutletFacts {
    outlet: OutletId,
    name: String,
    element_type: Option<DatumType>,
    /// Numbers, expressions of symbols as text, and null for unknown dimensions.
    dims: Vec<Value>,
    open: bool,
    /// The elements of a constant.
    constant: Option<String>,
}

struct NodeFacts {
    id: usize,
    name: String,
    operator: String,
    /// The operation of OpenVINO IR that it comes from, and its revision.
    layer: Option<String>,
    parameters: Vec<String>,
    is_input: bool,
    is_constant: bool,
    inputs: Vec<OutletFacts>,
    outputs: Vec<OutletFacts>,
}

struct GraphFacts {
    inputs: Vec<OutletFacts>,
    outputs: Vec<OutletFacts>,
    nodes: Vec<NodeFacts>,
    symbols: Vec<String>,
    /// What the rules of the kernels made of nodes, and why others stay.
    decisions: Vec<Decision>,
}

impl Inspect {
    pub fn run(&self) -> TractResult<bool> {
        let file = model_file(&self.model)?;
        let model = self.reading.read(&file)?;
        let mut graph = graph_facts(model, self.stage)?;
        if Kind::of(&file)? == Kind::Ir {
            graph.add_layers(&document(&file)?);
        }
        let mut out = output();
        if self.json {
            let text = serde_json::to_string_pretty(&graph.json(&self.model, self.stage))?;
            writeln!(out, "{text}")?;
            return Ok(true);
        }
        if self.dot {
            write!(out, "{}", graph.dot())?;
            return Ok(true);
        }
        writeln!(out, "{}, {}", self.model.display(), self.stage)?;
        graph.print(&mut out)?;
        Ok(true)
    }
}

fn graph_facts(model: Model, stage: Stage) -> TractResult<GraphFacts> {
    let doing = format!("making the {stage} model");
    let names = model.names()?;
    let typed = match (model, stage) {
        (Model::Loaded(loaded), Stage::Loaded) => {
            let analysed = |mut model: InferenceModel| model.analyse(false).map(|_| model);
            let model = during(&doing, || loaded.make(analysed))?;
            return GraphFacts::new(&model, &names, inference_fact);
        }
        (Model::Typed(_), Stage::Loaded) => {
            let help =
                format!("stages that it has: {}", Stage::OF_TYPED.map(Stage::name).join(", "));
            let message =
                "only ONNX models have a stage loaded: others have types and shapes already";
            return Err(error_with_help(message, [help]));
        }
        (model, _) => model.into_typed()?,
    };
    let (model, decisions) = during(&doing, || {
        let mut decisions = vec![];
        let model = match stage {
            Stage::Loaded | Stage::Typed => typed,
            Stage::Decluttered => typed.into_decluttered()?,
            Stage::Optimized => typed.into_optimized()?,
            Stage::Kernels => {
                let mut model = typed;
                decisions = KernelsTransform::default().transform_with_decisions(&mut model)?;
                model.optimize()?;
                model
            }
        };
        Ok((model, decisions))
    })?;
    let mut facts = GraphFacts::new(&model, &names, typed_fact)?;
    facts.decisions = decisions;
    Ok(facts)
}

/// The number of the first operation set that has a layer's revision.
fn registry_revision(layer: &Layer) -> String {
    let since = ir().registry().since(layer);
    since.map_or_else(|| layer.opset.clone(), |since| since.to_string())
}

fn inference_fact(fact: &InferenceFact) -> Known {
    Known {
        element_type: fact.datum_type.concretize(),
        dims: fact.shape.dims().map(Factoid::concretize).collect(),
        open: fact.shape.is_open(),
        constant: fact.value.concretize(),
    }
}

fn typed_fact(fact: &TypedFact) -> Known {
    Known {
        element_type: Some(fact.datum_type),
        dims: fact.shape.iter().cloned().map(Some).collect(),
        open: false,
        constant: fact.konst.clone(),
    }
}

impl GraphFacts {
    fn new<F, O>(
        model: &Graph<F, O>,
        names: &Names,
        known: fn(&F) -> Known,
    ) -> TractResult<GraphFacts>
    where
        F: Fact + Clone + 'static,
        O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
    {
        let mut symbols = BTreeSet::new();
        let mut outlets = |outlets: &[OutletId]| -> TractResult<Vec<OutletFacts>> {
            let mut facts = vec![];
            for &outlet in outlets {
                let known = known(model.outlet_fact(outlet)?);
                let dims = known.dims.iter().flatten();
                symbols.extend(dims.flat_map(TDim::symbols).map(|symbol| symbol.to_string()));
                facts.push(OutletFacts::new(outlet, outlet_name(model, outlet), known));
            }
            Ok(facts)
        };
        let mut nodes = vec![];
        for id in model.eval_order()? {
            let node = model.node(id);
            let slots: Vec<OutletId> =
                (0..node.outputs.len()).map(|slot| OutletId::new(id, slot)).collect();
            nodes.push(NodeFacts {
                id,
                name: printable(&node.name),
                operator: node.op().name().into_owned(),
                layer: None,
                parameters: node.op().info()?,
                is_input: model.input_outlets()?.contains(&id.into()),
                is_constant: node.op_is::<Const>(),
                inputs: outlets(&node.inputs)?,
                outputs: outlets(&slots)?,
            });
        }
        let mut inputs = outlets(model.input_outlets()?)?;
        let mut outputs = outlets(model.output_outlets()?)?;
        let facts = inputs.iter_mut().chain(&mut outputs);
        for (fact, name) in facts.zip(names.inputs.iter().chain(&names.outputs)) {
            fact.name = name.clone();
        }
        let symbols = symbols.into_iter().collect();
        Ok(GraphFacts { inputs, outputs, nodes, symbols, decisions: vec![] })
    }

    /// Sets the operation and revision that each node comes from. Nodes have the names of their layers, with a suffix
    /// if a layer becomes several nodes.
    fn add_layers(&mut self, document: &Document) {
        let mut operations = HashMap::new();
        let mut graphs = vec![(String::new(), document.graph())];
        while let Some((prefix, graph)) = graphs.pop() {
            for layer in &graph.layers {
                let revision = registry_revision(layer);
                let name = format!("{prefix}{}", layer.name);
                for body in &layer.bodies {
                    graphs.push((format!("{name}/"), &body.graph));
                }
                operations.insert(printable(&name), format!("{}-{revision}", layer.operation));
            }
        }
        for node in &mut self.nodes {
            let ends = node.name.match_indices('.').map(|(end, _)| end).rev();
            let names = std::iter::once(node.name.len()).chain(ends).map(|end| &node.name[..end]);
            node.layer = names.filter_map(|name| operations.get(name)).next().cloned();
        }
    }

    fn print(&self, out: &mut impl Write) -> TractResult<()> {
        for (kind, outlets) in [("input", &self.inputs), ("output", &self.outputs)] {
            for outlet in outlets {
                writeln!(
                    out,
                    "{}",
                    shorten(&format!("  {kind:6} {}: {}", outlet.name, outlet.fact()))
                )?;
            }
        }
        let mut table = table(&["node", "operator", "inputs", "outputs"]);
        // Most room for the facts, where there is little.
        let name = ColumnConstraint::UpperBoundary(Width::Percentage(22));
        table.set_constraints([name, name]);
        // Constants and inputs are shown elsewhere.
        for node in self.nodes.iter().filter(|node| !node.is_constant && !node.is_input) {
            let lines = |outlets: &[OutletFacts], with_names: bool| {
                let line = |outlet: &OutletFacts| {
                    let name = if with_names { format!("{} ", outlet.name) } else { String::new() };
                    name + &outlet.text()
                };
                outlets.iter().map(line).collect::<Vec<_>>().join("\n")
            };
            let operator = [&[node.operator()][..], &node.parameters].concat();
            table.add_row([
                Cell::new(&node.name).fg(Color::Cyan),
                Cell::new(operator.join("\n")),
                Cell::new(lines(&node.inputs, true)),
                Cell::new(lines(&node.outputs, node.outputs.len() > 1)),
            ]);
        }
        print_table(out, &table)?;
        if !self.decisions.is_empty() {
            let mut table =
                crate::report::table(&["node", "operator", "rule", "what became of it"]);
            for decision in &self.decisions {
                table.add_row([
                    Cell::new(printable(&decision.node)).fg(Color::Cyan),
                    Cell::new(&decision.op),
                    Cell::new(decision.rule),
                    Cell::new(outcome(decision)),
                ]);
            }
            print_table(out, &table)?;
        }
        if !self.symbols.is_empty() {
            writeln!(out, "symbols: {GOOD}{}{GOOD:#}", self.symbols.join(", "))?;
        }
        Ok(())
    }

    /// The graph in the language of Graphviz. Inputs and outputs are ellipses, nodes are boxes.
    fn dot(&self) -> String {
        let mut graph = petgraph::Graph::new();
        let mut nodes = HashMap::new();
        for node in self.nodes.iter().filter(|node| !node.is_constant) {
            // Graphviz aligns a line at its end: the last one, too.
            let added = match self.inputs.iter().find(|input| input.outlet == node.id.into()) {
                Some(input) => graph.add_node((format!("{}\ninput\n", input.name), "ellipse")),
                None => graph.add_node((format!("{}\n{}\n", node.name, node.operator()), "box")),
            };
            nodes.insert(node.id, added);
            for input in &node.inputs {
                if let Some(from) = nodes.get(&input.outlet.node) {
                    graph.add_edge(*from, added, input.fact());
                }
            }
        }
        for output in &self.outputs {
            let added = graph.add_node((format!("{}\noutput\n", output.name), "ellipse"));
            if let Some(from) = nodes.get(&output.outlet.node) {
                graph.add_edge(*from, added, output.fact());
            }
        }
        let shapes = graph.map(|_, (_, shape)| *shape, |_, _| ());
        let labels = graph.map(|_, (label, _)| label.clone(), |_, fact| fact.clone());
        let shape = |_: &_, (node, _): (_, &String)| format!("shape = {}", shapes[node]);
        let dot =
            petgraph::dot::Dot::with_attr_getters(&labels, &[], &|_, _| String::new(), &shape);
        dot.to_string()
    }

    fn json(&self, model: &std::path::Path, stage: Stage) -> Value {
        let outlets =
            |outlets: &[OutletFacts]| outlets.iter().map(OutletFacts::json).collect::<Value>();
        let node = |node: &NodeFacts| {
            json!({
                "name": node.name,
                "operator": node.operator,
                "layer": node.layer,
                "parameters": node.parameters,
                "inputs": outlets(&node.inputs),
                "outputs": outlets(&node.outputs),
            })
        };
        let decision = |decision: &Decision| {
            json!({
                "node": decision.node,
                "operator": decision.op,
                "rule": decision.rule,
                "replaced": matches!(decision.outcome, Outcome::Replaced(_)),
                "outcome": outcome(decision),
            })
        };
        json!({
            "model": model.to_string_lossy(),
            "stage": stage.name(),
            "symbols": self.symbols,
            "inputs": outlets(&self.inputs),
            "outputs": outlets(&self.outputs),
            "nodes": self.nodes.iter().map(node).collect::<Value>(),
            "decisions": self.decisions.iter().map(decision).collect::<Value>(),
        })
    }
}

fn outcome(decision: &Decision) -> String {
    match &decision.outcome {
        Outcome::Replaced(by) => format!("replaced by {by}"),
        Outcome::Refused(reason) => format!("stays: {reason}"),
    }
}

impl NodeFacts {
    /// The operator, and the layer that it comes from, if that has another name.
    fn operator(&self) -> String {
        match self.layer.as_ref().filter(|layer| **layer != self.operator) {
            Some(layer) => format!("{}\nof {layer}", self.operator),
            None => self.operator.clone(),
        }
    }
}

impl OutletFacts {
    fn new(outlet: OutletId, name: String, known: Known) -> OutletFacts {
        let Known { element_type, dims, open, constant } = known;
        let dim = |dim| match dim {
            None => Value::Null,
            Some(TDim::Val(size)) => json!(size),
            Some(symbolic) => json!(symbolic.to_string()),
        };
        OutletFacts {
            outlet,
            name,
            element_type,
            dims: dims.into_iter().map(dim).collect(),
            open,
            constant: constant.map(|constant| elements(&constant).unwrap_or_default()),
        }
    }

    /// Shape and type, as tract writes them, with `?` for unknown ones.
    fn fact(&self) -> String {
        let dim = |dim: &Value| match dim {
            Value::Null => "?".into(),
            Value::String(symbolic) => symbolic.clone(),
            size => size.to_string(),
        };
        let mut parts: Vec<String> = self.dims.iter().map(dim).collect();
        if self.open {
            parts.push("..".into());
        }
        parts.push(self.element_type.map_or_else(|| "?".into(), |dt| format!("{dt:?}")));
        parts.join(",")
    }

    /// With the elements of a constant.
    fn text(&self) -> String {
        const ROOM: usize = 24;
        match &self.constant {
            Some(elements) if (1..=ROOM).contains(&elements.len()) => {
                format!("{} = {elements}", self.fact())
            }
            Some(_) => format!("{}, constant", self.fact()),
            None => self.fact(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.element_type.map(|dt| format!("{dt:?}")),
            "shape": self.dims,
            "rank_known": !self.open,
            "constant": self.constant.is_some(),
        })
    }
}
