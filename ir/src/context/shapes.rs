//! Dimensions that must be equal, and shapes that are broadcast.

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino_kernels::checks::listed;

use super::LayerContext;
use crate::workarounds::equal_shape::EqualShape;

impl LayerContext<'_, '_> {
    /// Notes that two dimensions are equal, because of what the layer does. `doing` says that, like `adds
    /// them`. Gives the one to go on with.
    ///
    /// If they are equal for some sizes only, or may be, compare them when the model runs.
    ///
    /// # Errors
    ///
    /// They are not equal.
    pub fn require_equal(&mut self, a: &TDim, b: &TDim, doing: &str) -> TractResult<TDim> {
        let layer = self.layer;
        self.translation.dimensions.require_equal(a, b, &|| format!("{layer} {doing}"))
    }

    /// Whether two dimensions are open ones of the same axis of two inputs, like two batches.
    pub(crate) fn are_alike(&self, a: &TDim, b: &TDim) -> bool {
        self.translation.dimensions.are_alike(a, b)
    }

    /// The shape to which some shapes are broadcast by NumPy's rules. If an open dimension meets another one
    /// that is not 1, they are taken to be equal.
    ///
    /// # Errors
    ///
    /// Two dimensions are neither equal nor 1.
    pub fn broadcast_shapes(&mut self, shapes: &[TVec<TDim>]) -> TractResult<TVec<TDim>> {
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let mut result: TVec<TDim> = tvec![1.to_dim(); rank];
        for shape in shapes {
            let offset = rank - shape.len();
            for (axis, dim) in shape.iter().enumerate() {
                let known = result[offset + axis].clone();
                result[offset + axis] = if known.is_one() {
                    dim.clone()
                } else if dim.is_one() || *dim == known {
                    known
                } else {
                    let shapes: Vec<String> = shapes.iter().map(|shape| listed(shape)).collect();
                    self.require_equal(
                        &known,
                        dim,
                        &format!("broadcasts shapes {}", shapes.join(" and ")),
                    )?
                };
            }
        }
        Ok(result)
    }

    /// Gives outlets one rank, with axes of size 1 in front. Checks that they can be broadcast to each other.
    ///
    /// # Errors
    ///
    /// As for [`broadcast_shapes`](Self::broadcast_shapes).
    pub fn broadcast(&mut self, outlets: &[OutletId]) -> TractResult<TVec<OutletId>> {
        let shapes =
            outlets.iter().map(|outlet| self.shape_of(*outlet)).collect::<TractResult<Vec<_>>>()?;
        let result = self.broadcast_shapes(&shapes)?;
        let mut aligned = tvec!();
        for (outlet, shape) in outlets.iter().zip(shapes) {
            let missing = result.len() - shape.len();
            let added = std::iter::repeat_n(AxisOp::Add(0), missing);
            let outlet = self.change_axes("fix_rank", *outlet, added)?;
            let dims = shape.iter().zip(&result[missing..]);
            let dims = dims.map(|(dim, agreed)| if dim.is_one() { dim } else { agreed }.clone());
            let mut wanted: TVec<TDim> = tvec![1.to_dim(); missing];
            wanted.extend(dims);
            aligned.push(match self.shape_of(outlet)? == wanted {
                true => outlet,
                false => self.wire("equal_shape", EqualShape::or_broadcast(wanted), &[outlet])?,
            });
        }
        Ok(aligned)
    }

    /// An outlet with the dimensions of another tensor, of which [`require_equal`](Self::require_equal) had nothing to
    /// say because they are only known when the model runs: that they are equal is checked then.
    pub(crate) fn with_shape(
        &mut self,
        outlet: OutletId,
        shape: TVec<TDim>,
    ) -> TractResult<OutletId> {
        if self.shape_of(outlet)? == shape {
            return Ok(outlet);
        }
        self.wire("equal_shape", EqualShape::new(shape), &[outlet])
    }
}
