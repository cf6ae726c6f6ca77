use tract_core::internal::*;
use tract_openvino_kernels::checks::{ensure_allocatable, expect_inputs, listed};

use super::{check_volume, impl_plain_op};

/// GridSample-9: elements of an image at the coordinates of a grid.
///
/// Inputs: data [N, C, H, W] and grid [N, H_out, W_out, 2], which has x and y, both from -1 to 1 within the
/// image. Output: [N, C, H_out, W_out].
///
/// tract's own operator moves coordinates to the border before it takes the elements around them, which
/// changes bicubic interpolation, and panics for coordinates that are far away.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct GridSample {
    pub mode: Mode,
    pub padding: Padding,
    pub align_corners: bool,
}

/// `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Bilinear,
    Bicubic,
    Nearest,
}

/// `padding_mode`: what stands for elements outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// The elements of an axis around a coordinate, with their weights.
type Taps = TVec<(usize, f32)>;

/// Those of the rows and of the columns.
type Point = (Taps, Taps);

/// The coefficient of cubic convolution.
const CUBE_COEFF: f32 = -0.75;

impl GridSample {
    /// The elements of an axis around a coordinate that are in the image, with their weights.
    fn taps(&self, coordinate: f32, size: usize) -> Taps {
        let sizes = size as f32;
        let x = match self.align_corners {
            true => (coordinate + 1.) / 2. * (sizes - 1.),
            false => ((coordinate + 1.) * sizes - 1.) / 2.,
        };
        let (base, part) = (x.floor(), x - x.floor());
        let weights: TVec<(i64, f32)> = match self.mode {
            Mode::Nearest => tvec![(0, 1.)],
            Mode::Bilinear => tvec![(0, 1. - part), (1, part)],
            Mode::Bicubic => (-1..=2)
                .map(|step| (step, super::interpolate::cubic(part - step as f32, CUBE_COEFF)))
                .collect(),
        };
        let base = if self.mode == Mode::Nearest { x.round_ties_even() } else { base };
        // Conversion saturates.
        let inside = |(step, weight)| {
            let at = self.inside((base as i64).saturating_add(step), size as i64)?;
            Some((at as usize, weight))
        };
        weights.into_iter().filter_map(inside).collect()
    }

    /// The position of an element in an axis of a size greater than 0.
    fn inside(&self, at: i64, size: i64) -> Option<i64> {
        match self.padding {
            Padding::Zeros => (0..size).contains(&at).then_some(at),
            Padding::Border => Some(at.clamp(0, size - 1)),
            Padding::Reflection => {
                // The outermost elements are there once with align_corners, and twice without.
                let period = if self.align_corners { (2 * size - 2).max(1) } else { 2 * size };
                let at = at.rem_euclid(period);
                let mirrored = if self.align_corners { period - at } else { period - 1 - at };
                Some(if at < size { at } else { mirrored })
            }
        }
    }
}

fn check_shapes<D: DimLike>(data: &[D], grid: &[D]) -> TractResult<TVec<D>> {
    let ([batch, channels, _, _], [grid_batch, height, width, two]) = (data, grid) else {
        bail!(
            "GridSample: data and grid have shapes {data} and {grid}, but must have rank 4",
            data = listed(data),
            grid = listed(grid)
        )
    };
    ensure!(
        batch == grid_batch && *two == D::from(2),
        "GridSample: data and grid have shapes {data} and {grid}: the batches must be equal, and the last \
         dimension of grid must be 2",
        data = listed(data),
        grid = listed(grid)
    );
    Ok(tvec![batch.clone(), channels.clone(), height.clone(), width.clone()])
}

impl_plain_op!(
    GridSample,
    "OpenVinoGridSample",
    info = |op| {
        let GridSample { mode, padding, align_corners } = op;
        vec![format!("{mode:?}, padding: {padding:?}, align_corners: {align_corners}")]
    }
);

