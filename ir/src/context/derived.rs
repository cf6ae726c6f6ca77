//! Small tensors that are computed from the sizes of the inputs alone.
//!
//! Integers among them are constants of the model, of type `TDim`. Floats and booleans are computed when the model runs, and
//! what is known of them is noted here.

use tract_core::internal::*;

use super::{LayerContext, Value, tdims};
use crate::workarounds::expressions::{MOST_NUMBER, is_size};

/// An element: a quotient of integers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fraction {
    pub numerator: TDim,
    /// At least 1.
    pub divisor: u64,
    /// Whether the model rounds the quotient to a float: it is not exact then, but on the same side of each integer.
    pub rounded: bool,
}

impl Fraction {
    pub fn whole(numerator: TDim) -> Fraction {
        Fraction { numerator, divisor: 1, rounded: false }
    }

    /// A float, if it is a multiple of a power of 2 that sizes can be multiplied by without rounding.
    pub fn of_float(float: f64) -> Option<Fraction> {
        (0..=MOST_BITS).find_map(|bits| {
            let divisor = 1u64 << bits;
            let numerator = float * divisor as f64;
            let fits = numerator.fract() == 0. && numerator.abs() < MOST_NUMBER as f64;
            fits.then(|| Fraction {
                numerator: (numerator as i64).to_dim(),
                divisor,
                rounded: false,
            })
        })
    }
}

/// The digits of a fraction after the point, in base 2.
const MOST_BITS: u32 = 16;

/// What is known of a tensor that is computed from sizes alone.
#[derive(Debug, Clone)]
pub(crate) struct Derived {
    pub shape: TVec<usize>,
    /// Its elements, if they can be written so.
    pub elements: Option<Vec<Fraction>>,
    pub may_be_negative: bool,
}

/// The most elements of such a tensor: it is about axes.
pub(crate) const MOST_ELEMENTS: usize = 64;

impl LayerContext<'_, '_> {
    /// What is known of an input, if it is a small constant or is computed from sizes alone.
    pub(crate) fn derived(&self, input: usize) -> TractResult<Option<Derived>> {
        let Some(value) = self.inputs.get(input) else { return Ok(None) };
        if let Value::Outlet(outlet) = value {
            let fact = self.model.outlet_fact(*outlet)?;
            return match &fact.konst {
                Some(tensor) if tensor.len() <= MOST_ELEMENTS => of_tensor(tensor),
                Some(_) => Ok(None),
                None => Ok(self.translation.derived(*outlet)),
            };
        }
        let shape = self.shape(input)?;
        let count = shape.iter().try_fold(1usize, |count, dim| {
            count.checked_mul(dim.to_usize().ok()?).filter(|count| *count <= MOST_ELEMENTS)
        });
        match count {
            Some(_) => of_tensor(&*self.tensor(input)?),
            None => Ok(None),
        }
    }

    /// Notes what is known of an outlet.
    pub(crate) fn derive(&mut self, outlet: OutletId, derived: Derived) {
        self.translation.derive(outlet, derived);
    }
}

/// What is known of a constant.
fn of_tensor(tensor: &Tensor) -> TractResult<Option<Derived>> {
    let dt = tensor.datum_type();
    let elements: Option<Vec<Fraction>> = if dt.is_float() {
        let floats = tensor.cast_to::<f64>()?;
        let floats = floats.try_as_plain_ram()?;
        floats.as_slice::<f64>()?.iter().map(|float| Fraction::of_float(*float)).collect()
    } else if dt == DatumType::Bool {
        let booleans = tensor.try_as_plain_ram()?;
        let whole = |boolean: &bool| Fraction::whole(i64::from(*boolean).to_dim());
        Some(booleans.as_slice::<bool>()?.iter().map(whole).collect())
    } else if dt.is_tdim() || [DatumType::I32, DatumType::I64].contains(&dt) {
        Some(tdims(tensor)?.into_iter().map(Fraction::whole).collect())
    } else {
        return Ok(None);
    };
    let may_be_negative = match &elements {
        Some(elements) => elements.iter().any(|element| !is_size(&element.numerator)),
        None => {
            let floats = tensor.cast_to::<f64>()?;
            let floats = floats.try_as_plain_ram()?;
            floats.as_slice::<f64>()?.iter().any(|float| *float < 0. || float.is_nan())
        }
    };
    Ok(Some(Derived { shape: tensor.shape().into(), elements, may_be_negative }))
}
