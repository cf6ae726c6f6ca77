//! From XML to a document.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Error, Result, bail, ensure, format_err};
use roxmltree::{Node, ParsingOptions};

use super::ids::Ids;
use super::{
    BackEdge, Body, BodyRole, Document, ElementType, Graph, Layer, Port, PortMap, Source, markup,
    order,
};
use crate::limits::MAX_BODY_DEPTH;
use crate::shortened::shortened;

impl Document {
    /// Reads the text of a `model.xml`.
    ///
    /// # Errors
    ///
    /// The text is not XML, it is not IR of version 10 or 11, or something that the [module](crate::document) lists does
    /// not hold.
    pub fn parse(text: &str) -> Result<Document> {
        Document::read(text).map_err(shortened)
    }

    fn read(text: &str) -> Result<Document> {
        markup::check(text)?;
        // A type definition would let a short text stand for a long one, and no IR file has one.
        let options = ParsingOptions { allow_dtd: false, ..ParsingOptions::default() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let xml = roxmltree::Document::parse_with_options(text, options).map_err(not_xml)?;
        let net = xml.root_element();
        let root = net.tag_name().name();
        ensure!(
            root.eq_ignore_ascii_case("net"),
            "this is not OpenVINO IR: its root element is <{root}>, but must be <net>"
        );
        let version = net.attribute("version").unwrap_or_default();
        let version: u32 = match version.trim().parse() {
            Ok(version @ (10 | 11)) => version,
            _ => bail!(
                "this is OpenVINO IR of version {version:?}, but only versions 10 and 11 can be read: \
                 export the model again with OpenVINO 2020.1 or later"
            ),
        };
        // This cannot be skipped: it changes what the inputs mean.
        if let Some(child) = child(net, "pre-process") {
            ensure!(
                !child.children().any(|it| it.is_element()),
                "<pre-process> (the subtraction of a mean from an input) is not supported: write the \
                 model without it, and subtract the mean before the model"
            );
        }
        Ok(Document {
            name: net.attribute("name").unwrap_or_default().into(),
            version,
            graph: graph(net, 0)?,
        })
    }
}

fn not_xml(error: roxmltree::Error) -> Error {
    match error {
        roxmltree::Error::DtdDetected => {
            format_err!("the file has a DOCTYPE, which is refused: files of IR have none")
        }
        error => format_err!("this is not XML: {error}"),
    }
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    children(node, name).next()
}

fn children<'a, 'input: 'a>(
    node: Node<'a, 'input>,
    name: &str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// An attribute that must be there.
fn required<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str> {
    node.attribute(name).with_context(|| {
        let tag = node.tag_name().name();
        format!("<{tag}> has no attribute {name}, which it must have{}", place(node))
    })
}

/// Where in the file an element stands.
fn place(node: Node) -> String {
    let position = node.document().text_pos_at(node.range().start);
    format!(" (line {})", position.row)
}

fn id(node: Node, name: &str) -> Result<u64> {
    let text = required(node, name)?;
    text.trim().parse().map_err(|_| {
        let tag = node.tag_name().name();
        format_err!(
            "<{tag} {name}={text:?}>: {name} must be a whole number, 0 or more{}",
            place(node)
        )
    })
}

/// A list of names, separated by commas. A comma within a name has a backslash in front.
fn names(text: &str) -> Vec<String> {
    let mut names = vec![];
    let mut name = String::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\\' if rest.peek() == Some(&',') => name.extend(rest.next()),
            ',' => names.push(std::mem::take(&mut name)),
            letter => name.push(letter),
        }
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}

fn attributes(node: Node) -> BTreeMap<String, String> {
    node.attributes().map(|it| (it.name().into(), it.value().into())).collect()
}

/// The ids of a layer's ports, in their order. All that follows goes by positions.
struct Ports {
    inputs: Ids,
    outputs: Ids,
}

fn graph(net: Node, depth: usize) -> Result<Graph> {
    ensure!(depth <= MAX_BODY_DEPTH, "bodies are nested more than {MAX_BODY_DEPTH} deep");
    let nodes = child(net, "layers").context("there is no <layers>")?;
    let mut layers = vec![];
    let mut ports = vec![];
    let mut by_id = HashMap::new();
    for node in children(nodes, "layer") {
        let (layer, its_ports) = layer(node, depth)?;
        if let Some(other) = layer.id.and_then(|id| by_id.insert(id, layers.len())) {
            let other: &Layer = &layers[other];
            bail!("{layer} has the id of {other}: ids must be unique")
        }
        layers.push(layer);
        ports.push(its_ports);
    }
    edges(net, &mut layers, &ports, &by_id)?;
    order::graph(layers)
}

