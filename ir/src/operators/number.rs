use tract_core::internal::*;

/// The arithmetic of reductions. Sums and products of integers wrap around, as in OpenVINO.
pub(super) trait Number: Datum + Copy + PartialOrd + Default {
    const ONE: Self;
    /// The least finite number.
    const LEAST: Self;
    /// The greatest number: of floats infinity.
    const GREATEST: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The greater of two numbers. NaN is ignored.
    fn max(self, other: Self) -> Self;
    /// The smaller of two numbers. NaN is ignored.
    fn min(self, other: Self) -> Self;
    /// The quotient by a number of elements. That of integers is rounded down.
    fn mean_of(self, count: usize) -> Self;
    /// The same, but that of integers is rounded towards zero.
    fn truncated_mean_of(self, count: usize) -> Self {
        self.mean_of(count)
    }
}

macro_rules! integer {
    ($($ty:ty),*) => { $(
        impl Number for $ty {
            const ONE: Self = 1;
            const LEAST: Self = <$ty>::MIN;
            const GREATEST: Self = <$ty>::MAX;
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            fn mean_of(self, count: usize) -> Self {
                (self as i128).div_euclid(count as i128) as $ty
            }
            fn truncated_mean_of(self, count: usize) -> Self {
                // This is not further from zero than the sum.
                (i128::from(self) / count as i128) as $ty
            }
        }
    )* };
}
integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! float {
    ($($ty:ty: $one:expr, $count:expr;)*) => { $(
        impl Number for $ty {
            const ONE: Self = $one;
            const LEAST: Self = <$ty>::MIN;
            const GREATEST: Self = <$ty>::INFINITY;
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn max(self, other: Self) -> Self {
                <$ty>::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                <$ty>::min(self, other)
            }
            fn mean_of(self, count: usize) -> Self {
                self / $count(count)
            }
        }
    )* };
}
float! {
    f16: f16::ONE, |count: usize| f16::from_f32(count as f32);
    f32: 1., |count: usize| count as f32;
    f64: 1., |count: usize| count as f64;
}
