//! A committed model with changes of any kind, from the file to the output.

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use gather_cases::layers::LAYERS;
use gather_cases::onnx_model::{self as onnx, int, string};
use model_cases::{Stage, StagedModel, Tolerance, find};
use tract_openvino::tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_openvino::tract_onnx::pb::type_proto::Value;
use tract_openvino::tract_onnx::pb::*;
use tract_openvino::tract_onnx::prelude::*;
use tract_openvino::tract_onnx::tract_hir::internal::Factoid;
use tract_openvino::{DOMAIN, NegativeIndices, OpenVinoOptions, WithOpenVinoOptions, tract_onnx};
use tract_openvino_ir::WithOpenVinoIr;

use crate::stages::{self, Expected, Input};
use crate::{panics, rarely};

/// The committed models and those whose tensors would be too large, by name.
pub fn models() -> &'static [ModelProto] {
    static MODELS: OnceLock<Vec<ModelProto>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let roots = ["../models", "../ir/tests/onnx/models"];
        let folders =
            roots.map(|root| find(format!("{}/{root}", env!("CARGO_MANIFEST_DIR"))).unwrap());
        let read = |folder: std::path::PathBuf| {
            let model = tract_onnx::onnx().proto_model_for_path(folder.join("model.onnx"));
            (folder.file_name().unwrap().to_owned(), model.unwrap())
        };
        let mut models: Vec<_> = folders.into_iter().flatten().map(read).collect();
        models.extend(LAYERS.iter().map(|layer| (layer.name.into(), layer.model())));
        models.sort_by(|(one, _), (other, _)| one.cmp(other));
        models.into_iter().map(|(_, model)| model).collect()
    })
}

fn number(u: &mut Unstructured) -> Result<i64> {
    Ok(match u.int_in_range(0..=15u8)? {
        15 => u.arbitrary()?,
        14 => *u.choose(&[i64::MIN, i64::MAX, 1 << 31, 1 << 32, -(1 << 31), 1 << 62, 1 << 40])?,
        small => i64::from(small) - 4,
    })
}

fn element_type(u: &mut Unstructured) -> Result<i32> {
    Ok(if u.ratio(1, 8)? { u.arbitrary()? } else { u.int_in_range(0..=24)? })
}

fn name(u: &mut Unstructured, graph: &GraphProto) -> Result<String> {
    let nodes = graph.node.iter().flat_map(|node| node.input.iter().chain(&node.output));
    let names: Vec<&String> = nodes.chain(graph.input.iter().map(|input| &input.name)).collect();
    if names.is_empty() || u.ratio(1, 16)? {
        return Ok(["", "another", "data", "axis.cast"][u.choose_index(4)?].into());
    }
    Ok((*u.choose(&names)?).clone())
}

fn domain(u: &mut Unstructured) -> Result<&'static str> {
    u.choose(&["", "ai.onnx", DOMAIN, DOMAIN, "another"]).copied()
}

/// One of a list, to be changed.
fn one<'a, T>(u: &mut Unstructured, list: &'a mut [T]) -> Result<Option<&'a mut T>> {
    if list.is_empty() {
        return Ok(None);
    }
    let number = u.choose_index(list.len())?;
    Ok(Some(&mut list[number]))
}

fn change_node(u: &mut Unstructured, graph: &mut GraphProto) -> Result<()> {
    let other = name(u, graph)?;
    let Some(node) = one(u, &mut graph.node)? else { return Ok(()) };
    match u.int_in_range(0..=11u8)? {
        0 => node.domain = domain(u)?.into(),
        1 => {
            const OP_TYPES: [&str; 10] = [
                "Gather",
                "GatherND",
                "GatherElements",
                "Concat",
                "Identity",
                "Relu",
                "Shape",
                "Slice",
                "Unsqueeze",
                "Swish",
            ];
            node.op_type = (*u.choose(&OP_TYPES)?).into();
        }
        2 => node.input.push(other),
        3 => drop(node.input.pop()),
        4 => {
            if let Some(input) = one(u, &mut node.input)? {
                *input = other;
            }
        }
        5 => node.output.push(other),
        6 => {
            if let Some(output) = one(u, &mut node.output)? {
                *output = other;
            }
        }
        7 => node.name = other,
        8 => node.attribute.push(int(u.choose(&["batch_dims", "axis", "version"])?, number(u)?)),
        9 => {
            let value = match u.int_in_range(0..=3u8)? {
                0 => String::arbitrary_take(u)?,
                _ => format!("opset{}", number(u)?),
            };
            node.attribute.push(string(u.choose(&["version", "batch_dims"])?, &value));
        }
        _ => {
            if let Some(attribute) = one(u, &mut node.attribute)? {
                match u.int_in_range(0..=3u8)? {
                    0 => attribute.name = other,
                    1 => attribute.r#type = u.int_in_range(0..=15)?,
                    _ => attribute.i = number(u)?,
                }
            }
        }
    }
    Ok(())
}

