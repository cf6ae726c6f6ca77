//! Attributes from text.

use tract_core::internal::*;

use super::LayerContext;
use crate::document::ElementType;
use crate::weights::datum_type;

/// A type that the text of an attribute can be read as.
///
/// The format is not strict: `true` and `1` mean the same, a list may have spaces, and a whole number may be
/// written as `1.0`.
pub trait FromAttribute: Sized {
    /// What the text must be, for errors, like `a whole number`.
    const EXPECTED: &'static str;

    /// The same, with what the items of a list must be.
    fn expected() -> String {
        Self::EXPECTED.into()
    }

    /// The value of a text, or `None` if it has none.
    fn from_attribute(text: &str) -> Option<Self>;
}

impl FromAttribute for i64 {
    const EXPECTED: &'static str = "a whole number of 64 bits";

    fn from_attribute(text: &str) -> Option<i64> {
        let text = text.trim();
        text.parse().ok().or_else(|| {
            let number: f64 = text.parse().ok()?;
            // Larger floats are not exact.
            let whole = number.fract() == 0. && number.abs() < 9e15;
            whole.then_some(number as i64)
        })
    }
}

impl FromAttribute for usize {
    const EXPECTED: &'static str = match usize::BITS {
        64 => "a whole number from 0 to 2^63 - 1",
        _ => "a whole number from 0 to 2^31 - 1",
    };

    fn from_attribute(text: &str) -> Option<usize> {
        // The upper half stays free, for sums of two.
        usize::try_from(isize::try_from(i64::from_attribute(text)?).ok()?).ok()
    }
}

impl FromAttribute for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_attribute(text: &str) -> Option<f64> {
        text.trim().parse().ok()
    }
}

impl FromAttribute for f32 {
    const EXPECTED: &'static str = "a number";

    fn from_attribute(text: &str) -> Option<f32> {
        f64::from_attribute(text).map(|number| number as f32)
    }
}

impl FromAttribute for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_attribute(text: &str) -> Option<bool> {
        match &*text.trim().to_ascii_lowercase() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
}

impl FromAttribute for String {
    const EXPECTED: &'static str = "a text";

    fn from_attribute(text: &str) -> Option<String> {
        Some(text.into())
    }
}

impl FromAttribute for DatumType {
    const EXPECTED: &'static str = "an element type that tract has, like f32 or i64";

    fn from_attribute(text: &str) -> Option<DatumType> {
        datum_type(ElementType::from_text(text)?)
    }
}

/// A list whose items are separated by commas. An empty text is an empty list.
impl<T: FromAttribute> FromAttribute for Vec<T> {
    const EXPECTED: &'static str = "a list separated by commas";

    fn expected() -> String {
        format!("{}, each item {}", Self::EXPECTED, T::expected())
    }

    fn from_attribute(text: &str) -> Option<Vec<T>> {
        if text.trim().is_empty() {
            return Some(vec![]);
        }
        text.split(',').map(T::from_attribute).collect()
    }
}

/// Attributes of the layer.
impl LayerContext<'_, '_> {
    /// An attribute that must be there.
    ///
    /// # Errors
    ///
    /// It is missing, or its text has no value of this type.
    pub fn attribute<T: FromAttribute>(&self, name: &str) -> TractResult<T> {
        let value = self.attribute_opt(name)?;
        value.with_context(|| format!("attribute {name} is missing: it must be {}", T::expected()))
    }

    /// An attribute with a default.
    ///
    /// # Errors
    ///
    /// It is there, but its text has no value of this type.
    pub fn attribute_or<T: FromAttribute>(&self, name: &str, default: T) -> TractResult<T> {
        Ok(self.attribute_opt(name)?.unwrap_or(default))
    }

    /// An attribute that may be absent.
    ///
    /// # Errors
    ///
    /// It is there, but its text has no value of this type.
    pub fn attribute_opt<T: FromAttribute>(&self, name: &str) -> TractResult<Option<T>> {
        let Some(text) = self.attribute_text(name) else { return Ok(None) };
        match T::from_attribute(text) {
            Some(value) => Ok(Some(value)),
            None => bail!("attribute {name} is {text:?}, but must be {}", T::expected()),
        }
    }

    /// An attribute that must be one of some words, in upper or lower case. Gives the value of the word, or
    /// the default if the attribute is absent.
    ///
    /// # Errors
    ///
    /// It is none of the words, or is missing and has no default.
    pub fn attribute_among<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
        default: Option<T>,
    ) -> TractResult<T> {
        let among = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let Some(text) = self.attribute_text(name) else {
            return default.with_context(|| {
                format!("attribute {name} is missing: it must be one of {}", among())
            });
        };
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
        found.map(|(_, value)| *value).with_context(|| {
            format!("attribute {name} is {text:?}, but must be one of {}", among())
        })
    }

    /// The text of an attribute. What is asked for is in the log, so that a test can see whether models vary it.
    fn attribute_text(&self, name: &str) -> Option<&str> {
        log::trace!(target: "tract_openvino_ir::attribute", "{} {name}", self.layer().operation);
        #[cfg(feature = "onnx")]
        self.translation.asked.borrow_mut().insert(name.into());
        self.layer().attributes.get(name).map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling() {
        assert_eq!(i64::from_attribute(" -3 "), Some(-3));
        assert_eq!(i64::from_attribute("1.0"), Some(1));
        assert_eq!(i64::from_attribute("1.5"), None);
        assert_eq!(i64::from_attribute("9223372036854775807"), Some(i64::MAX));
        assert_eq!(i64::from_attribute("1e300"), None);
        assert_eq!(usize::from_attribute("-1"), None);
        assert_eq!(bool::from_attribute("True"), Some(true));
        assert_eq!(bool::from_attribute("0"), Some(false));
        assert_eq!(bool::from_attribute("yes"), None);
        assert_eq!(Vec::<usize>::from_attribute("1, 2,3"), Some(vec![1, 2, 3]));
        assert_eq!(Vec::<usize>::from_attribute(""), Some(vec![]));
        assert_eq!(Vec::<usize>::from_attribute("1,,2"), None);
        assert_eq!(f32::from_attribute("9.9999997473787516e-06"), Some(1e-5));
        assert_eq!(DatumType::from_attribute("FP32"), Some(DatumType::F32));
        assert_eq!(DatumType::from_attribute("bf16"), None);
    }
}
