//! Windows that slide along an axis.

/// How many elements of an axis a window covers whose elements are `rate` apart. `None` if it has no elements, or if it
/// covers more than can be counted.
pub(crate) fn extent(elements: usize, rate: usize) -> Option<usize> {
    elements.checked_sub(1)?.checked_mul(rate)?.checked_add(1)
}
