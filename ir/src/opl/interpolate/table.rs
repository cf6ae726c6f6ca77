use tract_core::internal::*;

use tract_openvino_kernels::Vectors;

/// What the elements of an axis are made of.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Elements of the input with their weights, for one element of the output after the other.
    taps: Vec<(usize, f32)>,
    /// For each element of the output where its taps end.
    ends: Vec<usize>,
}

/// What a table takes for each element of the axis before and after: four elements with weights at most, in vectors
/// that grow.
pub(super) const BYTES_OF_ELEMENT: usize = 128;

impl Table {
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, f32)>) {
        self.taps.extend(taps);
        self.ends.push(self.taps.len());
    }

    /// The number of elements of the output.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn rows(&self) -> impl Iterator<Item = &[(usize, f32)]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.taps[*start..*end])
    }

    /// Applies it to an axis.
    pub fn apply(&self, data: &[f32], shape: &[usize], axis: usize) -> Vec<f32> {
        Vectors::detect().run(
            #[inline(always)]
            || self.applied(data, shape, axis),
        )
    }

    #[inline(always)]
    fn applied(&self, data: &[f32], shape: &[usize], axis: usize) -> Vec<f32> {
        let inner: usize = shape[axis + 1..].iter().product();
        let mut result = Vec::with_capacity(data.len() / shape[axis].max(1) * self.ends.len());
        for block in data.chunks_exact((shape[axis] * inner).max(1)) {
            if inner == 1 {
                result.extend(self.rows().map(|taps| -> f32 {
                    taps.iter().map(|(at, weight)| block[*at] * weight).sum()
                }));
                continue;
            }
            for taps in self.rows() {
                let start = result.len();
                result.resize(start + inner, 0.);
                for (at, weight) in taps {
                    let elements = &block[at * inner..][..inner];
                    for (sum, element) in result[start..].iter_mut().zip(elements) {
                        *sum += element * weight;
                    }
                }
            }
        }
        result
    }

    /// Applies it to an axis of elements of any type, where there is one tap for each.
    pub fn pick<T: Datum + Copy>(&self, data: &Tensor, axis: usize) -> TractResult<Tensor> {
        let mut shape: TVec<usize> = data.shape().into();
        let inner: usize = shape[axis + 1..].iter().product();
        let block = shape[axis] * inner;
        shape[axis] = self.taps.len();
        // With a type that is quantised, that of the data.
        let mut result = Tensor::zero_dt(data.datum_type(), &shape)?;
        let elements = data.try_as_plain_ram()?;
        let blocks = elements.as_slice::<T>()?.chunks_exact(block.max(1));
        let mut view = result.try_as_plain_ram_mut()?;
        let places = view.as_slice_mut::<T>()?;
        for (places, block) in places.chunks_exact_mut((shape[axis] * inner).max(1)).zip(blocks) {
            match inner {
                1 => {
                    for (place, (at, _)) in places.iter_mut().zip(&self.taps) {
                        *place = block[*at];
                    }
                }
                _ => {
                    for (places, (at, _)) in places.chunks_exact_mut(inner).zip(&self.taps) {
                        places.copy_from_slice(&block[at * inner..][..inner]);
                    }
                }
            }
        }
        Ok(result)
    }
}

/// The triangle of linear interpolation.
pub(super) fn triangle(x: f32) -> f32 {
    (1. - x.abs()).max(0.)
}

/// The kernel of cubic convolution.
pub(in crate::opl) fn cubic(x: f32, a: f32) -> f32 {
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
