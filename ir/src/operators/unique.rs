use std::cmp::Ordering;

use tract_core::internal::*;
use tract_core::ops::change_axes::AxisOp;
use tract_openvino_kernels::checks::ensure_allocatable;

use super::take::take;
use super::top_k::compare;
use super::{check_volume, dispatch_number, impl_op, set_symbols};

/// OpenVINO's Unique: the elements of a tensor, or its slices along an axis, each once.
///
/// Outputs are these, where each is first, which one each element of the input is, and how often each is there.
/// NaN is not equal to itself, and counts as greater than all numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Unique {
    /// `None` means elements.
    pub axis: Option<usize>,
    /// Whether the output is in ascending order, and not in that of the input.
    pub sorted: bool,
    /// The number of elements or slices: a symbol that only this node has.
    pub count: TDim,
}

impl_op!(
    Unique,
    "OpenVinoUnique",
    info = |op| vec![format!("axis: {:?}, sorted: {}", op.axis, op.sorted)],
    mints_runtime_symbols = |_| true
);

/// Which slices are equal.
struct Groups {
    /// Of each group its slices, in the order of the input.
    members: Vec<Vec<usize>>,
    /// Of each slice its group.
    inverse: Vec<i64>,
}

/// What the order and the groups take for each slice, in vectors that grow.
const BYTES_OF_SLICE: usize = 64;

fn groups<T: Datum + PartialOrd>(sorted: bool, slices: &Tensor) -> TractResult<Groups> {
    let count = slices.shape()[0];
    // Slices without elements take no memory, but their numbers do.
    check_volume("Unique", DatumType::I64, &[count])?;
    ensure_allocatable("Unique", count.saturating_mul(BYTES_OF_SLICE))?;
    let len = slices.len().checked_div(count).unwrap_or(0);
    let data = slices.try_as_plain_ram()?;
    let data = data.as_slice::<T>()?;
    let slice = |number: usize| &data[number * len..][..len];
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare_slices(slice(*a), slice(*b)));
    let mut members: Vec<Vec<usize>> = vec![];
    for number in order {
        match members.last_mut() {
            Some(group) if slice(group[0]) == slice(number) => group.push(number),
            _ => members.push(vec![number]),
        }
    }
    if !sorted {
        members.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0; count];
    for (number, group) in members.iter().enumerate() {
        group.iter().for_each(|member| inverse[*member] = number as i64);
    }
    Ok(Groups { members, inverse })
}

fn compare_slices<T: PartialOrd>(a: &[T], b: &[T]) -> Ordering {
    let orders = a.iter().zip(b).map(|(a, b)| compare(a, b));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl EvalOp for Unique {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let mut data = args_1!(inputs).into_tensor();
        if self.axis.is_none() {
            let len = data.len();
            data.set_shape(&[len])?;
        }
        let axis = self.axis.unwrap_or(0);
        // The elements of each slice are one after another.
        let mut slices = data.clone();
        AxisOp::Move(axis, 0).change_tensor(&mut slices, false)?;
        let groups = match data.datum_type() {
            DatumType::Bool => groups::<bool>(self.sorted, &slices)?,
            dt => dispatch_number!(groups(dt)(self.sorted, &slices))?,
        };
        let firsts: Vec<usize> = groups.members.iter().map(|group| group[0]).collect();
        let unique = take(&data, axis, &firsts)?;
        let numbers = |numbers: Vec<i64>| tensor1(&numbers).into_tvalue();
        Ok(tvec![
            unique.into_tvalue(),
            numbers(firsts.into_iter().map(|first| first as i64).collect()),
            numbers(groups.inverse),
            numbers(groups.members.iter().map(|group| group.len() as i64).collect()),
        ])
    }
}

impl TypedOp for Unique {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shape = inputs[0].shape.to_tvec();
        let (unique, slices) = match self.axis {
            None => (tvec![self.count.clone()], inputs[0].shape.volume()),
            Some(axis) => {
                ensure!(
                    axis < shape.len(),
                    "Unique: axis is {axis}, but must be in [0, {})",
                    shape.len()
                );
                let slices = shape[axis].clone();
                let mut unique = shape;
                unique[axis] = self.count.clone();
                (unique, slices)
            }
        };
        let numbers = |count: &TDim| DatumType::I64.fact([count.clone()]);
        Ok(tvec![
            inputs[0].datum_type.fact(unique),
            numbers(&self.count),
            numbers(&slices),
            numbers(&self.count),
        ])
    }

    set_symbols!(count);

    as_op!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(op: Unique, data: Tensor) -> [Tensor; 4] {
        let inputs = tvec!(data.into_tvalue());
        let outputs = op.eval(&EvalContext::out_of_plan(), inputs).unwrap();
        [0, 1, 2, 3].map(|output: usize| outputs[output].clone().into_tensor())
    }

    fn unique(axis: Option<usize>, sorted: bool) -> Unique {
        Unique { axis, sorted, count: 1.to_dim() }
    }

    #[test]
    fn each_nan_is_unique() {
        let data = tensor1(&[f32::NAN, 3., -0., 0., f32::NAN, 3.]);
        let [_, first, inverse, counts] = run(unique(None, true), data);
        assert_eq!(first, tensor1(&[2i64, 1, 0, 4]));
        assert_eq!(inverse, tensor1(&[2i64, 1, 0, 0, 3, 1]));
        assert_eq!(counts, tensor1(&[2i64, 2, 1, 1]));
    }

    #[test]
    fn slices_without_elements_are_equal() {
        let empty = Tensor::zero::<i32>(&[3, 0]).unwrap();
        let [values, _, inverse, counts] = run(unique(Some(0), true), empty.clone());
        assert_eq!((values.shape(), inverse), (&[1, 0][..], tensor1(&[0i64; 3])));
        assert_eq!(counts, tensor1(&[3i64]));
        let [values, first, ..] = run(unique(Some(1), true), empty.clone());
        assert_eq!((values.shape(), first.len()), (&[3, 0][..], 0));
        assert_eq!(run(unique(None, false), empty)[0].shape(), [0]);
    }
}
