//! What an operator checks of its inputs and its output.

use std::fmt::Display;
use std::ops::RangeInclusive;

use tract_core::internal::*;

/// The most elements of an output: its sizes may be computed from numbers in a file.
pub const MAX_OUTPUT_ELEMENTS: usize = power_of_two(32);

/// A power of two as a limit of sizes. Where a `usize` has 32 bits it is 2³⁰ at most: no tensor has more elements there, and two of
/// them can be added.
pub const fn power_of_two(exponent: u32) -> usize {
    1 << capped(exponent, usize::BITS)
}

const fn capped(exponent: u32, bits: u32) -> u32 {
    if exponent < bits - 2 { exponent } else { bits - 2 }
}

/// The product of some sizes of a tensor, or `usize::MAX` if it does not fit: then the tensor has no elements.
pub(crate) fn extent(sizes: &[usize]) -> usize {
    if sizes.contains(&0) { 0 } else { volume(sizes).unwrap_or(usize::MAX) }
}

/// The product of sizes, or `None` if it does not fit: a model may state any sizes.
pub fn volume<'a>(sizes: impl IntoIterator<Item = &'a usize>) -> Option<usize> {
    sizes.into_iter().try_fold(1usize, |volume, size| volume.checked_mul(*size))
}

/// A dimension that is known, as a size. (tract's `to_usize` cuts off the sign, and the bits that a `usize` does not have.)
///
/// # Errors
///
/// The dimension is an expression of symbols, negative, or more than a tensor in memory may have.
pub fn known_size(dim: &TDim) -> TractResult<usize> {
    size_up_to(isize::MAX as u64, dim)
}

/// Those of the dimensions that are known, as sizes.
///
/// # Errors
///
/// One of them is negative, or more than a tensor in memory may have.
pub fn known_sizes(dims: &[TDim]) -> TractResult<TVec<usize>> {
    dims.iter().filter(|dim| dim.as_i64().is_some()).map(known_size).collect()
}

fn size_up_to(most: u64, dim: &TDim) -> TractResult<usize> {
    let number = dim.to_i64()?;
    let size = u64::try_from(number).ok().filter(|size| *size <= most);
    let size = size.and_then(|size| usize::try_from(size).ok());
    size.with_context(|| format!("a dimension is {number}, but must be from 0 to {most}"))
}

/// Dimensions as a user writes them, like `[2, N, 3]`, for errors. (The `Debug` text of a `TDim` is `Sym(N)`.)
pub fn listed<D: Display>(dims: &[D]) -> String {
    format!("[{}]", dims.iter().map(D::to_string).collect::<Vec<_>>().join(", "))
}

/// Tries to allocate so many bytes, before an operator allocates them: for its output, and for other memory whose size
/// is not that of an input. tract panics if it cannot allocate, and a vector ends the process.
///
/// Up to 16 MiB are not tried: a process without them cannot go on anyway.
///
/// # Errors
///
/// The allocator refuses. The error begins with the name of the operator.
pub fn ensure_allocatable(operator: &str, bytes: usize) -> TractResult<()> {
    const SMALL: usize = 1 << 24;
    if bytes > SMALL {
        let mut attempt = Vec::<u8>::new();
        attempt
            .try_reserve_exact(bytes)
            .with_context(|| format!("{operator}: no memory for {bytes} bytes"))?;
        // Otherwise the compiler may remove the attempt.
        std::hint::black_box(attempt);
    }
    Ok(())
}

/// Checks the number of inputs. An end of `usize::MAX` allows any number from the start on.
///
/// # Errors
///
/// The number is not allowed. The error does not name the operator: [`expect_input_count`] does.
pub fn check_input_count(count: usize, allowed: RangeInclusive<usize>) -> TractResult<()> {
    let expected = match (*allowed.start(), *allowed.end()) {
        (least, most) if least == most => format!("{least}"),
        (least, usize::MAX) => format!("{least} or more"),
        (least, most) if least + 1 == most => format!("{least} or {most}"),
        (least, most) => format!("{least} to {most}"),
    };
    ensure!(allowed.contains(&count), "the number of inputs is {count}, but must be {expected}");
    Ok(())
}

