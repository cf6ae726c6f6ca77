use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::prior_box::{Grid, PriorBox};
use super::prior_box_clustered::PriorBoxClustered;
use super::{check_boxes, impl_op, integers, set_symbols};

/// PriorBox-1, PriorBox-8, PriorBoxClustered-1: the same boxes around the center of each cell of a feature
/// map, in units of the image.
///
/// Inputs: output_size (height and width of the feature map) and image_size, two integers each. Output:
/// `[2, 4 * height * width * boxes of a cell]` of type f32, the boxes and then the variances.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriorBoxes {
    pub layout: Layout,
    pub clip: bool,
    /// One for each coordinate.
    pub variance: [f32; 4],
    /// The number of boxes of a cell.
    pub per_cell: usize,
    /// The number of all coordinates: an expression of sizes, or a symbol that only this node has.
    pub length: TDim,
    pub length_at_run_time: bool,
}

// Its floats are compared with those of equal attributes.
impl Eq for PriorBoxes {}

/// Which boxes a cell has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Layout {
    PriorBox(PriorBox),
    Clustered(PriorBoxClustered),
}

impl PriorBoxes {
    /// The coordinates of all boxes. Those that the layout does not have are zeros.
    fn boxes(&self, cells: [usize; 2], image: [f32; 2], length: usize) -> Vec<f32> {
        let Grid { cell, priors } = match &self.layout {
            Layout::PriorBox(layout) => layout.grid(cells, image),
            Layout::Clustered(layout) => layout.grid(cells, image),
        };
        let [height, width] = image;
        let mut boxes = Vec::with_capacity(length);
        for row in 0..cells[0] {
            for column in 0..cells[1] {
                let center_x = (column as f32 + cell.offset) * cell.width;
                let center_y = (row as f32 + cell.offset) * cell.height;
                for prior in &priors {
                    let (x, y) = (center_x + prior.x, center_y + prior.y);
                    let least = if prior.in_image { 0. } else { f32::NEG_INFINITY };
                    let most = if prior.in_image { 1. } else { f32::INFINITY };
                    boxes.extend([
                        ((x - prior.half_width) / width).max(least),
                        ((y - prior.half_height) / height).max(least),
                        ((x + prior.half_width) / width).min(most),
                        ((y + prior.half_height) / height).min(most),
                    ]);
                }
            }
        }
        if self.clip {
            boxes.iter_mut().for_each(|coordinate| *coordinate = coordinate.clamp(0., 1.));
        }
        boxes.resize(length, 0.);
        boxes
    }
}

/// The two sizes of an input.
fn sizes(tensor: &Tensor, symbols: &SymbolValues) -> TractResult<[usize; 2]> {
    let sizes = integers(tensor, symbols)?;
    let [height, width] = sizes[..] else {
        bail!("PriorBox: sizes are {sizes:?}, but must be height and width")
    };
    let found =
        || format!("PriorBox: height and width are {height} and {width}, but must be 0 or more");
    Ok([usize::try_from(height).with_context(found)?, usize::try_from(width).with_context(found)?])
}

impl_op!(
    PriorBoxes,
    name = |op| match op.layout {
        Layout::PriorBox(_) => "OpenVinoPriorBox",
        Layout::Clustered(_) => "OpenVinoPriorBoxClustered",
    },
    info = |op| vec![format!("{} boxes of a cell", op.per_cell)],
    mints_runtime_symbols = |op| op.length_at_run_time
);

impl EvalOp for PriorBoxes {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (output_size, image_size) = args_2!(inputs);
        let cells = sizes(&output_size, ctx.symbols)?;
        let image = sizes(&image_size, ctx.symbols)?.map(|size| size as f32);
        let length = 4 * check_boxes(&self.name(), &[cells[0], cells[1], self.per_cell])?;
        let mut boxes = if length > 0 { self.boxes(cells, image, length) } else { vec![] };
        boxes.extend(self.variance.iter().cycle().take(length));
        Ok(tvec!(Tensor::from_shape(&[2, length], &boxes)?.into_tvalue()))
    }
}

impl TypedOp for PriorBoxes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [_, _] = expect_inputs("PriorBox", ["output_size", "image_size"], inputs)?;
        Ok(tvec!(f32::fact([2.to_dim(), self.length.clone()])))
    }

    set_symbols!(length);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_op::fails;

    fn run(output_size: [i64; 2]) -> TractResult<Tensor> {
        let op = PriorBoxes {
            layout: Layout::Clustered(PriorBoxClustered {
                sizes: vec![[2., 4.]],
                step: [0.; 2],
                offset: 0.,
            }),
            clip: false,
            variance: [0.5; 4],
            per_cell: 1,
            length: 4.to_dim(),
            length_at_run_time: false,
        };
        let inputs = tvec!(tensor1(&output_size).into_tvalue(), tensor1(&[8i64, 8]).into_tvalue());
        Ok(op.eval(&EvalContext::out_of_plan(), inputs)?[0].clone().into_tensor())
    }

    #[test]
    fn sizes_without_limit() {
        let box_and_variances = tensor2(&[[-0.125f32, -0.25, 0.125, 0.25], [0.5; 4]]);
        assert_eq!(run([1, 1]).unwrap(), box_and_variances);
        let most = isize::MAX as i64;
        for size in [[most, 0], [0, most]] {
            assert_eq!(run(size).unwrap().shape(), [2, 0]);
        }
        for (size, expected) in [
            ([most, most], "boxes, but must have 16777216 or fewer"),
            ([1 << 12, 1 << 13], "the output would have 4096 x 8192 x 1 boxes"),
            ([-1, 1], "height and width are -1 and 1, but must be 0 or more"),
        ] {
            fails(run(size), expected);
        }
    }
}
