use tract_openvino_kernels::WithKernels;

use super::*;

/// A tiny decoder with random weights and a vocabulary of 300 tokens, without `beam_idx`.
pub(crate) fn network() -> TypedModel {
    ir().model_for_path("../ir/models/networks/llama_stateful/model.xml").unwrap()
}

/// A tiny one as optimum exports it, with `beam_idx`.
pub(crate) fn with_beams() -> LanguageModel {
    LanguageModel::from_folder("models/tiny").unwrap()
}

pub(crate) fn without_beams() -> LanguageModel {
    LanguageModel::from_model(network()).unwrap()
}

#[track_caller]
pub(crate) fn assert_close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-4 + 1e-4 * b.abs(), "{a} is not {b}");
    }
}

#[test]
fn the_last_position_alone() -> TractResult<()> {
    let mut model = network();
    assert!(keep_last_position(&mut model, 0)?);
    model.check_consistency()?;
    let last = model.into_runnable_with_kernels()?;
    let all = network().into_runnable_with_kernels()?;
    assert_eq!(last.model().output_fact(0)?.shape[1], 1.to_dim());
    let (mut last, mut all) = (last.spawn()?, all.spawn()?);
    for (past, tokens) in [(0, 5), (5, 1), (6, 3)] {
        let fill = |columns: usize, value: fn(usize, usize) -> usize| {
            let value = |(row, column)| value(row, column) as i64;
            tract_ndarray::Array2::from_shape_fn((2, columns), value).into_tvalue()
        };
        let inputs = tvec!(
            fill(tokens, |row, column| 7 * row + 3 * column + 1),
            fill(past + tokens, |_, _| 1),
            fill(tokens, |_, column| column),
        );
        let (last, all) = (last.run(inputs.clone())?, all.run(inputs)?);
        assert_eq!(last[0].shape(), [2, 1, 300]);
        let expected = all[0].slice(1, tokens - 1, tokens)?;
        let floats = |tensor: &Tensor| tensor.cast_to::<f32>().unwrap().into_owned();
        assert_close(
            floats(&last[0]).try_as_plain_ram()?.as_slice::<f32>()?,
            floats(&expected).try_as_plain_ram()?.as_slice::<f32>()?,
        );
    }
    Ok(())
}

#[test]
fn the_last_position_of_optimum() -> TractResult<()> {
    let mut model = ir().model_for_path("models/tiny/openvino_model.xml")?;
    assert!(keep_last_position(&mut model, 0)?);
    Ok(())
}

#[test]
fn logits_that_something_else_uses() -> TractResult<()> {
    let mut model = network();
    let logits = model.outputs[0];
    model.select_output_outlets(&[logits, logits])?;
    assert!(!keep_last_position(&mut model, 0)?);
    Ok(())
}

#[test]
fn tokens_may_come_in_pieces() -> TractResult<()> {
    for model in [with_beams(), without_beams()] {
        let tokens = [5, 100, 17, 2, 250];
        let expected = model.start()?.extend(&tokens)?.to_vec();
        let mut context = model.start()?;
        context.extend(&tokens[..3])?;
        context.extend(&tokens[3..4])?;
        let mut fork = context.clone();
        assert_close(context.extend(&tokens[4..])?, &expected);
        // A clone continues by itself.
        fork.extend(&[7])?;
        assert_eq!((context.tokens(0), fork.tokens(0)), (&tokens[..], &[5, 100, 17, 2, 7][..]));
        let expected = model.start()?.extend(&[5, 100, 17, 2, 7])?.to_vec();
        assert_close(&fork.logits()[0], &expected);
    }
    Ok(())
}

#[test]
fn rows_continue_others() -> TractResult<()> {
    let model = with_beams();
    let mut context = model.start()?;
    context.extend(&[1, 2, 3])?;
    context.extend_rows(&[0, 0, 0], &[[4], [5], [6]])?;
    context.extend_rows(&[2, 0], &[[7], [8]])?;
    for (row, tokens) in [[1, 2, 3, 6, 7], [1, 2, 3, 4, 8]].into_iter().enumerate() {
        assert_eq!(context.tokens(row), tokens);
        assert_close(&context.logits()[row], model.start()?.extend(&tokens)?);
    }
    Ok(())
}

