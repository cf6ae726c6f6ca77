//! Changes of the XML by its structure: attributes, ports, edges, layers and bodies.

use arbitrary::{Result, Unstructured};
use xmltree::{Element, XMLNode};

use super::Seed;
use crate::rarely;

/// Where an element is: among the children of the root, among its children, and so on.
type Path = Vec<usize>;

/// What attributes that are neither numbers nor element types may say.
const WORDS: [&str; 45] = [
    "",
    "true",
    "false",
    "nan",
    "inf",
    "-inf",
    "1e40",
    "0.5",
    "?",
    "...",
    "2..7",
    "numpy",
    "none",
    "pdpd",
    "bidirectional",
    "explicit",
    "same_upper",
    "same_lower",
    "valid",
    "notset",
    "ceil",
    "ceil_torch",
    "floor",
    "constant",
    "edge",
    "reflect",
    "symmetric",
    "nearest",
    "linear",
    "linear_onnx",
    "cubic",
    "asymmetric",
    "align_corners",
    "relu",
    "tanh",
    "sigmoid,tanh",
    "forward",
    "reverse",
    "max",
    "min",
    "sum",
    "mean",
    "avg",
    "value",
    "index",
];

const ELEMENT_TYPES: [&str; 24] = [
    "f32", "f16", "f64", "bf16", "f8e4m3", "i64", "i32", "i16", "i8", "i4", "u64", "u32", "u16",
    "u8", "u4", "u2", "u1", "nf4", "boolean", "string", "dynamic", "FP32", "I64", "BOOL",
];

/// A number: mostly a small one.
pub fn number(u: &mut Unstructured) -> Result<i64> {
    Ok(match u.int_in_range(0..=15u8)? {
        15 => u.arbitrary()?,
        14 => *u.choose(&[i64::MIN, i64::MAX, 1 << 31, 1 << 32, -(1 << 31), 1 << 62, 1 << 20])?,
        small => i64::from(small) - 4,
    })
}

fn numbers(u: &mut Unstructured) -> Result<String> {
    let mut numbers = vec![];
    for _ in 0..u.int_in_range(0..=5u8)? {
        numbers.push(number(u)?.to_string());
    }
    Ok(numbers.join(","))
}

fn children(element: &Element) -> impl Iterator<Item = (usize, &Element)> {
    element.children.iter().enumerate().filter_map(|(at, node)| Some((at, node.as_element()?)))
}

fn collect<'a>(
    element: &'a Element,
    which: &dyn Fn(&Element) -> bool,
    path: &mut Path,
    found: &mut Vec<(Path, &'a Element)>,
) {
    if which(element) {
        found.push((path.clone(), element));
    }
    for (at, child) in children(element) {
        path.push(at);
        collect(child, which, path, found);
        path.pop();
    }
}

fn paths<'a>(root: &'a Element, which: &dyn Fn(&Element) -> bool) -> Vec<(Path, &'a Element)> {
    let mut found = vec![];
    collect(root, which, &mut vec![], &mut found);
    found
}

/// The elements of a kind, at any depth.
pub fn elements<'a>(root: &'a Element, which: &dyn Fn(&Element) -> bool) -> Vec<&'a Element> {
    paths(root, which).into_iter().map(|(_, element)| element).collect()
}

fn at<'a>(root: &'a mut Element, path: &[usize]) -> &'a mut Element {
    path.iter().fold(root, |element, at| {
        element.children[*at].as_mut_element().expect("the path leads through elements")
    })
}

/// One element of a kind, to be changed.
fn one<'a>(
    u: &mut Unstructured,
    root: &'a mut Element,
    which: &dyn Fn(&Element) -> bool,
) -> Result<Option<&'a mut Element>> {
    let found = paths(root, which);
    if found.is_empty() {
        return Ok(None);
    }
    let (path, _) = found[u.choose_index(found.len())?].clone();
    Ok(Some(at(root, &path)))
}

pub fn is_layer(element: &Element) -> bool {
    element.name == "layer"
}

/// A layer of any of the models.
fn foreign_layer(u: &mut Unstructured, seeds: &[Seed]) -> Result<Element> {
    let net = &seeds[u.choose_index(seeds.len())?].net;
    let layers = elements(net, &is_layer);
    Ok(layers[u.choose_index(layers.len())?].clone())
}

/// What an attribute may say, by its name.
fn value(u: &mut Unstructured, name: &str, old: &str) -> Result<String> {
    Ok(match name {
        _ if rarely(u, 16)? => (*u.choose(&WORDS)?).into(),
        "version" => format!("opset{}", u.int_in_range(0..=17u8)?),
        "shape" | "dim" => numbers(u)?,
        _ if name.ends_with("type") && name != "type" || name == "precision" => {
            (*u.choose(&ELEMENT_TYPES)?).into()
        }
        _ if old.contains(',') => {
            // One of the numbers, or another list.
            let mut list: Vec<String> = old.split(',').map(str::to_string).collect();
            match u.int_in_range(0..=3u8)? {
                0 => return numbers(u),
                1 => drop(list.pop()),
                2 => list.push(number(u)?.to_string()),
                _ => {
                    let at = u.choose_index(list.len())?;
                    list[at] = number(u)?.to_string();
                }
            }
            list.join(",")
        }
        _ if old.parse::<f64>().is_ok() && !rarely(u, 8)? => number(u)?.to_string(),
        _ => match u.int_in_range(0..=3u8)? {
            0 => numbers(u)?,
            1 => number(u)?.to_string(),
            _ => (*u.choose(&WORDS)?).into(),
        },
    })
}

