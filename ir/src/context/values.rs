//! The values of inputs that are constants.

use std::fmt;
use std::sync::Arc;

use tract_core::internal::*;

use super::{LayerContext, Value, tdims};
use crate::document::ElementType;

/// The error of a layer that must know a value, or a size, that only a run knows.
#[derive(Debug)]
pub(crate) struct NotKnown {
    /// The input whose value it is.
    pub input: Option<usize>,
    pub message: String,
}

impl NotKnown {
    /// The error of a layer that must know sizes of its inputs.
    pub fn sizes(message: String) -> NotKnown {
        NotKnown { input: None, message }
    }
}

impl fmt::Display for NotKnown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NotKnown {}

impl LayerContext<'_, '_> {
    pub(super) fn tensor(&self, input: usize) -> TractResult<Arc<Tensor>> {
        let value = self.in_model(input)?;
        self.translation.tensor(&value).with_context(|| self.in_constant(input))
    }

    /// The same, floats of half precision in single precision.
    pub(super) fn tensor_in_single(&self, input: usize) -> TractResult<Arc<Tensor>> {
        let value = self.in_model(input)?;
        self.translation.tensor_in_single(&value).with_context(|| self.in_constant(input))
    }

    /// The value of an input: of an outlet its constant, if it has one.
    fn in_model(&self, input: usize) -> TractResult<Value> {
        let value = self.value(input)?;
        if let Value::Outlet(outlet) = value
            && let Some(konst) = &self.model.outlet_fact(*outlet)?.konst
        {
            return Ok(Value::Constant(konst.clone()));
        }
        Ok(value.clone())
    }

    fn in_constant(&self, input: usize) -> String {
        format!("in constant {:?}", self.names[input])
    }

    /// The value of an input, if it is a constant, or has no elements.
    ///
    /// # Errors
    ///
    /// There is no such input, or it is a constant that cannot be read.
    pub fn constant_opt(&self, input: usize) -> TractResult<Option<Arc<Tensor>>> {
        let Value::Outlet(outlet) = self.value(input)? else { return self.tensor(input).map(Some) };
        let fact = self.model.outlet_fact(*outlet)?;
        if let (None, Some(shape)) = (&fact.konst, fact.shape.as_concrete())
            && shape.contains(&0)
            && (fact.datum_type.is_number() || fact.datum_type.is_tdim())
        {
            return Ok(Some(Tensor::zero_dt(fact.datum_type, shape)?.into()));
        }
        Ok(fact.konst.clone())
    }

    /// The value of an input that must be a constant. `name` is what the specification calls it.
    ///
    /// # Errors
    ///
    /// There is no such input, it is no constant, or it cannot be read. Return the error as it is: if the value is only
    /// known when the model runs, and no dimension is open, the reader translates the layer then.
    pub fn constant(&self, input: usize, name: &str) -> TractResult<Arc<Tensor>> {
        if let Some(tensor) = self.constant_opt(input)? {
            return Ok(tensor);
        }
        let hint = match self.translation.dimensions.are_open() {
            true => ": if it is computed from the sizes of the inputs, give these",
            false => "",
        };
        let message = format!(
            "input {input} ({name}) is only known when the model runs, but must be known when it is loaded{hint}"
        );
        Err(NotKnown { input: Some(input), message }.into())
    }

    /// The bits of an input that must be a constant of type `u1`, and its shape. The lowest bit of a byte is the first one.
    pub(crate) fn constant_bits(
        &self,
        input: usize,
        name: &str,
    ) -> TractResult<(Vec<bool>, Vec<usize>)> {
        let Value::Weights(blob) = self.value(input)? else {
            bail!("input {input} ({name}) is computed, but must be a constant of type u1")
        };
        ensure!(
            blob.element_type == ElementType::U1,
            "input {input} ({name}) is of type {}, but must be u1",
            blob.element_type
        );
        self.translation.budget().take(DatumType::F32, &blob.shape)?;
        let bytes = blob.bytes(self.translation.weights);
        let bytes = bytes.with_context(|| self.in_constant(input))?;
        let bits = (0..blob.shape.iter().product()).map(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1);
        Ok((bits.collect(), blob.shape.clone()))
    }

