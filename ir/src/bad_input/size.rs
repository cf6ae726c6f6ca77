//! Files that are large: in length, or in depth.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{changed, fails, limits, load};
use crate::ir;
use crate::limits::MAX_LESSONS_OF_LOOP;

#[test]
fn ten_thousand_layers_in_a_row() {
    let mut layers = String::new();
    let mut edges = String::new();
    let count = 10_000;
    for id in 10..10 + count {
        layers += &format!(
            r#"<layer id="{id}" name="t{id}" type="Identity" version="opset16"><input><port id="0"/></input><output><port id="1" precision="FP32"/></output></layer>"#
        );
        let from = if id == 10 { (0, 0) } else { (id - 1, 1) };
        edges += &format!(
            r#"<edge from-layer="{}" from-port="{}" to-layer="{id}" to-port="0"/>"#,
            from.0, from.1
        );
    }
    let xml = changed("</layers>", &format!("{layers}</layers>"))
        .replacen("<edges>", &format!("<edges>{edges}"), 1)
        .replacen(
            r#"from-layer="0" from-port="0" to-layer="2""#,
            &format!(r#"from-layer="{}" from-port="1" to-layer="2""#, 9 + count),
            1,
        );
    load(&ir(), &xml).unwrap();
}

/// A layer with id 5 that gets `x` from the layer 0: loops within loops, of which the innermost makes it longer.
fn nested_loops(depth: usize) -> String {
    let port = |id: usize| format!(r#"<port id="{id}" precision="FP32"><dim>-1</dim></port>"#);
    if depth == 0 {
        return format!(
            r#"<layer id="5" name="longer" type="Concat" version="opset1"><data axis="0"/><input><port id="0"/><port id="1"/></input><output>{}</output></layer>"#,
            port(3)
        );
    }
    format!(
        r#"<layer id="5" name="loop" type="Loop" version="opset5">
            <input><port id="0"/><port id="1"/><port id="2"/></input><output>{}</output>
            <port_map>
                <input external_port_id="2" internal_layer_id="0"/>
                <output external_port_id="3" internal_layer_id="9"/>
                <output external_port_id="-1" internal_layer_id="8" purpose="execution_condition"/>
            </port_map>
            <back_edges><edge from-layer="9" to-layer="0"/></back_edges>
            <body>{}</body>
        </layer>"#,
        port(3),
        around_loops(depth - 1)
    )
}

fn around_loops(depth: usize) -> String {
    let edge = |from: usize, port: usize| {
        format!(r#"<edge from-layer="{from}" from-port="0" to-layer="5" to-port="{port}"/>"#)
    };
    let inputs = match depth {
        0 => edge(0, 0) + &edge(0, 1),
        _ => edge(1, 0) + &edge(2, 1) + &edge(0, 2),
    };
    format!(
        r#"<layers>
            <layer id="0" name="x" type="Parameter" version="opset1"><data shape="2" element_type="f32"/><output><port id="0" precision="FP32"/></output></layer>
            <layer id="1" name="count" type="Const" version="opset1"><data element_type="i64" shape="" offset="0" size="8"/><output><port id="0" precision="I64"/></output></layer>
            <layer id="2" name="true" type="Const" version="opset1"><data element_type="boolean" shape="" offset="0" size="1"/><output><port id="0" precision="BOOL"/></output></layer>
            {}
            <layer id="8" name="on" type="Result" version="opset1"><input><port id="0"/></input></layer>
            <layer id="9" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
        </layers>
        <edges>{inputs}
            <edge from-layer="5" from-port="3" to-layer="9" to-port="0"/>
            <edge from-layer="2" from-port="0" to-layer="8" to-port="0"/>
        </edges>"#,
        nested_loops(depth)
    )
}

#[test]
fn loops_within_loops() {
    let net = |depth| format!(r#"<net name="net" version="11">{}</net>"#, around_loops(depth));
    load(&ir(), &net(3)).unwrap();
    // Each of them is translated again when its body has changed a size.
    fails(&net(16), "nested bodies would have to be translated more than");
    fails(&net(17), "bodies are nested more than 16 deep");
}

#[test]
fn the_type_of_a_loop_in_any_case() {
    let net = format!(r#"<net name="net" version="11">{}</net>"#, around_loops(1));
    for name in ["LOOP", "loop"] {
        let xml = net.replace(r#"type="Loop""#, &format!(r#"type="{name}""#));
        let model = load(&ir(), &xml).unwrap();
        assert!(model.nodes().iter().any(|node| node.op().name() == "OpenVinoLoop"), "{name}");
    }
}

/// States whose sizes grow, each because the one before does. The body is not translated for each of them.
#[test]
fn states_that_change_one_after_the_other() {
    let translations = |count: usize| {
        let mut layers = vec![limits::parameter(count, "1")];
        let (mut edges, mut entries, mut back) = (vec![], String::new(), String::new());
        for id in 0..count {
            let [joined, end] = [1 + id, 1 + count + id].map(|number| count + number);
            layers.push(limits::parameter(id, "1"));
            layers.push(limits::layer(joined, "joined", "Concat", r#"axis="0""#, 2));
            layers.push(limits::layer(end, "end", "Result", "", 1));
            let before = if id == 0 { count } else { id - 1 };
            edges.extend([(before, joined, 0), (id, joined, 1), (joined, end, 0)]);
            entries += &format!(r#"<input external_port_id="{id}" internal_layer_id="{id}"/>"#);
            back += &format!(r#"<edge from-layer="{end}" to-layer="{id}"/>"#);
        }
        let counted = 3 * count + 2;
        layers.push(limits::layer(counted, "counted", "Counted", "", 1));
        layers.push(limits::layer(counted + 1, "end", "Result", "", 1));
        edges.extend([(count, counted, 0), (counted, counted + 1, 0)]);
        let body = limits::net(&layers, &edges);
        let body = body.split_once("<layers>").unwrap().1.strip_suffix("</net>").unwrap();
        let inner = format!(
            r#"<port_map>{entries}<input external_port_id="{count}" internal_layer_id="{count}" axis="0"/>
            <output external_port_id="99" internal_layer_id="{}" axis="0"/></port_map>
            <back_edges>{back}</back_edges><body><layers>{body}</body></layer>"#,
            counted + 1
        );
        let mut layers: Vec<String> = (0..=count).map(|id| limits::parameter(id, "1")).collect();
        let iterator = limits::layer(count + 1, "loop", "TensorIterator", "", count + 1);
        layers.push(iterator.replace("</layer>", &inner));
        layers.push(limits::layer(count + 2, "result", "Result", "", 1));
        let mut edges: Vec<_> = (0..=count).map(|id| (id, count + 1, id)).collect();
        edges.push((count + 1, count + 2, 0));
        let translations = Arc::new(AtomicUsize::new(0));
        let counter = translations.clone();
        let mut reader = ir();
        reader.registry_mut().add_extension("Counted", "opset1", move |layer| {
            counter.fetch_add(1, Ordering::Relaxed);
            layer.all_inputs()
        });
        load(&reader, &limits::net(&layers, &edges)).unwrap();
        translations.load(Ordering::Relaxed)
    };
    let (few, many) = (translations(12), translations(48));
    assert!(few == many && few <= MAX_LESSONS_OF_LOOP + 1, "{few} times, then {many}");
}
