use tract_core::internal::*;
use tract_openvino_kernels::checks::listed;

use tract_core::num_traits::Float;

use super::impl_plain_op;

/// The inverses of the matrices in the last two axes, or of their transposes.
///
/// That of a matrix without an inverse has infinities or NaN.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct Inverse {
    pub transpose: bool,
}

impl_plain_op!(Inverse, "OpenVinoInverse");

/// The size of square matrices.
fn size<D: DimLike>(shape: &[D]) -> TractResult<D> {
    match shape {
        [.., rows, columns] if rows == columns => Ok(rows.clone()),
        _ => bail!(
            "Inverse: the data has shape {shape}, but must have square matrices in its last two axes",
            shape = listed(shape)
        ),
    }
}

impl Inverse {
    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let data = args_1!(inputs);
        size(data.shape())?;
        let dt = data.datum_type();
        let output = match dt {
            DatumType::F64 => self.inverses::<f64>(data.into_tensor())?,
            DatumType::F32 => self.inverses::<f32>(data.into_tensor())?,
            _ => bail!("Inverse: the data is of type {dt:?}, but must be F32 or F64"),
        };
        Ok(tvec!(output.into_tvalue()))
    }

    fn inverses<T: Datum + Float>(&self, mut data: Tensor) -> TractResult<Tensor> {
        let size = size(data.shape())?;
        if data.len() > 0 {
            let mut data = data.try_as_plain_ram_mut()?;
            for matrix in data.as_slice_mut::<T>()?.chunks_exact_mut(size * size) {
                invert(matrix, size);
                if self.transpose {
                    transpose(matrix, size);
                }
            }
        }
        Ok(data)
    }
}

/// Inverts a matrix in its place: Gauss and Jordan's elimination, with the greatest element of a column as pivot.
fn invert<T: Float>(matrix: &mut [T], size: usize) {
    let mut swaps = vec![];
    for pivot in 0..size {
        let magnitude = |matrix: &[T], row: usize| matrix[row * size + pivot].abs();
        let row = (pivot + 1..size).fold(pivot, |best, row| {
            if magnitude(matrix, row) > magnitude(matrix, best) { row } else { best }
        });
        swaps.push(row);
        (0..size).for_each(|column| matrix.swap(pivot * size + column, row * size + column));
        let scale = matrix[pivot * size + pivot].recip();
        matrix[pivot * size + pivot] = T::one();
        for column in 0..size {
            matrix[pivot * size + column] = matrix[pivot * size + column] * scale;
        }
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = std::mem::replace(&mut matrix[row * size + pivot], T::zero());
            for column in 0..size {
                let change = factor * matrix[pivot * size + column];
                matrix[row * size + column] = matrix[row * size + column] - change;
            }
        }
    }
    for (pivot, row) in swaps.into_iter().enumerate().rev() {
        (0..size).for_each(|it| matrix.swap(it * size + pivot, it * size + row));
    }
}

fn transpose<T>(matrix: &mut [T], size: usize) {
    for row in 0..size {
        (0..row).for_each(|column| matrix.swap(row * size + column, column * size + row));
    }
}

impl Inverse {
    fn facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        size(&inputs[0].shape.to_tvec())?;
        Ok(tvec!(inputs[0].without_value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_are_swapped_back() {
        let mut matrix = [0., 2., 1., 1., 0., 0., 4., 1., 0.];
        invert(&mut matrix, 3);
        assert_eq!(matrix, [0., 1., 0., 0., -4., 1., 1., 8., -2.]);
        transpose(&mut matrix, 3);
        assert_eq!(matrix, [0., 0., 1., 1., -4., 8., 0., 1., -2.]);
        let mut singular = [1f32, 2., 2., 4.];
        invert(&mut singular, 2);
        assert!(singular.iter().all(|it| !it.is_finite()), "{singular:?}");
    }
}
