use std::fmt;

use anyhow::{Context, Result, bail, ensure};

/// One dimension of a parameter: a size, or a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dimension {
    /// The smallest size.
    pub min: usize,
    /// The largest size, where there is one.
    pub max: Option<usize>,
}

impl Dimension {
    /// The size, if there is only one.
    pub fn size(self) -> Option<usize> {
        self.max.filter(|max| *max == self.min)
    }

    /// Whether a size is in the range.
    pub fn allows(self, size: usize) -> bool {
        self.min <= size && self.max.is_none_or(|max| size <= max)
    }
}

/// The shape that a parameter declares, like `?,3,2..7,..224`.
///
/// The grammar is that of OpenVINO's `PartialShape`: dimensions separated by commas, in brackets or not,
/// each `?` or `-1` (any size), a size, `a..b`, `a..` or `..b` (both ends are meant). No text at all is the
/// shape of a scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialShape(Vec<Dimension>);

impl PartialShape {
    /// The shape that a text states.
    ///
    /// # Errors
    ///
    /// The text is not in the grammar, or leaves the number of dimensions open.
    pub fn parse(text: &str) -> Result<PartialShape> {
        if PartialShape::leaves_rank_open(text) {
            bail!("shape {text:?} leaves the number of dimensions open")
        }
        let all = text.trim();
        let inner = match all.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').with_context(|| {
                format!("shape {text:?} has an opening bracket, but no closing one")
            })?,
            None => all,
        };
        if inner.trim().is_empty() {
            return Ok(PartialShape(vec![]));
        }
        inner
            .split(',')
            .map(|field| dimension(field.trim()))
            .collect::<Result<_>>()
            .map(PartialShape)
            .with_context(|| format!("in shape {text:?}"))
    }

    /// Whether a text is `...`, which stands for any number of dimensions.
    pub fn leaves_rank_open(text: &str) -> bool {
        let text = text.trim();
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.unwrap_or(text).trim() == "..."
    }

    /// The dimensions.
    pub fn dims(&self) -> &[Dimension] {
        &self.0
    }
}

impl From<Vec<Dimension>> for PartialShape {
    fn from(dims: Vec<Dimension>) -> PartialShape {
        PartialShape(dims)
    }
}

fn dimension(text: &str) -> Result<Dimension> {
    if text == "?" || text == "-1" {
        return Ok(Dimension { min: 0, max: None });
    }
    dimension_up_to(isize::MAX.unsigned_abs(), text)
}

/// A dimension whose size is at most this, as no tensor in memory has more. A range may end beyond it: it ends there then.
fn dimension_up_to(most: usize, text: &str) -> Result<Dimension> {
    let number = |text: &str| {
        let number: u64 = text.trim().parse().ok()?;
        i64::try_from(number).is_ok().then_some(number)
    };
    let size = |text: &str| {
        let size = usize::try_from(number(text)?).ok()?;
        (size <= most).then_some(size)
    };
    let last = |text: &str| Some(usize::try_from(number(text)?).map_or(most, |it| it.min(most)));
    let wrong = || {
        format!(
            "dimension {text:?} must be ?, -1, a size, \"a..b\", \"a..\" or \"..b\", and no size above {most}"
        )
    };
    let Some((min, max)) = text.split_once("..") else {
        let size = size(text).with_context(wrong)?;
        return Ok(Dimension { min: size, max: Some(size) });
    };
    let min = if min.trim().is_empty() { 0 } else { size(min).with_context(wrong)? };
    let max = if max.trim().is_empty() { None } else { Some(last(max).with_context(wrong)?) };
    ensure!(
        max.is_none_or(|max| min <= max),
        "dimension {text:?}: the smallest size is greater than the largest"
    );
    Ok(Dimension { min, max })
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (0, None) => write!(f, "?"),
            (min, Some(max)) if min == max => write!(f, "{min}"),
            (min, None) => write!(f, "{min}.."),
            (0, Some(max)) => write!(f, "..{max}"),
            (min, Some(max)) => write!(f, "{min}..{max}"),
        }
    }
}

impl fmt::Display for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(|dim| dim.to_string()).collect();
        write!(f, "[{}]", dims.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_dimension() {
        for (text, expected) in [
            ("", "[]"),
            (" [ ] ", "[]"),
            ("1, 3,224", "[1,3,224]"),
            ("[?,-1]", "[?,?]"),
            ("2..7,2..,..7,0..7,3..3", "[2..7,2..,..7,..7,3]"),
            ("0", "[0]"),
        ] {
            assert_eq!(PartialShape::parse(text).unwrap().to_string(), expected, "{text:?}");
        }
    }

    /// Where sizes have 32 bits.
    #[test]
    fn sizes_that_no_tensor_has() {
        let most = i32::MAX as usize;
        let dimension = |text: &str| dimension_up_to(most, text);
        assert_eq!(dimension("2147483647").unwrap(), Dimension { min: most, max: Some(most) });
        for text in ["1..2147483648", "1..9223372036854775807"] {
            assert_eq!(dimension(text).unwrap(), Dimension { min: 1, max: Some(most) });
        }
        // Cut off, it would be 3.
        for text in ["4294967299", "4294967299..", "2147483648..4294967299"] {
            let error = dimension(text).unwrap_err().to_string();
            assert!(error.contains("and no size above 2147483647"), "{error}");
        }
    }

    #[test]
    fn what_is_no_shape_says_why() {
        for (text, expected) in [
            ("...", "leaves the number of dimensions open"),
            ("[1,2", "no closing one"),
            ("1,,2", "must be ?"),
            ("-2", "must be ?"),
            ("7..2", "greater than the largest"),
            ("99999999999999999999", "must be ?"),
            ("9223372036854775808", "must be ?"),
            ("1..9223372036854775808", "must be ?"),
            ("a..b", "must be ?"),
        ] {
            let error = format!("{:#}", PartialShape::parse(text).unwrap_err());
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
