//! Compressed weights that stay packed: which do, and that the results are the same.

use std::path::Path;

use model_cases::{Case, Stage, StagedModel, Tolerance};
use tract_openvino_ir::prelude::*;

/// tract decompresses and multiplies in another order.
const TOLERANCE: Tolerance = Tolerance { atol: 1e-4, rtol: 1e-4 };

/// The number of nodes that take a table that stays packed. The model must give the expected outputs.
fn tables(name: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/compressed_weights").join(name);
    let reader = tract_openvino_ir::ir().with_block_quantized_weights(true);
    let case = Case::load(&folder).unwrap();
    let load = || reader.model_for_path(folder.join("model.xml"));
    let failures =
        case.check(&Stage::OF_TYPED, TOLERANCE, |stage| StagedModel::from_typed(load()?, stage));
    let failures: Vec<String> =
        failures.iter().map(|it| format!("{}: {:#}", it.stage, it.error)).collect();
    assert!(failures.is_empty(), "{name}: {failures:?}");
    let model = load().unwrap();
    let is_table = |outlet: &OutletId| model.outlet_fact(*outlet).unwrap().is_exotic();
    model.nodes.iter().filter(|node| node.inputs.iter().any(is_table)).count()
}

#[test]
fn what_has_groups_of_a_multiple_of_32() {
    // Not those with scales that are not in half precision.
    assert_eq!(tables("groups_of_32"), 4);
    // Once for the rows, and once for the products.
    assert_eq!(tables("embedding_and_product"), 2);
    assert_eq!(tables("heads"), 1);
}

#[test]
fn nothing_else() {
    for name in ["groups", "nibbles", "u8", "nf4", "f4e2m1", "u8_embedding"] {
        assert_eq!(tables(name), 0, "{name}");
    }
}
