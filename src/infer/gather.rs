use super::{batch_dim_rules, check_arity, rank_rules};
use crate::eval::{self, IntegerTensor};
use crate::ops::Gather;
use crate::revision::{GatherRevision, NegativeIndices, Revision, Row};
use crate::shape;
use tract_hir::internal::*;

/// A Gather node of a model: `batch_dims` as stated, `axis` an input.
#[derive(Debug, Clone)]
pub(crate) struct InferenceGather {
    pub revision: GatherRevision,
    pub batch_dims: i64,
    pub negative_indices: NegativeIndices,
}

impl InferenceGather {
    fn row(&self) -> &'static Row {
        self.revision.row()
    }

    /// The entry of the `axis` tensor; `None` if it is a dimension without a value yet.
    fn axis(&self, axis: &Tensor) -> TractResult<Option<i128>> {
        let row = self.row();
        ensure!(
            axis.rank() <= 1 && axis.len() == 1,
            "{}: axis has shape {:?}, but must be a scalar or a 1-D tensor of one element",
            row.name,
            axis.shape()
        );
        let known = IntegerTensor::if_known(row, "axis", axis)?;
        known.map(|entries| Ok(entries.entries()?.get(0))).transpose()
    }

    /// Runs `rules` with `batch_dims` counted from the first axis, once that is known.
    fn with_batch_dims<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        indices: &'p TensorProxy,
        rules: impl Fn(&mut Solver<'r>, usize) -> InferenceResult + 'r,
    ) -> InferenceResult {
        let (row, batch_dims) = (self.row(), self.batch_dims);
        match usize::try_from(batch_dims) {
            Ok(batch_dims) => rules(s, batch_dims),
            Err(_) => s.given(&indices.rank, move |s, rank| {
                rules(s, shape::normalize_batch_dims(row, batch_dims, rank as usize)?)
            }),
        }
    }

    /// Runs `rules` with the number of axes that `indices` contributes to the output, once that is
    /// known. With a negative `batch_dims` it is known from the start.
    fn with_index_axes<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        indices: &'p TensorProxy,
        rules: impl Fn(&mut Solver<'r>, usize) -> InferenceResult + 'r,
    ) -> InferenceResult {
        let (row, batch_dims) = (self.row(), self.batch_dims);
        if batch_dims < 0 {
            return rules(s, batch_dims.unsigned_abs() as usize);
        }
        s.given(&indices.rank, move |s, rank| {
            let rank = rank as usize;
            rules(s, rank - shape::normalize_batch_dims(row, batch_dims, rank)?)
        })
    }

    fn output_rank_rules<'r, 'p: 'r>(
        &self,
        s: &mut Solver<'r>,
        data: &'p TensorProxy,
        indices: &'p TensorProxy,
        output: &'p TensorProxy,
    ) -> InferenceResult {
        let (row, batch_dims) = (self.row(), self.batch_dims);
        s.given(&data.rank, move |_, rank| shape::check_data_rank(row, batch_dims, rank as usize))?;
        s.given(&indices.rank, move |_, rank| {
            shape::normalize_batch_dims(row, batch_dims, rank as usize).map(drop)
        })?;
        self.with_index_axes(s, indices, move |s, axes| rank_rules(s, row, data, output, axes, 1))?;
        if batch_dims >= 0 {
            s.given_2(&data.rank, &output.rank, move |s, data, output| {
                let index_axes = output + 1 - data;
                ensure!(
                    index_axes >= 0,
                    "{}: the output has rank {output}, but with data of rank {data} it has rank {} \
                     at least",
                    row.name,
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
        let row = self.row();
        self.with_batch_dims(s, indices, move |s, batch_dims| {
            shape::check_axis(row, axis, batch_dims)?;
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
        self.row().name.into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let row = self.row();
        check_arity(row, &["data", "indices", "axis"], inputs, outputs)?;
        let [data, indices, axis] = inputs else { unreachable!("checked above") };
        let output = &outputs[0];

        s.equals(&output.datum_type, &data.datum_type)?;
        s.given(&indices.datum_type, move |_, dt| eval::ensure_integer(row, "indices", dt))?;
        s.given(&axis.datum_type, move |_, dt| eval::ensure_integer(row, "axis", dt))?;
        s.given(&axis.value, move |_, axis| self.axis(&axis).map(drop))?;

        self.output_rank_rules(s, data, indices, output)?;
        let batch_rules = move |s: &mut Solver<'r>, batch_dims| {
            (0..batch_dims)
                .try_for_each(|i| batch_dim_rules(s, row, i, data, indices, Some(output)))
        };
        s.given(&indices.rank, move |s, rank| {
            batch_rules(s, shape::normalize_batch_dims(row, self.batch_dims, rank as usize)?)
        })?;
        s.given(&data.rank, move |s, rank| {
            shape::check_data_rank(row, self.batch_dims, rank as usize)?;
            usize::try_from(self.batch_dims).map_or(Ok(()), |batch_dims| batch_rules(s, batch_dims))
        })?;
        s.given_2(&axis.value, &data.rank, move |s, axis, rank| {
            let Some(axis) = self.axis(&axis)? else { return Ok(()) };
            let axis = shape::normalize_axis(row, axis, rank as usize)?;
            self.dim_rules(s, data, indices, output, axis, rank as usize)
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let row = self.row();
        let [data, indices, axis] = *inputs else {
            bail!("{}: got {} inputs, expected data, indices and axis", row.name, inputs.len())
        };
        let data_rank = model.outlet_fact(data)?.rank();
        let indices_rank = model.outlet_fact(indices)?.rank();
        let axis = model.outlet_fact(axis)?.konst.clone();
        let Some(axis) = axis.map(|axis| self.axis(&axis)).transpose()?.flatten() else {
            bail!(
                "{}: axis is only known at run time, which is not supported yet: it must be a \
                 constant (an initializer, a Constant node, or computed from constants)",
                row.name
            )
        };
        let axis = shape::normalize_axis(row, axis, data_rank)?;
        let op = Gather::with_ranks(
            self.revision,
            axis as i64,
            self.batch_dims,
            data_rank,
            indices_rank,
        )?;
        let op = op.with_negative_indices(self.negative_indices);
        model.wire_node(prefix, op, &[data, indices])
    }
}
