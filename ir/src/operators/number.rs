use tract_core::internal::*;

/// The arithmetic of reductions. Sums and products of integers wrap around, as in OpenVINO.
pub(super) trait Number: Datum + Copy + PartialOrd + Default {
    /// The least finite number.
    const LEAST: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The quotient by a number of elements. That of integers is rounded down.
    fn mean_of(self, count: u32) -> Self;
}

macro_rules! integer {
    ($($ty:ty),*) => { $(
        impl Number for $ty {
            const LEAST: Self = <$ty>::MIN;
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn mean_of(self, count: u32) -> Self {
                (self as i128).div_euclid(count as i128) as $ty
            }
        }
    )* };
}
integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float {
    ($($ty:ty: $count:expr),*) => { $(
        impl Number for $ty {
            const LEAST: Self = <$ty>::MIN;
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn mean_of(self, count: u32) -> Self {
                self / $count(count)
            }
        }
    )* };
}
float!(f16: |count: u32| f16::from_f32(count as f32), f32: |count: u32| count as f32, f64: f64::from);