/// Connects the inputs of the layers, by the `<edge>`s.
fn edges(
    net: Node,
    layers: &mut [Layer],
    ports: &[Ports],
    by_id: &HashMap<u64, usize>,
) -> Result<()> {
    let mut inputs: Vec<Vec<Option<Source>>> =
        ports.iter().map(|ports| vec![None; ports.inputs.len()]).collect();
    for node in child(net, "edges").into_iter().flat_map(|edges| children(edges, "edge")) {
        let layer = |name: &str| -> Result<usize> {
            let id = id(node, name)?;
            let known = by_id.get(&id).copied();
            known.with_context(|| {
                format!("an edge has {name}={id}, but there is no such layer{}", place(node))
            })
        };
        let position = |layer: usize, name: &str, ports: &Ids, kind: &str| -> Result<usize> {
            let id = id(node, name)?;
            ports.position(id).with_context(|| {
                format!(
                    "an edge has {name}={id}, but {} has {}{}",
                    layers[layer],
                    if ports.len() == 0 {
                        format!("no {kind} ports")
                    } else {
                        format!("the {kind} ports {ports}")
                    },
                    place(node)
                )
            })
        };
        let (from, to) = (layer("from-layer")?, layer("to-layer")?);
        ensure!(
            layers[from].operation != "Result",
            "an edge leads from {}, but a Result has no outputs{}",
            layers[from],
            place(node)
        );
        let output = position(from, "from-port", &ports[from].outputs, "output")?;
        let input = position(to, "to-port", &ports[to].inputs, "input")?;
        let connected = inputs[to][input].replace(Source { layer: from, output });
        if let Some(first) = connected {
            bail!(
                "input {input} of {} is connected twice: to {} and to {}",
                layers[to],
                layers[first.layer],
                layers[from]
            )
        }
    }
    for (layer, inputs) in layers.iter_mut().zip(inputs) {
        // Optional inputs at the end may be left open.
        let connected = inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for (number, source) in inputs.into_iter().take(connected).enumerate() {
            let source = source.with_context(|| {
                format!("input {number} of {layer} has no edge to it, but a later one has")
            })?;
            layer.inputs.push(source);
        }
        ensure!(
            layer.operation != "Result" || connected == 1,
            "{layer}: the number of connected inputs is {connected}, but must be 1"
        );
    }
    Ok(())
}

fn layer(node: Node, depth: usize) -> Result<(Layer, Ports)> {
    // Only what is compiled says in which order it runs.
    let is_compiled = child(node, "data").is_some_and(|data| data.has_attribute("execOrder"));
    ensure!(
        !is_compiled,
        "<layer> has the attribute execOrder: this is what OpenVINO compiled of a model, for a device: save the model before \
         it is compiled{}",
        place(node)
    );
    let mut layer = Layer {
        id: Some(id(node, "id")?),
        name: required(node, "name")?.into(),
        operation: canonical_type(required(node, "type")?).into(),
        opset: required(node, "version")?.into(),
        attributes: child(node, "data").map(attributes).unwrap_or_default(),
        inputs: vec![],
        outputs: vec![],
        output_names: node.attribute("output_names").map(names).unwrap_or_default(),
        bodies: vec![],
    };
    let result = read_ports(node, &mut layer).and_then(|ports| {
        layer.bodies = bodies(node, &ports, depth)?;
        Ok(ports)
    });
    match result {
        Ok(ports) => Ok((layer, ports)),
        Err(error) => Err(error.context(format!("in {layer}"))),
    }
}

/// Types that mean something to this file or to `order.rs`, and those that the format spells in more than one way. Their
/// case does not matter, as that of no type does.
const TYPES: [(&str, &str); 9] = [
    ("const", "Constant"),
    ("constant", "Constant"),
    ("parameter", "Parameter"),
    ("result", "Result"),
    ("assign", "Assign"),
    ("readvalue", "ReadValue"),
    ("relu", "Relu"),
    ("prelu", "PRelu"),
    ("softmax", "Softmax"),
];

/// The name of an operation in OpenVINO's operation sets.
fn canonical_type(text: &str) -> &str {
    let found = TYPES.iter().find(|(spelling, _)| spelling.eq_ignore_ascii_case(text));
    found.map_or(text, |(_, name)| name)
}

