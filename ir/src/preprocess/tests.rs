//! Models with steps before and after them, against OpenVINO's (`tests/preprocess/`); with whole networks; and the errors.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use model_cases::{Npz, Stage, StagedModel, Tolerance, compare_within};
use tract_core::ops::identity::Identity;

use super::*;
use crate::context::given_shape;
use crate::document::ElementType;
use crate::weights::datum_type;

/// Where OpenVINO gives an error and this crate does not, or the other way round.
const OTHER_RESULTS: [(&str, &str); 5] = [
    ("layout_squeeze_same_order", "it forgets the axis that it adds"),
    ("layout_convert_hwc_to_nhwc", "it forgets the axis that it adds"),
    ("color_rgbx_planes", "it takes the last axis for the channels, in any layout"),
    ("color_rgb_to_gray_of_rank_3", "it has a convolution for images of rank 4"),
    ("color_nv12_two_planes_with_name_of_both", "it gives two inputs one name"),
];

/// Where the models of OpenVINO become open.
const OF_FIXED_MODELS: [&str; 4] = [
    "shape_of_fixed_model_open",
    "spatial_dynamic_of_fixed_model",
    "crop_of_open_tensor",
    "crop_of_open_tensor_from_the_end",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preprocess")
}

/// The lines of each case of a file.
fn sections(path: &Path) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut sections: Vec<(String, Vec<String>)> = vec![];
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => sections.push((name.into(), vec![])),
            None => sections.last_mut().unwrap().1.push(line.into()),
        }
    }
    sections
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let numbers = text.split(',').filter(|it| !it.is_empty());
    numbers.map(|it| it.parse().ok().unwrap()).collect()
}

fn element_type(name: &str) -> DatumType {
    ElementType::from_text(name).and_then(datum_type).unwrap()
}

fn color_format(name: &str) -> ColorFormat {
    use ColorFormat::*;
    match name {
        "UNDEFINED" => Undefined,
        "NV12_SINGLE_PLANE" => Nv12SinglePlane,
        "NV12_TWO_PLANES" => Nv12TwoPlanes,
        "I420_SINGLE_PLANE" => I420SinglePlane,
        "I420_THREE_PLANES" => I420ThreePlanes,
        "RGB" => Rgb,
        "BGR" => Bgr,
        "GRAY" => Gray,
        "RGBX" => Rgbx,
        "BGRX" => Bgrx,
        _ => panic!("there is no {name}"),
    }
}

