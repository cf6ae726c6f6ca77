//! The prior boxes of PriorBoxClustered-1.

use super::prior_box::{Cell, Grid, Prior};

/// The attributes of PriorBoxClustered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriorBoxClustered {
    /// Widths and heights of the boxes of a cell.
    pub sizes: Vec<[f32; 2]>,
    /// `step_h` or `step`, and `step_w` or `step`. If both are 0, the cells fill the image.
    pub step: [f32; 2],
    pub offset: f32,
}

impl PriorBoxClustered {
    pub fn grid(&self, cells: [usize; 2], image: [f32; 2]) -> Grid {
        let [height, width] = match self.step {
            [0., 0.] => [image[0] / cells[0] as f32, image[1] / cells[1] as f32],
            step => step,
        };
        let prior = |[width, height]: &[f32; 2]| Prior {
            half_width: width / 2.,
            half_height: height / 2.,
            ..Prior::default()
        };
        Grid {
            cell: Cell { height, width, offset: self.offset },
            priors: self.sizes.iter().map(prior).collect(),
        }
    }
}