/// Checks the number of inputs of an operator, as [`check_input_count`].
///
/// # Errors
///
/// The number is not allowed. The error begins with the name of the operator.
pub fn expect_input_count(
    operator: &str,
    count: usize,
    allowed: RangeInclusive<usize>,
) -> TractResult<()> {
    check_input_count(count, allowed).map_err(|error| format_err!("{operator}: {error}"))
}

/// Checks that there is an input for each of these names.
///
/// # Errors
///
/// There are fewer or more. The error begins with the name of the operator, and ends with those of the inputs.
pub fn check_named_inputs(operator: &str, names: &[&str], count: usize) -> TractResult<()> {
    check_input_count(count, names.len()..=names.len())
        .map_err(|error| format_err!("{operator}: {error}: {}", names.join(", ")))
}

/// The inputs of an operator, one for each of these names.
///
/// # Errors
///
/// There are fewer or more. The error begins with the name of the operator, and ends with those of the inputs.
pub fn expect_inputs<T: Clone, const N: usize>(
    operator: &str,
    names: [&str; N],
    inputs: &[T],
) -> TractResult<[T; N]> {
    check_named_inputs(operator, &names, inputs.len())?;
    inputs.first_chunk().cloned().with_context(|| format!("{operator}: an input is missing"))
}

/// The only input of an operator, which must be of this type.
pub(crate) fn expect_data<'a>(
    operator: &str,
    dt: DatumType,
    inputs: &[&'a TypedFact],
) -> TractResult<&'a TypedFact> {
    let [data] = expect_inputs(operator, ["data"], inputs)?;
    ensure!(data.datum_type == dt, "{operator}: the data is {data:?}, but must be of type {dt:?}");
    Ok(data)
}

/// The number of elements of an operator's output, which is checked before there is memory for them.
///
/// # Errors
///
/// The errors of [`checked_volume`] and [`ensure_allocatable`].
pub fn check_volume(operator: &str, dt: DatumType, shape: &[usize]) -> TractResult<usize> {
    let volume = checked_volume(operator, shape)?;
    ensure_allocatable(operator, volume.saturating_mul(dt.size_of()))
        .with_context(|| format!("the output has shape {shape:?}"))?;
    Ok(volume)
}

/// The number of elements of an operator's output, if it is not too large.
///
/// # Errors
///
/// The output has more than [`MAX_OUTPUT_ELEMENTS`] elements, or its sizes, without those that are 0, cannot be multiplied.
pub fn checked_volume(operator: &str, shape: &[usize]) -> TractResult<usize> {
    // ndarray can not look at a tensor without elements if its other sizes cannot be multiplied.
    let others = volume(shape.iter().filter(|size| **size > 0));
    ensure!(
        others.is_some_and(|volume| isize::try_from(volume).is_ok()),
        "{operator}: the sizes of an output of shape {shape:?} cannot be multiplied"
    );
    let volume = volume(shape).filter(|volume| *volume <= MAX_OUTPUT_ELEMENTS);
    volume.with_context(|| {
        format!(
            "{operator}: an output of shape {shape:?} has more than {MAX_OUTPUT_ELEMENTS} elements"
        )
    })
}

/// Checks the sizes of an operator's output that are known when the model is loaded. tract takes a size for what is left of it in a
/// `usize`: 2³² + 1 for 1, where that has 32 bits. Negative sizes are left to [`checked_volume`], for which they are large ones.
///
/// # Errors
///
/// A size is more than a tensor in memory may have.
pub fn check_addressable(operator: &str, shape: &[TDim]) -> TractResult<()> {
    check_addresses(isize::MAX as i64, operator, shape)
}