/// Says what a line says.
fn apply(preprocess: &mut Preprocess, line: &str) -> TractResult<()> {
    let (port, rest) = line.split_once('.').unwrap();
    let (part, rest) = rest.split_once(' ').unwrap();
    let (method, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    if port.starts_with('y') {
        let output = preprocess.output(port)?;
        match (part, method) {
            ("tensor", "element_type") => {
                output.tensor().set_element_type(element_type(rest));
            }
            ("tensor", "layout") => {
                output.tensor().set_layout(rest.parse()?);
            }
            ("model", "layout") => {
                output.model().set_layout(rest.parse()?);
            }
            ("steps", "convert_element_type") => {
                output.steps().convert_element_type(words.first().map(|it| element_type(it)));
            }
            ("steps", "convert_layout") => {
                output.steps().convert_layout(rest.parse::<Layout>()?);
            }
            ("steps", "convert_layout_dims") => {
                output.steps().convert_layout_dims(&numbers(rest));
            }
            _ => panic!("there is no {part} {method}"),
        }
        return Ok(());
    }
    let input = preprocess.input(port)?;
    if part == "model" {
        input.model().set_layout(rest.parse()?);
    } else if part == "tensor" {
        let tensor = input.tensor();
        match method {
            "element_type" => tensor.set_element_type(element_type(rest)),
            "layout" => tensor.set_layout(rest.parse()?),
            "shape" => tensor.set_shape(rest)?,
            "spatial_shape" => tensor.set_spatial_shape(words[0].parse()?, words[1].parse()?)?,
            "spatial_dynamic" => tensor.set_spatial_dynamic_shape()?,
            "from" => tensor
                .set_from(&Tensor::zero_dt(element_type(words[0]), &numbers::<usize>(words[1]))?)?,
            "color_format" => {
                let names = words.get(1).map_or(vec![], |names| names.split(',').collect());
                tensor.set_color_format(color_format(words[0]), &names)?
            }
            "memory_type" => tensor,
            _ => panic!("there is no {method}"),
        };
    } else {
        let steps = input.steps();
        match method {
            "resize" => {
                let algorithm = match words[0] {
                    "LINEAR" => ResizeAlgorithm::Linear,
                    "CUBIC" => ResizeAlgorithm::Cubic,
                    "NEAREST" => ResizeAlgorithm::Nearest,
                    "BILINEAR_PILLOW" => ResizeAlgorithm::BilinearPillow,
                    "BICUBIC_PILLOW" => ResizeAlgorithm::BicubicPillow,
                    name => panic!("there is no {name}"),
                };
                match words[1..] {
                    [height, width] => steps.resize_to(algorithm, height.parse()?, width.parse()?),
                    _ => steps.resize(algorithm),
                }
            }
            "mean" => steps.mean(&numbers(rest)),
            "scale" => steps.scale(&numbers(rest)),
            "convert_element_type" => {
                steps.convert_element_type(words.first().map(|it| element_type(it)))
            }
            "convert_layout" => steps.convert_layout(rest.parse::<Layout>()?),
            "convert_layout_dims" => steps.convert_layout_dims(&numbers(rest)),
            "reverse_channels" => steps.reverse_channels(),
            "convert_color" => steps.convert_color(color_format(rest)),
            "crop" => steps.crop(&numbers(words[0]), &numbers(words[1]))?,
            "pad" => {
                let mode = match words[3] {
                    "CONSTANT" => PaddingMode::Constant,
                    "EDGE" => PaddingMode::Edge,
                    "REFLECT" => PaddingMode::Reflect,
                    "SYMMETRIC" => PaddingMode::Symmetric,
                    name => panic!("there is no {name}"),
                };
                let value = words[2].parse().context("OpenVINO takes one value")?;
                steps.pad(&numbers(words[0]), &numbers(words[1]), value, mode)
            }
            _ => panic!("there is no {method}"),
        };
    }
    Ok(())
}

/// The model of a case, with its steps.
fn built(lines: &[String]) -> TractResult<TypedModel> {
    let mut model = TypedModel::default();
    let mut outlets = vec![];
    for (number, line) in lines.iter().filter(|line| line.starts_with("input ")).enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let suffix = if number == 0 { String::new() } else { number.to_string() };
        let shape = words.get(2).copied().unwrap_or_default();
        let shape: TVec<TDim> = given_shape(&model.symbols, shape)?
            .into_iter()
            .map(|dim| dim.unwrap_or_else(|| model.symbols.new_with_prefix("s").to_dim()))
            .collect();
        let fact = element_type(words[1]).fact(shape);
        let source = model.add_source(format!("x{suffix}"), fact)?;
        let output = model.wire_node(format!("identity{suffix}"), Identity, &[source])?[0];
        model.set_outlet_label(output, format!("y{suffix}"))?;
        outlets.push(output);
    }
    model.select_output_outlets(&outlets)?;
    let mut preprocess = Preprocess::new(model);
    for line in
        lines.iter().filter(|line| !line.starts_with("input ") && !line.starts_with("feed "))
    {
        apply(&mut preprocess, line)?;
    }
    preprocess.build()
}

/// A line about an input or an output, as `generate.py` writes it.
fn described(kind: &str, model: &TypedModel, outlet: OutletId) -> String {
    let fact = model.outlet_fact(outlet).unwrap();
    let name = model.outlet_label(outlet).unwrap_or(&model.node(outlet.node).name);
    let dt = ElementType::from_text(&format!("{:?}", fact.datum_type)).unwrap();
    let dim = |dim: &TDim| dim.as_i64().map_or("?".into(), |size| size.to_string());
    let shape: Vec<String> = fact.shape.iter().map(dim).collect();
    format!("{kind} {name} {dt} {}", shape.join(",")).trim_end().into()
}

