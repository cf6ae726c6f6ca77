//! Tensors of strings: as one array of bytes, compared, hashed, joined and split.

use tract_openvino_ir::internal::*;

use super::OPSET;
use crate::layer::{
    constant_bytes, expect_one_of, expect_strings, expect_type, new_dim, string_facts, wire,
};
use crate::strings::{NewStrings, Strings, integer, offset, slice, vector};

pub(super) fn register(registry: &mut Registry) {
    registry.add_extension("StringTensorUnpack", OPSET, string_tensor_unpack);
    registry.add_extension("StringTensorPack", OPSET, string_tensor_pack);
    registry.add_extension("EqualStr", OPSET, equal_str);
    registry.add_extension("StringToHashBucket", OPSET, string_to_hash_bucket);
    registry.add_extension("NumericToString", OPSET, numeric_to_string);
    registry.add_extension("ContribStringJoin", OPSET, string_join);
    registry.add_extension("ContribStringSplit", OPSET, string_split);
}

/// **StringTensorUnpack**: begins, ends and bytes of strings. They are a tensor of strings, or of bytes that has their number, where each
/// begins and the last ends (in 32 bits), and then the bytes.
fn string_tensor_unpack(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[1])?;
    let mode: String = layer.attribute_or("mode", "begins_ends".to_string())?;
    ensure!(mode == "begins_ends", "attribute mode is {mode:?}, but must be begins_ends");
    match layer.datum_type(0)? {
        DatumType::String => {
            let facts = string_facts(layer, layer.shape(0)?)?;
            wire(layer, "StringTensorUnpack", [0], facts, |inputs| {
                let strings = slice::<String>(&inputs[0], "strings")?;
                let mut new =
                    NewStrings::with_capacity(strings.len(), strings.iter().map(String::len).sum());
                strings.iter().try_for_each(|string| new.push(string.as_bytes()))?;
                new.into_tensors(inputs[0].shape())
            })
        }
        DatumType::U8 => {
            let shape = tvec!(new_dim(layer, "strings")?);
            let facts = string_facts(layer, shape)?;
            wire(layer, "StringTensorUnpack", [0], facts, |inputs| unpacked(&inputs[0]))
        }
        dt => bail!("input 0 is of type {dt:?}, but must be String, or U8 with packed strings"),
    }
}

fn unpacked(tensor: &Tensor) -> TractResult<TVec<Tensor>> {
    let bytes = slice::<u8>(tensor, "packed strings")?;
    let number = |place: usize| {
        let number = bytes.get(4 * place..).and_then(|rest| rest.first_chunk::<4>());
        number.map(|number| i32::from_le_bytes(*number))
    };
    let count = number(0).context("packed strings are cut short before their number")?;
    // Where each begins, and where the last one ends.
    let offsets = usize::try_from(count).ok().filter(|count| *count < bytes.len() / 4);
    let count = offsets.with_context(|| {
        format!("the number of packed strings is {count}, but there are {} bytes", bytes.len())
    })?;
    let offsets = (1..count + 2).map(number).collect::<Option<Vec<i32>>>();
    let offsets = offsets.context("the offsets of packed strings are cut short")?;
    let content = vector(bytes[4 * (count + 2)..].to_vec());
    let (begins, ends) = (vector(offsets[..count].to_vec()), vector(offsets[1..].to_vec()));
    Strings::new(&[&begins, &ends, &content])?;
    Ok(tvec!(begins, ends, content))
}

/// **StringTensorPack**: a tensor of strings.
fn string_tensor_pack(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[3])?;
    let facts = tvec!((DatumType::String, expect_strings(layer, 0)?));
    wire(layer, "StringTensorPack", 0..3, facts, |inputs| {
        let strings = Strings::of(inputs)?.iter().enumerate().map(|(number, string)| {
            let text = std::str::from_utf8(string);
            Ok(text.with_context(|| format!("string {number} is not UTF-8"))?.to_string())
        });
        let strings = strings.collect::<TractResult<Vec<String>>>()?;
        Ok(tvec!(vector(strings).into_shape(inputs[0].shape())?))
    })
}

/// **EqualStr**: 1 for each pair of equal strings, and else 0. What is shorter goes on with its first string.
fn equal_str(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[6])?;
    let (first, second) = (expect_strings(layer, 0)?, expect_strings(layer, 3)?);
    let len = if first == second && first.len() == 1 {
        first[0].clone()
    } else {
        new_dim(layer, "strings")?
    };
    wire(layer, "EqualStr", 0..6, tvec!((DatumType::I32, tvec!(len))), |inputs| {
        let (first, second) = (Strings::of(inputs)?, Strings::of(&inputs[3..])?);
        let len = match first.len().min(second.len()) {
            0 => 0,
            _ => first.len().max(second.len()),
        };
        let place = |len: usize, number: usize| if number < len { number } else { 0 };
        let equal = (0..len).map(|number| {
            let [a, b] = [first, second].map(|it| it.get(place(it.len(), number)));
            i32::from(a == b)
        });
        Ok(tvec!(vector(equal.collect::<Vec<i32>>())))
    })
}

