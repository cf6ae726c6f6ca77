//! The numbers of elements of shapes: files may state any sizes.

/// The product of sizes, if it can be counted.
pub(crate) fn volume(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |volume, size| volume.checked_mul(*size))
}
