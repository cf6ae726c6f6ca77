//! What reading a file allocates: so much for each of its bytes, whatever is in it, and for constants no more than their
//! limit. All of it is counted, also what is free again at once, so that work grows no faster either.

use std::alloc::System;
use std::sync::{Mutex, PoisonError};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tract_openvino_ir::Limits;
use tract_openvino_ir::prelude::*;

#[global_allocator]
static COUNTER: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Held by the test that runs, so that no other allocates at the same time.
static ALONE: Mutex<()> = Mutex::new(());

/// A layer whose input ports are numbered from 0 on, and whose output ports from 100 on.
fn layer(
    id: usize,
    name: &str,
    operation: &str,
    data: &str,
    [inputs, outputs]: [usize; 2],
    inner: &str,
) -> String {
    let ports = |ports: std::ops::Range<usize>| -> String {
        ports.map(|port| format!(r#"<port id="{port}" precision="FP32"/>"#)).collect()
    };
    let (inputs, outputs) = (ports(0..inputs), ports(100..100 + outputs));
    format!(
        r#"<layer id="{id}" name="{name}" type="{operation}" version="opset8"><data {data}/><input>{inputs}</input><output>{outputs}</output>{inner}</layer>"#
    )
}

fn parameter(id: usize, name: &str, shape: &str) -> String {
    let data = format!(r#"shape="{shape}" element_type="f32""#);
    layer(id, name, "Parameter", &data, [0, 1], "")
}

fn result(id: usize) -> String {
    layer(id, "result", "Result", "", [1, 0], "")
}

/// From an output of a layer to an input of a layer.
fn edge((from, output): (usize, usize), (to, input): (usize, usize)) -> String {
    let output = 100 + output;
    format!(r#"<edge from-layer="{from}" from-port="{output}" to-layer="{to}" to-port="{input}"/>"#)
}

fn graph(layers: &[String], edges: &[String]) -> String {
    format!("<layers>{}</layers><edges>{}</edges>", layers.concat(), edges.concat())
}

/// `count` layers, each of the one before. The first has the id 0, and takes from the layer with this id.
fn row(from: usize, count: usize, name: &str) -> (Vec<String>, Vec<String>) {
    let layers = (0..count).map(|id| layer(id, name, "Relu", "", [1, 1], ""));
    let edges = (0..count).map(|id| edge((if id == 0 { from } else { id - 1 }, 0), (id, 0)));
    (layers.collect(), edges.collect())
}

/// One layer of control flow with these inputs, whose shapes are given, and with one output.
fn with_body(name: &str, inputs: &[String], inner: &str) -> String {
    let count = inputs.len();
    let mut layers: Vec<String> = (0..count).map(|id| parameter(id, "x", &inputs[id])).collect();
    layers.push(layer(count, name, "TensorIterator", "", [count, 1], inner));
    layers.push(result(count + 1));
    let mut edges: Vec<String> = (0..count).map(|id| edge((id, 0), (count, id))).collect();
    edges.push(edge((count, 0), (count + 1, 0)));
    graph(&layers, &edges)
}

/// A TensorIterator with a long name, with so many layers in its body.
fn long_names(count: usize) -> String {
    let (mut layers, mut edges) = row(count, count, "layer");
    layers.extend([parameter(count, "x", "1"), result(count + 1)]);
    edges.push(edge((count - 1, 0), (count + 1, 0)));
    let inner = format!(
        r#"<port_map><input external_port_id="0" internal_layer_id="{count}" axis="0"/>
        <output external_port_id="100" internal_layer_id="{}" axis="0"/></port_map><body>{}</body>"#,
        count + 1,
        graph(&layers, &edges)
    );
    with_body(&"a".repeat(100 * count), &["3".into()], &inner)
}

/// A body with so many parameters of one name: parts of inputs.
fn parameters_of_one_name(count: usize) -> String {
    let mut layers: Vec<String> = (0..count).map(|id| parameter(id, "x", "1")).collect();
    layers.push(layer(count, "all", "Concat", r#"axis="0""#, [count, 1], ""));
    layers.push(result(count + 1));
    let mut edges: Vec<String> = (0..count).map(|id| edge((id, 0), (count, id))).collect();
    edges.push(edge((count, 0), (count + 1, 0)));
    let entry =
        |id| format!(r#"<input external_port_id="{id}" internal_layer_id="{id}" axis="0"/>"#);
    let inner = format!(
        r#"<port_map>{}<output external_port_id="100" internal_layer_id="{}"/></port_map><body>{}</body>"#,
        (0..count).map(entry).collect::<String>(),
        count + 1,
        graph(&layers, &edges)
    );
    with_body("loop", &vec!["3".to_string(); count], &inner)
}

/// States whose sizes grow, each because the one before does: the body hands each to the next.
fn states_in_a_chain(count: usize) -> String {
    let mut layers: Vec<String> = (0..count).map(|id| parameter(id, "x", "1")).collect();
    layers.push(parameter(count, "part", "1"));
    let (mut edges, mut entries, mut back) = (vec![], String::new(), String::new());
    for id in 0..count {
        let (joined, end) = (count + 1 + id, 3 * count + id);
        layers.push(layer(joined, "joined", "Concat", r#"axis="0""#, [2, 1], ""));
        layers.push(result(end));
        edges.push(edge((if id == 0 { count } else { id - 1 }, 0), (joined, 0)));
        edges.push(edge((id, 0), (joined, 1)));
        edges.push(edge((joined, 0), (end, 0)));
        entries += &format!(r#"<input external_port_id="{id}" internal_layer_id="{id}"/>"#);
        back += &format!(r#"<edge from-layer="{end}" to-layer="{id}"/>"#);
    }
    let inner = format!(
        r#"<port_map>{entries}<input external_port_id="{count}" internal_layer_id="{count}" axis="0"/>
        <output external_port_id="100" internal_layer_id="{}"/></port_map><back_edges>{back}</back_edges><body>{}</body>"#,
        3 * count,
        graph(&layers, &edges)
    );
    with_body("loop", &vec!["1".to_string(); count + 1], &inner)
}

/// A NonZero, a row of layers that do not need to know what it counts, and as many layers that take from the last one of
/// these and from something else whose size it counts.
fn behind_a_non_zero(count: usize) -> String {
    let (mut layers, mut edges) = row(count, count, "layer");
    let [x, non_zero, found, shape] = [0, 1, 2, 3].map(|number| count + number);
    layers.extend([
        parameter(x, "x", "1"),
        layer(non_zero, "non_zero", "NonZero", r#"output_type="i64""#, [1, 1], ""),
        result(found),
        layer(shape, "shape", "ShapeOf", r#"output_type="i64""#, [1, 1], ""),
    ]);
    edges.extend([
        edge((x, 0), (non_zero, 0)),
        edge((non_zero, 0), (found, 0)),
        edge((non_zero, 0), (shape, 0)),
    ]);
    for number in 0..count {
        let (wide, end) = (shape + 1 + 2 * number, shape + 2 + 2 * number);
        layers.push(layer(wide, "wide", "Broadcast", r#"mode="bidirectional""#, [2, 1], ""));
        layers.push(result(end));
        edges.push(edge((count - 1, 0), (wide, 0)));
        edges.push(edge((shape, 0), (wide, 1)));
        edges.push(edge((wide, 0), (end, 0)));
    }
    graph(&layers, &edges)
}

/// Many outputs that are one tensor, which has a long name.
fn outputs_of_one_name(count: usize) -> String {
    let name = "a".repeat(100 * count);
    let mut layers = vec![parameter(0, "x", "5"), layer(1, &name, "Relu", "", [1, 1], "")];
    let mut edges = vec![edge((0, 0), (1, 0))];
    for id in 2..2 + count {
        layers.push(result(id));
        edges.push(edge((1, 0), (id, 0)));
    }
    graph(&layers, &edges)
}

/// What reading a graph allocates, in bytes.
fn allocated(graph: &str) -> usize {
    let xml = format!(r#"<net name="net" version="11">{graph}</net>"#);
    let read = || {
        let region = Region::new(COUNTER);
        let model = ir().with_limits(Limits::default()).model_for_bytes(xml.as_bytes(), Vec::new());
        if let Err(error) = model {
            panic!("{error:#}");
        }
        region.change().bytes_allocated
    };
    // The thread that waits for this test allocates now and then.
    read().min(read())
}

/// Four times as much in a file takes four times as much memory.
#[test]
fn what_is_read_takes_memory_for_each_byte() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    type Graph = fn(usize) -> String;
    let cases: [(&str, Graph, usize); 6] = [
        ("long names", long_names, 100),
        ("parameters of one name", parameters_of_one_name, 50),
        ("states in a chain", states_in_a_chain, 12),
        ("behind a NonZero", behind_a_non_zero, 100),
        ("outputs of one name", outputs_of_one_name, 100),
        (
            "a row",
            |count| {
                let (mut layers, mut edges) = row(count, count, "x");
                layers.extend([parameter(count, "x", "5"), result(count + 1)]);
                edges.push(edge((count - 1, 0), (count + 1, 0)));
                graph(&layers, &edges)
            },
            200,
        ),
    ];
    let mut wrong = vec![];
    for (name, graph, count) in cases {
        let (few, many) = (allocated(&graph(count)), allocated(&graph(4 * count)));
        println!("{name}: {few}, {many}");
        if many > 6 * few {
            wrong.push(format!("{name}: {few} bytes, then {many}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An input that is a constant: a number as often as a shape says, and its type.
type Input = (&'static str, Vec<usize>, i64);

fn i64s(shape: &[usize], number: i64) -> Input {
    ("i64", shape.into(), number)
}

fn floats(shape: &[usize], number: i64) -> Input {
    ("f32", shape.into(), number)
}

/// The limit of constants for the layers below.
const LIMIT: usize = 1 << 20;

/// What reading a layer of constants allocates besides its constants, in bytes, and its error.
fn allocated_for(operation: &str, inputs: &[Input]) -> (usize, Option<String>) {
    let (mut layers, mut edges, mut weights) = (vec![], vec![], vec![]);
    let count = inputs.len();
    for (id, (dt, shape, number)) in inputs.iter().enumerate() {
        let bytes = match *dt {
            "i64" => number.to_le_bytes().to_vec(),
            "u1" => vec![*number as u8],
            _ => (*number as f32).to_le_bytes().to_vec(),
        };
        let elements: usize = shape.iter().product();
        let size = if *dt == "u1" { elements.div_ceil(8) } else { elements * bytes.len() };
        let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let offset = weights.len();
        weights.extend(bytes.iter().cycle().take(size));
        let data =
            format!(r#"element_type="{dt}" shape="{shape}" offset="{offset}" size="{size}""#);
        layers.push(layer(id, "constant", "Const", &data, [0, 1], ""));
        edges.push(edge((id, 0), (count, id)));
    }
    let mut words = operation.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (name, opset, data) = (word(), word(), word());
    let tested = layer(count, "tested", name, data, [count, 1], "");
    layers.push(tested.replace("opset8", opset));
    layers.push(result(count + 1));
    edges.push(edge((count, 0), (count + 1, 0)));
    let xml = format!(r#"<net name="net" version="11">{}</net>"#, graph(&layers, &edges));
    let mut limits = Limits::default();
    limits.constant_bytes = Some(LIMIT as u64);
    let reader = ir().with_limits(limits);
    let region = Region::new(COUNTER);
    let model = reader.model_for_bytes(xml.as_bytes(), weights);
    (region.change().bytes_allocated, model.err().map(|error| format!("{error:#}")))
}

/// Layers whose output would be large, all of constants.
fn layers_that_are_large() -> Vec<(&'static str, Vec<Input>)> {
    let long = 1 << 24;
    let linear = r#"Interpolate opset4 mode="linear" shape_calculation_mode="sizes" coordinate_transformation_mode="half_pixel""#;
    let outer = [floats(&[8192, 1], 1), floats(&[1, 8192], 1)];
    let mut layers: Vec<(&str, Vec<Input>)> = vec![
        ("Tile opset1", vec![floats(&[1], 1), i64s(&[1], long)]),
        ("Broadcast opset3", vec![floats(&[1], 1), i64s(&[1], long)]),
        (r#"Broadcast opset3 mode="bidirectional""#, vec![floats(&[1], 1), i64s(&[1], long)]),
        (r#"Range opset4 output_type="i64""#, vec![i64s(&[], 0), i64s(&[], long), i64s(&[], 1)]),
        (
            r#"OneHot opset1 axis="-1""#,
            vec![i64s(&[64], 1), i64s(&[], long), floats(&[], 1), floats(&[], 0)],
        ),
        (r#"Eye opset9 output_type="f32""#, vec![i64s(&[], 8192), i64s(&[], 8192), i64s(&[], 0)]),
        ("NonZero opset3", vec![("u1", [&[1 << 19][..], &[1; 62]].concat(), 0xff)]),
        ("Gather opset8", vec![floats(&[1, 8192], 1), i64s(&[8192], 0), i64s(&[], 0)]),
        ("GatherND opset8", vec![floats(&[1, 8192], 1), i64s(&[8192, 1], 0)]),
        (
            r#"Pad opset1 pad_mode="constant""#,
            vec![floats(&[1], 1), i64s(&[1], long), i64s(&[1], long)],
        ),
        (
            r#"Pad opset1 pad_mode="edge""#,
            vec![floats(&[1], 1), i64s(&[1], long), i64s(&[1], long)],
        ),
        (linear, vec![floats(&[1, 1, 2, 2], 1), i64s(&[2], 8192), floats(&[2], 2), i64s(&[1], 2)]),
        (r#"SegmentMax opset16 fill_mode="ZERO""#, vec![floats(&[1], 1), i64s(&[1], long)]),
        (
            "EmbeddingSegmentsSum opset3",
            vec![floats(&[1, 8], 1), i64s(&[1], 0), i64s(&[1], 0), i64s(&[], long)],
        ),
        (
            "SparseFillEmptyRows opset16",
            vec![floats(&[1], 1), i64s(&[2], long - 1), i64s(&[1, 2], 0), floats(&[], 1)],
        ),
        ("Unique opset10", vec![("u1", vec![1 << 19], 0xff)]),
        (r#"Convert opset1 destination_type="i64""#, vec![("u1", vec![1 << 19], 0xff)]),
        (r#"Einsum opset7 equation="ab,bc->ac""#, outer.to_vec()),
        (
            r#"ExtractImagePatches opset3 sizes="64,64" strides="1,1" rates="1,1" auto_pad="valid""#,
            vec![floats(&[1, 1, 128, 128], 1)],
        ),
        ("AdaptiveAvgPool opset8", vec![floats(&[1, 1, 2, 2], 1), i64s(&[2], 8192)]),
        ("DFT opset7", vec![floats(&[2, 2], 1), i64s(&[1], 0), i64s(&[1], long)]),
        ("RDFT opset9", vec![floats(&[2], 1), i64s(&[1], 0), i64s(&[1], long)]),
        ("IRDFT opset9", vec![floats(&[2, 2], 1), i64s(&[1], 0), i64s(&[1], long)]),
        (
            "STFT opset15 transpose_frames=\"true\"",
            vec![floats(&[8192], 1), floats(&[4096], 1), i64s(&[], 4096), i64s(&[], 1)],
        ),
        (
            r#"ROIAlign opset9 pooled_h="4096" pooled_w="4096" sampling_ratio="1" spatial_scale="1" mode="avg""#,
            vec![floats(&[1, 1, 2, 2], 1), floats(&[1, 4], 1), i64s(&[1], 0)],
        ),
        (
            r#"ROIPooling opset2 pooled_h="4096" pooled_w="4096" spatial_scale="1" method="max""#,
            vec![floats(&[1, 1, 2, 2], 1), floats(&[1, 5], 0)],
        ),
        ("Reshape opset1", vec![("u1", vec![1 << 19], 0xff), ("u1", vec![1 << 19], 0xff)]),
        ("ReduceSum opset1", vec![floats(&[1], 1), ("u1", vec![1 << 19], 0xff)]),
        (
            "Slice opset8",
            vec![
                floats(&[1], 1),
                ("u1", vec![1 << 19], 0xff),
                ("u1", vec![1 << 19], 0xff),
                ("u1", vec![1 << 19], 0xff),
            ],
        ),
        (
            r#"PriorBox opset8 min_size="1" aspect_ratio="1" variance="0.1" offset="0.5" step="1""#,
            vec![i64s(&[2], 4096), i64s(&[2], 4096)],
        ),
        (
            r#"RandomUniform opset8 output_type="f32""#,
            vec![i64s(&[1], long), floats(&[], 0), floats(&[], 1)],
        ),
    ];
    let operations = [
        "Add",
        "Subtract",
        "Multiply",
        "Divide",
        "Power",
        "Maximum",
        "Minimum",
        "Mod",
        "FloorMod",
        "SquaredDifference",
        "Equal",
        "NotEqual",
        "Less",
        "LessEqual",
        "Greater",
        "GreaterEqual",
        "MatMul",
    ];
    layers.extend(operations.map(|operation| (operation, outer.to_vec())));
    layers
}

/// What is computed of constants while a file is read is counted before there is memory for it.
#[test]
fn what_is_computed_of_constants_stays_within_its_limit() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Some are held as bytes, as numbers and as the floats of an operator.
    let most = 8 * LIMIT;
    let mut wrong = vec![];
    for (layer, inputs) in layers_that_are_large() {
        let layer = if layer.contains(' ') { layer.into() } else { format!("{layer} opset1") };
        let (bytes, error) = allocated_for(&layer, &inputs);
        println!("{layer}: {bytes} {error:?}");
        if bytes > most {
            wrong.push(format!("{layer}: {bytes} bytes, {error:?}"));
        }
    }
    // Any operation, of small constants with large numbers.
    for (operation, revisions) in ir().registry().operations() {
        for since in revisions {
            for shape in [&[][..], &[2], &[1, 2, 3, 4]] {
                for types in ["fffffff", "iiiiiii", "fiiiiii", "ffiiiii", "fifffff", "fiiifff"] {
                    for count in 0..7 {
                        let inputs: Vec<Input> = types[..count]
                            .chars()
                            .enumerate()
                            .map(|(number, dt)| {
                                let shape =
                                    if number == 0 { shape } else { &shape[..shape.len().min(1)] };
                                if dt == 'f' { floats(shape, 3) } else { i64s(shape, 1 << 24) }
                            })
                            .collect();
                        let layer = format!("{operation} opset{since}");
                        let (bytes, error) = allocated_for(&layer, &inputs);
                        if bytes > most {
                            wrong.push(format!("{layer} {inputs:?}: {bytes} bytes, {error:?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