#[test]
fn what_cannot_be_added() -> TractResult<()> {
    let model = without_beams().with_max_positions(4);
    let mut context = model.start()?;
    let error = |result: TractResult<&[Vec<f32>]>| format!("{:#}", result.unwrap_err());
    let no: [&[u32]; 0] = [];
    assert!(error(context.extend_rows(&[], &no)).contains("no tokens"));
    assert!(error(context.extend_rows(&[0, 1], &[vec![1], vec![1, 2]])).contains("[1, 2] tokens"));
    let long = error(context.extend_rows(&[0], &[[1, 2, 3, 4, 5]]));
    assert!(long.contains("0 tokens, and 5 more, but the model has 4 positions"), "{long}");
    context.extend_rows(&[0, 1], &[[1, 2], [3, 4]])?;
    assert!(
        error(context.extend_rows(&[0, 2], &[[1], [1]]))
            .contains("continues row 2, but there are 2 rows")
    );
    assert!(error(context.extend_rows(&[1, 0], &[[1], [1]])).contains("no input beam_idx"));
    assert!(
        error(context.extend_rows(&[0, 1], &[[1], [9999]]))
            .contains("a token 9999, but the model has a vocabulary of 300")
    );
    // It is as it was.
    let expected = model.start()?.extend(&[3, 4, 6])?.to_vec();
    context.extend_rows(&[0, 1], &[[5], [6]])?;
    assert_close(&context.logits()[1], &expected);
    assert_eq!((context.len(), context.rows(), context.room()), (3, 2, 1));
    assert!(format!("{:#}", context.extend(&[1]).unwrap_err()).contains("the context has 2 rows"));
    Ok(())
}

/// A model that gives logits of one row for any number of rows.
#[test]
fn a_failing_model_leaves_no_tokens() -> TractResult<()> {
    let mut network = network();
    let logits = network.outputs[0];
    let first =
        network.wire_node("first", tract_core::ops::array::Slice::new(0, 0, 1), &[logits])?;
    network.select_output_outlets(&first)?;
    let model = LanguageModel::from_model(network)?;
    let mut context = model.start()?;
    context.extend(&[1, 2])?;
    let expected = context.logits()[0].clone();
    let mut context = model.start()?;
    let error = context.extend_rows(&[0, 0], &[[5, 6], [7, 8]]).unwrap_err().to_string();
    assert!(error.contains("must have 2 rows"), "{error}");
    assert!(context.is_empty() && context.logits().is_empty());
    assert_close(context.extend(&[1, 2])?, &expected);
    Ok(())
}

#[test]
fn positions_of_config_json() -> TractResult<()> {
    let folder = tempfile::tempdir()?;
    for name in ["openvino_model.xml", "openvino_model.bin"] {
        std::fs::copy(format!("models/tiny/{name}"), folder.path().join(name))?;
    }
    assert_eq!(LanguageModel::from_folder(&folder)?.start()?.room(), usize::MAX);
    std::fs::write(folder.path().join("config.json"), r#"{"n_positions": 3}"#)?;
    let error = LanguageModel::from_folder(&folder)?.start()?.extend(&[1; 4]).unwrap_err();
    assert!(error.to_string().contains("the model has 3 positions at most"), "{error}");
    Ok(())
}

/// The tiny model with other names in its XML.
fn renamed(change: impl Fn(&str) -> String) -> TractResult<LanguageModel> {
    let folder = tempfile::tempdir()?;
    std::fs::copy("models/tiny/openvino_model.bin", folder.path().join("openvino_model.bin"))?;
    let xml = std::fs::read_to_string("models/tiny/openvino_model.xml")?;
    let changed = change(&xml);
    assert_ne!(xml, changed);
    std::fs::write(folder.path().join("openvino_model.xml"), changed)?;
    LanguageModel::from_folder(&folder)
}

#[test]
fn inputs_go_by_the_names_of_their_tensors() -> TractResult<()> {
    let expected = with_beams().start()?.extend(&[1, 2, 3])?.to_vec();
    let layer = |name: &str| format!("name=\"{name}\" type=\"Parameter\"");
    let tensor = |name: &str| format!(" names=\"{name}\">");
    // Layers that have other names, or even those of each other.
    let layers = renamed(|xml| {
        xml.replace(&layer("input_ids"), &layer("Parameter_1"))
            .replace(&layer("attention_mask"), &layer("input_ids"))
            .replace(&layer("position_ids"), &layer("attention_mask"))
            .replace(&layer("beam_idx"), &layer("input_ids"))
    })?;
    assert!(layers.can_reorder());
    assert_close(layers.start()?.extend(&[1, 2, 3])?, &expected);
    // A tensor with several names, of which no particular one comes first.
    let tensors = renamed(|xml| {
        xml.replace(&layer("input_ids"), &layer("Parameter_1"))
            .replace(&tensor("input_ids"), &tensor("37,input_ids,tokens"))
            .replace(&layer("beam_idx"), &layer("Parameter_4"))
            .replace(&tensor("beam_idx"), &tensor("beam,beam_idx"))
    })?;
    assert!(tensors.can_reorder());
    assert_close(tensors.start()?.extend(&[1, 2, 3])?, &expected);
    // A tensor without a name.
    let none = renamed(|xml| xml.replace(&tensor("input_ids"), ">"))?;
    assert_close(none.start()?.extend(&[1, 2, 3])?, &expected);
    // Neither has a name that is known: the error has that of the tensor.
    let error = renamed(|xml| {
        xml.replace(&tensor("position_ids"), &tensor("inputs_embeds"))
            .replace(&layer("position_ids"), &layer("Parameter_3"))
    });
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("the model has an input \"inputs_embeds\""), "{error}");
    Ok(())
}

