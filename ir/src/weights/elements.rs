//! Elements of types that tract does not have, as wider ones.

use tract_core::internal::*;

use super::widened;
use crate::document::ElementType;

/// A tensor of elements of a type that tract does not have. There are as many bytes as they take.
pub(super) fn widen(
    element_type: ElementType,
    bytes: &[u8],
    shape: &[usize],
) -> TractResult<Tensor> {
    use ElementType::*;
    let mut tensor = Tensor::zero_dt(widened(element_type), shape)?;
    let mut plain = tensor.try_as_plain_ram_mut()?;
    match widened(element_type) {
        DatumType::U8 => {
            let values: &mut [u8] = plain.as_slice_mut()?;
            match element_type {
                // The first element is the highest bit.
                U1 => fill(values, |index| (bytes[index / 8] >> (7 - index % 8)) & 1),
                U2 => fill(values, |index| (bytes[index / 4] >> (2 * (index % 4))) & 3),
                U3 => fill(values, |index| split(bytes, index, 8, 2)),
                U6 => fill(values, |index| split(bytes, index, 4, 4)),
                _ => fill(values, |index| nibble(bytes, index)),
            }
        }
        // Two's complement of 4 bits.
        DatumType::I8 => {
            fill(plain.as_slice_mut()?, |index| ((nibble(bytes, index) << 4) as i8) >> 4);
        }
        _ => {
            let values: &mut [f32] = plain.as_slice_mut()?;
            match element_type {
                BF16 => fill(values, |index| {
                    let bits = u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]);
                    f32::from_bits(u32::from(bits) << 16)
                }),
                NF4 => fill(values, |index| NORMAL_FLOATS[usize::from(nibble(bytes, index))]),
                F4E2M1 => fill(values, |index| small_float(nibble(bytes, index) << 4, 2, 1, 4)),
                F8E4M3 => fill(values, |index| match bytes[index] & 0x7f {
                    0x7f => f32::NAN,
                    _ => small_float(bytes[index], 4, 3, 0),
                }),
                F8E5M2 => {
                    fill(values, |index| f16::from_bits(u16::from(bytes[index]) << 8).to_f32());
                }
                _ => fill(values, |index| match bytes[index] {
                    0xff => f32::NAN,
                    0 => f32::from_bits(1 << 22),
                    exponent => f32::from_bits(u32::from(exponent) << 23),
                }),
            }
        }
    }
    Ok(tensor)
}

fn fill<T>(to: &mut [T], value: impl Fn(usize) -> T) {
    for (index, slot) in to.iter_mut().enumerate() {
        *slot = value(index);
    }
}

/// Elements of 4 bits: the first is in the low half of the first byte.
fn nibble(bytes: &[u8], index: usize) -> u8 {
    (bytes[index / 2] >> (4 * (index % 2))) & 0xf
}

/// Elements of 3 or 6 bits, as OpenVINO 2026 has them: in groups of 3 bytes, first the low bits of all elements
/// of the group, then the high bits, each from the highest bit of a byte on.
fn split(bytes: &[u8], index: usize, group: usize, low_bits: usize) -> u8 {
    let three = &bytes[index / group * 3..][..3];
    let bits = |first: usize, count: usize| {
        let byte = three[first / 8];
        (byte >> (8 - first % 8 - count)) & ((1 << count) - 1)
    };
    let (index, high_bits) = (index % group, 24 / group - low_bits);
    bits(16 + index * high_bits, high_bits) << low_bits | bits(index * low_bits, low_bits)
}

/// A float without infinities: a sign, an exponent and a mantissa, in the high bits of a byte. The low
/// `unused` bits are not part of it.
fn small_float(byte: u8, exponent_bits: u32, mantissa_bits: u32, unused: u32) -> f32 {
    let magnitude = u32::from((byte & 0x7f) >> unused);
    let mantissa = (magnitude & ((1 << mantissa_bits) - 1)) as f32;
    let exponent = (magnitude >> mantissa_bits) as i32;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let one = (1 << mantissa_bits) as f32;
    let value = match exponent {
        0 => mantissa / one * 2f32.powi(1 - bias),
        _ => (1. + mantissa / one) * 2f32.powi(exponent - bias),
    };
    if byte & 0x80 == 0 { value } else { -value }
}

/// The values of nf4: quantiles of the normal distribution ("QLoRA", appendix E).
const NORMAL_FLOATS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

#[cfg(test)]
mod tests {
    use tract_core::internal::*;

    use crate::document::ElementType::*;
    use crate::weights::tests::load;

    #[test]
    fn what_tract_does_not_have_is_widened() {
        for (element_type, bytes, expected) in [
            (U1, vec![0b1010_0000, 0b1000_0000], tensor1(&[1u8, 0, 1, 0, 0, 0, 0, 0, 1])),
            (U2, vec![0x39, 0x02], tensor1(&[1u8, 2, 3, 0, 2])),
            (U3, vec![0x6c, 0x6c, 0x1e, 0x60, 0, 0], tensor1(&[1u8, 2, 3, 4, 5, 6, 7, 0, 1, 2])),
            (U6, vec![0x12, 0xff, 0x07], tensor1(&[1u8, 2, 31, 63])),
            (U4, vec![0x21, 0x0f], tensor1(&[1u8, 2, 15])),
            (I4, vec![0x8f, 0x07], tensor1(&[-1i8, -8, 7])),
            (BF16, vec![0x80, 0x3f, 0x00, 0xc0], tensor1(&[1f32, -2.])),
            (NF4, vec![0x70, 0x0f], tensor1(&[-1f32, 0., 1.])),
            (F4E2M1, vec![0x21, 0x7e], tensor1(&[0.5f32, 1., -4., 6.])),
            (F8E4M3, vec![0x38, 0x01, 0x7e, 0xb8], tensor1(&[1f32, 0.001953125, 448., -1.])),
            (F8E5M2, vec![0x3c, 0x7c, 0xc0], tensor1(&[1f32, f32::INFINITY, -2.])),
            (F8E8M0, vec![127, 128, 0], tensor1(&[1f32, 2., 2f32.powi(-127)])),
        ] {
            let tensor = load(element_type, expected.shape(), &bytes).unwrap();
            assert_eq!(tensor, expected, "{element_type}");
        }
        let nan = load(F8E4M3, &[1], &[0x7f]).unwrap();
        assert!(nan.cast_to_scalar::<f32>().unwrap().is_nan());
    }
}
