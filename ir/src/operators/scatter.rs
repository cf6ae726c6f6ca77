use tract_core::internal::*;
use tract_openvino_kernels::checks::expect_inputs;

use super::addressing::{Addressing, Places};
use super::number::Number;
use super::{dispatch_number, impl_op, integers};

/// How an update and the element that is there become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    None,
    Sum,
    Sub,
    Prod,
    Min,
    Max,
    Mean,
}

/// OpenVINO's operations that write: the output is `data` with other elements at some places.
///
/// Inputs are `data`, `indices` and `updates`. Updates are written in the order of `indices`. If several have
/// one place, the last one stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scatter {
    pub operator: &'static str,
    pub addressing: Addressing,
    pub reduction: Reduction,
    /// Whether the elements of `data` take part in the reduction.
    pub use_init_val: bool,
}

impl_op!(
    Scatter,
    name = |op| format!("OpenVino{}", op.operator),
    info = |op| {
        let Self { addressing, reduction, use_init_val, .. } = op;
        vec![format!("{addressing:?}, {reduction:?}, use_init_val: {use_init_val}")]
    }
);

impl EvalOp for Scatter {
    op_out_of_plan!();

    fn eval(&self, ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (data, indices, updates) = args_3!(inputs);
        let shape = self.addressing.updates_shape(data.shape(), indices.shape())?;
        ensure!(
            updates.shape() == &*shape,
            "{}: updates have shape {:?}, but must have {shape:?}, as data has {:?} and indices have {:?}",
            self.operator,
            updates.shape(),
            data.shape(),
            indices.shape()
        );
        ensure!(
            data.datum_type() == updates.datum_type(),
            "{}: updates are of type {:?}, but must be of type {:?}, as data",
            self.operator,
            updates.datum_type(),
            data.datum_type()
        );
        let numbers = integers(&indices, ctx.symbols)?;
        let places =
            self.addressing.places(self.operator, data.shape(), indices.shape(), &numbers)?;
        let mut data = data.into_tensor();
        let dt = data.datum_type();
        match self.reduction {
            Reduction::None => overwrite(&mut data, &updates, &places)?,
            _ => dispatch_number!(reduce(dt)(self, &mut data, &updates, &places))?,
        }
        Ok(tvec!(data.into_tvalue()))
    }
}

/// Writes elements, or the bytes of elements.
fn write<T: Clone>(data: &mut [T], updates: &[T], places: &Places, size: usize) {
    let block = places.block * size;
    for (number, start) in places.starts.iter().enumerate() {
        let update = &updates[number * block..][..block];
        data[start * size..][..block].clone_from_slice(update);
    }
}

/// Writes the elements of updates one after another, of whatever type they are.
pub(super) fn overwrite(data: &mut Tensor, updates: &Tensor, places: &Places) -> TractResult<()> {
    match data.datum_type() {
        DatumType::TDim => replace::<TDim>(data, updates, places),
        DatumType::String => replace::<String>(data, updates, places),
        _ => replace_bytes(data, updates, places),
    }
}

fn replace<T: Datum>(data: &mut Tensor, updates: &Tensor, places: &Places) -> TractResult<()> {
    let updates = updates.try_as_plain_ram()?;
    write(data.try_as_plain_ram_mut()?.as_slice_mut::<T>()?, updates.as_slice::<T>()?, places, 1);
    Ok(())
}

fn replace_bytes(data: &mut Tensor, updates: &Tensor, places: &Places) -> TractResult<()> {
    let dt = data.datum_type();
    ensure!(dt.is_copy(), "elements of type {dt:?} cannot be moved");
    let updates = updates.try_as_plain_ram()?;
    let mut data = data.try_as_plain_ram_mut()?;
    write(data.as_bytes_mut(), updates.as_bytes(), places, dt.size_of());
    Ok(())
}

fn reduce<T: Number>(
    op: &Scatter,
    data: &mut Tensor,
    updates: &Tensor,
    places: &Places,
) -> TractResult<()> {
    let combine: fn(T, T) -> T = match op.reduction {
        Reduction::None => |_, new| new,
        Reduction::Sum | Reduction::Mean => T::add,
        Reduction::Sub => T::sub,
        Reduction::Prod => T::mul,
        Reduction::Min => |old, new| if new < old { new } else { old },
        Reduction::Max => |old, new| if new > old { new } else { old },
    };
    let updates = updates.try_as_plain_ram()?;
    let updates = updates.as_slice::<T>()?;
    let mut data = data.try_as_plain_ram_mut()?;
    let data = data.as_slice_mut::<T>()?;
    // How many numbers were added to each element.
    let counted = op.reduction == Reduction::Mean || !op.use_init_val;
    let mut counts = vec![op.use_init_val as u32; if counted { data.len() } else { 0 }];
    for (number, start) in places.starts.iter().enumerate() {
        let update = &updates[number * places.block..][..places.block];
        for (place, new) in (*start..).zip(update) {
            let first = counted && counts[place] == 0;
            data[place] = if first { *new } else { combine(data[place], *new) };
            if counted {
                counts[place] = counts[place].saturating_add(1);
            }
        }
    }
    if op.reduction == Reduction::Mean {
        for (element, count) in data.iter_mut().zip(counts) {
            if count > 1 {
                *element = element.mean_of(count as usize);
            }
        }
    }
    Ok(())
}