#[test]
fn logits_go_by_any_name() -> TractResult<()> {
    let expected = with_beams().start()?.extend(&[1, 2, 3])?.to_vec();
    let logits = "<layer id=\"371\" name=\"Result_2645\" type=\"Result\" version=\"opset1\" output_names=\"logits\">";
    let with_names = |names: &str| {
        // Another output comes first.
        let tokens = "<layer id=\"372\" name=\"Result_1\" type=\"Result\" version=\"opset1\"><input><port id=\"0\">\
            <dim>-1</dim><dim>-1</dim></port></input></layer>";
        let edge = "<edge from-layer=\"0\" from-port=\"0\" to-layer=\"372\" to-port=\"0\" />";
        renamed(|xml| {
            assert!(xml.contains(logits));
            let named =
                logits.replace("output_names=\"logits\"", &format!("output_names=\"{names}\""));
            xml.replace(logits, &format!("{tokens}{named}"))
                .replace("<edges>", &format!("<edges>{edge}"))
        })
    };
    assert_close(with_names("37,logits")?.start()?.extend(&[1, 2, 3])?, &expected);
    let error = format!("{:#}", with_names("scores").unwrap_err());
    assert!(error.contains("none has the name logits"), "{error}");
    Ok(())
}

/// The logits after a prompt and a token.
fn logits_after(model: &LanguageModel, prompt: &[u32]) -> TractResult<Vec<f32>> {
    let mut context = model.start()?;
    context.extend(prompt)?;
    Ok(context.extend(&[7])?.to_vec())
}

#[test]
fn activations_are_rounded_in_prefill() -> TractResult<()> {
    let logits = |kernels: KernelsTransform| -> TractResult<Vec<f32>> {
        let model = ir().model_for_path("../ir/models/networks/llama_int4/model.xml")?;
        let row = |value: fn(i64) -> i64| {
            tract_ndarray::Array2::from_shape_fn((1, 20), |(_, place)| value(place as i64))
        };
        let inputs = tvec!(row(|place| place + 1).into_tvalue(), row(|_| 1).into_tvalue());
        let outputs = kernels.runnable(model)?.run(inputs)?;
        let logits = outputs[0].cast_to::<f32>()?;
        Ok(logits.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
    };
    let (exact, rounded) = (logits(KernelsTransform::default())?, logits(rounding_kernels())?);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vnni") {
        assert_ne!(exact, rounded);
    }
    assert_near(&rounded, &exact);
    Ok(())
}

/// What is rounded to 8 bits is near what is exact.
#[track_caller]
fn assert_near(rounded: &[f32], exact: &[f32]) {
    let largest = exact.iter().fold(0f32, |largest, it| largest.max(it.abs()));
    assert_eq!(rounded.len(), exact.len());
    assert!(exact.iter().zip(rounded).all(|(a, b)| (a - b).abs() < 0.1 * largest));
}

#[test]
fn the_kv_cache_is_rounded() -> TractResult<()> {
    let prompt: Vec<u32> = (1..20).collect();
    let exact = logits_after(&with_beams(), &prompt)?;
    let rounding = LanguageModel::from_folder_with("models/tiny", &rounding_kernels())?;
    let rounded = logits_after(&rounding, &prompt)?;
    assert_ne!(exact, rounded);
    assert_near(&rounded, &exact);
    Ok(())
}

#[test]
fn models_of_other_kinds() -> TractResult<()> {
    for (file, expected) in [
        ("openvino_encoder_model.xml", "an encoder-decoder model, as Whisper and T5 are"),
        ("openvino_language_model.xml", "a vision-language model"),
        ("model_index.json", "a pipeline of diffusion models"),
    ] {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(file), "no XML")?;
        for error in [
            LanguageModel::from_folder(&folder).unwrap_err(),
            crate::TextGenerator::from_folder(&folder).unwrap_err(),
        ] {
            let error = format!("{error:#}");
            assert!(error.contains(expected) && error.contains("decoder-only"), "{error}");
            assert!(error.contains(file), "{error}");
        }
    }
    Ok(())
}

#[test]
fn what_is_no_language_model() {
    for (path, expected) in
        [("silero_stateful", "has an input"), ("modernbert", "the model has no variables")]
    {
        let model = ir().model_for_path(format!("../ir/models/networks/{path}/model.xml")).unwrap();
        let error = format!("{:#}", LanguageModel::from_model(model).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let error = |change: &dyn Fn(&mut TypedModel)| {
        let mut model = network();
        change(&mut model);
        format!("{:#}", LanguageModel::from_model(model).unwrap_err())
    };
    let none = error(&|model| model.outputs.clear());
    assert!(none.contains("the model has no outputs"), "{none}");
    let halves = error(&|model| {
        let inputs = model.inputs.clone();
        let is_tokens = |outlet: &&OutletId| model.node(outlet.node).name == "input_ids";
        let tokens = *inputs.iter().find(is_tokens).unwrap();
        let shape = model.outlet_fact(tokens).unwrap().shape.clone();
        model.set_outlet_fact(tokens, DatumType::F16.fact(shape)).unwrap();
    });
    assert!(halves.contains("\"input_ids\" is of type F16, but must be"), "{halves}");
}