trait Take: Sized {
    fn arbitrary_take(u: &mut Unstructured) -> Result<Self>;
}

impl Take for String {
    fn arbitrary_take(u: &mut Unstructured) -> Result<String> {
        let length = u.int_in_range(0..=12)?;
        Ok(String::from_utf8_lossy(u.bytes(length)?).into_owned())
    }
}

fn change_value_info(u: &mut Unstructured, info: &mut ValueInfoProto) -> Result<()> {
    let Some(Value::TensorType(tensor)) = info.r#type.as_mut().and_then(|it| it.value.as_mut())
    else {
        return Ok(());
    };
    let dims = &mut tensor.shape.get_or_insert_default().dim;
    match u.int_in_range(0..=9u8)? {
        0 => tensor.elem_type = element_type(u)?,
        1 => info.r#type = None,
        2 => tensor.shape = None,
        3 => dims.push(Dimension::default()),
        4 => drop(dims.pop()),
        _ => {
            if let Some(dim) = one(u, dims)? {
                dim.value = match u.int_in_range(0..=5u8)? {
                    0 => None,
                    1 => {
                        let texts = ["N", "batch", "N+1", "2*N", "", "?", "N-N", "(", "-1"];
                        Some(dimension::Value::DimParam((*u.choose(&texts)?).into()))
                    }
                    _ => Some(dimension::Value::DimValue(number(u)?)),
                };
            }
        }
    }
    Ok(())
}

fn change_initializer(u: &mut Unstructured, graph: &mut GraphProto) -> Result<()> {
    let other = name(u, graph)?;
    if graph.initializer.is_empty() || u.ratio(1, 4)? {
        // An input becomes one, or a new one comes, which says what it is in another way than the nodes expect.
        let shape: Vec<usize> = (0..u.int_in_range(0..=3)?).map(|k| k % 2 + 1).collect();
        let mut entries = vec![];
        for _ in 0..shape.iter().product() {
            entries.push(number(u)?);
        }
        let entries = tract_ndarray::ArrayD::from_shape_vec(&*shape, entries).unwrap();
        graph.input.retain(|input| input.name != other);
        graph.initializer.push(onnx::initializer(&other, &entries.into()));
        return Ok(());
    }
    let Some(initializer) = one(u, &mut graph.initializer)? else { return Ok(()) };
    match u.int_in_range(0..=7u8)? {
        0 => initializer.data_type = element_type(u)?,
        1 => initializer.dims.push(number(u)?),
        2 => drop(initializer.dims.pop()),
        3 => {
            if let Some(dim) = one(u, &mut initializer.dims)? {
                *dim = number(u)?;
            }
        }
        4 => initializer.name = other,
        5 => drop(initializer.raw_data.pop()),
        _ => {
            if let Some(byte) = one(u, &mut initializer.raw_data)? {
                *byte = u.arbitrary()?;
            }
        }
    }
    Ok(())
}

/// The nodes of a model become both branches of an `If`.
fn into_branches(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else { return };
    let branch = |suffix: &str| {
        let mut branch = GraphProto {
            node: graph.node.clone(),
            output: graph.output.clone(),
            ..GraphProto::default()
        };
        let outputs: Vec<String> = branch.output.iter().map(|output| output.name.clone()).collect();
        let nodes = branch.node.iter_mut();
        let names = nodes.flat_map(|node| node.input.iter_mut().chain(&mut node.output));
        for name in names.chain(branch.output.iter_mut().map(|output| &mut output.name)) {
            if outputs.contains(name) {
                name.push_str(suffix);
            }
        }
        onnx::graph(&format!("{suffix}_branch"), branch)
    };
    let mut node = onnx::node("", "If", &["condition"], "");
    node.attribute = vec![branch("then"), branch("else")];
    node.output = graph.output.iter().map(|output| output.name.clone()).collect();
    graph.node = vec![node];
    graph.input.push(onnx::input("condition", bool::datum_type(), [0usize; 0]));
}