/// How a case differs from what OpenVINO makes of it.
fn differences(
    (name, lines): (&str, &[String]),
    ports: &[String],
    data: &mut Npz,
    is_random: bool,
) -> Vec<String> {
    if ports.last().is_some_and(|line| line == "no run") {
        return vec![];
    }
    let model = match (built(lines), *ports == ["error"]) {
        (Err(_), true) => return vec![],
        (Ok(_), true) => return vec!["there is no error".into()],
        (Err(error), false) => return vec![format!("{error:#}")],
        (Ok(model), false) => model,
    };
    let is_open = ports.iter().any(|port| port.contains('?'));
    let is_half = lines.iter().any(|line| line.contains("f16"));
    let mut found = vec![];
    let described_ports = model.inputs.iter().map(|outlet| described("input", &model, *outlet));
    let described_ports: Vec<String> = described_ports
        .chain(model.outputs.iter().map(|outlet| described("output", &model, *outlet)))
        .collect();
    // There names may be lost, and dimensions open that are not here.
    let is_fixed = is_random || OF_FIXED_MODELS.contains(&name);
    let same = |(here, there): (&String, &String)| {
        let words = [here, there].map(|it| it.split([' ', ',']).collect::<Vec<_>>());
        words[0].len() == words[1].len()
            && words[0]
                .iter()
                .zip(&words[1])
                .all(|(here, there)| here == there || *there == "-" || is_fixed && *there == "?")
    };
    let same = described_ports.len() == ports.len() && described_ports.iter().zip(ports).all(same);
    if !same {
        found.push(format!("{described_ports:?} instead of {ports:?}"));
    }
    let mut arrays = |kind: &str, run: usize| -> Vec<Tensor> {
        let names = (0..).map(|number| format!("{kind}_{number}/{name}/{run}"));
        names.map_while(|name| data.read(&name).ok()).collect()
    };
    let runs = (0..).map(|run| (arrays("input", run), arrays("output", run)));
    let runs: Vec<_> = runs.take_while(|(inputs, _)| !inputs.is_empty()).collect();
    assert!(!runs.is_empty() || is_open, "{name} has no data");
    for stage in Stage::OF_TYPED {
        let mut staged = StagedModel::from_typed(model.clone(), stage).unwrap();
        for (run, (inputs, outputs)) in runs.iter().enumerate() {
            let computed = match staged.run_checked(inputs) {
                Ok(computed) => computed,
                // Of sizes that are open there.
                Err(_) if is_random && is_open => continue,
                Err(error) => {
                    found.push(format!("run {run}, {stage}: {error:#}"));
                    continue;
                }
            };
            assert_eq!(computed.len(), outputs.len());
            for (number, (output, expected)) in computed.iter().zip(outputs).enumerate() {
                // OpenVINO computes in single precision.
                let tolerance = if is_half { 2e-3 } else { 1e-5 };
                let tolerance = Tolerance { atol: tolerance, rtol: tolerance };
                let rounded = |it: &Tensor| it.cast_to::<f64>().unwrap().into_owned();
                let is_near = || {
                    let one = Tolerance { atol: 1., rtol: 0. };
                    compare_within(&rounded(expected), &rounded(output), one).is_ok()
                };
                // Pillow's modes round bytes twice: half of one may go either way in between.
                let is_integer = expected.datum_type().is_integer();
                if (is_random || name.ends_with("_pillow"))
                    && is_integer
                    && expected.datum_type() == output.datum_type()
                    && is_near()
                {
                    continue;
                }
                if let Err(difference) = compare_within(expected, output, tolerance) {
                    found.push(format!("output {number} of run {run}, {stage}: {difference}"));
                }
            }
        }
    }
    found
}

/// Element types, layouts, steps and planes: the same inputs and outputs, or an error in both, and the same numbers.
#[test]
fn the_same_as_openvino() {
    compare_with(&folder().join("cases.txt"), &folder().join("expected"), false);
    // What `generate.py --random` wrote.
    if let Some(random) = std::env::var_os("IR_PREPROCESS").map(PathBuf::from) {
        compare_with(&random.join("cases.txt"), &random, true);
    }
}

fn compare_with(cases: &Path, expected: &Path, is_random: bool) {
    let ports: HashMap<String, Vec<String>> =
        sections(&expected.join("ports.txt")).into_iter().collect();
    let mut data = Npz::open(expected.join("data.npz")).unwrap();
    let (mut failed, mut count) = (vec![], 0);
    for (name, lines) in sections(cases) {
        count += 1;
        let found = differences((&name, &lines), &ports[&name], &mut data, is_random);
        let is_other = OTHER_RESULTS.iter().any(|(other, _)| *other == name);
        if is_other == found.is_empty() {
            failed.push(format!("{name}: {}", found.join("; ")));
        }
    }
    // Of random cases a few may differ: what lies near a half, and layouts of which OpenVINO makes something else.
    let most = if is_random { count / 100 } else { 0 };
    assert!(failed.len() <= most, "{}", failed.join("\n"));
}