/// **StringToHashBucket**: FarmHash of each string, modulo `num_buckets`.
fn string_to_hash_bucket(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[3])?;
    let shape = expect_strings(layer, 0)?;
    let buckets: i64 = layer.attribute("num_buckets")?;
    let buckets = u64::try_from(buckets).ok().filter(|buckets| *buckets > 0);
    let buckets = buckets.context("attribute num_buckets must be 1 or more")?;
    wire(layer, "StringToHashBucket", 0..3, tvec!((DatumType::I64, shape)), move |inputs| {
        let hashes = Strings::of(inputs)?.iter().map(|string| (farm_hash(string) % buckets) as i64);
        Ok(tvec!(vector(hashes.collect::<Vec<i64>>()).into_shape(inputs[0].shape())?))
    })
}

/// `Fingerprint64` of FarmHash.
fn farm_hash(bytes: &[u8]) -> u64 {
    const K0: u64 = 0xc3a5_c85c_97cb_3127u64;
    const K1: u64 = 0xb492_b66f_be98_f273u64;
    const K2: u64 = 0x9ae1_6a3b_2f90_404fu64;
    let len = bytes.len();
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("it is within"));
    let half = |at: usize| {
        u64::from(u32::from_le_bytes(*bytes[at..].first_chunk().expect("it is within")))
    };
    let shift_mix = |value: u64| value ^ value >> 47;
    let times = |a: u64, b: u64| a.wrapping_mul(b);
    let plus = |a: u64, b: u64| a.wrapping_add(b);
    let hash16 = |u: u64, v: u64, mul: u64| {
        let a = shift_mix(times(u ^ v, mul));
        times(shift_mix(times(v ^ a, mul)), mul)
    };
    let mul = plus(K2, times(len as u64, 2));
    match len {
        0 => K2,
        1..=3 => {
            let y = u64::from(bytes[0]) + (u64::from(bytes[len / 2]) << 8);
            let z = len as u64 + (u64::from(bytes[len - 1]) << 2);
            times(shift_mix(times(y, K2) ^ times(z, K0)), K2)
        }
        4..=7 => hash16(len as u64 + (half(0) << 3), half(len - 4), mul),
        8..=16 => {
            let (a, b) = (plus(word(0), K2), word(len - 8));
            let c = plus(times(b.rotate_right(37), mul), a);
            let d = times(plus(a.rotate_right(25), b), mul);
            hash16(c, d, mul)
        }
        17..=32 => {
            let (a, b) = (times(word(0), K1), word(8));
            let (c, d) = (times(word(len - 8), mul), times(word(len - 16), K2));
            let u = plus(plus(plus(a, b).rotate_right(43), c.rotate_right(30)), d);
            hash16(u, plus(plus(a, plus(b, K2).rotate_right(18)), c), mul)
        }
        33..=64 => {
            let (a, b) = (times(word(0), K2), word(8));
            let (c, d) = (times(word(len - 8), mul), times(word(len - 16), K2));
            let y = plus(plus(plus(a, b).rotate_right(43), c.rotate_right(30)), d);
            let z = hash16(y, plus(plus(a, plus(b, K2).rotate_right(18)), c), mul);
            let (e, f) = (times(word(16), mul), word(24));
            let g = times(plus(y, word(len - 32)), mul);
            let h = times(plus(z, word(len - 24)), mul);
            let u = plus(plus(plus(e, f).rotate_right(43), g.rotate_right(30)), h);
            hash16(u, plus(plus(e, plus(f, a).rotate_right(18)), g), mul)
        }
        _ => {
            let weak = |at: usize, a: u64, b: u64| {
                let (w, x, y, z) = (word(at), word(at + 8), word(at + 16), word(at + 24));
                let a = plus(a, w);
                let b = plus(plus(b, a), z).rotate_right(21);
                let sum = plus(plus(a, x), y);
                (plus(sum, z), plus(plus(b, sum.rotate_right(44)), a))
            };
            let seed = 81u64;
            let mut y = plus(times(seed, K1), 113);
            let mut z = times(shift_mix(plus(times(y, K2), 113)), K2);
            let mut x = plus(times(seed, K2), word(0));
            let (mut v, mut w) = ((0u64, 0u64), (0u64, 0u64));
            let blocks = (len - 1) / 64;
            for at in (0..blocks).map(|block| block * 64) {
                x = times(plus(plus(plus(x, y), v.0), word(at + 8)).rotate_right(37), K1);
                y = times(plus(plus(y, v.1), word(at + 48)).rotate_right(42), K1);
                x ^= w.1;
                y = plus(plus(y, v.0), word(at + 40));
                z = times(plus(z, w.0).rotate_right(33), K1);
                v = weak(at, times(v.1, K1), plus(x, w.0));
                w = weak(at + 32, plus(z, w.1), plus(y, word(at + 16)));
                std::mem::swap(&mut z, &mut x);
            }
            let mul = plus(K1, (z & 0xff) << 1);
            let at = len - 64;
            w.0 = plus(w.0, (len as u64 - 1) & 63);
            v.0 = plus(v.0, w.0);
            w.0 = plus(w.0, v.0);
            x = times(plus(plus(plus(x, y), v.0), word(at + 8)).rotate_right(37), mul);
            y = times(plus(plus(y, v.1), word(at + 48)).rotate_right(42), mul);
            x ^= times(w.1, 9);
            y = plus(plus(y, times(v.0, 9)), word(at + 40));
            z = times(plus(z, w.0).rotate_right(33), mul);
            v = weak(at, times(v.1, mul), plus(x, w.0));
            w = weak(at + 32, plus(z, w.1), plus(y, word(at + 16)));
            std::mem::swap(&mut z, &mut x);
            let u = plus(plus(hash16(v.0, w.0, mul), times(shift_mix(y), K0)), z);
            hash16(u, plus(hash16(v.1, w.1, mul), x), mul)
        }
    }
}

