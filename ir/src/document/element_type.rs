use std::fmt;

/// The element types of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum ElementType {
    Boolean,
    U1,
    U2,
    U3,
    U4,
    U6,
    U8,
    U16,
    U32,
    U64,
    I4,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    NF4,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    String,
}

use ElementType::*;

/// Each type with its spelling in attributes (`element_type`), its spelling in ports (`precision`), and the
/// number of bits of an element.
const SPELLINGS: &[(ElementType, &str, &str, usize)] = &[
    (Boolean, "boolean", "BOOL", 8),
    (U1, "u1", "BIN", 1),
    (U2, "u2", "U2", 2),
    (U3, "u3", "U3", 3),
    (U4, "u4", "U4", 4),
    (U6, "u6", "U6", 6),
    (U8, "u8", "U8", 8),
    (U16, "u16", "U16", 16),
    (U32, "u32", "U32", 32),
    (U64, "u64", "U64", 64),
    (I4, "i4", "I4", 4),
    (I8, "i8", "I8", 8),
    (I16, "i16", "I16", 16),
    (I32, "i32", "I32", 32),
    (I64, "i64", "I64", 64),
    (F16, "f16", "FP16", 16),
    (BF16, "bf16", "BF16", 16),
    (F32, "f32", "FP32", 32),
    (F64, "f64", "FP64", 64),
    (NF4, "nf4", "NF4", 4),
    (F4E2M1, "f4e2m1", "F4E2M1", 4),
    (F8E4M3, "f8e4m3", "F8E4M3", 8),
    (F8E5M2, "f8e5m2", "F8E5M2", 8),
    (F8E8M0, "f8e8m0", "F8E8M0", 8),
    (String, "string", "STRING", 8),
];

impl ElementType {
    /// The type that a text names, in either spelling and in upper or lower case.
    pub fn from_text(text: &str) -> Option<ElementType> {
        let text = text.trim();
        let is_it = |(_, attribute, precision, _): &&(ElementType, &str, &str, usize)| {
            attribute.eq_ignore_ascii_case(text) || precision.eq_ignore_ascii_case(text)
        };
        SPELLINGS.iter().find(is_it).map(|spelling| spelling.0)
    }

    /// The number of bits that an element takes in the weights. Strings have a layout of their own.
    pub fn bits(self) -> usize {
        self.row().3
    }

    /// Of how many elements there is a whole number in the weights.
    pub(crate) fn group(self) -> usize {
        match self {
            U3 => 8,
            U6 => 4,
            _ => 1,
        }
    }

    fn row(self) -> &'static (ElementType, &'static str, &'static str, usize) {
        SPELLINGS.iter().find(|row| row.0 == self).unwrap_or(&SPELLINGS[0])
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_and_both_cases() {
        for (text, expected) in [
            ("f32", Some(F32)),
            ("FP32", Some(F32)),
            ("F32", Some(F32)),
            ("BOOL", Some(Boolean)),
            ("boolean", Some(Boolean)),
            (" i64 ", Some(I64)),
            ("BIN", Some(U1)),
            ("dynamic", None),
            ("", None),
        ] {
            assert_eq!(ElementType::from_text(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_type_has_one_row() {
        for (element_type, attribute, precision, _) in SPELLINGS {
            assert_eq!(ElementType::from_text(attribute), Some(*element_type));
            assert_eq!(ElementType::from_text(precision), Some(*element_type));
            assert_eq!(element_type.to_string(), *attribute);
        }
    }
}