fn change(u: &mut Unstructured, model: &mut ModelProto) -> Result<()> {
    let kind = u.int_in_range(0..=19u8)?;
    let Some(graph) = &mut model.graph else { return Ok(()) };
    match kind {
        0..=7 => change_node(u, graph)?,
        8..=10 => {
            if let Some(input) = one(u, &mut graph.input)? {
                change_value_info(u, input)?;
            }
        }
        11 => {
            if let Some(output) = one(u, &mut graph.output)? {
                change_value_info(u, output)?;
            }
        }
        12..=14 => change_initializer(u, graph)?,
        15 => {
            if let Some(node) = one(u, &mut graph.node)? {
                let node = node.clone();
                graph.node.push(node);
            }
        }
        16 => {
            let name = name(u, graph)?;
            graph.output.push(onnx::output(&name));
        }
        17 => {
            if u.arbitrary()? {
                model.opset_import.push(onnx::import(domain(u)?, number(u)?));
            } else if let Some(import) = one(u, &mut model.opset_import)? {
                import.version = number(u)?;
            }
        }
        18 => into_branches(model),
        _ => {
            let name = name(u, graph)?;
            let mut info = onnx::input(&name, f32::datum_type(), [1usize, 2]);
            change_value_info(u, &mut info)?;
            if u.arbitrary()? { graph.value_info.push(info) } else { graph.input.push(info) }
        }
    }
    Ok(())
}

/// Bytes of the file change.
fn change_bytes(u: &mut Unstructured, model: &ModelProto) -> Result<Option<ModelProto>> {
    let mut bytes = vec![];
    prost::Message::encode(model, &mut bytes).unwrap();
    for _ in 0..u.int_in_range(1..=4u8)? {
        let at = u.choose_index(bytes.len())?;
        match u.int_in_range(0..=3u8)? {
            0 => bytes.truncate(at.max(1)),
            1 => drop(bytes.remove(at)),
            _ => bytes[at] = u.arbitrary()?,
        }
        if bytes.is_empty() {
            break;
        }
    }
    Ok(tract_onnx::onnx().proto_model_for_read(&mut &*bytes).ok())
}

fn has_gather_nd_of(model: &ModelProto, domain: impl Fn(&str) -> bool) -> bool {
    let mut graphs: Vec<&GraphProto> = model.graph.iter().collect();
    while let Some(graph) = graphs.pop() {
        for node in &graph.node {
            if node.op_type == "GatherND" && domain(&node.domain) {
                return true;
            }
            let attributes = node.attribute.iter();
            graphs.extend(attributes.flat_map(|it| it.g.iter().chain(&it.graphs)));
        }
    }
    false
}

fn inputs(model: &InferenceModel) -> TractResult<Vec<Input>> {
    let facts = model.input_outlets()?.iter().map(|outlet| model.outlet_fact(*outlet));
    facts
        .map(|fact| {
            let fact = fact?;
            let dims = fact.shape.concretize().map(|dims| dims.to_vec()).unwrap_or_default();
            Ok((fact.datum_type.concretize(), dims))
        })
        .collect()
}

fn case(u: &mut Unstructured) -> Result<bool> {
    let models = models();
    let mut model = models[crate::number(u, models.len())?].clone();
    for _ in 0..u.int_in_range(0..=5u8)? {
        change(u, &mut model)?;
    }
    if rarely(u, 8)? {
        let Some(changed) = change_bytes(u, &model)? else { return Ok(false) };
        model = changed;
    }
    let [wrap, standard_gather, ignore] = u.arbitrary()?;
    // tract's own GatherND makes as many rules as a tuple has entries, until memory is out.
    if has_gather_nd_of(&model, |domain| domain == "another") {
        return Ok(false);
    }
    let standard_gather = standard_gather || has_gather_nd_of(&model, |domain| domain != DOMAIN);
    let mut options = OpenVinoOptions::default().with_standard_gather(standard_gather);
    if wrap {
        options = options.with_negative_indices(NegativeIndices::Wrap);
    }
    let reader = tract_onnx::onnx()
        .with_openvino_options(options)
        .with_openvino_ir()
        .with_ignore_value_info(ignore)
        .with_ignore_output_shapes(ignore);
    let Some(Ok(loaded)) = panics::catch(|| reader.model_for_proto_model(&model)) else {
        return Ok(false);
    };
    let analysed = || {
        let mut model = loaded.clone();
        // Where that fails, what is known by then will do.
        let _ = model.analyse(false);
        inputs(&model)
    };
    let Some(Ok(facts)) = panics::catch(analysed) else { return Ok(false) };
    let Some(Some(tensors)) = panics::catch(|| stages::feed(u, &facts)).transpose()? else {
        return Ok(false);
    };
    let nodes = &model.graph.as_ref().expect("it was loaded").node;
    let is_gather = |node: &NodeProto| ["Gather", "GatherND"].contains(&&*node.op_type);
    let exact = nodes.iter().all(|node| node.domain == DOMAIN && is_gather(node));
    let at = |stage| StagedModel::new(loaded.clone(), stage);
    let tolerance = if exact { Tolerance::EXACT } else { Tolerance::ROUNDING };
    let expected = Expected { tolerance: Some(tolerance), facts: exact };
    Ok(stages::compare_stages(&tensors, expected, &Stage::ALL, at))
}

pub fn run(bytes: &[u8]) -> Option<bool> {
    case(&mut Unstructured::new(bytes)).ok()
}
