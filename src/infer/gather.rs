use super::{batch_dim_rules, check_arity, rank_rules};
use crate::eval;
use crate::operation::Operation;
use crate::revision::{GatherRevision, Spec};
use crate::shape;
use tract_hir::internal::*;

/// A Gather node, and where its axis is stated.
#[derive(Debug, Clone)]
pub(crate) struct InferenceGather {
    pub operation: Operation<GatherRevision>,
    pub axis: Axis,
}

/// Where a node states the axis.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Axis {
    /// OpenVINO: in the third input.
    Input,
    /// The standard domain of ONNX: in an attribute.
    Attribute(i64),
}

impl InferenceGather {
    fn spec(&self) -> &'static Spec {
        self.operation.spec()
    }

    /// Runs `rules` with the number of batch dimensions, as soon as it is known.
    fn with_batch_dims<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        indices: &'p TensorProxy,
        rules: impl Fn(&mut Solver<'r>, usize) -> InferenceResult + 'r,
    ) -> InferenceResult {
        let (spec, batch_dims) = (self.spec(), self.operation.batch_dims);
        match usize::try_from(batch_dims) {
            Ok(batch_dims) => rules(s, batch_dims),
            Err(_) => s.given(&indices.rank, move |s, rank| {
                rules(s, shape::normalize_batch_dims(spec, batch_dims, rank as usize)?)
            }),
        }
    }

    /// Runs `rules` with the number of axes that `indices` contributes to the output, as soon as it is known. A
    /// negative `batch_dims` is that number.
    fn with_index_axes<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        indices: &'p TensorProxy,
        rules: impl Fn(&mut Solver<'r>, usize) -> InferenceResult + 'r,
    ) -> InferenceResult {
        let (spec, batch_dims) = (self.spec(), self.operation.batch_dims);
        if batch_dims < 0 {
            return rules(s, batch_dims.unsigned_abs() as usize);
        }
        s.given(&indices.rank, move |s, rank| {
            let rank = rank as usize;
            rules(s, rank - shape::normalize_batch_dims(spec, batch_dims, rank)?)
        })
    }

    fn wire_with_known_dims(
        &self,
        name: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        known: &[Option<TDim>],
    ) -> TractResult<TVec<OutletId>> {
        match self.axis {
            Axis::Input => self.operation.wire_with_known_dims(name, model, inputs, known),
            Axis::Attribute(axis) => {
                let gather = self.operation.gather_of(model, inputs, axis.into())?;
                model.wire_node(name, gather, inputs)
            }
        }
    }

    fn output_rank_rules<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        data: &'p TensorProxy,
        indices: &'p TensorProxy,
        output: &'p TensorProxy,
    ) -> InferenceResult {
        let (spec, batch_dims) = (self.spec(), self.operation.batch_dims);
        self.with_index_axes(s, indices, move |s, axes| {
            rank_rules(s, spec, data, output, axes, 1)
        })?;
        if batch_dims >= 0 {
            s.given_2(&data.rank, &output.rank, move |s, data, output| {
                let index_axes = output + 1 - data;
                ensure!(
                    index_axes >= 0,
                    "{}: the output has rank {output}, but must have rank {} or more, as data has rank \
                     {data}",
                    spec.name,
                    data - 1
                );
                s.equals(&indices.rank, index_axes.saturating_add(batch_dims))
            })?;
        }
        Ok(())
    }

    fn dim_rules<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        data: &'p TensorProxy,
        indices: &'p TensorProxy,
        output: &'p TensorProxy,
        axis: usize,
        data_rank: usize,
    ) -> InferenceResult {
        let spec = self.spec();
        self.with_batch_dims(s, indices, move |s, batch_dims| {
            shape::check_axis(spec, axis, batch_dims)?;
            for i in batch_dims..axis {
                s.equals(&output.shape[i], &data.shape[i])?;
            }
            s.given(&indices.rank, move |s, rank| {
                for i in batch_dims..rank as usize {
                    s.equals(&output.shape[axis + i - batch_dims], &indices.shape[i])?;
                }
                Ok(())
            })
        })?;
        self.with_index_axes(s, indices, move |s, axes| {
            for i in axis + 1..data_rank {
                s.equals(&output.shape[i - 1 + axes], &data.shape[i])?;
            }
            Ok(())
        })
    }
}

impl Expansion for InferenceGather {
    fn name(&self) -> StaticName {
        self.spec().name.into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.operation.info())
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let spec = self.spec();
        let expected = match self.axis {
            Axis::Input => &["data", "indices", "axis"][..],
            Axis::Attribute(_) => &["data", "indices"],
        };
        check_arity(spec, expected, inputs, outputs)?;
        let (data, indices, output) = (&inputs[0], &inputs[1], &outputs[0]);

        s.equals(&output.datum_type, &data.datum_type)?;
        s.given(&indices.datum_type, move |_, dt| eval::ensure_integer(spec, "indices", dt))?;
        let batch_rules = move |s: &mut Solver<'r>, batch_dims| {
            (0..batch_dims)
                .try_for_each(|i| batch_dim_rules(s, spec, i, data, indices, Some(output)))
        };
        let batch_dims = self.operation.batch_dims;
        s.given(&indices.rank, move |s, rank| {
            batch_rules(s, shape::normalize_batch_dims(spec, batch_dims, rank as usize)?)
        })?;
        s.given(&data.rank, move |s, rank| {
            shape::check_data_rank(spec, batch_dims, rank as usize)?;
            self.with_batch_dims(s, indices, move |s, batch_dims| {
                shape::check_data_rank(spec, batch_dims as i64, rank as usize)?;
                batch_rules(s, batch_dims)
            })
        })?;
        self.output_rank_rules(s, data, indices, output)?;
        let rules_for_axis = move |s: &mut Solver<'r>, axis: i128| {
            if let Ok(axis) = usize::try_from(axis) {
                self.with_batch_dims(s, indices, move |_, batch_dims| {
                    shape::check_axis(spec, axis, batch_dims)
                })?;
            }
            s.given(&data.rank, move |s, rank| {
                let axis = shape::normalize_axis(spec, axis, rank as usize)?;
                self.dim_rules(s, data, indices, output, axis, rank as usize)
            })
        };
        match self.axis {
            Axis::Attribute(axis) => rules_for_axis(s, axis.into()),
            Axis::Input => {
                let axis = &inputs[2];
                s.given(&axis.datum_type, move |_, dt| eval::ensure_integer(spec, "axis", dt))?;
                s.given(&axis.value, move |s, axis| match eval::axis_if_known(spec, &axis)? {
                    Some(axis) => rules_for_axis(s, axis),
                    None => Ok(()),
                })
            }
        }
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        self.wire_with_known_dims(prefix, model, inputs, &[])
    }

    /// While the axis is unknown, the model's file or its user may know more of the output's shape than the
    /// inputs say.
    fn wire_with_inference_model_and_node(
        &self,
        prefix: &str,
        _source: &InferenceModel,
        node: &InferenceNode,
        target: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let dims = node.outputs[0].fact.shape.dims();
        let known: Vec<Option<TDim>> = dims.map(|dim| dim.concretize()).collect();
        self.wire_with_known_dims(prefix, target, inputs, &known)
    }
}
