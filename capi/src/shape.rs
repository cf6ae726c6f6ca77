//! Shapes, with and without open dimensions.

use std::fmt;

use serde::{Deserialize, Serialize};
use tract_openvino_ir::internal::*;

use crate::border::{InOut, Out, RawPartialShape, RawShape, give_items, give_text, take_back};
use crate::error::{Error, Result};
use crate::types::*;

/// A size, or a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dim {
    pub min: i64,
    /// None if there is no largest size.
    pub max: Option<i64>,
}

impl Dim {
    pub const OPEN: Dim = Dim { min: 0, max: None };

    pub fn fixed(size: i64) -> Dim {
        Dim { min: size, max: Some(size) }
    }

    pub fn size(self) -> Option<usize> {
        if self.max == Some(self.min) { usize::try_from(self.min).ok() } else { None }
    }

    pub fn allows(self, size: usize) -> bool {
        let Ok(size) = i64::try_from(size) else { return false };
        self.min <= size && self.max.is_none_or(|max| size <= max)
    }

    /// The size in the range that is nearest to another one.
    pub fn nearest(self, size: usize) -> usize {
        let size = i64::try_from(size).unwrap_or(i64::MAX).max(self.min);
        usize::try_from(self.max.map_or(size, |max| size.min(max))).unwrap_or(0)
    }

    /// What a size of a model may be.
    pub fn of_tdim(dim: &TDim) -> Dim {
        match dim.to_i64() {
            Ok(size) => Dim::fixed(size),
            // tract's bounds hold for the values that its symbols are known to have.
            Err(_) => {
                let min = dim.low_inclusive_bound().unwrap_or(0).max(0);
                let max = dim.high_inclusive_bound().filter(|max| *max >= min);
                Dim { min, max }
            }
        }
    }

    fn to_c(self) -> ov_dimension_t {
        ov_dimension_t { min: self.min, max: self.max.unwrap_or(-1) }
    }

    /// # Errors
    ///
    /// No size is in the range.
    fn of_c(dim: ov_dimension_t) -> Result<Dim> {
        let ov_dimension_t { min, max } = dim;
        let range = match (min, max) {
            (-1, -1) => Dim::OPEN,
            (-1, max) => Dim { min: 0, max: Some(max) },
            (min, -1) => Dim { min, max: None },
            (min, max) => Dim { min, max: Some(max) },
        };
        if range.min < 0 || range.max.is_some_and(|max| max < range.min) {
            let text = format_args!("a dimension is {min}..{max}, which no size is in");
            return Err(Error::invalid(text));
        }
        Ok(range)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, Some(max)) if min == max => write!(f, "{min}"),
            (0, None) => f.write_str("?"),
            (0, Some(max)) => write!(f, "..{max}"),
            (min, Some(max)) => write!(f, "{min}..{max}"),
            (min, None) => write!(f, "{min}.."),
        }
    }
}

/// A shape some of whose dimensions may be open, or all with their number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartialShape(pub Option<Vec<Dim>>);

impl PartialShape {
    pub fn of_sizes(sizes: &[usize]) -> PartialShape {
        PartialShape(Some(sizes.iter().map(|size| Dim::fixed(*size as i64)).collect()))
    }

    /// The sizes, if all are known.
    pub fn sizes(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().map(|dim| dim.size()).collect()
    }

    pub fn is_open(&self) -> bool {
        self.sizes().is_none()
    }

    /// Whether a tensor of these sizes has the shape.
    pub fn allows(&self, sizes: &[usize]) -> bool {
        let Some(dims) = &self.0 else { return true };
        dims.len() == sizes.len() && dims.iter().zip(sizes).all(|(dim, size)| dim.allows(*size))
    }

    /// As IR writes it.
    pub fn to_ir(&self) -> String {
        let Some(dims) = &self.0 else { return "...".into() };
        dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(",")
    }

