//! Color formats of images, and the tensors that they are in.

use std::fmt;

use tract_core::internal::*;

use super::layout::Layout;

/// How an image has its colors: OpenVINO's `ColorFormat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ColorFormat {
    /// Nothing is said of colors.
    #[default]
    Undefined,
    /// Brightness, and below it both colors of each four pixels, one after another, in one tensor.
    Nv12SinglePlane,
    /// The same in two tensors, Y and UV.
    Nv12TwoPlanes,
    /// Brightness, and below it the first and then the second color of each four pixels, in one tensor.
    I420SinglePlane,
    /// The same in three tensors, Y, U and V.
    I420ThreePlanes,
    /// Red, green and blue.
    Rgb,
    /// Blue, green and red.
    Bgr,
    /// Brightness alone.
    Gray,
    /// Red, green, blue, and something that is ignored.
    Rgbx,
    /// Blue, green, red, and something that is ignored.
    Bgrx,
}

use ColorFormat::*;

impl fmt::Display for ColorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Undefined => "no color format",
            Nv12SinglePlane => "NV12 in a single plane",
            Nv12TwoPlanes => "NV12 in two planes",
            I420SinglePlane => "I420 in a single plane",
            I420ThreePlanes => "I420 in three planes",
            Rgb => "RGB",
            Bgr => "BGR",
            Gray => "GRAY",
            Rgbx => "RGBX",
            Bgrx => "BGRX",
        })
    }
}

impl ColorFormat {
    /// How many tensors an image is in.
    pub fn planes(self) -> usize {
        match self {
            Nv12TwoPlanes => 2,
            I420ThreePlanes => 3,
            _ => 1,
        }
    }

    /// Whether the colors are those of four pixels each.
    pub(super) fn is_subsampled(self) -> bool {
        matches!(self, Nv12SinglePlane | Nv12TwoPlanes | I420SinglePlane | I420ThreePlanes)
    }

    /// The layout of a tensor of which none is stated.
    pub(super) fn default_layout(self) -> Layout {
        if self == Undefined {
            return Layout::default();
        }
        "NHWC".parse().unwrap_or_default()
    }

    /// The shapes of the tensors of an image of this shape, whose number of channels does not count.
    pub(super) fn shapes(self, image: &[TDim], layout: &Layout) -> TractResult<Vec<TVec<TDim>>> {
        let channels = match self {
            Undefined | Gray => return Ok(vec![image.into()]),
            Rgb | Bgr => 3,
            Rgbx | Bgrx => 4,
            _ => return self.planes_of(image, layout),
        };
        let axis = layout.axis("C", image.len());
        let axis = axis.with_context(|| {
            format!("an image in {self} needs channels, but layout {layout} has no C")
        })?;
        let mut shape: TVec<TDim> = image.into();
        shape[axis] = channels.to_dim();
        Ok(vec![shape])
    }

    fn planes_of(self, image: &[TDim], layout: &Layout) -> TractResult<Vec<TVec<TDim>>> {
        let is_in_order = image.len() == 4
            && layout.fits(4)
            && ["N", "H", "W", "C"]
                .iter()
                .enumerate()
                .all(|(axis, name)| layout.axis(name, 4).is_none_or(|it| it == axis));
        ensure!(
            is_in_order,
            "an image in {self} must have layout NHWC, but it has rank {} and layout {layout}",
            image.len()
        );
        let halved = |axis: usize, name: &str| -> TractResult<TDim> {
            let half = (image[axis].clone() / 2).simplify();
            ensure!(
                image[axis].as_i64().is_none_or(|size| size % 2 == 0),
                "the {name} of an image in {self} is {}, but must be even",
                image[axis]
            );
            Ok(half)
        };
        let (rows, columns) = (halved(1, "height")?, halved(2, "width")?);
        let plane = |height: TDim, width: TDim, channels: usize| {
            tvec![image[0].clone(), height, width, channels.to_dim()]
        };
        let (height, width) = (image[1].clone(), image[2].clone());
        Ok(match self {
            Nv12TwoPlanes => vec![plane(height, width, 1), plane(rows, columns, 2)],
            I420ThreePlanes => vec![
                plane(height, width, 1),
                plane(rows.clone(), columns.clone(), 1),
                plane(rows, columns, 1),
            ],
            _ => vec![plane((height + rows).simplify(), width, 1)],
        })
    }
}