/// What the steps and the tensors of the errors below are about.
fn model(shape: &str) -> TractResult<Preprocess> {
    let mut model = TypedModel::default();
    let shape: TVec<TDim> = given_shape(&model.symbols, shape)?.into_iter().flatten().collect();
    let x = model.add_source("x", f32::fact(shape))?;
    let y = model.wire_node("y", Identity, &[x])?;
    model.select_output_outlets(&y)?;
    Ok(Preprocess::new(model))
}

/// Each says which step it is, and what would be right.
#[test]
fn errors() {
    for (shape, lines, expected) in [
        (
            "1,3,4,5",
            &["z.tensor layout NCHW"][..],
            "the model has no input \"z\": its inputs are [\"x\"]",
        ),
        ("1,3,4,5", &["y2.tensor layout NCHW"], "the model has no output \"y2\""),
        (
            "1,3,4,5",
            &["x.steps mean 1", "x.steps resize LINEAR"],
            "in the steps before input \"x\": in step 2 (resize): layout [...] has no H: set one that has (set_layout)",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout NC?W", "x.steps resize LINEAR"],
            "layout [N,C,?,W] has no H",
        ),
        (
            "1,3,h,w",
            &["x.tensor layout NCHW", "x.steps resize LINEAR"],
            "dimension 2 of what the model takes is open (h): say the size (resize_to)",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout NCHW", "x.steps resize LINEAR 0 5"],
            "height 0 and width 5, but both must be 1 or more",
        ),
        (
            "1,3,4,5",
            &["x.tensor element_type u8", "x.steps scale 2"],
            "in step 1 (scale): the elements are of type U8, but must be floats",
        ),
        ("1,3,4,5", &["x.steps mean "], "in step 1 (mean): there are no numbers"),
        ("1,3,4,5", &["x.steps mean 1,2,3"], "layout [...] has no C"),
        (
            "1,3,4,5",
            &["x.tensor layout NCHW", "x.steps mean 1,2"],
            "there are 2 numbers, but 3 channels: the shape is [1, 3, 4, 5]",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout NHWC", "x.model layout NHCT"],
            "layout [N,H,C,T] has T, but [N,H,W,C] does not",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout HWC"],
            "layout [H,W,C] does not fit the tensor, whose shape is [1, 3, 4, 5]",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout HWC", "x.model layout NCH?"],
            "all must have names, but [N,C,H,?] has ?",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout HWC", "x.model layout NDCHW"],
            "layout [N,D,C,H,W] does not fit what the model takes, which has rank 4",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout N...C", "x.steps convert_layout_dims 0,3,1,2"],
            "layout [N,...,C] is not known: give it without ...",
        ),
        (
            "1,3,4,5",
            &["x.steps convert_layout_dims 0,2,2,1"],
            "the dimensions are [0, 2, 2, 1], but must be 0 to 3, once each",
        ),
        (
            "1,3,4,5",
            &["x.steps convert_layout_dims 0,2,1"],
            "the dimensions are put into order [0, 2, 1], but the model takes 4 dimensions",
        ),
        (
            "1,3,4,5",
            &["x.tensor layout NCHW", "x.tensor spatial_shape 6 7"],
            "the model takes shape [1, 3, 4, 5], but what comes of the tensor and the steps has shape [1, 3, 6, 7]",
        ),
        (
            "1,3,4,5",
            &["x.tensor spatial_shape 6 7"],
            "the tensor has a height and a width, but its layout [...] has no H",
        ),
        (
            "1,3,4,5",
            &["x.tensor shape 1,3,?,4", "x.tensor spatial_shape 6 7"],
            "the shape of the tensor is set already",
        ),
        ("1,3,4,5", &["x.tensor shape 1,3,x y"], "in the shape of the tensor: \"x y\" must be ?"),
        (
            "n,3,4,5",
            &["x.tensor shape -3,3,4,5"],
            "in the shape of the tensor: a dimension is -3, but must be 0 or more",
        ),
        ("1,3,4,5", &["x.steps crop 0,1 1"], "begin is [0, 1] and end is [1]"),
        ("1,3,4,5", &["x.steps crop 0,0,0,0,0 1,1,1,1,1"], "in step 1 (crop)"),
        (
            "1,3,4,5",
            &["x.steps pad 0,1 0,1 0 CONSTANT"],
            "in step 1 (pad): pads_begin has length 2",
        ),
        (
            "1,4,6,3",
            &["x.tensor color_format NV12_TWO_PLANES", "x.steps mean 1"],
            "in step 1 (mean): the image is in NV12 in two planes: a step before must convert it (convert_color)",
        ),
        (
            "1,4,6,4",
            &["x.tensor color_format RGBX"],
            "the image is in RGBX, which no model takes: a step must convert it",
        ),
        (
            "1,4,6,3",
            &["x.tensor color_format GRAY", "x.steps convert_color BGR"],
            "an image with GRAY cannot become one with BGR",
        ),
        (
            "1,5,6,3",
            &["x.tensor color_format NV12_TWO_PLANES", "x.steps convert_color BGR"],
            "the height of an image in NV12 in two planes is 5, but must be even",
        ),
        (
            "1,3,4,6",
            &["x.tensor color_format I420_SINGLE_PLANE", "x.tensor layout NCHW"],
            "an image in I420 in a single plane must have layout NHWC, but it has rank 4 and layout [N,C,H,W]",
        ),
        (
            "1,3,4,6",
            &["x.tensor color_format RGB", "x.tensor layout N?HW"],
            "an image in RGB needs channels, but layout [N,?,H,W] has no C",
        ),
        (
            "1,3,4,6",
            &["x.tensor color_format NV12_TWO_PLANES y"],
            "have the names [\"y\"], but there must be 2",
        ),
        (
            "1,3,4,6",
            &["x.tensor color_format RGB y"],
            "an image with RGB is in one plane, but the planes have the names [\"y\"]",
        ),
        ("1,3,4,5", &["y.model layout NC"], "layout [N,C] does not fit what the model has"),
        (
            "1,3,4,5",
            &["y.model layout NCHW", "y.tensor layout NHW"],
            "in the steps after output \"y\": layout [N,H,W] does not fit a tensor of rank 4",
        ),
    ] {
        let result = model(shape).and_then(|mut preprocess| {
            lines.iter().try_for_each(|line| apply(&mut preprocess, line))?;
            preprocess.build()
        });
        let error = format!("{:#}", result.expect_err(&format!("{lines:?}")));
        assert!(error.contains(expected), "{lines:?}: {error}");
    }
}