    /// # Errors
    ///
    /// There is no memory.
    pub fn to_c(&self) -> Result<ov_partial_shape_t> {
        let Some(dims) = &self.0 else {
            let rank = ov_dimension_t { min: -1, max: -1 };
            return Ok(ov_partial_shape_t { rank, dims: std::ptr::null_mut() });
        };
        let rank = dims.len() as i64;
        let dims = dims.iter().map(|dim| dim.to_c()).collect::<Vec<_>>();
        let dims = give_items(&dims)?;
        Ok(ov_partial_shape_t { rank: ov_dimension_t { min: rank, max: rank }, dims })
    }
}

impl fmt::Display for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(_) => write!(f, "[{}]", self.to_ir()),
            None => f.write_str("[...]"),
        }
    }
}

impl RawShape {
    /// The sizes.
    ///
    /// # Errors
    ///
    /// The rank or a size is negative, or there are none in memory.
    pub fn sizes(&self) -> Result<Vec<usize>> {
        let no_dims = || Error::invalid(format_args!("a shape of rank {} has no dims", self.rank));
        let dims = self.dims.as_ref().ok_or_else(no_dims)?;
        let negative = |_| Error::general(format_args!("a shape has negative sizes: {dims:?}"));
        dims.iter().map(|size| usize::try_from(*size).map_err(negative)).collect()
    }
}

impl RawPartialShape {
    /// # Errors
    ///
    /// The rank or a dimension is none, or there are none in memory.
    pub fn get(&self) -> Result<PartialShape> {
        if is_open(self.rank) && self.rank != (ov_rank_t { min: 0, max: 0 }) {
            return Ok(PartialShape(None));
        }
        let no_dims = || {
            Error::invalid(format_args!("a partial shape of rank {} has no dims", self.rank.min))
        };
        let dims = self.dims.as_ref().ok_or_else(no_dims)?;
        Ok(PartialShape(Some(dims.iter().map(|dim| Dim::of_c(*dim)).collect::<Result<_>>()?)))
    }
}

/// Gives a program the sizes of a shape. A scalar has none.
///
/// # Errors
///
/// There is no memory.
pub(crate) fn shape_to_c(sizes: &[usize]) -> Result<ov_shape_t> {
    let dims: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
    let dims = if dims.is_empty() { std::ptr::null_mut() } else { give_items(&dims)? };
    Ok(ov_shape_t { rank: sizes.len() as i64, dims })
}

// What the functions of the interface do.

pub(crate) fn create(shape: RawShape, out: Out<ov_shape_t>) -> Result<()> {
    out.check()?;
    if shape.rank <= 0 {
        return Err(Error::invalid(format_args!(
            "the rank is {}, but must be above 0",
            shape.rank
        )));
    }
    // Without sizes, as with OpenVINO: the program may write them later.
    let dims = match shape.dims {
        Some(dims) if dims.iter().any(|size| *size < 0) => {
            return Err(Error::invalid(format_args!("a shape has negative sizes: {dims:?}")));
        }
        Some(dims) => dims,
        None if shape.rank < 1 << 10 => vec![0; shape.rank as usize],
        None => return Err(Error::invalid(format_args!("the rank is {}", shape.rank))),
    };
    out.write(ov_shape_t { rank: shape.rank, dims: give_items(&dims)? })
}

pub(crate) fn free(shape: InOut<ov_shape_t>) -> Result<()> {
    let Some(value) = shape.read() else {
        return Err(Error::invalid("the pointer to a shape is null"));
    };
    take_back(value.dims);
    shape.write(ov_shape_t { rank: 0, dims: std::ptr::null_mut() });
    Ok(())
}

pub(crate) fn create_partial(shape: RawPartialShape, out: Out<ov_partial_shape_t>) -> Result<()> {
    out.check()?;
    if shape.rank.max <= 0 || shape.dims.is_none() {
        return Err(Error::invalid("a partial shape must have dimensions, and a rank above 0"));
    }
    write_partial(&shape, &out)
}

