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
const OF_FIXED_MODELS: [&str; 2] = ["shape_of_fixed_model_open", "spatial_dynamic_of_fixed_model"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preprocess")
}

/// The lines of each case of a file.
fn sections(path: PathBuf) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(&path).unwrap();
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
fn differences(name: &str, lines: &[String], ports: &[String], data: &mut Npz) -> Vec<String> {
    let model = match (built(lines), *ports == ["error"]) {
        (Err(_), true) => return vec![],
        (Ok(_), true) => return vec!["there is no error".into()],
        (Err(error), false) => return vec![format!("{error:#}")],
        (Ok(model), false) => model,
    };
    let mut found = vec![];
    let described_ports = model.inputs.iter().map(|outlet| described("input", &model, *outlet));
    let described_ports: Vec<String> = described_ports
        .chain(model.outputs.iter().map(|outlet| described("output", &model, *outlet)))
        .collect();
    let same = |(here, there): (&String, &String)| {
        let words = [here, there].map(|it| it.split(' ').collect::<Vec<_>>());
        words[0].len() == words[1].len()
            && words[0].iter().zip(&words[1]).all(|(here, there)| here == there || *there == "-")
    };
    let same = described_ports.len() == ports.len() && described_ports.iter().zip(ports).all(same);
    if !same && !OF_FIXED_MODELS.contains(&name) {
        found.push(format!("{described_ports:?} instead of {ports:?}"));
    }
    for stage in Stage::OF_TYPED {
        let mut staged = StagedModel::from_typed(model.clone(), stage).unwrap();
        for run in 0.. {
            let mut arrays = |kind: &str| -> Vec<Tensor> {
                let names = (0..).map(|number| format!("{kind}_{number}/{name}/{run}"));
                names.map_while(|name| data.read(&name).ok()).collect()
            };
            let (inputs, outputs) = (arrays("input"), arrays("output"));
            if inputs.is_empty() {
                assert!(run > 0, "{name} has no data");
                break;
            }
            let computed = match staged.run_checked(&inputs) {
                Ok(computed) => computed,
                Err(error) => {
                    found.push(format!("run {run}, {stage}: {error:#}"));
                    continue;
                }
            };
            assert_eq!(computed.len(), outputs.len());
            for (number, (output, expected)) in computed.iter().zip(&outputs).enumerate() {
                let half = expected.datum_type() == DatumType::F16;
                let tolerance = if half { 2e-3 } else { 1e-5 };
                let tolerance = Tolerance { atol: tolerance, rtol: tolerance };
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
    let ports: HashMap<String, Vec<String>> =
        sections(folder().join("expected/ports.txt")).into_iter().collect();
    let mut data = Npz::open(folder().join("expected/data.npz")).unwrap();
    let mut failed = vec![];
    for (name, lines) in sections(folder().join("cases.txt")) {
        let found = differences(&name, &lines, &ports[&name], &mut data);
        let is_other = OTHER_RESULTS.iter().any(|(other, _)| *other == name);
        if is_other != !found.is_empty() {
            failed.push(format!("{name}: {}", found.join("; ")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