fn change_attribute(u: &mut Unstructured, element: &mut Element) -> Result<()> {
    if element.attributes.is_empty() {
        return Ok(());
    }
    let number = u.choose_index(element.attributes.len())?;
    let (name, old) = element.attributes.get_index(number).expect("it was counted");
    let (name, old) = (name.clone(), old.clone());
    if rarely(u, 12)? {
        element.attributes.shift_remove(&name);
    } else {
        let value = value(u, &name, &old)?;
        element.attributes.insert(name, value);
    }
    Ok(())
}

/// Gives an attribute the value that it has elsewhere: an edge leads to another layer, a layer gets the id of
/// another, a constant is read from the place of another.
fn exchange(u: &mut Unstructured, net: &mut Element) -> Result<()> {
    let Some(element) = one(u, net, &|element| !element.attributes.is_empty())? else {
        return Ok(());
    };
    let number = u.choose_index(element.attributes.len())?;
    let name = element.attributes.get_index(number).expect("it was counted").0.clone();
    let same = |element: &Element| element.attributes.contains_key(&name);
    let others = elements(net, &same);
    let value = others[u.choose_index(others.len())?].attributes[&name].clone();
    if let Some(element) = one(u, net, &same)? {
        element.attributes.insert(name, value);
    }
    Ok(())
}

/// Removes an element, has it twice, or puts it in the place of another.
fn move_element(u: &mut Unstructured, net: &mut Element) -> Result<()> {
    let names = ["layer", "edge", "port", "dim", "data", "input", "output", "body", "layers"];
    let name = *u.choose(&names)?;
    let found = paths(net, &|element| element.name == name);
    if found.is_empty() {
        return Ok(());
    }
    let (path, element) = found[u.choose_index(found.len())?].clone();
    let element = element.clone();
    let Some((last, parent)) = path.split_last() else { return Ok(()) };
    let others: Vec<Path> = found.into_iter().map(|(path, _)| path).collect();
    match u.int_in_range(0..=3u8)? {
        0 => drop(at(net, parent).children.remove(*last)),
        1 => at(net, parent).children.insert(*last, XMLNode::Element(element)),
        _ => *at(net, &others[u.choose_index(others.len())?]) = element,
    }
    Ok(())
}

/// A layer becomes another operation, with the attributes that this has elsewhere.
fn change_operation(u: &mut Unstructured, net: &mut Element, seeds: &[Seed]) -> Result<()> {
    let foreign = foreign_layer(u, seeds)?;
    let with_bodies = u.arbitrary()?;
    let Some(layer) = one(u, net, &is_layer)? else { return Ok(()) };
    for name in ["type", "version"] {
        let value = foreign.attributes.get(name).cloned().unwrap_or_default();
        layer.attributes.insert(name.into(), value);
    }
    let ports = |node: &XMLNode| {
        node.as_element().is_some_and(|it| ["input", "output"].contains(&&*it.name))
    };
    if with_bodies {
        // Its ports, too: only the edges stay.
        layer.children = foreign.children;
    } else {
        layer.children.retain(ports);
        layer.children.extend(foreign.children.into_iter().filter(|node| !ports(node)));
    }
    Ok(())
}

/// A layer more, after or in front of those that are there: an edge may find it.
fn add_layer(u: &mut Unstructured, net: &mut Element, seeds: &[Seed]) -> Result<()> {
    let mut layer = foreign_layer(u, seeds)?;
    layer.attributes.insert("id".into(), u.int_in_range(0..=40u8)?.to_string());
    if let Some(layers) = one(u, net, &|element| element.name == "layers")? {
        layers.children.push(XMLNode::Element(layer));
    }
    Ok(())
}

fn add_edge(u: &mut Unstructured, net: &mut Element) -> Result<()> {
    let mut edge = Element::new("edge");
    for name in ["from-layer", "from-port", "to-layer", "to-port"] {
        edge.attributes.insert(name.into(), u.int_in_range(0..=20u8)?.to_string());
    }
    if let Some(edges) = one(u, net, &|element| element.name.ends_with("edges"))? {
        edges.children.push(XMLNode::Element(edge));
    }
    Ok(())
}

/// A body is put in the place of another, which may be within it, and the network in the place of a body.
fn move_body(u: &mut Unstructured, net: &mut Element) -> Result<()> {
    let is_body = |element: &Element| element.name.ends_with("body") || element.name == "net";
    let bodies = elements(net, &is_body);
    let children = bodies[u.choose_index(bodies.len())?].children.clone();
    if let Some(body) = one(u, net, &is_body)? {
        body.children = children;
    }
    Ok(())
}

/// Changes one thing of a network.
pub fn change(u: &mut Unstructured, net: &mut Element, seeds: &[Seed]) -> Result<()> {
    match u.int_in_range(0..=19u8)? {
        0..=6 => {
            let which = |element: &Element| element.name == "data";
            if let Some(data) = one(u, net, &which)? {
                change_attribute(u, data)?;
            }
        }
        7 => {
            if let Some(element) = one(u, net, &|element| !element.attributes.is_empty())? {
                change_attribute(u, element)?;
            }
        }
        8..=10 => exchange(u, net)?,
        11 => move_element(u, net)?,
        12..=14 => change_operation(u, net, seeds)?,
        15 => add_layer(u, net, seeds)?,
        16 => add_edge(u, net)?,
        17 => move_body(u, net)?,
        _ => {
            if let Some(dim) = one(u, net, &|element| element.name == "dim")? {
                dim.children = vec![XMLNode::Text(number(u)?.to_string())];
            }
        }
    }
    Ok(())
}
