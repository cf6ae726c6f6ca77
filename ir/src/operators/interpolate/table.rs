//! What elements of an axis are made of.

/// What the taps of an axis take for each element of it before and after: four with weights at most, in vectors
/// that grow.
pub(super) const BYTES_OF_ELEMENT: usize = 128;

/// The triangle of linear interpolation.
pub(super) fn triangle(x: f32) -> f32 {
    (1. - x.abs()).max(0.)
}

/// The kernel of cubic convolution.
pub(in crate::operators) fn cubic(x: f32, a: f32) -> f32 {
    let x = x.abs();
    if x < 1. {
        ((a + 2.) * x - (a + 3.)) * x * x + 1.
    } else if x < 2. {
        ((a * x - 5. * a) * x + 8. * a) * x - 4. * a
    } else {
        0.
    }
}

/// A coordinate as a position, the nearest there is.
pub(super) fn clamped(x: f32, size: usize) -> usize {
    // Conversion saturates.
    (x.max(0.) as usize).min(size - 1)
}

/// The elements of an axis around a coordinate with a weight by their distance, so that the sum of weights
/// is 1. There may be none.
pub(super) fn normalized(
    x: f32,
    radius: f32,
    size: usize,
    weight: impl Fn(f32) -> f32,
) -> Vec<(usize, f32)> {
    let (first, last) = ((x - radius).floor().max(0.), (x + radius).ceil().min((size - 1) as f32));
    if first > last {
        return vec![];
    }
    weighted(first as usize..last as usize + 1, |at| weight(x - at as f32))
}

/// The elements of an axis as Pillow takes them: the kernel is widened where the axis becomes smaller, and
/// there is one coordinate transformation only.
pub(super) fn pillow(
    at: usize,
    size: usize,
    output: usize,
    support: f32,
    kernel: impl Fn(f32) -> f32,
) -> Vec<(usize, f32)> {
    let scale = size as f32 / output as f32;
    let widened = scale.max(1.);
    let (center, support) = ((at as f32 + 0.5) * scale, support * widened);
    let first = (center - support + 0.5).max(0.) as usize;
    let end = ((center + support + 0.5).max(0.) as usize).min(size);
    weighted(first..end, |at| kernel((at as f32 - center + 0.5) / widened))
}

/// Elements with their weights, divided by the sum of these.
fn weighted(at: std::ops::Range<usize>, weight: impl Fn(usize) -> f32) -> Vec<(usize, f32)> {
    let mut taps: Vec<(usize, f32)> =
        at.map(|at| (at, weight(at))).filter(|(_, weight)| *weight != 0.).collect();
    let sum: f32 = taps.iter().map(|(_, weight)| weight).sum();
    if sum != 0. {
        taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
    }
    taps
}
