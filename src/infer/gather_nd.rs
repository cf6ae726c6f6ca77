use super::{batch_dim_rules, check_arity, rank_rules};
use crate::eval;
use crate::operation::Operation;
use crate::revision::GatherNdRevision;
use crate::shape;
use tract_hir::internal::*;

/// A GatherND node.
#[derive(Debug, Clone)]
pub(crate) struct InferenceGatherNd(pub Operation<GatherNdRevision>);

impl Expansion for InferenceGatherNd {
    fn name(&self) -> StaticName {
        self.0.spec().name.into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(self.0.info())
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        let spec = self.0.spec();
        let batch_dims = usize::try_from(self.0.batch_dims)?;
        check_arity(spec, &["data", "indices"], inputs, outputs)?;
        let [data, indices] = inputs else { unreachable!("checked above") };
        let output = &outputs[0];
        let fused = shape::fuses_batch(spec, batch_dims);
        let batch_axes = if fused { 1 } else { batch_dims };

        s.equals(&output.datum_type, &data.datum_type)?;
        s.given(&indices.datum_type, move |_, dt| eval::ensure_integer(spec, "indices", dt))?;

        for (input, name) in [(data, "data"), (indices, "indices")] {
            s.given(&input.rank, move |s, rank| {
                shape::check_nd_rank(spec, name, rank as usize, batch_dims)?;
                for i in 0..batch_dims {
                    batch_dim_rules(s, spec, i, data, indices, (!fused).then_some(output))?;
                }
                if fused {
                    let dims =
                        |input: &'p TensorProxy| (0..batch_dims).map(move |i| &input.shape[i]);
                    s.given_all(dims(data).chain(dims(indices)), move |s, dims| {
                        let (data, indices) = dims.split_at(batch_dims);
                        let dims = data.iter().zip(indices).enumerate();
                        let dims = dims
                            .map(|(i, (data, indices))| shape::batch_dim(spec, i, data, indices))
                            .collect::<TractResult<TVec<TDim>>>()?;
                        s.equals(&output.shape[0], shape::product(spec, &dims)?)
                    })?;
                }
                Ok(())
            })?;
        }

        s.given(&indices.rank, move |s, rank| {
            let last = rank as usize - 1;
            let leading = batch_axes + last - batch_dims;
            for i in batch_dims..last {
                s.equals(&output.shape[batch_axes + i - batch_dims], &indices.shape[i])?;
            }
            s.given(&indices.shape[last], move |s, tuple| {
                let Some(tuple) = tuple.as_i64() else { return Ok(()) };
                let tuple = shape::tuple_length(spec, tuple)?;
                s.given(&data.rank, move |s, rank| {
                    let rank = rank as usize;
                    shape::check_tuple(spec, tuple, batch_dims, rank)?;
                    for i in batch_dims + tuple..rank {
                        let after = i - batch_dims - tuple;
                        s.equals(&output.shape[leading + after], &data.shape[i])?;
                    }
                    Ok(())
                })?;
                rank_rules(s, spec, data, output, leading, batch_dims + tuple)
            })?;
            s.given_2(&data.rank, &output.rank, move |s, data, output| {
                let tuple = data - batch_dims as i64 - (output - leading as i64);
                ensure!(
                    (0..=data - batch_dims as i64).contains(&tuple),
                    "{}: the output has rank {output}, but must have a rank in [{leading}, {}], as data has \
                     rank {data}, indices has rank {rank} and batch_dims is {batch_dims}",
                    spec.name,
                    leading as i64 + data - batch_dims as i64
                );
                s.equals(&indices.shape[last], tuple.to_dim())
            })
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        self.0.wire(prefix, model, inputs)
    }
}
