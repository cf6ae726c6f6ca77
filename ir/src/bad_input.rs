//! Every way in which a file can be malformed, with its message.

pub(crate) mod changed_models;
mod kinds;
mod limits;
pub(crate) mod operations;
mod size;

use tract_openvino_kernels::checks::power_of_two;

use crate::limits::MAX_DECLARED_ELEMENTS;
use crate::prelude::*;
use crate::{Ir, ir};

/// `x` of shape [2,3] through a layer to a result, as text that a test changes.
const NET: &str = r#"<?xml version="1.0"?>
<net name="net" version="11">
	<layers>
		<layer id="0" name="x" type="Parameter" version="opset1">
			<data shape="2,3" element_type="f32"/>
			<output><port id="0" precision="FP32" names="x"><dim>2</dim><dim>3</dim></port></output>
		</layer>
		<layer id="1" name="order" type="Const" version="opset1">
			<data element_type="i64" shape="2" offset="0" size="16"/>
			<output><port id="0" precision="I64"><dim>2</dim></port></output>
		</layer>
		<layer id="2" name="transpose" type="Transpose" version="opset1">
			<input><port id="0"/><port id="1"/></input>
			<output><port id="2" precision="FP32" names="y"><dim>3</dim><dim>2</dim></port></output>
		</layer>
		<layer id="3" name="result" type="Result" version="opset1">
			<input><port id="0"/></input>
		</layer>
	</layers>
	<edges>
		<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
		<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
		<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
	</edges>
</net>
"#;

/// The order [1, 0].
const WEIGHTS: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn load(reader: &Ir, xml: &str) -> Result<TypedModel, String> {
    reader.model_for_bytes(xml.as_bytes(), WEIGHTS).map_err(|error| format!("{error:#}"))
}

#[track_caller]
fn fails(xml: &str, expected: &str) {
    match load(&ir(), xml) {
        Ok(_) => panic!("it loads, but should say {expected:?}"),
        Err(error) => assert!(error.contains(expected), "{expected:?} is not in: {error}"),
    }
}

/// The network with one piece of its text replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(NET.contains(from), "{from:?} is not in the network");
    NET.replacen(from, to, 1)
}

#[test]
fn as_it_is_it_loads() {
    let model = load(&ir(), NET).unwrap();
    assert_eq!(model.output_fact(0).unwrap().shape.as_concrete(), Some(&[3, 2][..]));
}

#[test]
fn what_is_not_ir() {
    for (xml, expected) in [
        ("", "this is not XML"),
        ("net", "this is not XML"),
        ("<net>", "this is not XML"),
        ("<model/>", "its root element is <model>, but must be <net>"),
        ("<net name='n'/>", "of version \"\", but only versions 10 and 11"),
        (
            "<net version='7'/>",
            "of version \"7\", but only versions 10 and 11 can be read: export the model again with OpenVINO 2020.1",
        ),
        ("<net version='12'/>", "of version \"12\""),
        ("<net version='11'/>", "there is no <layers>"),
        ("<!DOCTYPE net [<!ENTITY a 'a'>]><net version='11'/>", "has a DOCTYPE"),
    ] {
        fails(xml, expected);
    }
    let error = ir().model_for_bytes(&[0xff, 0xfe], WEIGHTS).unwrap_err();
    assert!(format!("{error:#}").contains("save the file as UTF-8"), "{error:#}");
    fails(
        &changed("<edges>", "<pre-process><channel id='0'/></pre-process><edges>"),
        "<pre-process> (the subtraction of a mean from an input) is not supported",
    );
}