    /// The value of an input that must be a constant of rank 0 or 1. What is made of it, at most a list of sizes, is taken
    /// from the budget of constants.
    fn list(&self, input: usize, name: &str) -> TractResult<Arc<Tensor>> {
        let tensor = self.constant(input, name)?;
        self.translation.budget().take(DatumType::TDim, tensor.shape())?;
        ensure!(
            tensor.rank() <= 1,
            "input {input} ({name}) has shape {:?}, but must have rank 0 or 1",
            tensor.shape()
        );
        Ok(tensor)
    }

    /// The integers of a constant input, of rank 0 or 1.
    ///
    /// # Errors
    ///
    /// As for [`constant`](Self::constant), or if it has another rank or other elements.
    pub fn integers(&self, input: usize, name: &str) -> TractResult<TVec<i64>> {
        let tensor = self.list(input, name)?;
        let dt = tensor.datum_type();
        ensure!(
            dt.is_integer() || dt.is_tdim(),
            "input {input} ({name}) is of type {dt:?}, but must be integers"
        );
        let number = |dim: &TDim| {
            let message = || {
                format!(
                    "input {input} ({name}) is {dim}, which depends on the sizes of the inputs: give these"
                )
            };
            dim.as_i64().ok_or_else(|| NotKnown { input: Some(input), message: message() }.into())
        };
        tdims(&tensor)?.iter().map(number).collect()
    }

    /// The one integer of a constant input: a scalar, or a tensor of one element.
    ///
    /// # Errors
    ///
    /// As for [`integers`](Self::integers), or if there is not one element.
    pub fn integer(&self, input: usize, name: &str) -> TractResult<i64> {
        match *self.integers(input, name)? {
            [number] => Ok(number),
            ref numbers => {
                bail!("input {input} ({name}) has {} elements, but must have one", numbers.len())
            }
        }
    }

    /// The sizes of a constant input of rank 0 or 1: integers, or expressions of symbols.
    ///
    /// # Errors
    ///
    /// As for [`constant`](Self::constant), or if it has another rank or other elements.
    pub fn dims(&self, input: usize, name: &str) -> TractResult<TVec<TDim>> {
        let tensor = self.list(input, name)?;
        tdims(&tensor)
    }

    /// The elements of a constant input as floats: of any type of numbers, and of any rank.
    ///
    /// # Errors
    ///
    /// As for [`constant`](Self::constant), or if the elements are not numbers.
    pub fn floats(&self, input: usize, name: &str) -> TractResult<Vec<f32>> {
        let tensor = self.constant(input, name)?;
        self.translation.budget().take(DatumType::F32, tensor.shape())?;
        Ok(tensor.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
    }

    /// An axis as a position. A negative axis counts from the end. `name` is what the specification calls it.
    ///
    /// # Errors
    ///
    /// It is not in `[-rank, rank - 1]`.
    pub fn axis(&self, name: &str, axis: i64, rank: usize) -> TractResult<usize> {
        ensure!(rank > 0, "{name} is {axis}, but the input is a scalar, which has no axes");
        let end = i64::try_from(rank)?;
        ensure!(
            (-end..end).contains(&axis),
            "{name} is {axis}, but must be in [-{end}, {}] for rank {rank}",
            end - 1
        );
        Ok(axis.rem_euclid(end) as usize)
    }

    /// Axes as positions, each once, in ascending order.
    ///
    /// # Errors
    ///
    /// One is not in `[-rank, rank - 1]`, or two are the same.
    pub fn axes(&self, name: &str, axes: &[i64], rank: usize) -> TractResult<TVec<usize>> {
        let mut positions: TVec<usize> =
            axes.iter().map(|axis| self.axis(name, *axis, rank)).collect::<TractResult<_>>()?;
        positions.sort_unstable();
        let twice = positions.windows(2).any(|pair| pair[0] == pair[1]);
        ensure!(!twice, "{name} is {axes:?}, but must name each axis once");
        Ok(positions)
    }
}