fn network(name: &str, shape: &str) -> TypedModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/networks");
    let path = folder.join(name).join("model.xml");
    let reader = crate::ir();
    let inputs = reader.proto_model_for_path(&path).unwrap();
    let input = inputs.document.graph().input_names(0).remove(0);
    reader.with_input_shape(input, shape).model_for_path(path).unwrap()
}

/// Random bytes.
fn bytes(shape: &[usize]) -> Tensor {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as u8
    };
    let bytes: Vec<u8> = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::from_shape(shape, &bytes).unwrap()
}

fn run(model: TypedModel, stage: Stage, inputs: &[Tensor]) -> Vec<Tensor> {
    StagedModel::from_typed(model, stage).unwrap().run_checked(inputs).unwrap()
}

fn assert_close(found: &[Tensor], expected: &[Tensor]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        compare_within(expected, found, Tolerance { atol: 1e-4, rtol: 1e-3 }).unwrap();
    }
}

/// Bytes in layout NHWC before whole networks, against floats that are made by hand.
#[test]
fn networks_of_bytes() -> TractResult<()> {
    for (name, shape, size) in [
        ("ocr_cls", "?,?,48,192", [1, 48, 192, 3]),
        ("unet", "?,?,4*h,4*w", [2, 8, 12, 3]),
        ("unet", "?,?,?,?", [2, 8, 12, 3]),
        ("tiny_cnn_quantized", "?,?,?,?", [3, 8, 8, 3]),
        ("yolo_v3", "?,?,?,?", [2, 32, 32, 3]),
        ("text_recognition", "?,?,?,?", [2, 16, 32, 1]),
    ] {
        let image = bytes(&size);
        let floats = image.cast_to::<f32>()?.into_owned().into_plain_array::<f32>()?;
        let floats = floats.permuted_axes(vec![0, 3, 1, 2]).mapv(|it| (it - 127.5) / 64.);
        let floats = floats.as_standard_layout().into_owned().into_tensor();
        let original = network(name, shape);
        let mut preprocess = Preprocess::new(original.clone());
        let input = preprocess.single_input()?;
        input.tensor().set_element_type(DatumType::U8).set_layout("NHWC".parse()?);
        input.model().set_layout("NCHW".parse()?);
        input.steps().convert_element_type(DatumType::F32).mean(&[127.5]).scale(&[64.]);
        let built = preprocess.build()?;
        // No dimension is lost: what the network knows of its input is known of the tensor.
        let dims = [0, 2, 3, 1].map(|axis| original.input_fact(0).unwrap().shape[axis].clone());
        assert_eq!(*built.input_fact(0)?.shape, dims, "{name}");
        assert_eq!(built.outlet_label(built.inputs[0]), original.outlet_label(original.inputs[0]));
        built.check_edges()?;
        for stage in [Stage::Typed, Stage::Kernels] {
            let expected = run(original.clone(), stage, std::slice::from_ref(&floats));
            assert_close(&run(built.clone(), stage, std::slice::from_ref(&image)), &expected);
        }
    }
    Ok(())
}

