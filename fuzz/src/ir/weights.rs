//! Changes of the weights: numbers that a constant has, and how long the file is.

use arbitrary::{Result, Unstructured};
use xmltree::Element;

use super::change::{elements, number};
use crate::rarely;

/// Writes a number into a constant, in its element type, or cuts the weights or makes them longer.
pub fn change(u: &mut Unstructured, net: &Element, weights: &mut Vec<u8>) -> Result<()> {
    if rarely(u, 16)? {
        let length = u.int_in_range(0..=weights.len() * 2)?;
        weights.resize(length, u.arbitrary()?);
        return Ok(());
    }
    let data = elements(net, &|element| element.attributes.contains_key("offset"));
    if data.is_empty() {
        return Ok(());
    }
    let data = &data[u.choose_index(data.len())?].attributes;
    let position = |name: &str| data.get(name)?.parse::<usize>().ok();
    let bytes = element(u, data.get("element_type").map_or("", |it| it))?;
    let count = position("size").unwrap_or(0) / bytes.len();
    let Some(offset) = position("offset").filter(|_| count > 0) else { return Ok(()) };
    let at = offset.saturating_add(u.choose_index(count)?.saturating_mul(bytes.len()));
    if let Some(place) = weights.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())) {
        place.copy_from_slice(&bytes);
    }
    Ok(())
}

/// A number as the bytes of an element.
fn element(u: &mut Unstructured, element_type: &str) -> Result<Vec<u8>> {
    const FLOATS: [f64; 10] =
        [0., 1., -1., 0.5, 100., -100., f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-30];
    Ok(match element_type {
        "f64" => u.choose(&FLOATS)?.to_le_bytes().into(),
        "f32" => (*u.choose(&FLOATS)? as f32).to_le_bytes().into(),
        "f16" | "bf16" => u.arbitrary::<[u8; 2]>()?.into(),
        "i64" | "u64" => number(u)?.to_le_bytes().into(),
        "i32" | "u32" => (number(u)? as i32).to_le_bytes().into(),
        "i16" | "u16" => (number(u)? as i16).to_le_bytes().into(),
        _ => vec![number(u)? as u8],
    })
}
