//! What an operator checks of its inputs and its output.

use std::fmt::Display;
use std::ops::RangeInclusive;

use tract_core::internal::*;

/// The most elements of an output: its sizes may be computed from numbers in a file.
pub const MAX_OUTPUT_ELEMENTS: usize = power_of_two(32);

/// So many bits to the left of 1, or the largest `usize` where it has fewer bits.
pub const fn power_of_two(exponent: u32) -> usize {
    match 1usize.checked_shl(exponent) {
        Some(power) => power,
        None => usize::MAX,
    }
}

/// The product of some sizes of a tensor, or `usize::MAX` if it does not fit: then the tensor has no elements.
pub(crate) fn extent(sizes: &[usize]) -> usize {
    if sizes.contains(&0) { 0 } else { volume(sizes).unwrap_or(usize::MAX) }
}

/// The product of sizes, or `None` if it does not fit: a model may state any sizes.
pub fn volume<'a>(sizes: impl IntoIterator<Item = &'a usize>) -> Option<usize> {
    sizes.into_iter().try_fold(1usize, |volume, size| volume.checked_mul(*size))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_have_a_limit() {
        assert_eq!(checked_volume("Take", &[1 << 16, 1 << 16]).unwrap(), 1 << 32);
        assert_eq!([31, 64, 200].map(power_of_two), [1 << 31, usize::MAX, usize::MAX]);
        let many = 1 << 40;
        assert_eq!(
            [&[2, 3][..], &[], &[many, many, 0], &[many, many]].map(extent),
            [6, 1, 0, usize::MAX]
        );
        assert_eq!(checked_volume("Take", &[1 << 40, 1 << 20, 0]).unwrap(), 0);
        checked_volume("Take", &[usize::MAX, usize::MAX, 0]).unwrap_err();
        checked_volume("Take", &[1 << 16, 1 << 16, 2]).unwrap_err();
        checked_volume("Take", &[1 << 32, 1 << 32]).unwrap_err();
    }

    #[test]
    fn memory_that_is_not_there() {
        ensure_allocatable("Take", 1 << 25).unwrap();
        for bytes in [isize::MAX as usize, usize::MAX] {
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