/// Steps that say what the open sizes of a network are: even, other than those of the tensor, or known.
#[test]
fn open_sizes_of_networks() -> TractResult<()> {
    let planes = [bytes(&[1, 8, 16, 1]), bytes(&[1, 4, 8, 2])];
    /// The shape of the network, the lines, the inputs, and the shapes that they have.
    type Case<'a> = (&'a str, &'a [&'a str], &'a [Tensor], &'a [&'a str]);
    let cases: [Case; 4] = [
        (
            "?,?,?,?",
            &[
                "x.tensor element_type u8",
                "x.tensor color_format NV12_TWO_PLANES y,uv",
                "x.model layout NCHW",
                "x.steps convert_color RGB",
            ],
            &planes,
            &["?,?,?,1", "?,?,?,2"],
        ),
        (
            "?,?,4*h,4*w",
            &[
                "x.tensor element_type u8",
                "x.tensor color_format NV12_TWO_PLANES y,uv",
                "x.model layout NCHW",
                "x.steps convert_color RGB",
            ],
            &planes,
            &["?,4*h,4*w,1", "?,2*h,2*w,2"],
        ),
        (
            "?,?,4*h,4*w",
            &["x.steps crop 0,0,1,2 10,3,-1,-3"],
            &[bytes(&[1, 3, 10, 13])],
            &["?,3,4*h+2,4*w+5"],
        ),
        (
            "?,?,?,?",
            &[
                "x.tensor element_type u8",
                "x.tensor layout HWC",
                "x.tensor spatial_dynamic",
                "x.model layout NCHW",
                "x.steps resize LINEAR 8 12",
            ],
            &[bytes(&[5, 9, 3])],
            &["?,?,3"],
        ),
    ];
    for (shape, lines, inputs, expected) in cases {
        let original = network("unet", shape);
        let mut preprocess = Preprocess::new(original.clone());
        lines.iter().try_for_each(|line| apply(&mut preprocess, line))?;
        let built = preprocess.build()?;
        for (number, expected) in expected.iter().enumerate() {
            let found = built.input_fact(number)?.shape.to_tvec();
            let expected = given_shape(&built.symbols, expected)?;
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.into_iter().zip(expected) {
                match expected {
                    Some(expected) => assert_eq!(found, expected),
                    None => assert!(found.as_i64().is_none()),
                }
            }
        }
        built.check_edges()?;
        // The steps alone, and then the network.
        let mut alone = TypedModel { symbols: original.symbols.clone(), ..TypedModel::default() };
        let x = alone.add_source("x", original.input_fact(0)?.clone())?;
        let y = alone.wire_node("y", Identity, &[x])?;
        alone.select_output_outlets(&y)?;
        let mut alone = Preprocess::new(alone);
        lines.iter().try_for_each(|line| apply(&mut alone, line))?;
        let alone = alone.build()?;
        let inputs: Vec<Tensor> = built
            .inputs
            .iter()
            .zip(inputs)
            .map(|(input, it)| {
                let dt = built.outlet_fact(*input)?.datum_type;
                it.cast_to_dt(dt).map(|it| it.into_owned())
            })
            .collect::<TractResult<_>>()?;
        for stage in [Stage::Typed, Stage::Decluttered, Stage::Kernels] {
            let between = run(alone.clone(), stage, &inputs);
            let expected = run(original.clone(), stage, &between);
            assert_close(&run(built.clone(), stage, &inputs), &expected);
        }
    }
    Ok(())
}

