//! What a short file can ask for: constants, axes, time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::WEIGHTS;
use crate::prelude::*;
use crate::{Ir, Limits, ir};

/// A network of layers whose output ports have the id 99. The edges lead from a layer to an input of a layer.
pub(super) fn net(layers: &[String], edges: &[(usize, usize, usize)]) -> String {
    let edge = |(from, to, port): &(usize, usize, usize)| {
        format!(r#"<edge from-layer="{from}" from-port="99" to-layer="{to}" to-port="{port}"/>"#)
    };
    let (layers, edges) = (layers.concat(), edges.iter().map(edge).collect::<String>());
    format!(r#"<net name="net" version="11"><layers>{layers}</layers><edges>{edges}</edges></net>"#)
}

pub(super) fn layer(id: usize, name: &str, operation: &str, data: &str, inputs: usize) -> String {
    let inputs: String = (0..inputs).map(|port| format!(r#"<port id="{port}"/>"#)).collect();
    format!(
        r#"<layer id="{id}" name="{name}" type="{operation}" version="opset1"><data {data}/><input>{inputs}</input><output><port id="99"/></output></layer>"#
    )
}

pub(super) fn parameter(id: usize, shape: &str) -> String {
    layer(id, "x", "Parameter", &format!(r#"shape="{shape}" element_type="f32""#), 0)
}

fn constant(id: usize, shape: &str, size: usize) -> String {
    let data = format!(r#"element_type="i64" shape="{shape}" offset="0" size="{size}""#);
    layer(id, "constant", "Const", &data, 0)
}

fn load(reader: &Ir, xml: &str, weights: &[u8]) -> Result<TypedModel, String> {
    let model = reader.model_for_bytes(xml.as_bytes(), weights.to_vec());
    model.map_err(|error| format!("{error:#}"))
}

#[track_caller]
fn fails(reader: &Ir, xml: &str, weights: &[u8], expected: &str) {
    let error = load(reader, xml, weights).unwrap_err();
    assert!(error.contains(expected), "{expected:?} is not in: {error}");
    assert!(error.len() < 10_000, "the error has {} bytes", error.len());
}

/// A reader with a limit of the memory of constants, in bytes.
fn limited(bytes: u64) -> Ir {
    ir().with_limits(Limits { constant_bytes: Some(bytes), ..Limits::default() })
}

/// A constant that so many layers repeat, one after the other, as often as it says itself.
fn tiles(count: usize) -> String {
    let mut layers = vec![constant(0, "1", 8)];
    let mut edges = vec![];
    for id in 1..=count {
        layers.push(layer(id, "tile", "Tile", "", 2));
        edges.extend([(id - 1, id, 0), (0, id, 1)]);
    }
    layers.push(layer(count + 1, "result", "Result", "", 1));
    edges.push((count, count + 1, 0));
    net(&layers, &edges)
}

#[test]
fn constants_that_grow() {
    let (four, many) = (4i64.to_le_bytes(), (1i64 << 26).to_le_bytes());
    // 8 * 4^6 bytes.
    load(&limited(100_000), &tiles(6), &four).unwrap();
    let expected = "with a constant of type I64 and shape [4, 64], all constants \
                    would take more than 3000 bytes while the model is loaded. If you trust the file, raise";
    fails(&limited(3000), &tiles(6), &four, expected);
    fails(&ir(), &tiles(1), &many, "more than 268435712 bytes");
}

/// Rows of a table are gathered, which is read when the model runs.
#[test]
fn tables_that_are_read_later() {
    let table = layer(
        1,
        "table",
        "Const",
        r#"element_type="u8" shape="100,100" offset="8" size="10000""#,
        0,
    );
    let layers = [
        layer(0, "x", "Parameter", r#"shape="?" element_type="i64""#, 0),
        table,
        layer(2, "numbers", "Convert", r#"destination_type="f32""#, 1),
        constant(3, "", 8),
        layer(4, "gather", "Gather", "", 3),
        layer(5, "result", "Result", "", 1),
    ];
    let edges = [(1, 2, 0), (2, 4, 0), (0, 4, 1), (3, 4, 2), (4, 5, 0)];
    let (xml, weights) = (net(&layers, &edges), vec![0; 10_008]);
    load(&limited(10_100), &xml, &weights).unwrap();
    fails(&limited(9_999), &xml, &weights, "a constant of type U8 and shape [100, 100]");
}

#[test]
fn constants_that_share_their_bytes() {
    let count = 10;
    let mut layers = vec![parameter(0, "")];
    let mut edges = vec![];
    for number in 0..count {
        let (id, shape) = (2 * number + 1, vec!["1"; number].join(","));
        layers.push(constant(id, &format!("2,{shape}"), 16).replace(",\"", "\""));
        layers.push(layer(id + 1, "result", "Result", "", 1));
        edges.push((id, id + 1, 0));
    }
    let xml = net(&layers, &edges);
    load(&limited(160), &xml, &WEIGHTS).unwrap();
    fails(&limited(159), &xml, &WEIGHTS, "more than 159 bytes");
}

#[test]
fn codes_that_become_floats() {
    let data = r#"element_type="u4" shape="32" offset="0" size="16""#;
    let layers = [
        parameter(0, "32"),
        layer(1, "codes", "Const", data, 0),
        layer(2, "convert", "Convert", r#"destination_type="f32""#, 1),
        layer(3, "add", "Add", "", 2),
        layer(4, "result", "Result", "", 1),
    ];
    let xml = net(&layers, &[(1, 2, 0), (0, 3, 0), (2, 3, 1), (3, 4, 0)]);
    load(&limited(1000), &xml, &WEIGHTS).unwrap();
    fails(&limited(100), &xml, &WEIGHTS, "type F32 and shape [32]");
}

#[test]
fn more_axes_than_there_are_anywhere() {
    let ones = |count: usize| vec!["1"; count].join(",");
    let layers = |shape: &str| [parameter(0, shape), layer(1, "result", "Result", "", 1)];
    load(&ir(), &net(&layers(&ones(64)), &[(0, 1, 0)]), &[]).unwrap();
    let expected = "a tensor would have 100000 axes, but may have 64 at most";
    fails(&ir(), &net(&layers(&ones(100_000)), &[(0, 1, 0)]), &[], expected);

    let weights: Vec<u8> = (0..1000i64).flat_map(|axis| axis.to_le_bytes()).collect();
    let layers = [
        parameter(0, "2"),
        constant(1, "1000", 8000),
        layer(2, "unsqueeze", "Unsqueeze", "", 2),
        layer(3, "result", "Result", "", 1),
    ];
    let xml = net(&layers, &[(0, 2, 0), (1, 2, 1), (2, 3, 0)]);
    fails(&ir(), &xml, &weights, "a tensor would have 65 axes");
}

#[test]
fn errors_that_are_short() {
    let long = "a".repeat(1 << 20);
    let layers = |name: &str, shape: &str| {
        net(&[parameter(0, shape), layer(1, name, "Result", "", 1)], &[(0, 1, 0)])
    };
    fails(&ir(), &layers("result", &long), &[], "bytes left out");
    fails(&ir(), &layers(&long, "1").replace("to-port=\"0\"", "to-port=\"7\""), &[], "left out");

    let count = 100_000;
    let edges: Vec<_> = (0..=count).map(|port| (0, 1, port)).collect();
    let concat = net(&[parameter(0, "1"), layer(1, "concat", "Concat", "", count)], &edges);
    fails(&ir(), &concat, &[], "has to-port=100000, but");
    fails(&ir(), &concat, &[], "bytes left out");
}

#[test]
fn elements_without_end() {
    let depth = 100_000;
    let nested = format!("<rt_info>{}{}</rt_info>", "<a>".repeat(depth), "</a>".repeat(depth));
    let layers = [parameter(0, "1"), layer(1, "result", "Result", "", 1)];
    let xml = net(&layers, &[(0, 1, 0)]).replace("<edges>", &format!("{nested}<edges>"));
    load(&ir(), &xml, &[]).unwrap();

    let attributes: String = (0..100_000).map(|number| format!("a{number}=\"\" ")).collect();
    let layers = [parameter(0, "1"), layer(1, "result", "Result", &attributes, 1)];
    fails(&ir(), &net(&layers, &[(0, 1, 0)]), &[], "an element has more than 256 attributes");
}

/// tract would try the names `x.1`, `x.2` and so on for each of them.
#[test]
fn one_name_for_all_layers() {
    let count = 2000;
    let mut layers = vec![parameter(0, "1")];
    layers.extend((1..=count).map(|id| layer(id, "x", "Relu", "", 1)));
    layers.push(layer(count + 1, "x", "Result", "", 1));
    let edges: Vec<_> = (0..=count).map(|id| (id, id + 1, 0)).collect();
    let model = load(&ir(), &net(&layers, &edges), &[]).unwrap();
    let names: HashSet<&str> = model.nodes().iter().map(|node| &*node.name).collect();
    assert!(names.len() > count && names.len() == model.nodes().len());
}

/// They are found to be of one size one by one, but the layers are translated twice, and not once for each.
#[test]
fn many_inputs_of_one_size() {
    let count = 150;
    let mut layers: Vec<String> = (0..=count).map(|id| parameter(id, "?")).collect();
    let mut edges = vec![];
    for number in 1..=count {
        let id = count + number;
        layers.push(layer(id, "add", "Add", "", 2));
        edges.extend([(if number == 1 { 0 } else { id - 1 }, id, 0), (number, id, 1)]);
    }
    layers.push(layer(2 * count + 1, "counted", "Counted", "", 1));
    layers.push(layer(2 * count + 2, "result", "Result", "", 1));
    edges.extend([(2 * count, 2 * count + 1, 0), (2 * count + 1, 2 * count + 2, 0)]);
    let translations = Arc::new(AtomicUsize::new(0));
    let counter = translations.clone();
    let mut reader = ir();
    reader.registry_mut().add_extension("Counted", "opset1", move |layer| {
        counter.fetch_add(1, Ordering::Relaxed);
        layer.all_inputs()
    });
    let model = load(&reader, &net(&layers, &edges), &[]).unwrap();
    assert_eq!(translations.load(Ordering::Relaxed), 2);
    let size = &model.output_fact(0).unwrap().shape;
    assert!((0..=count).all(|input| model.input_fact(input).unwrap().shape == *size));
}
