//! What numbers that become integers are divided by.

/// The least number, but 0, that may be the largest one of a scale, so that this, and a sixteenth of it, has all its bits: subnormal ones
/// are slow.
const LEAST_SPLIT: f32 = f32::from_bits((127 - 96) << 23);

/// The scale of numbers of which this is the largest one, without a sign, where integers go up to the most; and whether they are
/// finite, and have all their bits.
#[inline(always)]
#[expect(clippy::manual_range_contains, reason = "there is no branch")]
pub(super) fn scale_of(largest: f32, most: f32) -> (f32, bool) {
    let fits = (largest == 0.) | ((largest >= LEAST_SPLIT) & (largest <= f32::MAX));
    (largest.max(LEAST_SPLIT) / most, fits)
}
