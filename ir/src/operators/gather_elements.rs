use tract_core::internal::*;

use super::addressing::{Addressing, Places};
use super::integers;

/// OpenVINO's GatherElements: the elements of `data` at the places that `indices` name, one for each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GatherElements {
    pub axis: usize,
}

impl Op for GatherElements {
    fn name(&self) -> StaticName {
        "GatherElements".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        Ok(vec![format!("axis: {}", self.axis)])
    }

    op_as_typed_op!();
}

impl EvalOp for GatherElements {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices) = args_2!(inputs);
        let addressing = Addressing::Elements(self.axis);
        let shape = addressing.updates_shape(data.shape(), indices.shape())?;
        let numbers = integers(&indices, ctx.symbols)?;
        let places =
            addressing.places("GatherElements", data.shape(), indices.shape(), &numbers)?;
        let dt = data.datum_type();
        if dt.is_tdim() {
            return Ok(tvec!(read_sizes(&data, &places, &shape)?.into_tvalue()));
        }
        ensure!(dt.is_copy(), "elements of type {dt:?} cannot be moved");
        let mut output = Tensor::zero_dt(dt, &shape)?;
        let source = data.try_as_plain_ram()?;
        let source = source.as_bytes();
        {
            let mut target = output.try_as_plain_ram_mut()?;
            let target = target.as_bytes_mut();
            match dt.size_of() {
                1 => read_bytes::<1>(source, target, &places),
                2 => read_bytes::<2>(source, target, &places),
                4 => read_bytes::<4>(source, target, &places),
                8 => read_bytes::<8>(source, target, &places),
                size => bail!("elements of {size} bytes cannot be moved"),
            }
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

fn read_sizes(data: &Tensor, places: &Places, shape: &[usize]) -> TractResult<Tensor> {
    let data = data.try_as_plain_ram()?;
    let data = data.as_slice::<TDim>()?;
    let sizes: Vec<TDim> = places.starts.iter().map(|start| data[*start].clone()).collect();
    tensor1(&sizes).into_shape(shape)
}

fn read_bytes<const SIZE: usize>(source: &[u8], target: &mut [u8], places: &Places) {
    let (source, target) = (source.as_chunks::<SIZE>().0, target.as_chunks_mut::<SIZE>().0);
    for (element, start) in target.iter_mut().zip(&places.starts) {
        *element = source[*start];
    }
}

impl TypedOp for GatherElements {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, indices] = *inputs else { bail!("there are {} inputs", inputs.len()) };
        let addressing = Addressing::Elements(self.axis);
        let shape = addressing.updates_shape(&data.shape.to_tvec(), &indices.shape.to_tvec())?;
        Ok(tvec!(data.datum_type.fact(shape)))
    }

    as_op!();
}
