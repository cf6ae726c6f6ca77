//! Tensors of strings as tensors of numbers, and back.

use tract_core::internal::*;

use crate::context::LayerContext;
use crate::operators::strings::{StringTensorPack, StringTensorUnpack, total_len};
use crate::registry::Registry;

pub(super) fn register(registry: &mut Registry) {
    registry.add("StringTensorPack", 15, string_tensor_pack).without("strings that are not UTF-8");
    registry.add("StringTensorUnpack", 15, string_tensor_unpack);
}

/// **StringTensorUnpack-15**: where each string begins and ends, in the shape of the strings, and the bytes of all of them.
fn string_tensor_unpack(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(1..=1)?;
    let dt = ctx.datum_type(0)?;
    ensure!(dt == DatumType::String, "the data is of type {dt:?}, but must be of strings");
    let bytes = match ctx.constant_opt(0)? {
        Some(strings) => total_len(strings.try_as_plain_ram()?.as_slice()?)?.to_dim(),
        None => ctx.size_at_run_time("bytes")?.to_dim(),
    };
    let input = ctx.input(0)?;
    ctx.finish(StringTensorUnpack { bytes }, &[input])
}

/// **StringTensorPack-15**: strings, of where each begins and ends, and the bytes of all.
fn string_tensor_pack(ctx: &mut LayerContext) -> TractResult<TVec<OutletId>> {
    ctx.expect_inputs(3..=3)?;
    for (input, name) in [(0, "begins"), (1, "ends")] {
        let dt = ctx.expect_integers(input, name)?;
        ensure!(
            [DatumType::I32, DatumType::I64, DatumType::TDim].contains(&dt),
            "the {name} are of type {dt:?}, but must be of type I32 or I64"
        );
    }
    let dt = ctx.datum_type(2)?;
    ensure!(dt == DatumType::U8, "the symbols are of type {dt:?}, but must be of type U8");
    let rank = ctx.rank(2)?;
    ensure!(rank == 1, "the symbols have rank {rank}, but must have rank 1");
    let (begins, ends) = (ctx.shape(0)?, ctx.shape(1)?);
    ctx.equal_shapes(&begins, &ends, None, "has an end for each begin")?;
    let inputs = [ctx.number_input(0)?, ctx.number_input(1)?, ctx.input(2)?];
    ctx.finish(StringTensorPack, &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings of shape `?,?` that are unpacked, and packed again if `ends` does not say otherwise.
    fn model(ends: &str) -> TractResult<TypedModel> {
        let xml = r#"<net name="strings" version="11"><layers>
            <layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,?" element_type="string"/>
                <output><port id="0" precision="STRING" names="x"><dim>-1</dim><dim>-1</dim></port></output></layer>
            <layer id="1" name="unpack" type="StringTensorUnpack" version="opset15"><input><port id="0"/></input>
                <output><port id="1" precision="I32"/><port id="2" precision="I32"/><port id="3" precision="U8"/></output></layer>
            <layer id="2" name="pack" type="StringTensorPack" version="opset15">
                <input><port id="0"/><port id="1"/><port id="2"/></input>
                <output><port id="3" precision="STRING" names="y"/></output></layer>
            <layer id="3" name="result" type="Result" version="opset1"><input><port id="0"/></input></layer>
            </layers><edges>
            <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
            <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
            <edge from-layer="1" from-port="ENDS" to-layer="2" to-port="1"/>
            <edge from-layer="1" from-port="3" to-layer="2" to-port="2"/>
            <edge from-layer="2" from-port="3" to-layer="3" to-port="0"/>
            </edges></net>"#;
        crate::ir().model_for_bytes(xml.replace("ENDS", ends).as_bytes(), vec![])
    }

    fn strings(strings: [[&str; 2]; 2]) -> Tensor {
        let strings: Vec<String> = strings.as_flattened().iter().map(|it| it.to_string()).collect();
        tensor1(&strings).into_shape(&[2, 2]).unwrap()
    }

    #[test]
    fn there_and_back() -> TractResult<()> {
        let input = strings([["", "é"], ["two words", "€"]]);
        let found =
            model("2")?.into_optimized()?.into_runnable()?.run(tvec!(input.clone().into()))?;
        assert_eq!(*found[0], input);
        Ok(())
    }

    #[test]
    fn one_after_the_other() -> TractResult<()> {
        let op = StringTensorUnpack { bytes: 3.to_dim() };
        let input = strings([["", "é"], ["a", ""]]).into_tvalue();
        let found = op.eval(&EvalContext::out_of_plan(), tvec!(input))?;
        assert_eq!(*found[0], tensor2(&[[0, 0], [2, 3]]));
        assert_eq!(*found[1], tensor2(&[[0, 2], [3, 3]]));
        assert_eq!(*found[2], tensor1("éa".as_bytes()));
        Ok(())
    }

    #[test]
    fn what_cannot_be_packed() -> TractResult<()> {
        // Each string is empty here: it ends where it begins.
        let found =
            model("1")?.into_runnable()?.run(tvec!(strings([["a", "b"], ["", "c"]]).into()))?;
        assert_eq!(*found[0], strings([["", ""], ["", ""]]));
        for (begin, end, expected) in [
            (0, 1, "string 0 is not UTF-8"),
            (0, 3, "string 0 is at bytes 0..3, but there are 2 bytes"),
            (-1, 1, "string 0 is at bytes -1..1"),
            (2, 1, "string 0 is at bytes 2..1"),
        ] {
            let inputs = [tensor1(&[begin]), tensor1(&[end]), tensor1("é".as_bytes())];
            let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
            let error = StringTensorPack.eval(&EvalContext::out_of_plan(), inputs).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
        Ok(())
    }
}
