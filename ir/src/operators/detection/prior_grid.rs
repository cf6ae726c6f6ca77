use tract_core::internal::*;
use tract_openvino_kernels::checks::{expect_inputs, listed};

use super::{check_boxes, floats, impl_op, in_type_of, set_symbols};

/// ExperimentalDetectronPriorGridGenerator-6: the same boxes around the center of each cell of a feature map.
///
/// Input: boxes `[P, 4]`. Output: `[H, W, P, 4]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriorGrid {
    /// Height and width of the feature map, and of the image.
    pub sizes: TVec<TDim>,
    /// The height and width of a cell. If it is 0, the cells fill the image.
    pub stride: [f32; 2],
}

// Its floats are compared with those of equal attributes.
impl Eq for PriorGrid {}

impl_op!(
    PriorGrid,
    "OpenVinoPriorGrid",
    info = |op| vec![format!("{op:?}")],
    required_bound_symbols = |op, _| op.sizes.iter().flat_map(|size| size.symbols()).collect()
);

impl EvalOp for PriorGrid {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let size = |number: usize| {
            let size = self.sizes.get(number).context("there are four sizes")?;
            TractResult::Ok(usize::try_from(size.eval_to_i64(ctx.symbols)?)?)
        };
        let (rows, columns, image) = (size(0)?, size(1)?, [size(2)?, size(3)?]);
        let step = |stride: f32, image: usize, cells: usize| {
            if stride == 0. { image as f32 / cells as f32 } else { stride }
        };
        let height = step(self.stride[0], image[0], rows);
        let width = step(self.stride[1], image[1], columns);
        let boxes = floats(&input)?;
        let shape = [rows, columns, boxes.len() / 4, 4];
        let volume = 4 * check_boxes("PriorGridGenerator", &shape[..3])?;
        let mut output = Vec::with_capacity(volume);
        // Without boxes the map may have any size.
        let rows = if volume > 0 { rows } else { 0 };
        for row in 0..rows {
            for column in 0..columns {
                let center = [(column as f32 + 0.5) * width, (row as f32 + 0.5) * height];
                output.extend(
                    boxes.iter().zip(center.iter().cycle()).map(|(at, center)| at + center),
                );
            }
        }
        Ok(tvec!(in_type_of(&input, &shape, &output)?))
    }
}

impl TypedOp for PriorGrid {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [boxes] = expect_inputs("PriorGridGenerator", ["priors"], inputs)?;
        ensure!(
            boxes.rank() == 2 && boxes.shape[1] == 4.to_dim(),
            "PriorGridGenerator: priors have shape {}, but must be [priors, 4]",
            listed(&boxes.shape)
        );
        let [rows, columns, ..] = &self.sizes[..] else { bail!("there are four sizes") };
        let shape = [rows.clone(), columns.clone(), boxes.shape[0].clone(), 4.to_dim()];
        Ok(tvec!(boxes.datum_type.fact(&shape)))
    }

    set_symbols!(sizes);

    as_op!();
}
