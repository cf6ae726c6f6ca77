use std::fmt::Debug;

use tract_core::broadcast::multi_broadcast;
use tract_core::internal::*;
use tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_core::tract_data::half::f16;
use tract_ndarray::Zip;

use super::check_volume;

/// Arithmetic of two tensors that differs from tract's: that of integers, and the remainders of floats.
///
/// Integers wrap around, and a divisor of zero is an error. tract's operators panic in both cases (in the
/// first if Rust checks for it). Its optimiser also turns the square of an integer into that of a float, and
/// swaps the operands of a remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    /// The quotient rounded towards zero.
    Divide,
    /// The quotient rounded down.
    FloorDivide,
    /// The remainder of `Divide`, which has the sign of the dividend.
    Mod,
    /// The remainder of `FloorDivide`, which has the sign of the divisor.
    FloorMod,
    Power,
    /// Zero if the number of bits is negative, or not below that of the type.
    ShiftLeft,
    /// Keeps the sign.
    ShiftRight,
}

use Arithmetic::*;

type Constructor = fn() -> Box<dyn BinMiniOp>;

/// The operations in the order of their declaration, each with the name of its operator.
const OPERATIONS: [(Arithmetic, &str, Constructor); 10] = [
    (Add, "OpenVinoAdd", || Box::new(Of::<0>)),
    (Subtract, "OpenVinoSubtract", || Box::new(Of::<1>)),
    (Multiply, "OpenVinoMultiply", || Box::new(Of::<2>)),
    (Divide, "OpenVinoDivide", || Box::new(Of::<3>)),
    (FloorDivide, "OpenVinoFloorDivide", || Box::new(Of::<4>)),
    (Mod, "OpenVinoMod", || Box::new(Of::<5>)),
    (FloorMod, "OpenVinoFloorMod", || Box::new(Of::<6>)),
    (Power, "OpenVinoPower", || Box::new(Of::<7>)),
    (ShiftLeft, "OpenVinoShiftLeft", || Box::new(Of::<8>)),
    (ShiftRight, "OpenVinoShiftRight", || Box::new(Of::<9>)),
];

impl Arithmetic {
    /// The operator of a node.
    pub fn op(self) -> TypedBinOp {
        TypedBinOp(OPERATIONS[self as usize].2(), None)
    }

    /// Computes integers of up to 64 bits in 128 bits. Only the lowest bits count, which are right even if a
    /// product overflows. The divisor is not zero.
    fn of_integers(self, a: i128, b: i128, bits: u32) -> i128 {
        let signs_differ = (a < 0) != (b < 0);
        let shift = (0..i128::from(bits)).contains(&b).then_some(b);
        match self {
            Add => a + b,
            Subtract => a - b,
            Multiply => a.wrapping_mul(b),
            Divide => a / b,
            FloorDivide => a / b - i128::from(signs_differ && a % b != 0),
            Mod => a % b,
            FloorMod => a % b + if signs_differ && a % b != 0 { b } else { 0 },
            Power => power(a, b),
            ShiftLeft => shift.map_or(0, |shift| a << shift),
            ShiftRight => shift.map_or(if b > 0 && a < 0 { -1 } else { 0 }, |shift| a >> shift),
        }
    }

    fn of_floats(self, a: f64, b: f64) -> f64 {
        let remainder = a % b;
        let of_floor = self == FloorMod && remainder != 0. && (remainder < 0.) != (b < 0.);
        if of_floor { remainder + b } else { remainder }
    }

    fn divides(self) -> bool {
        matches!(self, Divide | FloorDivide | Mod | FloorMod)
    }
}

/// The lowest bits of a power. A power with a negative exponent is a fraction, which becomes 0, unless the
/// base is 1 or -1.
fn power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut power, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left /= 2;
    }
    power
}

