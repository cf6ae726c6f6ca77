use tract_core::internal::*;

use super::{impl_op, set_symbols};

/// OpenVINO's StringTensorUnpack: where each string begins and ends in the bytes of all of them, and these bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StringTensorUnpack {
    /// The number of bytes: a symbol that only this node has, unless it is known.
    pub bytes: TDim,
}

impl_op!(StringTensorUnpack, "OpenVinoStringTensorUnpack", mints_runtime_symbols = |_| true);

impl EvalOp for StringTensorUnpack {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let strings = input.try_as_plain_ram()?;
        let strings = strings.as_slice::<String>()?;
        let len = total_len(strings)?;
        let mut bytes = Vec::with_capacity(len);
        let (mut begins, mut ends) = (vec![], vec![]);
        for string in strings {
            begins.push(bytes.len() as i32);
            bytes.extend_from_slice(string.as_bytes());
            ends.push(bytes.len() as i32);
        }
        Ok(tvec![
            tensor1(&begins).into_shape(input.shape())?.into_tvalue(),
            tensor1(&ends).into_shape(input.shape())?.into_tvalue(),
            tensor1(&bytes).into_tvalue(),
        ])
    }
}

/// The number of bytes of strings, which offsets of 32 bits must count.
pub(crate) fn total_len(strings: &[String]) -> TractResult<usize> {
    let len = strings.iter().try_fold(0usize, |len, string| len.checked_add(string.len()));
    let len = len.filter(|len| i32::try_from(*len).is_ok());
    len.with_context(|| {
        format!("StringTensorUnpack: the strings have more than {} bytes in all", i32::MAX)
    })
}

impl TypedOp for StringTensorUnpack {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec![
            i32::fact(inputs[0].shape.clone()),
            i32::fact(inputs[0].shape.clone()),
            u8::fact([self.bytes.clone()]),
        ])
    }

    set_symbols!(bytes);

    as_op!();
}

/// OpenVINO's StringTensorPack: strings, of where each begins and ends and the bytes of all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StringTensorPack;

impl_op!(StringTensorPack, "OpenVinoStringTensorPack");

impl EvalOp for StringTensorPack {
    op_out_of_plan!();

    fn eval(&self, _ctx: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (begins, ends, bytes) = args_3!(inputs);
        ensure!(
            begins.shape() == ends.shape(),
            "StringTensorPack: begins have shape {:?}, but ends {:?}",
            begins.shape(),
            ends.shape()
        );
        let (starts, stops) = (begins.cast_to::<i64>()?, ends.cast_to::<i64>()?);
        let (starts, stops) = (starts.try_as_plain_ram()?, stops.try_as_plain_ram()?);
        let bytes = bytes.try_as_plain_ram()?;
        let bytes = bytes.as_slice::<u8>()?;
        let mut strings = vec![];
        for (number, (start, stop)) in
            starts.as_slice::<i64>()?.iter().zip(stops.as_slice::<i64>()?).enumerate()
        {
            let range = || Some(usize::try_from(*start).ok()?..usize::try_from(*stop).ok()?);
            let string = range().and_then(|range| bytes.get(range)).with_context(|| {
                format!(
                    "StringTensorPack: string {number} is at bytes {start}..{stop}, but there are {} bytes",
                    bytes.len()
                )
            })?;
            let string = std::str::from_utf8(string);
            let string = string
                .with_context(|| format!("StringTensorPack: string {number} is not UTF-8"))?;
            strings.push(string.to_string());
        }
        Ok(tvec!(tensor1(&strings).into_shape(begins.shape())?.into_tvalue()))
    }
}

impl TypedOp for StringTensorPack {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(String::fact(inputs[0].shape.clone())))
    }

    as_op!();
}
