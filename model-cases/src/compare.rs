//! Where two tensors differ.

use std::fmt;

use tract_onnx::prelude::*;

/// Where two tensors differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// In the element type.
    Type { expected: DatumType, got: DatumType },
    /// In the shape.
    Shape { expected: Vec<usize>, got: Vec<usize> },
    /// In an element, the first that differs. `is_close` says that all are floats that are as near to those
    /// that are expected as rounding may leave them ([`Tolerance::ROUNDING`]).
    Element { position: Vec<usize>, expected: String, got: String, is_close: bool },
}

impl Difference {
    /// Whether all elements are floats that are as near to those that are expected as rounding may leave
    /// them.
    pub fn is_close(&self) -> bool {
        matches!(self, Difference::Element { is_close: true, .. })
    }
}

impl std::error::Error for Difference {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Type { expected, got } => {
                write!(f, "element type {expected:?} expected, got {got:?}")
            }
            Difference::Shape { expected, got } => {
                write!(f, "shape {expected:?} expected, got {got:?}")
            }
            Difference::Element { position, expected, got, .. } => {
                write!(f, "{expected} expected at {position:?}, got {got}")
            }
        }
    }
}

/// How far an element may be from the one that is expected: `atol + rtol * |expected|`, as NumPy
/// has it. Only for floats; everything else is equal or not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tolerance {
    /// The same for all elements.
    pub atol: f64,
    /// In relation to the expected element.
    pub rtol: f64,
}

impl Tolerance {
    /// Equal numbers, and NaN where NaN is expected.
    pub const EXACT: Tolerance = Tolerance { atol: 0., rtol: 0. };

    /// What is nearer than this may be a matter of rounding, in a whole network.
    pub const ROUNDING: Tolerance = Tolerance { atol: 1e-3, rtol: 1e-3 };

    fn allows(self, expected: f64, got: f64) -> bool {
        let equal = expected == got || expected.is_nan() && got.is_nan();
        equal
            || expected.is_finite()
                && (expected - got).abs() <= self.atol + self.rtol * expected.abs()
    }
}

/// Compares two tensors exactly: equal numbers, and NaN where NaN is expected.
pub fn compare(expected: &Tensor, got: &Tensor) -> Result<(), Difference> {
    compare_within(expected, got, Tolerance::EXACT)
}

/// Compares two tensors, and allows for a difference of their elements.
pub fn compare_within(
    expected: &Tensor,
    got: &Tensor,
    tolerance: Tolerance,
) -> Result<(), Difference> {
    let (dt, shape) = (expected.datum_type(), expected.shape());
    if dt != got.datum_type() {
        return Err(Difference::Type { expected: dt, got: got.datum_type() });
    }
    if shape != got.shape() {
        return Err(Difference::Shape { expected: shape.to_vec(), got: got.shape().to_vec() });
    }
    // All at once first: element by element takes long for large tensors.
    if dt.is_copy() && expected.as_bytes() == got.as_bytes() {
        return Ok(());
    }
    let floats = |tolerance: Tolerance| match dt {
        DatumType::F16 => {
            first_difference::<f16>(expected, got, |a, b| tolerance.allows(a.to_f64(), b.to_f64()))
        }
        DatumType::F32 => first_difference::<f32>(expected, got, |a, b| {
            tolerance.allows((*a).into(), (*b).into())
        }),
        _ => first_difference::<f64>(expected, got, |a, b| tolerance.allows(*a, *b)),
    };
    let position = match dt {
        dt if dt.is_float() => floats(tolerance),
        DatumType::String => first_difference::<String>(expected, got, |a, b| a == b),
        DatumType::TDim => first_difference::<TDim>(expected, got, |a, b| a == b),
        DatumType::Blob => first_difference::<Blob>(expected, got, |a, b| a == b),
        _ => {
            let bytes = |tensor| Tensor::as_bytes(tensor).chunks_exact(dt.size_of());
            bytes(expected).zip(bytes(got)).position(|(a, b)| a != b)
        }
    };
    let Some(number) = position else { return Ok(()) };
    let element = |tensor: &Tensor| {
        let dump = tensor.nth(number).and_then(|element| element.dump(true));
        // tract writes the shape first, then a comma; a scalar's is empty.
        dump.map_or_else(|error| error.to_string(), |dump| dump.trim_start_matches(',').into())
    };
    Err(Difference::Element {
        position: coordinates(number, shape),
        expected: element(expected),
        got: element(got),
        is_close: dt.is_float() && floats(Tolerance::ROUNDING).is_none(),
    })
}

fn first_difference<T: Datum>(
    expected: &Tensor,
    got: &Tensor,
    same: impl Fn(&T, &T) -> bool,
) -> Option<usize> {
    let expected = expected.to_plain_array_view::<T>().expect("the type was compared");
    let got = got.to_plain_array_view::<T>().expect("the type was compared");
    expected.iter().zip(got.iter()).position(|(expected, got)| !same(expected, got))
}

/// The coordinates of element `number` in row-major order.
fn coordinates(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut position = vec![0; shape.len()];
    for (coordinate, dim) in position.iter_mut().zip(shape).rev() {
        *coordinate = number % dim;
        number /= dim;
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compare_finds_the_first_difference() {
        let expected = tensor2(&[[1f32, f32::NAN, 3.], [4., 5., 6.]]);
        assert_eq!(compare(&expected, &expected), Ok(()));
        let got = tensor2(&[[1f32, f32::NAN, 3.], [4., 7., 8.]]);
        assert_eq!(
            compare(&expected, &got).unwrap_err().to_string(),
            "F32 5 expected at [1, 1], got F32 7"
        );
        assert_eq!(
            compare(&expected, &tensor1(&[1f32])).unwrap_err().to_string(),
            "shape [2, 3] expected, got [1]"
        );
        assert_eq!(
            compare(&expected, &tensor1(&[1i32])).unwrap_err().to_string(),
            "element type F32 expected, got I32"
        );
        assert!(compare(&tensor1(&[1u8, 2]), &tensor1(&[1u8, 3])).is_err());
        assert!(compare(&tensor1(&["a".to_string()]), &tensor1(&["b".to_string()])).is_err());
    }

    #[test]
    fn a_tolerance_is_for_floats() {
        let tolerance = Tolerance { atol: 0.5, rtol: 0.1 };
        let expected = tensor1(&[10f32, f32::NAN, f32::INFINITY]);
        let close = tensor1(&[11.5f32, f32::NAN, f32::INFINITY]);
        assert_eq!(compare_within(&expected, &close, tolerance), Ok(()));
        assert!(compare(&expected, &close).is_err());
        let far =
            [[11.6f32, f32::NAN, f32::INFINITY], [10., 0., f32::INFINITY], [10., f32::NAN, 0.]];
        for (position, far) in far.iter().enumerate() {
            let Err(Difference::Element { position: found, .. }) =
                compare_within(&expected, &tensor1(far), tolerance)
            else {
                panic!("{far:?} is close")
            };
            assert_eq!(found, [position]);
        }
        let integers = [tensor1(&[10i32]), tensor1(&[11i32])];
        assert!(compare_within(&integers[0], &integers[1], tolerance).is_err());
    }
}