fn check_addresses(most: i64, operator: &str, shape: &[TDim]) -> TractResult<()> {
    let fits = |dim: &TDim| dim.as_i64().is_none_or(|size| (-most..=most).contains(&size));
    ensure!(
        shape.iter().all(fits),
        "{operator}: an output of shape {} has more than {MAX_OUTPUT_ELEMENTS} elements",
        listed(shape)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model_cases::MANY;

    #[test]
    fn outputs_have_a_limit() {
        assert_eq!(
            checked_volume("Take", &[MAX_OUTPUT_ELEMENTS / 2, 2]).unwrap(),
            MAX_OUTPUT_ELEMENTS
        );
        checked_volume("Take", &[MAX_OUTPUT_ELEMENTS, 2]).unwrap_err();
        assert_eq!([0, 29, 200].map(power_of_two), [1, 1 << 29, 1 << (usize::BITS - 2)]);
        assert_eq!([0, 29, 30, 32, 40].map(|it| capped(it, 32)), [0, 29, 30, 30, 30]);
        assert_eq!([32, 40, 70].map(|it| capped(it, 64)), [32, 40, 62]);
        assert_eq!(
            [&[2, 3][..], &[], &[MANY, MANY, 0], &[MANY, MANY]].map(extent),
            [6, 1, 0, usize::MAX]
        );
        assert_eq!(checked_volume("Take", &[MANY, 1 << 10, 0]).unwrap(), 0);
        checked_volume("Take", &[usize::MAX, usize::MAX, 0]).unwrap_err();
        checked_volume("Take", &[1 << 16, 1 << 16, 2]).unwrap_err();
        checked_volume("Take", &[MANY, MANY]).unwrap_err();
    }

    #[test]
    fn dimensions_that_are_no_size() {
        let most = u64::from(i32::MAX.unsigned_abs());
        assert_eq!(size_up_to(most, &i32::MAX.to_dim()).unwrap(), i32::MAX as usize);
        // Cut off, the last one would be 3.
        for number in [-1i64, 1 << 31, (1i64 << 32) + 3] {
            let error = size_up_to(most, &number.to_dim()).unwrap_err().to_string();
            assert_eq!(error, format!("a dimension is {number}, but must be from 0 to 2147483647"));
        }
        known_size(&i64::MIN.to_dim()).unwrap_err();
        known_size(&SymbolScope::default().sym("N").to_dim()).unwrap_err();
    }

    #[test]
    fn sizes_that_would_be_cut_off() {
        let scope = SymbolScope::default();
        let n = scope.sym("N").to_dim();
        let check =
            |size: i64| check_addresses(i32::MAX.into(), "Tile", &[n.clone(), size.to_dim()]);
        for size in [0, 7, i32::MAX.into(), -1] {
            check(size).unwrap();
        }
        for size in [1 << 31, 1i64 << 32, (1i64 << 32) + 1, 1 - (1i64 << 32)] {
            let error = check(size).unwrap_err().to_string();
            assert!(error.contains(&format!("of shape [N, {size}] has more than")), "{error}");
        }
        check_addressable("Tile", &[n, (isize::MAX as i64).to_dim()]).unwrap();
    }

    #[test]
    fn memory_that_is_not_there() {
        ensure_allocatable("Take", 1 << 25).unwrap();
        for bytes in [isize::MAX as usize + 1, usize::MAX] {
            let error = ensure_allocatable("Take", bytes).unwrap_err().to_string();
            assert_eq!(error, format!("Take: no memory for {bytes} bytes"));
        }
    }

    #[test]
    fn numbers_of_inputs() {
        let text = |count, allowed| match check_input_count(count, allowed) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text(2, 2..=2), "");
        assert_eq!(text(5, 1..=usize::MAX), "");
        assert_eq!(text(1, 2..=2), "the number of inputs is 1, but must be 2");
        assert_eq!(text(4, 2..=3), "the number of inputs is 4, but must be 2 or 3");
        assert_eq!(text(7, 2..=6), "the number of inputs is 7, but must be 2 to 6");
        assert_eq!(text(0, 1..=usize::MAX), "the number of inputs is 0, but must be 1 or more");
        let error = expect_input_count("Loop", 1, 2..=usize::MAX).unwrap_err().to_string();
        assert_eq!(error, "Loop: the number of inputs is 1, but must be 2 or more");
        assert_eq!(expect_inputs("Take", ["data", "positions"], &[1, 2]).unwrap(), [1, 2]);
        let error = expect_inputs("Take", ["data", "positions"], &[1]).unwrap_err().to_string();
        assert_eq!(error, "Take: the number of inputs is 1, but must be 2: data, positions");
    }
}