fn read_ports(node: Node, layer: &mut Layer) -> Result<Ports> {
    let (mut inputs, mut outputs) = (vec![], vec![]);
    for port in child(node, "input").into_iter().flat_map(|it| children(it, "port")) {
        inputs.push(id(port, "id")?);
    }
    for port in child(node, "output").into_iter().flat_map(|it| children(it, "port")) {
        let id = id(port, "id")?;
        outputs.push(id);
        let dims = children(port, "dim").map(|dim| {
            let text = dim.text().unwrap_or_default().trim();
            match text.parse::<isize>() {
                Ok(-1) => Ok(None),
                Ok(size) if size >= 0 => Ok(Some(size.unsigned_abs())),
                _ => bail!("output port {id}: <dim> is {text:?}, but must be -1 or a size"),
            }
        });
        let precision = port.attribute("precision").unwrap_or_default();
        layer.outputs.push(Port {
            id,
            element_type: ElementType::from_text(precision),
            names: port.attribute("names").map(names).unwrap_or_default(),
            dims: dims.collect::<Result<_>>()?,
            layout: layout(port),
        });
    }
    Ok(Ports {
        inputs: Ids::new(inputs, "input ports")?,
        outputs: Ids::new(outputs, "output ports")?,
    })
}

/// The layout that the runtime information of a port has.
fn layout(port: Node) -> Option<String> {
    let mut attributes = children(child(port, "rt_info")?, "attribute");
    let layout = attributes.find(|it| it.attribute("name") == Some("layout"))?;
    layout.attribute("layout").map(String::from)
}

fn bodies(node: Node, ports: &Ports, depth: usize) -> Result<Vec<Body>> {
    let mut bodies = vec![];
    for (role, body, port_map) in [
        (BodyRole::Iteration, "body", "port_map"),
        (BodyRole::Then, "then_body", "then_port_map"),
        (BodyRole::Else, "else_body", "else_port_map"),
    ] {
        let Some(body) = child(node, body) else { continue };
        let tag = body.tag_name().name();
        let read = || -> Result<Body> {
            // The port map goes by ids. The graph is sorted by now, but keeps the order of parameters and
            // results.
            let graph = graph(body, depth + 1)?;
            let ids = |positions: &[usize]| {
                Ids::new(positions.iter().filter_map(|layer| graph.layers[*layer].id), "layers")
            };
            let (parameters, results) = (ids(&graph.parameters)?, ids(&graph.results)?);
            let map = child(node, port_map);
            let entries = |kind: &str, ports: &Ids, internal: &Ids| {
                map.into_iter()
                    .flat_map(|map| children(map, kind))
                    .map(|entry| port_map_entry(entry, ports, internal))
                    .collect::<Result<Vec<_>>>()
            };
            let inputs = entries("input", &ports.inputs, &parameters)?;
            let outputs = entries("output", &ports.outputs, &results)?;
            let back_edges = child(node, "back_edges").filter(|_| role == BodyRole::Iteration);
            let back_edges = back_edges
                .into_iter()
                .flat_map(|edges| children(edges, "edge"))
                .map(|edge| {
                    Ok(BackEdge {
                        result: among(edge, "from-layer", &results, "a Result of the body")?,
                        parameter: among(edge, "to-layer", &parameters, "a Parameter of the body")?,
                    })
                })
                .collect::<Result<_>>()?;
            Ok(Body { role, graph, inputs, outputs, back_edges })
        };
        bodies.push(read().with_context(|| format!("in <{tag}>"))?);
    }
    Ok(bodies)
}

/// The position of the id that an attribute has among those that it may have.
fn among(node: Node, name: &str, ids: &Ids, what: &str) -> Result<usize> {
    let id = id(node, name)?;
    ids.position(id).with_context(|| {
        let tag = node.tag_name().name();
        format!("<{tag} {name}=\"{id}\"> must be {what}, of {ids}{}", place(node))
    })
}

fn port_map_entry(node: Node, ports: &Ids, internal: &Ids) -> Result<PortMap> {
    let external = match required(node, "external_port_id")?.trim() {
        "-1" => None,
        _ => Some(among(node, "external_port_id", ports, "a port of the layer")?),
    };
    let kind = node.tag_name().name();
    let what = if kind == "input" { "a Parameter of the body" } else { "a Result of the body" };
    Ok(PortMap {
        external,
        internal: among(node, "internal_layer_id", internal, what)?,
        attributes: attributes(node),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas() {
        assert_eq!(names("a,b"), ["a", "b"]);
        assert_eq!(names(r"a\,b,c\d"), ["a,b", r"c\d"]);
        assert_eq!(names(""), Vec::<String>::new());
    }
}