#[test]
fn layers_and_edges_that_do_not_hold_together() {
    for (from, to, expected) in [
        (r#"id="1" name="order""#, r#"id="0" name="order""#, "has the id of layer 0 \"x\""),
        (r#"<layer id="1""#, r#"<layer id="-1""#, "id must be a whole number"),
        (r#"<layer id="1" name="order""#, r#"<layer id="1""#, "<layer> has no attribute name"),
        (r#"type="Const" "#, "", "<layer> has no attribute type"),
        (r#"type="Const" version="opset1""#, r#"type="Const""#, "<layer> has no attribute version"),
        (r#"from-layer="0""#, r#"from-layer="9""#, "from-layer=9, but there is no such layer"),
        (r#"to-layer="3""#, r#"to-layer="9""#, "to-layer=9, but there is no such layer"),
        (
            r#"from-layer="0" from-port="0""#,
            r#"from-layer="0" from-port="7""#,
            "layer 0 \"x\" (Parameter, opset1) has the output ports [0]",
        ),
        (
            r#"to-layer="2" to-port="1""#,
            r#"to-layer="2" to-port="9""#,
            "layer 2 \"transpose\" (Transpose, opset1) has the input ports [0, 1]",
        ),
        (
            r#"to-layer="2" to-port="1""#,
            r#"to-layer="2" to-port="0""#,
            "input 0 of layer 2 \"transpose\" (Transpose, opset1) is connected twice",
        ),
        (
            r#"<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>"#,
            "",
            "input 0 of layer 2 \"transpose\" (Transpose, opset1) has no edge to it, but a later one has",
        ),
        (
            r#"<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>"#,
            "",
            "layer 3 \"result\" (Result, opset1): the number of connected inputs is 0, but must be 1",
        ),
        (
            r#"from-layer="0" from-port="0" to-layer="2""#,
            r#"from-layer="2" from-port="2" to-layer="2""#,
            "layer 2 \"transpose\" (Transpose, opset1) depends on itself",
        ),
        (
            r#"<port id="0"/><port id="1"/>"#,
            r#"<port id="1"/><port id="1"/>"#,
            "two input ports have the id 1",
        ),
        ("<dim>3</dim><dim>2</dim>", "<dim>-3</dim>", "<dim> is \"-3\", but must be -1 or a size"),
    ] {
        fails(&changed(from, to), expected);
    }
}

#[test]
fn parameters_and_constants() {
    for (from, to, expected) in [
        (r#"shape="2,3" "#, "", "has no attribute shape"),
        (r#"shape="2,3""#, r#"shape="...""#, "leaves the number of dimensions open"),
        (r#"shape="2,3""#, r#"shape="2,x""#, "dimension \"x\" must be ?"),
        (r#"element_type="f32""#, r#"element_type="f33""#, "which is not an element type"),
        (
            r#"element_type="f32""#,
            r#"element_type="bf16""#,
            "inputs of type bf16 are not supported",
        ),
        (
            r#"element_type="f32""#,
            r#"element_type="f32" execOrder="0""#,
            "this is what OpenVINO compiled of a model, for a device",
        ),
        (r#"element_type="i64""#, r#"element_type="i65""#, "which is not an element type"),
        (r#"element_type="i64" "#, "", "there is no attribute element_type"),
        (r#"shape="2" offset"#, r#"shape="?" offset"#, "but a constant must have known sizes"),
        (
            r#"shape="2" offset"#,
            r#"shape="3" offset"#,
            "too small: shape [3] of i64 takes 24 bytes",
        ),
        (r#"offset="0""#, r#"offset="8""#, "reach beyond the weights, which have 16 bytes"),
        (r#"offset="0""#, r#"offset="-8""#, "offset is \"-8\", but must be a whole number"),
        (
            r#"offset="0""#,
            r#"offset="18446744073709551608""#,
            "offset 18446744073709551608 and size 16 reach beyond the weights, which have 16 bytes",
        ),
        (r#"size="16""#, r#"size="9223372036854775807""#, "reach beyond the weights"),
    ] {
        fails(&changed(from, to), expected);
    }
    let large = power_of_two(32);
    for shape in [format!("{large},{large},{large}"), format!("0,{large},{large}")] {
        let shape = format!(r#"shape="{shape}" offset"#);
        let expected = format!("has more than {MAX_DECLARED_ELEMENTS} elements");
        fails(&changed(r#"shape="2" offset"#, &shape), &expected);
    }
    let beyond = u64::MAX.to_string();
    let shape = format!(r#"shape="{beyond}" offset"#);
    fails(&changed(r#"shape="2" offset"#, &shape), "and no size above");
}

#[test]
fn weights_that_are_not_there() {
    let mut xml = NET.as_bytes();
    let error = ir().model_for_read(&mut xml).unwrap_err();
    assert!(format!("{error:#}").contains("its .bin is not known"), "{error:#}");

    let error = ir().model_for_bytes(NET.as_bytes(), [0; 8]).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("in constant \"order\"") && text.contains("have 8 bytes"), "{text}");

    let error = ir().with_weights("no/such.bin").model_for_read(&mut NET.as_bytes()).unwrap_err();
    assert!(format!("{error:#}").contains("no/such.bin"), "{error:#}");
}

#[test]
fn operations_that_are_not_known_are_all_in_one_error() {
    let two =
        changed(r#"type="Transpose" version="opset1""#, r#"type="Transmogrify" version="opset1""#);
    fails(&two, "Transmogrify is not supported (layer 2 \"transpose\" (Transmogrify, opset1))");
    fails(
        &changed(r#"type="Transpose" version="opset1""#, r#"type="Transpose" version="opset99""#),
        "Transpose of operation set \"opset99\" is not known: OpenVINO's sets are opset1 to opset17; add your own with \
         Registry::add_extension",
    );
    fails(
        &changed(r#"type="Transpose" version="opset1""#, r#"type="Gelu" version="opset1""#),
        "Gelu is not supported in opset1: the oldest that is supported is opset2",
    );
}

#[test]
fn errors_name_layer_input_and_range() {
    let with_order = |order: [i64; 2]| {
        let bytes: Vec<u8> = order.iter().flat_map(|axis| axis.to_le_bytes()).collect();
        let error = ir().model_for_bytes(NET.as_bytes(), bytes).unwrap_err();
        format!("{error:#}")
    };
    let error = with_order([0, 2]);
    assert!(error.contains("in layer 2 \"transpose\" (Transpose, opset1): order is 2"), "{error}");
    assert!(error.contains("must be in [-2, 1] for rank 2"), "{error}");
    let error = with_order([0, 0]);
    assert!(error.contains("order is [0, 0], but must name each axis once"), "{error}");
}

#[test]
fn shapes_that_the_user_gives_are_checked() {
    let open = changed(r#"shape="2,3""#, r#"shape="?,3..5""#);
    let given = |input: &str, shape: &str| load(&ir().with_input_shape(input, shape), &open);
    assert!(given("x", "2,4").is_ok());
    assert!(given("x", "N,3").is_ok());
    assert!(given("x", "?,?").is_ok());
    for (input, shape, expected) in [
        ("y", "2,3", "the inputs are \"x\""),
        ("x", "2", "the shape given for input \"x\" has rank 1"),
        ("x", "2,7", "dimension 1 of input \"x\" is given as 7, but the file declares 3..5"),
        ("x", "2,*", "\"*\" must be ?, a size"),
    ] {
        let error = given(input, shape).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let given = |shape: [usize; 2]| load(&ir().with_input_shape("x", shape), &open);
    let model = given([2, 4]).unwrap();
    assert_eq!(model.input_fact(0).unwrap().shape.as_concrete(), Some(&[2, 4][..]));
    let error = given([2, 7]).unwrap_err();
    assert!(error.contains("dimension 1 of input \"x\" is given as 7"), "{error}");
    let error = load(&ir().with_input_shape("x", &[2][..]), &open).unwrap_err();
    assert!(error.contains("the shape given for input \"x\" has rank 1"), "{error}");
}

/// OpenVINO does not mind the case of types either.
#[test]
fn types_in_any_case() {
    for spell in [str::to_uppercase, str::to_lowercase] {
        let mut xml = NET.to_string();
        for name in ["Parameter", "Const", "Transpose", "Result"] {
            xml = xml.replace(&format!("type=\"{name}\""), &format!("type=\"{}\"", spell(name)));
        }
        let model = load(&ir(), &xml).unwrap();
        assert_eq!(model.input_outlets().unwrap().len(), 1);
        assert_eq!(model.output_fact(0).unwrap().shape.as_concrete(), Some(&[3, 2][..]));
    }
}