pub(crate) fn create_partial_with_rank(
    shape: RawPartialShape,
    out: Out<ov_partial_shape_t>,
) -> Result<()> {
    out.check()?;
    check_range(shape.rank)?;
    if is_open(shape.rank) {
        let dims = std::ptr::null_mut();
        return out.write(ov_partial_shape_t { rank: shape.rank, dims });
    }
    create_partial(shape, out)
}

/// As a program gave it, when it is sound.
fn write_partial(shape: &RawPartialShape, out: &Out<ov_partial_shape_t>) -> Result<()> {
    let dims = shape.dims.as_deref().unwrap_or_default();
    dims.iter().try_for_each(|dim| check_range(*dim))?;
    out.write(ov_partial_shape_t { rank: shape.rank, dims: give_items(dims)? })
}

/// Refuses the ranges that OpenVINO refuses from programs: all without an end but -1..-1.
fn check_range(dim: ov_dimension_t) -> Result<()> {
    if dim.min < -1 || dim.max < -1 || dim.max < dim.min {
        return Err(Error::invalid(format_args!(
            "a dimension is {}..{}, but must be -1..-1 or a range of sizes",
            dim.min, dim.max
        )));
    }
    Ok(())
}

pub(crate) fn create_partial_of_sizes(shape: RawShape, out: Out<ov_partial_shape_t>) -> Result<()> {
    out.check()?;
    if shape.rank < 0 {
        return Err(Error::invalid(format_args!(
            "the rank is {}, but must be 0 or more",
            shape.rank
        )));
    }
    let sizes = shape.sizes().map_err(|error| Error::invalid(error.text))?;
    out.write(PartialShape::of_sizes(&sizes).to_c()?)
}

pub(crate) fn free_partial(shape: InOut<ov_partial_shape_t>) -> Result<()> {
    if let Some(value) = shape.read() {
        take_back(value.dims);
        shape.write(ov_partial_shape_t { dims: std::ptr::null_mut(), ..value });
    }
    Ok(())
}

pub(crate) fn partial_to_shape(shape: RawPartialShape, out: Out<ov_shape_t>) -> Result<()> {
    out.check()?;
    let mismatch = || Error::new(ov_status_e::PARAMETER_MISMATCH, "the shape has open dimensions");
    if partial_is_dynamic(shape.clone())? {
        return Err(mismatch());
    }
    let sizes = shape.get()?.sizes().ok_or_else(mismatch)?;
    out.write(shape_to_c(&sizes)?)
}

pub(crate) fn shape_to_partial(shape: RawShape, out: Out<ov_partial_shape_t>) -> Result<()> {
    out.check()?;
    if shape.rank <= 0 {
        return Err(Error::invalid(format_args!(
            "the rank is {}, but must be above 0",
            shape.rank
        )));
    }
    create_partial_of_sizes(shape, out)
}

/// A size that is 0 counts as open, as with OpenVINO.
pub(crate) fn is_open(dim: ov_dimension_t) -> bool {
    dim.min != dim.max || dim.max <= 0
}

pub(crate) fn partial_is_dynamic(shape: RawPartialShape) -> Result<bool> {
    let dims = shape.dims.as_deref().unwrap_or_default();
    Ok(is_open(shape.rank) || dims.iter().any(|dim| is_open(*dim)))
}

pub(crate) fn partial_to_string(shape: RawPartialShape) -> Result<*const std::ffi::c_char> {
    if is_open(shape.rank) {
        return give_text("?").map(<*mut _>::cast_const);
    }
    let no_dims = || Error::invalid("a partial shape has a rank, but no dims");
    let dims = shape.dims.as_deref().ok_or_else(no_dims)?;
    let dims = dims.iter().map(|dim| match (dim.min, dim.max) {
        (min, max) if min == max && max >= 0 => max.to_string(),
        (-1 | 0, -1) => "?".into(),
        (-1 | 0, max) => format!("..{max}"),
        (min, -1) => format!("{min}.."),
        (min, max) => format!("{min}..{max}"),
    });
    let dims = dims.collect::<Vec<_>>().join(",");
    give_text(&format!("{{{dims}}}")).map(<*mut _>::cast_const)
}
