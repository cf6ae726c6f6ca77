//! Models of `models/` with pieces of their text replaced: errors of operations.

use crate::ir;

/// What loading a model of `models/` says, with pieces of its text replaced, wherever they are.
pub(crate) fn error(model: &str, replaced: &[(&str, &str)]) -> String {
    let folder = format!("{}/models/{model}", env!("CARGO_MANIFEST_DIR"));
    let mut xml = std::fs::read_to_string(format!("{folder}/model.xml")).unwrap();
    let weights = std::fs::read(format!("{folder}/model.bin")).unwrap();
    for (from, to) in replaced {
        assert!(xml.contains(from), "{from:?} is not in {model}");
        xml = xml.replace(from, to);
    }
    let loaded = ir().model_for_bytes(xml.as_bytes(), weights);
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

/// tract makes -1 of a product that is too large.
#[test]
fn sizes_that_cannot_be_multiplied() {
    for (model, replaced, expected) in [
        (
            "read_value/without_initial_value",
            &[(r#"variable_shape="1,3""#, r#"variable_shape="9223372036854775807,3""#)][..],
            "shape [9223372036854775807, 3]",
        ),
        (
            "loop/trip_count",
            // The bytes from 1 on are the number 2^56.
            &[(r#"shape="" offset="0""#, r#"shape="" offset="1""#), ("1,3", "256,3")],
            "256 times 72057594037927936 is too large",
        ),
        (
            "experimental_detectron/prior_grid_generator",
            &[("2,4", "274877906944,4"), ("1,1,2,3", "1,1,65536,65536")],
            "times 274877906944 is too large",
        ),
    ] {
        let error = error(model, replaced);
        assert!(error.contains(expected), "{model}: {expected:?} is not in: {error}");
    }
}