/// Symbols that inputs have in common are given a value once, and two are an error.
#[test]
fn symbols_of_several_inputs() -> TractResult<()> {
    let built = |sizes: [usize; 2]| -> TractResult<TypedModel> {
        let mut model = TypedModel::default();
        let n = model.symbols.sym("N");
        let inputs = ["a", "b"].map(|name| model.add_source(name, f32::fact([n.clone()])).unwrap());
        let sum = model.wire_node("sum", tract_core::ops::math::add(), &inputs)?;
        model.select_output_outlets(&sum)?;
        let mut preprocess = Preprocess::new(model);
        for (number, size) in sizes.into_iter().enumerate().filter(|(_, size)| *size > 0) {
            preprocess.input(number)?.tensor().set_shape([size])?;
        }
        preprocess.input("b")?.tensor().set_element_type(DatumType::I32);
        preprocess.build()
    };
    for sizes in [[3, 0], [0, 3], [3, 3]] {
        let model = built(sizes)?;
        assert_eq!(
            (0..2).map(|it| model.input_fact(it).unwrap().shape[0].clone()).collect::<Vec<_>>(),
            [3.to_dim(), 3.to_dim()]
        );
        assert_eq!(model.output_fact(0)?.shape[0], 3.to_dim());
    }
    let open = built([0, 0])?;
    assert_eq!(open.input_fact(1)?.shape[0], open.symbols.sym("N").to_dim());
    let error = format!("{:#}", built([3, 2]).unwrap_err());
    assert!(error.contains("input \"b\": the model takes shape [3], but"), "{error}");
    Ok(())
}

/// Steps are steps before those that were there.
#[test]
fn again() -> TractResult<()> {
    let mut first = model("2")?;
    first.input("x")?.steps().mean(&[1.]);
    first.output("y")?.tensor().set_element_type(DatumType::F64);
    let mut second = Preprocess::new(first.build()?);
    second.input("x")?.steps().scale(&[2.]);
    second.output("y")?.tensor().set_element_type(DatumType::I32);
    let model = second.build()?;
    assert_eq!(model.outlet_label(model.outputs[0]), Some("y"));
    let outputs = model.into_runnable()?.run(tvec!(tensor1(&[8f32, 6.]).into()))?;
    assert_eq!(*outputs[0], tensor1(&[3, 2]));
    Ok(())
}

/// What the file states of layouts is as if it were set, and what is stated of the tensors follows it.
#[test]
fn layouts_of_the_file() -> TractResult<()> {
    let port = |id: usize, layout: &str| {
        format!(
            r#"<output><port id="{id}" precision="FP32" names="t{id}"><dim>1</dim><dim>3</dim><dim>4</dim><dim>5</dim>
               <rt_info><attribute name="layout" version="0" layout="{layout}"/></rt_info></port></output>"#
        )
    };
    let xml = format!(
        r#"<net name="layouts" version="11"><layers>
        <layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,3,4,5" element_type="f32"/>{}</layer>
        <layer id="1" name="relu" type="ReLU" version="opset1"><input><port id="0"/></input>{}</layer>
        <layer id="2" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>
        <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
        <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"#,
        port(0, "[N,C,H,W]"),
        port(1, "[N,C,...]")
    );
    let model = crate::ir().model_for_bytes(xml.as_bytes(), vec![])?;
    let mut preprocess = Preprocess::new(model);
    preprocess.input(0)?.tensor().set_layout("NHWC".parse()?);
    preprocess.output(0)?.tensor().set_layout("N...C".parse()?);
    let model = preprocess.build()?;
    assert_eq!(*model.input_fact(0)?.shape, [1, 4, 5, 3].map(|it| it.to_dim()));
    assert_eq!(*model.output_fact(0)?.shape, [1, 4, 5, 3].map(|it| it.to_dim()));
    // And once more, from the layouts of the tensors.
    let mut preprocess = Preprocess::new(model);
    preprocess.input("t0")?.tensor().set_layout("NWHC".parse()?);
    preprocess.output("t1")?.tensor().set_layout("CN??".parse()?);
    let model = preprocess.build()?;
    assert_eq!(*model.input_fact(0)?.shape, [1, 5, 4, 3].map(|it| it.to_dim()));
    assert_eq!(*model.output_fact(0)?.shape, [3, 1, 4, 5].map(|it| it.to_dim()));
    Ok(())
}
