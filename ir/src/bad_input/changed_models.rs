//! Models of `models/` with pieces of their text replaced: errors of operations.

use crate::ir;
use crate::limits::MAX_DECLARED_ELEMENTS;
use crate::prelude::*;

/// A model of `models/` with its text changed.
fn changed(model: &str, change: impl FnOnce(String) -> String) -> TractResult<TypedModel> {
    let folder = format!("{}/models/{model}", env!("CARGO_MANIFEST_DIR"));
    let xml = change(std::fs::read_to_string(format!("{folder}/model.xml")).unwrap());
    // A model without constants has none.
    let weights = std::fs::read(format!("{folder}/model.bin")).unwrap_or_default();
    ir().model_for_bytes(xml.as_bytes(), weights)
}

/// What loading a model of `models/` says, with pieces of its text replaced, wherever they are.
pub(crate) fn error(model: &str, replaced: &[(&str, &str)]) -> String {
    let loaded = changed(model, |xml| {
        replaced.iter().fold(xml, |xml, (from, to)| {
            assert!(xml.contains(from), "{from:?} is not in {model}");
            xml.replace(from, to)
        })
    });
    format!("{:#}", loaded.map(|_| "it loads").unwrap_err())
}

#[test]
fn shapes_and_types_of_inputs() {
    let weights = r#"element_type="f32" shape="8, 3""#;
    for (model, from, to, expected) in [
        // tract reads beyond an axis that is not there.
        (
            "gather/revision_8_out_of_range",
            r#"shape="" offset"#,
            r#"shape="0" offset"#,
            "axis has shape [0]",
        ),
        (
            "embedding_segments_sum/inputs",
            r#"<data shape="4" element_type="i32" />"#,
            r#"<data shape="" element_type="i32" />"#,
            "(indices) has shape [], but must have rank 1",
        ),
        (
            "lstm_cell/revisions",
            weights,
            &weights.replace("f32", "boolean"),
            "(W) is of type Bool, but must be of the type of X, F32",
        ),
        (
            "lstm_sequence/upper_case",
            r#"<data shape="2,1,2" element_type="f32" />"#,
            r#"<data shape="2,1,2" element_type="f16" />"#,
            "(initial_hidden_state) is of type F16, but must be of the type of X, F32",
        ),
    ] {
        let error = error(model, &[(from, to)]);
        assert!(error.contains(expected), "{model}: {expected:?} is not in: {error}");
    }
}

/// A size less the size of an input, which is a pad that crops: the constant that it is less from is negative.
#[test]
fn crops_that_leave_fewer_than_none() {
    let folder = format!("{}/models/computed_sizes/pad_or_crop", env!("CARGO_MANIFEST_DIR"));
    let xml = std::fs::read(format!("{folder}/model.xml")).unwrap();
    let mut weights = std::fs::read(format!("{folder}/model.bin")).unwrap();
    weights[24..32].copy_from_slice(&(-3i64).to_le_bytes());
    let error = format!("{:#}", ir().model_for_bytes(&xml, weights).unwrap_err());
    let expected = "the elements from 0 to -3 would be left, which are fewer than none";
    assert!(error.contains(expected), "{expected:?} is not in: {error}");
}

/// tract makes -1 of a product that is too large.
#[test]
fn sizes_that_cannot_be_multiplied() {
    let most = isize::MAX;
    // With four elements in each, as many as may be declared.
    let rows = format!("{},4", MAX_DECLARED_ELEMENTS / 4);
    for (model, replaced, expected) in [
        (
            "read_value/without_initial_value",
            &[(r#"variable_shape="1,3""#, &*format!(r#"variable_shape="{most},3""#))][..],
            &*format!("shape [{most}, 3]"),
        ),
        (
            "experimental_detectron/prior_grid_generator",
            &[("2,4", &*rows), ("1,1,2,3", "1,1,16384,16384")],
            "cannot be multiplied",
        ),
    ] {
        let error = error(model, replaced);
        assert!(error.contains(expected), "{model}: {expected:?} is not in: {error}");
    }
}

/// Without an iteration a state has the size that it had at first.
#[test]
fn loops_without_iterations_whose_states_would_grow() -> TractResult<()> {
    let model =
        changed("loop/no_trips", |xml| xml.replacen(r#"shape="1,3""#, r#"shape="2,3""#, 1))?;
    assert_eq!(model.output_fact(0)?.shape[0].as_i64(), None);
    let inputs = [[2usize, 3], [1, 3]].map(|shape| Tensor::zero::<f32>(&shape));
    let inputs = inputs.into_iter().map(|input| Ok(input?.into_tvalue()));
    let outputs = model.into_runnable()?.run(inputs.collect::<TractResult<_>>()?)?;
    assert_eq!(outputs[0].shape(), [1, 3]);
    Ok(())
}

/// tract's loop gives no last state where there is no step.
#[test]
fn sequences_without_steps() -> TractResult<()> {
    let known = error("lstm_sequence/open_dimensions", &[(r#"shape="?,?,3""#, r#"shape="?,0,3""#)]);
    assert!(
        known.contains("input 0 (X) has shape") && known.contains("must have one step or more"),
        "{known}"
    );
    let model = changed("lstm_sequence/open_dimensions", |xml| xml)?;
    let shapes = [[1usize, 0, 3], [1, 1, 2], [1, 1, 2]].map(|shape| Tensor::zero::<f32>(&shape));
    let inputs = shapes.into_iter().map(|input| Ok(input?.into_tvalue()));
    let run = model.into_runnable()?.run(inputs.collect::<TractResult<_>>()?);
    let error = format!("{:#}", run.unwrap_err());
    assert!(error.contains("has size 0, but must have size 1 or more"), "{error}");
    Ok(())
}