fn each<T: Datum + Copy>(
    c: &mut Tensor,
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(T, T) -> T,
) -> TractResult<()> {
    let (a, b) = (a.to_plain_array_view::<T>()?, b.to_plain_array_view::<T>()?);
    let mut c = c.try_as_plain_ram_mut()?;
    let c = c.to_array_view_mut::<T>()?;
    Zip::from(c).and_broadcast(a).and_broadcast(b).for_each(|c, a, b| *c = f(*a, *b));
    Ok(())
}

fn has_zero(tensor: &Tensor) -> TractResult<bool> {
    Ok(tensor.cast_to::<bool>()?.try_as_plain_ram()?.as_slice::<bool>()?.contains(&false))
}

/// The operation at a position of [`OPERATIONS`]. Each is a type of its own, because by its type tract
/// finds an operator's name in NNEF archives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Of<const POSITION: usize>;

impl<const POSITION: usize> Of<POSITION> {
    const OPERATION: Arithmetic = OPERATIONS[POSITION].0;
}

impl<const POSITION: usize> BinMiniOp for Of<POSITION> {
    fn name(&self) -> &'static str {
        OPERATIONS[POSITION].1
    }

    fn result_datum_type(&self, a: DatumType, b: DatumType) -> TractResult<DatumType> {
        ensure!(
            a == b,
            "{}: the inputs are of types {a:?} and {b:?}, but must be of one type",
            self.name()
        );
        Ok(a)
    }

    fn is_commutative(&self) -> bool {
        matches!(Self::OPERATION, Add | Multiply)
    }

    fn eval_in_a(&self, a: &mut Tensor, b: &Tensor) -> TractResult<()> {
        let mut c = Tensor::zero_dt(a.datum_type(), a.shape())?;
        self.eval_out_of_place(&mut c, a, b)?;
        *a = c;
        Ok(())
    }

    fn eval_out_of_place(&self, c: &mut Tensor, a: &Tensor, b: &Tensor) -> TractResult<()> {
        let dt = c.datum_type();
        if dt.is_integer() && Self::OPERATION.divides() {
            ensure!(
                c.len() == 0 || !has_zero(b)?,
                "{}: a divisor is 0: integers cannot be divided by 0",
                self.name()
            );
        }
        macro_rules! integers {
            ($($dt:ident is $t:ty),*; $other:expr) => {
                match dt {
                    $(DatumType::$dt => each(c, a, b, |a: $t, b: $t| {
                        Self::OPERATION.of_integers(a.into(), b.into(), <$t>::BITS) as $t
                    }),)*
                    _ => $other,
                }
            };
        }
        let is_remainder = matches!(Self::OPERATION, Mod | FloorMod);
        integers!(
            U8 is u8, U16 is u16, U32 is u32, U64 is u64, I8 is i8, I16 is i16, I32 is i32, I64 is i64;
            match dt {
                DatumType::F16 if is_remainder => each(c, a, b, |a: f16, b: f16| {
                    f16::from_f64(Self::OPERATION.of_floats(a.to_f64(), b.to_f64()))
                }),
                DatumType::F32 if is_remainder => each(c, a, b, |a: f32, b: f32| {
                    Self::OPERATION.of_floats(a.into(), b.into()) as f32
                }),
                DatumType::F64 if is_remainder => each(c, a, b, |a, b| Self::OPERATION.of_floats(a, b)),
                _ => bail!("{} does not support {dt:?}", self.name()),
            }
        )
    }

    fn eval(&self, a: TValue, b: TValue, c_dt: DatumType) -> TractResult<Tensor> {
        ensure!(a.datum_type() == c_dt && b.datum_type() == c_dt, "{}: types differ", self.name());
        let shape = multi_broadcast(&[a.shape(), b.shape()])?;
        check_volume(self.name(), c_dt, &shape)?;
        let mut c = Tensor::zero_dt(c_dt, &shape)?;
        self.eval_out_of_place(&mut c, &a, &b)?;
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use tract_openvino_kernels::checks::MAX_OUTPUT_ELEMENTS;

    fn eval<T: Datum>(operation: Arithmetic, a: &[T], b: &[T]) -> TractResult<Tensor> {
        let op = operation.op().0;
        op.eval(tensor1(a).into_tvalue(), tensor1(b).into_tvalue(), T::datum_type())
    }

    #[test]
    fn outputs_of_open_shapes_have_a_limit() {
        let side = MAX_OUTPUT_ELEMENTS.isqrt() + 1;
        let [a, b] =
            [[side, 1], [1, side]].map(|shape| Tensor::zero::<i32>(&shape).unwrap().into_tvalue());
        let expected = format!("[{side}, {side}] has more than");
        fails(Add.op().0.eval(a, b, DatumType::I32), &expected);
    }

    #[test]
    fn operators_are_those_of_their_operations() {
        for (operation, ..) in OPERATIONS {
            assert_eq!(operation.op().0.name(), format!("OpenVino{operation:?}"));
        }
    }

    #[test]
    fn quotients_and_remainders_by_the_signs() {
        let (a, b) = (&[7, -7, 7, -7, 6, -6, 0], &[2, 2, -2, -2, 3, 3, 5]);
        for (operation, expected) in [
            (Divide, [3, -3, -3, 3, 2, -2, 0]),
            (FloorDivide, [3, -4, -4, 3, 2, -2, 0]),
            (Mod, [1, -1, 1, -1, 0, 0, 0]),
            (FloorMod, [1, 1, -1, -1, 0, 0, 0]),
        ] {
            assert_eq!(eval(operation, a, b).unwrap(), tensor1(&expected), "{operation:?}");
        }
        let floats = eval(FloorMod, &[5.5f32, -5.5, 5.], &[2.5, 2.5, -2.5]).unwrap();
        assert_eq!(floats, tensor1(&[0.5f32, 2., 0.]));
    }

    #[test]
    fn the_ends_of_the_types() {
        for (operation, a, b, expected) in [
            (Add, i64::MAX, 1, i64::MIN),
            (Subtract, i64::MIN, 1, i64::MAX),
            (Multiply, i64::MIN, -1, i64::MIN),
            (Divide, i64::MIN, -1, i64::MIN),
            (FloorDivide, i64::MIN, -1, i64::MIN),
            (Mod, i64::MIN, -1, 0),
            (Power, 3, i64::MAX, -6_148_914_691_236_517_205i64),
            (Power, 2, -1, 0),
            (Power, -1, -3, -1),
            (ShiftLeft, 1, 64, 0),
            (ShiftLeft, 1, -1, 0),
            (ShiftRight, -5, 64, -1),
            (ShiftRight, -5, 1, -3),
        ] {
            let found = eval(operation, &[a], &[b]).unwrap();
            assert_eq!(found, tensor1(&[expected]), "{operation:?}");
        }
        assert_eq!(eval(Subtract, &[0u8], &[1]).unwrap(), tensor1(&[255u8]));
        assert_eq!(eval(ShiftLeft, &[200u8], &[1]).unwrap(), tensor1(&[144u8]));
        assert_eq!(eval(Multiply, &[u64::MAX], &[u64::MAX]).unwrap(), tensor1(&[1u64]));
    }

    #[test]
    fn zero_as_a_divisor() {
        for operation in [Divide, FloorDivide, Mod, FloorMod] {
            let error = eval(operation, &[1, 2], &[1, 0]).unwrap_err();
            assert!(error.to_string().contains("a divisor is 0"), "{error}");
            let empty = (Tensor::zero::<i32>(&[0]).unwrap(), tensor1(&[0]));
            let (a, b) = (empty.0.into_tvalue(), empty.1.into_tvalue());
            assert_eq!(operation.op().0.eval(a, b, i32::datum_type()).unwrap().len(), 0);
        }
        assert!(eval(Add, &[1f32], &[1.]).is_err());
    }
}
