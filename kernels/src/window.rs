//! How the kernel of a convolution or of a pool moves over data of known size.

use tract_core::internal::*;
use tract_core::ops::cnn::PoolSpec;

/// There are three spatial axes; those that the data does not have are in front, of size 1.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub strides: [usize; 3],
    pub dilations: [usize; 3],
    /// How many elements are missing in front of the data, and behind it.
    pub pads: [[usize; 2]; 3],
}

impl Window {
    /// `sizes` are those of the data's spatial axes.
    pub fn new(spec: &PoolSpec, sizes: &[usize]) -> TractResult<Window> {
        let rank = sizes.len();
        ensure!(rank == spec.rank() && rank <= 3, "the data has {rank} spatial axes");
        let ones = [1; 3];
        let (input, output, kernel, strides, dilations) = (ones, ones, ones, ones, ones);
        let mut window = Window { input, output, kernel, strides, dilations, pads: [[0; 2]; 3] };
        for (axis, padded) in spec.computed_padding(sizes).iter().enumerate() {
            let place = 3 - rank + axis;
            window.input[place] = sizes[axis];
            window.output[place] = padded.convoluted;
            window.kernel[place] = spec.kernel_shape[axis];
            window.strides[place] = spec.stride(axis);
            window.dilations[place] = spec.dilation(axis);
            window.pads[place] = [padded.pad_before, padded.pad_after];
        }
        Ok(window)
    }

    /// The pixels of a channel of the output.
    pub fn pixels(&self) -> usize {
        self.output.iter().product()
    }

    /// How far the last tap is behind the first one along an axis.
    pub fn reach(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilations[axis]
    }

    /// The elements of the kernel.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }
}