impl GridSample {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, grid) = args_2!(inputs);
        let shape = check_shapes(data.shape(), grid.shape())?;
        let (height, width) = (data.shape()[2], data.shape()[3]);
        ensure!(
            shape.contains(&0) || height * width > 0,
            "GridSample: the data has no elements to sample: its shape is {:?}",
            data.shape()
        );
        let dt = data.datum_type();
        let (data, grid) = (data.cast_to::<f32>()?, grid.cast_to::<f32>()?);
        let (data, grid) = (data.try_as_plain_ram()?, grid.try_as_plain_ram()?);
        let (data, grid) = (data.as_slice::<f32>()?, grid.as_slice::<f32>()?);
        let volume = check_volume("GridSample", DatumType::F32, &shape)?;
        let mut result = Vec::with_capacity(volume);
        if volume > 0 {
            let (image, points) = (height * width, shape[2] * shape[3]);
            ensure_allocatable("GridSample", points.saturating_mul(size_of::<Point>()))?;
            for (channels, grid) in
                data.chunks_exact(shape[1] * image).zip(grid.chunks_exact(points * 2))
            {
                let points: Vec<Point> = grid
                    .chunks_exact(2)
                    .map(|point| (self.taps(point[1], height), self.taps(point[0], width)))
                    .collect();
                for channel in channels.chunks_exact(image) {
                    result.extend(points.iter().map(|(rows, columns)| -> f32 {
                        let row = |(y, weight): &(usize, f32)| {
                            let row = &channel[y * width..][..width];
                            weight * columns.iter().map(|(x, weight)| weight * row[*x]).sum::<f32>()
                        };
                        rows.iter().map(row).sum()
                    }));
                }
            }
        }
        let result = Tensor::from_shape(&shape, &result)?;
        Ok(tvec!(result.cast_to_dt(dt)?.into_owned().into_tvalue()))
    }

    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, grid] = expect_inputs("GridSample", ["data", "grid"], inputs)?;
        let shape = check_shapes(&data.shape.to_tvec(), &grid.shape.to_tvec())?;
        Ok(tvec!(data.datum_type.fact(&shape)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;
    use tract_openvino_kernels::checks::MAX_OUTPUT_ELEMENTS;

    #[test]
    fn outputs_of_open_shapes_have_a_limit() {
        let mode = Mode::Nearest;
        let op = GridSample { mode, padding: Padding::Zeros, align_corners: false };
        let channels = MAX_OUTPUT_ELEMENTS / (1 << 20) + 1;
        let inputs = [&[1, channels, 1, 1], &[1, 1 << 10, 1 << 10, 2]];
        let inputs = inputs.map(|shape| Tensor::zero::<f32>(shape).unwrap().into_tvalue());
        let output = op.eval(inputs.into_iter().collect());
        fails(output, &format!("[1, {channels}, 1024, 1024] has more than"));
    }

    fn positions(padding: Padding, align_corners: bool, size: i64) -> Vec<Option<i64>> {
        let op = GridSample { mode: Mode::Nearest, padding, align_corners };
        (-4..=6).map(|at| op.inside(at, size)).collect()
    }

    #[test]
    fn elements_outside() {
        let some = |positions: [i64; 11]| positions.map(Some).to_vec();
        assert_eq!(positions(Padding::Border, true, 3), some([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]));
        assert_eq!(
            positions(Padding::Reflection, true, 3),
            some([0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2])
        );
        assert_eq!(
            positions(Padding::Reflection, false, 3),
            some([2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0])
        );
        assert_eq!(positions(Padding::Reflection, true, 1), some([0; 11]));
        assert_eq!(positions(Padding::Zeros, true, 1)[3..6], [None, Some(0), None]);
    }

    #[test]
    fn coordinates_far_away() {
        for padding in [Padding::Zeros, Padding::Border, Padding::Reflection] {
            for mode in [Mode::Nearest, Mode::Bilinear, Mode::Bicubic] {
                let op = GridSample { mode, padding, align_corners: false };
                for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e30] {
                    assert!(op.taps(x, 3).iter().all(|(at, _)| *at < 3));
                }
            }
        }
    }
}