/// **NumericToString**: numbers as texts, with six digits of a float.
fn numeric_to_string(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[1])?;
    let dt = layer.datum_type(0)?;
    ensure!(
        dt.is_integer()
            || dt.is_tdim()
            || [DatumType::Bool, DatumType::F32, DatumType::F64].contains(&dt),
        "input 0 is of type {dt:?}, but must be of integers, booleans, F32 or F64"
    );
    let facts = tvec!((DatumType::String, layer.shape(0)?));
    wire(layer, "NumericToString", [0], facts, |inputs| {
        let numbers = &inputs[0];
        let texts: Vec<String> = match numbers.datum_type() {
            DatumType::Bool => {
                slice::<bool>(numbers, "numbers")?.iter().map(bool::to_string).collect()
            }
            DatumType::U64 => {
                slice::<u64>(numbers, "numbers")?.iter().map(u64::to_string).collect()
            }
            DatumType::F32 => {
                slice::<f32>(numbers, "numbers")?.iter().map(|it| general(f64::from(*it))).collect()
            }
            DatumType::F64 => {
                slice::<f64>(numbers, "numbers")?.iter().map(|it| general(*it)).collect()
            }
            _ => {
                let numbers = numbers.cast_to::<i64>()?;
                slice::<i64>(&numbers, "numbers")?.iter().map(i64::to_string).collect()
            }
        };
        Ok(tvec!(vector(texts).into_shape(inputs[0].shape())?))
    })
}