impl TypedOp for Scatter {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, indices, updates] =
            expect_inputs("Scatter", ["data", "indices", "updates"], inputs)?;
        let shape =
            self.addressing.updates_shape(&data.shape.to_tvec(), &indices.shape.to_tvec())?;
        ensure!(
            updates.rank() == shape.len(),
            "updates have rank {}, but must have {}",
            updates.rank(),
            shape.len()
        );
        ensure!(
            data.datum_type == updates.datum_type,
            "updates are of type {:?}, but must be of type {:?}, as data",
            updates.datum_type,
            data.datum_type
        );
        Ok(tvec!(data.without_value()))
    }

    as_op!();
}

#[cfg(test)]
mod tests {
    use model_cases::MANY;
    use tract_openvino::IndexError;

    use super::*;

    fn run(op: &dyn EvalOp, inputs: &[Tensor]) -> TractResult<Tensor> {
        let inputs = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
        Ok(op.eval(&EvalContext::out_of_plan(), inputs)?.remove(0).into_tensor())
    }

    fn scatter(addressing: Addressing, reduction: Reduction) -> Scatter {
        Scatter { operator: "ScatterUpdate", addressing, reduction, use_init_val: true }
    }

    #[test]
    fn an_index_out_of_range_is_an_error_that_says_where() {
        let data = tensor2(&[[1, 2], [3, 4]]);
        for (op, indices, updates) in [
            (Addressing::Elements(0), tensor2(&[[0i64, 2]]), tensor2(&[[7, 7]])),
            (Addressing::Slices(0), tensor2(&[[0i64, 2]]), tensor3(&[[[7, 7], [7, 7]]])),
            (Addressing::Tuples, tensor2(&[[0i64, 2]]), tensor1(&[7])),
        ] {
            let op = scatter(op, Reduction::None);
            let error = run(&op, &[data.clone(), indices, updates]).unwrap_err();
            let error = error.downcast_ref::<IndexError>().unwrap();
            assert_eq!((&*error.position, error.value), (&[0, 1][..], 2), "{op:?}");
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let data = tensor2(&[[1, 2], [3, 4]]);
        let elements = scatter(Addressing::Elements(0), Reduction::None);
        run(&elements, &[data.clone(), tensor2(&[[0i64, 0]]), tensor2(&[[1]])]).unwrap_err();
        let tuples = scatter(Addressing::Tuples, Reduction::None);
        for indices in [tensor1(&[0i64, 0, 0]), tensor0(0i64)] {
            run(&tuples, &[data.clone(), indices, tensor0(1)]).unwrap_err();
        }
    }

    #[test]
    fn what_is_empty() {
        let data = tensor1(&[1, 2]);
        let (none, updates) =
            (Tensor::zero::<i64>(&[0]).unwrap(), Tensor::zero::<i32>(&[0]).unwrap());
        for addressing in [Addressing::Elements(0), Addressing::Slices(0)] {
            let op = scatter(addressing, Reduction::Sum);
            assert_eq!(run(&op, &[data.clone(), none.clone(), updates.clone()]).unwrap(), data);
        }
        // A tuple of no coordinates names all of `data`.
        let op = scatter(Addressing::Tuples, Reduction::None);
        let found = run(&op, &[data, none, tensor1(&[5, 6])]).unwrap();
        assert_eq!(found, tensor1(&[5, 6]));
    }

    #[test]
    fn many_places_without_elements() {
        let zeros = |shape: &[usize]| Tensor::zero::<i32>(shape).unwrap();
        for (addressing, data, indices, updates) in [
            (Addressing::Tuples, &[0][..], &[MANY, 0][..], &[MANY, 0][..]),
            (Addressing::Slices(1), &[MANY, 1, 0], &[1], &[MANY, 1, 0]),
        ] {
            let inputs = [data, indices, updates].map(zeros);
            let found = run(&scatter(addressing, Reduction::None), &inputs).unwrap();
            assert_eq!(found, inputs[0]);
        }
    }

    #[test]
    fn a_mean_of_integers_is_rounded_down() {
        let op = scatter(Addressing::Elements(0), Reduction::Mean);
        let inputs = [tensor1(&[-4, 1]), tensor1(&[0i64, 0]), tensor1(&[-3, -3])];
        assert_eq!(run(&op, &inputs).unwrap(), tensor1(&[-4, 1]));
        let without = Scatter { use_init_val: false, ..op };
        assert_eq!(run(&without, &inputs).unwrap(), tensor1(&[-3, 1]));
    }
}
