//! The numbers of elements of shapes: files may state any sizes.

/// The product of sizes, if it can be counted.
pub(crate) fn volume<'a>(sizes: impl IntoIterator<Item = &'a usize>) -> Option<usize> {
    sizes.into_iter().try_fold(1usize, |volume, size| volume.checked_mul(*size))
}