/// A number with six digits, as `%g` writes it.
fn general(number: f64) -> String {
    if !number.is_finite() {
        let name = if number.is_nan() { "nan" } else { "inf" };
        return if number.is_sign_negative() { format!("-{name}") } else { name.into() };
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..6).contains(&exponent) {
        return short(&format!("{number:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(digits), exponent.abs())
}

/// **ContribStringJoin**: the strings along an axis as one, with a separator between them.
fn string_join(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[5])?;
    let mut shape = expect_strings(layer, 0)?;
    let separator = constant_bytes(layer, 3, "sep")?;
    let axis = layer.integer(4, "axis")?;
    let axis = if shape.is_empty() { None } else { Some(layer.axis("axis", axis, shape.len())?) };
    if let Some(axis) = axis {
        shape.remove(axis);
    }
    let facts = string_facts(layer, shape)?;
    wire(layer, "ContribStringJoin", 0..3, facts, move |inputs| {
        let strings = Strings::of(inputs)?;
        let mut shape: TVec<usize> = inputs[0].shape().into();
        let (count, stride) = match axis {
            Some(axis) => (shape[axis], shape[axis + 1..].iter().product::<usize>()),
            None => (1, 1),
        };
        if let Some(axis) = axis {
            shape.remove(axis);
        }
        let rows: usize = shape.iter().product();
        let mut new = NewStrings::with_capacity(rows, strings.bytes().len());
        for row in 0..rows {
            let begin = new.bytes.len();
            let first = row / stride * stride * count + row % stride;
            for number in 0..count {
                if number > 0 {
                    new.bytes.extend_from_slice(&separator);
                }
                new.bytes.extend_from_slice(strings.get(first + number * stride));
            }
            new.end(begin)?;
        }
        new.into_tensors(&shape)
    })
}

/// **ContribStringSplit**: strings split at a delimiter, as a sparse tensor with one more axis: the indices, the strings, and the shape.
fn string_split(layer: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    expect_one_of(layer, &[5])?;
    let shape = expect_strings(layer, 0)?;
    let delimiter = constant_bytes(layer, 3, "delimiter")?;
    let skips_empty = integer(&*layer.constant(4, "skip_empty")?, "skip_empty")? != 0;
    let rank = shape.len() + 1;
    let parts = new_dim(layer, "parts")?;
    let mut facts = tvec!((DatumType::I64, tvec!(parts.clone(), rank.to_dim())));
    facts.extend(string_facts(layer, tvec!(parts))?);
    facts.push((DatumType::I64, tvec!(rank.to_dim())));
    expect_type(layer, 2, DatumType::U8, "bytes of strings")?;
    wire(layer, "ContribStringSplit", 0..3, facts, move |inputs| {
        let strings = Strings::of(inputs)?;
        let shape = inputs[0].shape();
        let (mut indices, mut new, mut longest) = (vec![], NewStrings::with_capacity(0, 0), 0);
        for (number, string) in strings.iter().enumerate() {
            let parts = split(string, &delimiter);
            longest = longest.max(parts.len());
            for (place, part) in parts.into_iter().enumerate() {
                if skips_empty && part.is_empty() {
                    continue;
                }
                let mut rest = number;
                let mut place_of_string: TVec<i64> = tvec!();
                for size in shape.iter().rev() {
                    place_of_string.push((rest % size) as i64);
                    rest /= size;
                }
                indices.extend(place_of_string.into_iter().rev());
                indices.push(i64::from(offset(place)?));
                new.push(part)?;
            }
        }
        let count = indices.len() / rank;
        let mut outputs = tvec!(vector(indices).into_shape(&[count, rank])?);
        outputs.extend(new.into_tensors(&[count])?);
        let dense = shape.iter().map(|size| *size as i64).chain([longest as i64]);
        outputs.push(vector(dense.collect::<Vec<i64>>()));
        Ok(outputs)
    })
}

/// The parts between delimiters, or single bytes if there is none.
fn split<'a>(string: &'a [u8], delimiter: &[u8]) -> Vec<&'a [u8]> {
    if delimiter.is_empty() {
        return string.chunks(1).collect();
    }
    let (mut parts, mut from, mut at) = (vec![], 0, 0);
    while at + delimiter.len() <= string.len() {
        if string[at..].starts_with(delimiter) {
            parts.push(&string[from..at]);
            at += delimiter.len();
            from = at;
        } else {
            at += 1;
        }
    }
    parts.push(&string[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (number, expected) in [
            (0., "0"),
            (1., "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e6, "1e+06"),
            (123456.7, "123457"),
            (1e-5, "1e-05"),
            (1234567., "1.23457e+06"),
            (0.0001, "0.0001"),
            (999999.9, "1e+06"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(general(number), expected);
        }
    }

    #[test]
    fn parts() {
        assert_eq!(split(b"a, b,,c", b","), [&b"a"[..], b" b", b"", b"c"]);
        assert_eq!(split(b"", b","), [b""]);
        assert_eq!(split(b"ab", b""), [b"a", b"b"]);
        assert_eq!(split(b"aaa", b"aa"), [&b""[..], b"a"]);
    }

    #[test]
    fn packed() {
        let packed = |numbers: &[i32], text: &str| {
            let bytes: Vec<u8> =
                numbers.iter().flat_map(|it| it.to_le_bytes()).chain(text.bytes()).collect();
            unpacked(&tensor1(&bytes))
        };
        let tensors = packed(&[2, 0, 1, 3], "abc").unwrap();
        assert_eq!(tensors[1], tensor1(&[1, 3]));
        assert_eq!(tensors[2], tensor1(b"abc"));
        for (numbers, text) in [
            (&[][..], "ab"),
            (&[-1, 0], ""),
            (&[2, 0, 1], ""),
            (&[2, 0, 1, 4], "abc"),
            (&[1, 2, 1], "abc"),
        ] {
            packed(numbers, text).unwrap_err();
        }
        assert_eq!(packed(&[0, 0], "").unwrap()[0].len(), 0);
    }
}
