//! The element types by their numbers in C.

use tract_openvino_ir::document::ElementType;
use tract_openvino_ir::internal::*;

use crate::border::STRING_BYTES;
use crate::error::{Error, Result};
use crate::types::ov_element_type_e;

/// The types in the order of the header. The first number is the type that is not known.
const TYPES: [Option<ElementType>; 26] = {
    use ElementType::*;
    [
        None,
        Some(Boolean),
        Some(BF16),
        Some(F16),
        Some(F32),
        Some(F64),
        Some(I4),
        Some(I8),
        Some(I16),
        Some(I32),
        Some(I64),
        Some(U1),
        Some(U2),
        Some(U3),
        Some(U4),
        Some(U6),
        Some(U8),
        Some(U16),
        Some(U32),
        Some(U64),
        Some(NF4),
        Some(F8E4M3),
        Some(F8E5M2),
        Some(String),
        Some(F4E2M1),
        Some(F8E8M0),
    ]
};

/// The number of the type that is not known.
pub(crate) const UNKNOWN: ov_element_type_e = 0;

/// The type of a number, or none for the one that stands for no known type.
///
/// # Errors
///
/// There is none of this number.
pub(crate) fn from_c(number: ov_element_type_e) -> Result<Option<ElementType>> {
    let unknown = || Error::invalid(format_args!("there is no element type {number}"));
    TYPES.get(number as usize).copied().ok_or_else(unknown)
}

/// The number of a type.
pub(crate) fn to_c(element_type: Option<ElementType>) -> ov_element_type_e {
    TYPES.iter().position(|it| *it == element_type).map_or(UNKNOWN, |at| at as ov_element_type_e)
}

/// The type that programs see for one of tract's. Sizes that are computed are integers outside.
pub(crate) fn of_datum_type(elements: DatumType) -> Option<ElementType> {
    if elements.is_tdim() {
        return Some(ElementType::I64);
    }
    TYPES.into_iter().flatten().find(|it| datum_type(*it) == Some(elements.unquantized()))
}

/// The bytes of so many elements.
///
/// # Errors
///
/// They are more than memory has.
pub(crate) fn bytes(element_type: ElementType, shape: &[usize]) -> Result<usize> {
    // So many elements are in so many bytes, and a part of these takes as many.
    let (group, size) = match element_type {
        ElementType::String => (1, STRING_BYTES),
        ElementType::U3 => (8, 3),
        ElementType::U6 => (4, 3),
        other if other.bits() < 8 => (8 / other.bits(), 1),
        other => (1, other.bits() / 8),
    };
    let bytes = volume(shape).and_then(|count| {
        let bytes = count.div_ceil(group).checked_mul(size)?;
        isize::try_from(bytes).ok()
    });
    let bytes = bytes.map(|bytes| bytes as usize);
    bytes.ok_or_else(|| {
        Error::general(format_args!(
            "elements of type {element_type} in shape {shape:?} are too many"
        ))
    })
}

/// The product of sizes, if there may be so many.
pub(crate) fn volume(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |volume, size| volume.checked_mul(*size))
}
