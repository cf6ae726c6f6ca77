//! What OpenVINO makes of texts and of ids with the tokenizers of `cases/`. `generate.py` wrote them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tract_openvino_ir::internal::*;
use tract_openvino_ir::prelude::WithKernels;
use tract_openvino_tokenizers::register;

/// An input, and the expected outputs.
type Run = (Value, Vec<Value>);

/// The models of a folder with their runs.
fn cases(folder: &Path) -> Vec<(PathBuf, Vec<Run>)> {
    let text = fs::read_to_string(folder.join("cases.json")).unwrap();
    let models: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let run = |run: Value| serde_json::from_value(run).unwrap();
    let runs = |runs: Value| serde_json::from_value::<Vec<Value>>(runs).unwrap();
    let models = models.into_iter().map(|(name, value)| {
        (folder.join(name + ".xml"), runs(value).into_iter().map(run).collect())
    });
    models.collect()
}

/// A batch of texts, or rows of integers.
fn tensor(value: &Value, dt: DatumType) -> TractResult<Tensor> {
    if dt == DatumType::String {
        return Ok(tensor1(&serde_json::from_value::<Vec<String>>(value.clone())?));
    }
    let rows: Vec<Vec<i64>> = serde_json::from_value(value.clone())?;
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    Ok(tensor1(&rows.concat()).into_shape(&shape)?.cast_to_dt(dt)?.into_owned())
}

#[test]
fn as_openvino() -> TractResult<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<TractResult<_>>()?;
    folders.sort();
    assert!(folders.len() > 10, "{folders:?}");
    let mut reader = ir();
    register(reader.registry_mut());
    let mut differences = vec![];
    for (file, runs) in folders.iter().flat_map(|folder| cases(folder)) {
        let read = || reader.model_for_path(&file);
        let context = || format!("in {}", file.display());
        let model = read().with_context(context)?;
        let dt = model.input_fact(0)?.datum_type;
        // As a reader gives it, and as it is for speed.
        let plain = read()?.into_runnable()?;
        let kernels = model.into_runnable_with_kernels().with_context(context)?;
        assert!(runs.len() > 5, "{}", file.display());
        for (input, expected) in runs {
            let feed = || -> TractResult<TVec<TValue>> { Ok(tvec!(tensor(&input, dt)?.into())) };
            let all = [plain.run(feed()?), kernels.run(feed()?)];
            for outputs in all {
                let outputs = outputs.with_context(context)?;
                assert_eq!(outputs.len(), expected.len(), "{}", file.display());
                for (output, expected) in outputs.iter().zip(&expected) {
                    let expected = tensor(expected, output.datum_type())?;
                    if **output != expected {
                        let (output, expected) = (output.dump(true)?, expected.dump(true)?);
                        differences.push(format!(
                            "{}: {input}\n  OpenVINO {expected}\n  here     {output}",
                            file.display()
                        ));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
