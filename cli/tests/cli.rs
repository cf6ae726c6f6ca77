//! The command line as people use it: spawned, with the text that they see.

#[allow(dead_code)]
#[path = "../../tests/suite/onnx_model.rs"]
mod onnx_model;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model_cases::{load_tensor_file, save_tensor_file};
use ndarray_npy::{NpzReader, NpzWriter, read_npy, write_npy};
use onnx_model::{Dim, input, node, output};
use prost::Message;
use tempfile::TempDir;
use tract_openvino::DOMAIN;
use tract_openvino::tract_onnx::pb::*;
use tract_openvino::tract_onnx::prelude::tract_ndarray::{ArrayD, IxDyn, OwnedRepr, arr1, arr2};
use tract_openvino::tract_onnx::prelude::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tract-openvino");

/// What a command did.
struct Ran {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The program, in the folder where `models` is, as if nobody had set anything.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUST_LOG", "RUST_BACKTRACE"] {
        command.env_remove(variable);
    }
    command
}

fn run(arguments: &[&str]) -> Ran {
    let output = command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// What a command prints that does as it should.
#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!((ran.status, &*ran.stderr), (Some(0), ""), "{arguments:?}\n{}", ran.stdout);
    assert!(!ran.stdout.contains('\x1b'), "escape codes in a pipe: {:?}", ran.stdout);
    ran.stdout
}

/// The error of a command that cannot do what it should.
#[track_caller]
fn fail(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!(ran.status, Some(2), "{arguments:?}\n{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.starts_with("error: "), "{:?}", ran.stderr);
    assert!(!ran.stderr.contains('\x1b'), "escape codes in a pipe: {:?}", ran.stderr);
    ran.stderr
}

/// Files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().into()
    }

    fn model(&self, name: &str, model: &ModelProto) -> String {
        let path = PathBuf::from(self.path(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, model.encode_to_vec()).unwrap();
        path.to_str().unwrap().into()
    }

    /// A copy of a folder of `models/`.
    fn copy(&self, model: &str, name: &str) -> String {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(model);
        let to = PathBuf::from(self.path(name));
        let mut folders = vec![(from, to)];
        while let Some((from, to)) = folders.pop() {
            fs::create_dir_all(&to).unwrap();
            for entry in fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                let to = to.join(entry.file_name());
                if entry.path().is_dir() {
                    folders.push((entry.path(), to));
                } else {
                    fs::copy(entry.path(), to).unwrap();
                }
            }
        }
        self.path(name)
    }
}

/// Gather-7 along axis 0 of `data`, which has a symbol, by `indices`.
fn gather() -> ModelProto {
    onnx_model::gather(
        7,
        None,
        tensor0(0i64),
        input("data", DatumType::F32, [Dim::Symbol("N"), Dim::Size(3)]),
        input("indices", DatumType::I64, [2usize]),
    )
}

/// One node of the standard domain.
fn standard(node: NodeProto, inputs: Vec<ValueInfoProto>) -> ModelProto {
    let graph = GraphProto {
        node: vec![node],
        input: inputs,
        output: vec![output("output")],
        ..GraphProto::default()
    };
    onnx_model::model(None, graph)
}

/// The files of inputs that suit [`gather`].
fn gather_inputs(files: &Files) -> (String, String) {
    let (data, indices) = (files.path("data.npy"), files.path("indices.npy"));
    write_npy(&data, &arr2(&[[1f32, 2., 3.], [4., 5., 6.]])).unwrap();
    write_npy(&indices, &arr1(&[1i64, 0])).unwrap();
    (format!("data={data}"), format!("indices={indices}"))
}

// run

#[test]
fn run_compares_a_model_folder_with_its_data_sets() {
    assert_eq!(
        succeed(&["run", "models/token_picker"]),
        "models/token_picker
test_data_set_0
  scores 3,4,F32 27, 16, -2, 8, 22, 3, -23, -21, 3, 0, -10, 8
  matches output_0.pb
test_data_set_1
  scores 2,4,F32 -7, 6, -2, 4, -5, 4, -8, -6
  matches output_0.pb
"
    );
}

#[test]
fn run_says_where_an_output_differs() {
    let files = Files::new();
    let folder = files.copy("gather_8_example_7", "case");
    let path = format!("{folder}/test_data_set_0/output_0.pb");
    save_tensor_file(&path, "output", &tensor1(&[4i32, 0, 7])).unwrap();
    let ran = run(&["run", &folder]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(
        ran.stdout,
        format!(
            "{folder}
test_data_set_0
  output 3,I32 4, 0, 0
  DOES NOT MATCH output_0.pb: I32 7 expected at [2], got I32 0
"
        )
    );
}

#[test]
fn run_reads_npy_npz_and_pb() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, _) = gather_inputs(&files);
    let npz = files.path("in.npz");
    let mut writer = NpzWriter::new(fs::File::create(&npz).unwrap());
    writer.add_array("indices", &arr1(&[1i64, 1])).unwrap();
    writer.add_array("other", &arr1(&[0i64, 0])).unwrap();
    writer.finish().unwrap();
    let pb = files.path("in.pb");
    save_tensor_file(&pb, "indices", &tensor1(&[0i64, 1])).unwrap();
    for (indices, expected) in [
        (format!("indices={npz}:indices"), "4, 5, 6, 4, 5, 6"),
        (format!("indices={npz}"), "4, 5, 6, 4, 5, 6"),
        (format!("indices={npz}:other"), "1, 2, 3, 1, 2, 3"),
        (format!("indices={pb}"), "1, 2, 3, 4, 5, 6"),
    ] {
        let text = succeed(&["run", &model, "-i", &data, "-i", &indices]);
        assert_eq!(text, format!("{model}\n  output 2,3,F32 {expected}\n"), "{indices}");
    }
    let typo = format!("indices={npz}:indicse");
    assert_eq!(
        fail(&["run", &model, "-i", &data, "-i", &typo]),
        format!(
            "error: reading {npz} for input \"indices\"
  {npz} has no key \"indicse\"
help: did you mean \"indices\"?
"
        )
    );
}

#[test]
fn run_saves_outputs() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, indices) = gather_inputs(&files);
    let arguments = ["run", &model, "-i", &data, "-i", &indices, "-o"];
    let save = |more: &[&str]| succeed(&[&arguments[..], more].concat());
    let expected = arr2(&[[4f32, 5., 6.], [1., 2., 3.]]).into_dyn();

    let folder = files.path("out");
    let text = save(&[&folder]);
    assert!(text.ends_with(&format!("  saved {folder}/output.npy\n")), "{text}");
    assert_eq!(read_npy::<_, ArrayD<f32>>(format!("{folder}/output.npy")).unwrap(), expected);

    let text = save(&[&folder, "--format", "pb"]);
    assert!(text.ends_with(&format!("  saved {folder}/output_0.pb\n")), "{text}");
    let tensor = load_tensor_file(format!("{folder}/output_0.pb")).unwrap();
    assert_eq!(tensor, expected.clone().into_tensor());

    let npz = files.path("out.npz");
    save(&[&npz]);
    let mut reader = NpzReader::new(fs::File::open(&npz).unwrap()).unwrap();
    assert_eq!(reader.names().unwrap(), ["output"]);
    assert_eq!(reader.by_name::<OwnedRepr<f32>, IxDyn>("output").unwrap(), expected);
}

#[test]
fn run_saves_each_data_set_to_a_folder_of_its_own() {
    let files = Files::new();
    let folder = files.path("out");
    succeed(&["run", "models/token_picker", "-o", &folder]);
    for (number, rows) in [(0, 3), (1, 2)] {
        let path = format!("{folder}/test_data_set_{number}/scores.npy");
        assert_eq!(read_npy::<_, ArrayD<f32>>(path).unwrap().shape(), [rows, 4]);
    }
    let npz = files.path("out.npz");
    assert_eq!(
        fail(&["run", "models/token_picker", "-o", &npz]),
        "error: one file cannot hold the outputs of 2 data sets\nhelp: give a folder to -o\n"
    );
    assert!(!Path::new(&npz).exists());
}

/// Every element type that NumPy and tract both have goes through unchanged.
#[test]
fn run_keeps_element_types() {
    let files = Files::new();
    for dt in [
        DatumType::Bool,
        DatumType::U8,
        DatumType::U16,
        DatumType::U32,
        DatumType::U64,
        DatumType::I8,
        DatumType::I16,
        DatumType::I32,
        DatumType::I64,
        DatumType::F16,
        DatumType::F32,
        DatumType::F64,
    ] {
        let identity = node("", "Identity", &["data"], "output");
        let model = standard(identity, vec![input("data", dt, [2usize])]);
        let model = files.model("model.onnx", &model);
        let expected = tensor1(&[1i64, 0]).cast_to_dt(dt).unwrap().into_owned();
        let (pb, npz) = (files.path("in.pb"), files.path("out.npz"));
        save_tensor_file(&pb, "data", &expected).unwrap();
        succeed(&["run", &model, "-i", &format!("data={pb}"), "-o", &npz]);
        let folder = files.path("out");
        let from_npz = format!("data={npz}:output");
        succeed(&["run", &model, "-i", &from_npz, "-o", &folder, "--format", "pb"]);
        assert_eq!(load_tensor_file(format!("{folder}/output_0.pb")).unwrap(), expected);
    }
}

#[test]
fn strings_go_to_pb_files_only() {
    let files = Files::new();
    let identity = node("", "Identity", &["data"], "output");
    let model = standard(identity, vec![input("data", DatumType::String, [1usize])]);
    let model = files.model("model.onnx", &model);
    let pb = files.path("in.pb");
    save_tensor_file(&pb, "data", &tensor1(&["text".to_string()])).unwrap();
    let (data, folder) = (format!("data={pb}"), files.path("out"));
    let arguments = ["run", &model, "-i", &data, "-o", &folder];
    let error = fail(&arguments);
    assert!(error.contains("NumPy's files cannot hold elements of type String"), "{error}");
    succeed(&[&arguments[..], &["--format", "pb"]].concat());
    assert_eq!(
        load_tensor_file(format!("{folder}/output_0.pb")).unwrap(),
        tensor1(&["text".to_string()])
    );
}

#[test]
fn missing_inputs_are_listed_with_their_facts() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    assert_eq!(
        fail(&["run", &model]),
        "error: nothing to feed to inputs data (N,3,F32), indices (2,I64)
help: give files: -i data=FILE.npy -i indices=FILE.npy
help: or let --random make tensors up
"
    );
    let (data, _) = gather_inputs(&files);
    let error = fail(&["run", &model, "-i", &data]);
    assert!(error.starts_with("error: nothing to feed to input indices (2,I64)\n"), "{error}");
}

#[test]
fn an_input_that_there_is_not() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, _) = gather_inputs(&files);
    assert_eq!(
        fail(&["run", &model, "-i", &data.replace("data=", "dtaa=")]),
        "error: the model has no input \"dtaa\"\nhelp: did you mean \"data\"?\n"
    );
    assert_eq!(
        fail(&["run", &model, "-i", &data.replace("data=", "something=")]),
        "error: the model has no input \"something\"\nhelp: there is \"data\", \"indices\"\n"
    );
    assert_eq!(
        fail(&["run", &model, "-i", &data, "-i", &data]),
        "error: input \"data\" is given twice\n"
    );
}

#[test]
fn a_tensor_that_does_not_fit() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, indices) = gather_inputs(&files);
    let wrong = files.path("wrong.npy");
    let wrong_input = |name: &str| format!("{name}={wrong}");

    write_npy(&wrong, &arr1(&[1i64, 0, 1])).unwrap();
    assert_eq!(
        fail(&["run", &model, "-i", &data, "-i", &wrong_input("indices")]),
        "error: input \"indices\": expected 2,I64, got 3,I64\n"
    );
    write_npy(&wrong, &arr1(&[1i32, 0])).unwrap();
    assert_eq!(
        fail(&["run", &model, "-i", &data, "-i", &wrong_input("indices")]),
        "error: input \"indices\": expected 2,I64, got 2,I32
help: types are not converted; in NumPy there is astype for that
"
    );
    write_npy(&wrong, &arr1(&[1f32, 2., 3.])).unwrap();
    assert_eq!(
        fail(&["run", &model, "-i", &wrong_input("data"), "-i", &indices]),
        "error: input \"data\": expected N,3,F32, got 3,F32\n"
    );
    assert_eq!(
        fail(&["run", &model, "-i", &data, "-i", &indices, "--set", "N=5"]),
        "error: input \"data\": expected 5,3,F32, got 2,3,F32\n"
    );
}

#[test]
fn two_inputs_that_disagree_on_a_symbol() {
    let files = Files::new();
    let inputs = ["left", "right"].map(|name| input(name, DatumType::F32, ["N"]));
    let add = standard(node("", "Add", &["left", "right"], "output"), inputs.to_vec());
    let model = files.model("model.onnx", &add);
    let (two, three) = (files.path("two.npy"), files.path("three.npy"));
    write_npy(&two, &arr1(&[1f32, 2.])).unwrap();
    write_npy(&three, &arr1(&[1f32, 2., 3.])).unwrap();
    let (left, right) = (format!("left={two}"), format!("right={three}"));
    assert_eq!(
        fail(&["run", &model, "-i", &left, "-i", &right]),
        "error: input \"right\": expected N,F32, got 3,F32
help: N is 2 by input \"left\"
"
    );
}

#[test]
fn random_inputs_are_good_indices_and_the_same_for_a_seed() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let nd = onnx_model::gather_nd(
        8,
        None,
        input("data", DatumType::F32, [2usize, 100]),
        input("indices", DatumType::I32, [50usize, 2]),
    );
    let nd = files.model("nd.onnx", &nd);
    for seed in ["0", "1", "2", "3"] {
        // Of one row there is only one to pick.
        succeed(&["run", &model, "--random", "--set", "N=1", "--seed", seed]);
        succeed(&["run", &nd, "--random", "--seed", seed]);
    }
    let once = |seed| succeed(&["run", &nd, "--random", "--seed", seed]);
    assert_eq!(once("1"), once("1"));
    assert_ne!(once("1"), once("2"));
    // A given input stays as it is, and its symbol holds for the others.
    let (data, _) = gather_inputs(&files);
    let text = succeed(&["run", &model, "--random", "-i", &data]);
    assert!(text.contains("output 2,3,F32 "), "{text}");
    assert!(["1, 2, 3", "4, 5, 6"].iter().any(|row| text.contains(row)), "{text}");
}

#[test]
fn random_inputs_need_values_for_symbols() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    assert_eq!(
        fail(&["run", &model, "--random"]),
        "error: input \"data\" has shape N,3: no random tensor without a value for N
help: give it one: --set N=8
"
    );
}

#[test]
fn symbols_are_set_by_name() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    assert_eq!(
        fail(&["run", &model, "--set", "M=2", "--random"]),
        "error: the model has no symbol \"M\"\nhelp: did you mean \"N\"?\n"
    );
    assert_eq!(
        fail(&["run", "models/gather_7_example_2", "--set", "N=2"]),
        "error: the model has no symbol \"N\"\nhelp: there is none at all\n"
    );
    for (value, reason) in
        [("N", "it must be a symbol, = and a value"), ("N=x", "\"x\" is not a size")]
    {
        let error = fail(&["run", &model, "--set", value]);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn options_reach_the_reader() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, _) = gather_inputs(&files);
    let indices = files.path("negative.npy");
    write_npy(&indices, &arr1(&[-1i64, 0])).unwrap();
    let indices = format!("indices={indices}");
    let arguments = ["run", &model, "-i", &data, "-i", &indices];
    let error = fail(&arguments);
    assert!(error.contains("Gather-7: indices[0] is -1, which is out of range"), "{error}");
    assert!(error.contains("help: with --negative-indices wrap"), "{error}");
    let text = succeed(&[&arguments[..], &["--negative-indices", "wrap"]].concat());
    assert!(text.contains("4, 5, 6, 1, 2, 3"), "{text}");
    let error = fail(&[&arguments[..], &["--negative-indices", "warp"]].concat());
    assert!(error.contains("'wrap'"), "{error}");

    let standard = "models/onnx_test_gathernd_example_int32";
    assert!(!succeed(&["facts", standard]).contains("GatherND-8"));
    assert!(succeed(&["facts", standard, "--standard-gather"]).contains("GatherND-8"));
}

#[test]
fn ignore_value_info_reads_models_that_declare_too_much() {
    let files = Files::new();
    let mut model = gather();
    model.graph.as_mut().unwrap().value_info = vec![input("output", DatumType::F32, [7usize, 3])];
    let model = files.model("model.onnx", &model);
    fail(&["facts", &model]);
    assert!(succeed(&["facts", &model, "--ignore-value-info"]).contains("output output: 2,3,F32"));
}

// facts

#[test]
fn facts_shows_types_shapes_and_parameters() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    assert_eq!(
        succeed(&["facts", &model]),
        format!(
            "{model}, typed
  input  data: N,3,F32
  input  indices: 2,I64
  output output: 2,3,F32
 node         operator                         inputs         outputs
 node_output  Gather-7                         data N,3,F32   2,3,F32
              axis: 0, batch_dims: 0           indices 2,I64
              negative or out of range: error
symbols: N
"
        )
    );
    let text = succeed(&["facts", &model, "--set", "N=8", "--stage", "optimized"]);
    assert!(text.starts_with(&format!("{model}, optimized\n  input  data: 8,3,F32\n")), "{text}");
    assert!(!text.contains("symbols:"), "{text}");
}

#[test]
fn facts_of_a_loaded_model_has_constants_and_what_is_not_known() {
    let files = Files::new();
    let mut model = gather();
    // What the length of the indices is, nobody says.
    model.graph.as_mut().unwrap().input[1] = input("indices", DatumType::I64, ["?"]);
    let model = files.model("model.onnx", &model);
    let text = succeed(&["facts", &model, "--stage", "loaded"]);
    for expected in ["input  indices: ?,I64\n", "output output: ?,3,F32\n", "axis I64 = 0"] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn facts_as_json() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let text = succeed(&["facts", &model, "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(facts["stage"], "typed");
    assert_eq!(facts["symbols"], serde_json::json!(["N"]));
    assert_eq!(facts["inputs"][0]["name"], "data");
    assert_eq!(facts["inputs"][0]["shape"], serde_json::json!(["N", 3]));
    assert_eq!(facts["outputs"][0]["type"], "F32");
    let nodes = facts["nodes"].as_array().unwrap();
    let gather = nodes.iter().find(|node| node["operator"] == "Gather-7").unwrap();
    assert_eq!(gather["outputs"][0]["shape"], serde_json::json!([2, 3]));
}

#[test]
fn a_stage_that_there_is_not() {
    let error = fail(&["facts", "models/token_picker", "--stage", "optimised"]);
    assert!(error.contains("a similar value exists: 'optimized'"), "{error}");
}

// check

#[test]
fn check_finds_all_models_below_a_folder() {
    let files = Files::new();
    files.copy("gather_7_example_1", "some/deep/one");
    files.copy("gather_8_example_7", "two");
    let text = succeed(&["check", &files.path("")]);
    let expected = "2 models, 8 checks: 8 passed, 0 failed in ";
    assert!(text.starts_with(expected) && text.lines().count() == 1, "{text}");
    // Each once, however often it is named.
    let text = succeed(&["check", &files.path("two"), &files.path("two"), "--stage", "typed"]);
    assert!(text.starts_with("1 model, 1 check: 1 passed"), "{text}");
}

#[test]
fn check_says_where_an_output_differs_at_each_stage() {
    let files = Files::new();
    let folder = files.copy("gather_8_example_7", "case");
    let path = format!("{folder}/test_data_set_0/output_0.pb");
    save_tensor_file(&path, "output", &tensor1(&[4i32, 9, 0])).unwrap();
    let junit = files.path("report.xml");
    let ran = run(&["check", &folder, "--junit", &junit]);
    assert_eq!(ran.status, Some(1));
    for (line, stage) in ran.stdout.lines().zip(["loaded", "typed", "decluttered", "optimized"]) {
        assert_eq!(
            line,
            format!(
                "FAIL {folder}, {stage}, test_data_set_0: output 0: I32 9 expected at [1], got I32 0"
            )
        );
    }
    let summary = ran.stdout.lines().last().unwrap();
    assert!(summary.starts_with("1 model, 4 checks: 0 passed, 4 failed in "), "{summary}");
    let report = fs::read_to_string(junit).unwrap();
    assert!(report.contains("tests=\"4\"") && report.contains("failures=\"4\""), "{report}");
    assert!(report.contains("I32 9 expected at [1], got I32 0"), "{report}");
    // Nothing was blessed.
    assert_eq!(load_tensor_file(path).unwrap(), tensor1(&[4i32, 9, 0]));
}

#[test]
fn check_allows_for_a_tolerance() {
    let files = Files::new();
    let folder = files.copy("gather_7_example_2", "case");
    let path = format!("{folder}/test_data_set_0/output_0.pb");
    let close = tensor2(&[[1.25f32, 1., 5.], [10., 6., 6.]]);
    save_tensor_file(&path, "output", &close).unwrap();
    assert_eq!(run(&["check", &folder]).status, Some(1));
    assert_eq!(run(&["check", &folder, "--atol", "0.2"]).status, Some(1));
    succeed(&["check", &folder, "--atol", "0.3"]);
    succeed(&["check", &folder, "--rtol", "0.25"]);
    succeed(&["run", &folder, "--atol", "0.3"]);
    let error = fail(&["check", &folder, "--atol=-1"]);
    assert!(error.contains("it must be 0 or more"), "{error}");
}

#[test]
fn check_blesses_outputs_on_request() {
    let files = Files::new();
    let folder = files.copy("gather_8_example_7", "case");
    let path = format!("{folder}/test_data_set_0/output_0.pb");
    save_tensor_file(&path, "output", &tensor1(&[1f32])).unwrap();
    let text = succeed(&["check", &folder, "--bless"]);
    assert!(text.starts_with(&format!("BLESSED {path}\n")), "{text}");
    assert_eq!(load_tensor_file(&path).unwrap(), tensor1(&[4i32, 0, 0]));
    // Now there is nothing to bless.
    let text = succeed(&["check", &folder, "--bless"]);
    assert!(text.starts_with("1 model"), "{text}");
}

#[test]
fn check_goes_on_after_a_model_that_cannot_be_read() {
    let files = Files::new();
    files.copy("gather_8_example_7", "good");
    let bad = files.copy("gather_8_example_7", "bad");
    fs::write(format!("{bad}/model.onnx"), "no model").unwrap();
    // tract panics at this one.
    let panic = files.copy("gather_8_example_7", "panic");
    let mut model = gather();
    model.graph.as_mut().unwrap().output = vec![output("nowhere")];
    files.model("panic/model.onnx", &model);
    let empty = files.copy("gather_8_example_7", "empty");
    fs::remove_dir_all(format!("{empty}/test_data_set_0")).unwrap();
    let ran = run(&["check", &files.path("")]);
    assert_eq!(ran.status, Some(1));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with(&format!("FAIL {bad}: ")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("FAIL {empty}: ")), "{lines:?}");
    assert!(lines[1].ends_with("has no test_data_set_0"), "{lines:?}");
    assert!(lines[2].starts_with(&format!("FAIL {panic}: tract panicked while ")), "{lines:?}");
    assert!(lines[3].starts_with("4 models, 7 checks: 4 passed, 3 failed"), "{lines:?}");
}

#[test]
fn check_with_nothing_to_check() {
    let files = Files::new();
    let folder = files.path("");
    let help = "help: a model folder has a model.onnx and test_data_set_N folders\n";
    assert_eq!(
        fail(&["check", &folder]),
        format!("error: there is no model folder at or below {folder}\n{help}")
    );
    assert_eq!(fail(&["check", "modles"]), format!("error: modles does not exist\n{help}"));
    assert_eq!(
        fail(&["check", "models/token_picker", "--set", "bacth=3"]),
        "error: none of the models has a symbol \"bacth\"\nhelp: did you mean \"batch\"?\n"
    );
}

// bench

/// The number in a line like `  median   134.020 µs`.
fn microseconds(text: &str, name: &str) -> f64 {
    let number = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_suffix("µs"));
    number.unwrap_or_else(|| panic!("{name:?} in {text}")).trim().parse().unwrap()
}

#[test]
fn bench_gives_times_and_a_profile_that_adds_up() {
    let short = ["--warm-up", "0", "--time", "0.05"];
    for threads in ["1", "2"] {
        let arguments = ["bench", "models/token_picker", "--threads", threads];
        let text = succeed(&[&arguments[..], &short[..]].concat());
        let plural = if threads == "1" { "" } else { "s" };
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("models/token_picker: "), "{text}");
        assert!(first.ends_with(&format!(" runs on {threads} thread{plural}")), "{text}");
        let [minimum, median, percentile] =
            ["minimum", "median", "95th percentile"].map(|start| microseconds(&text, start));
        assert!(0. < minimum && minimum <= median && median <= percentile, "{text}");
        assert!(text.contains("runs per second"), "{text}");
        for node in [" embedding ", " pick ", " look_up "] {
            assert!(text.contains(node), "{node:?} in {text}");
        }
        // Each row ends in microseconds, a share and %.
        let rows = text.lines().filter(|line| line.ends_with('%'));
        let numbers: Vec<f64> = rows
            .map(|row| row.rsplit(' ').filter(|word| !word.is_empty()).nth(2).unwrap())
            .map(|number| number.parse().unwrap())
            .collect();
        let (total, parts) = numbers.split_last().unwrap();
        assert!(parts.len() > 5, "{text}");
        assert!((total - parts.iter().sum::<f64>()).abs() < 1e-6, "{text}");
    }
}

#[test]
fn bench_needs_inputs_and_threads() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let error = fail(&["bench", &model]);
    assert!(error.starts_with("error: nothing to feed to inputs data (N,3,F32)"), "{error}");
    let error = fail(&["bench", &model, "--threads", "0"]);
    assert!(error.contains("1..=1024"), "{error}");
    let error = fail(&["bench", &model, "--time", "soon"]);
    assert!(error.contains("it is not a number"), "{error}");
    succeed(&["bench", &model, "--random", "--set", "N=4", "--warm-up", "0", "--time", "0"]);
}

// convert

#[test]
fn convert_writes_archives_that_can_be_run() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, indices) = gather_inputs(&files);
    for name in ["model.nnef.tgz", "model.tgz", "model.nnef.tar"] {
        let archive = files.path(name);
        let text = succeed(&["convert", &model, &archive]);
        assert!(text.starts_with(&format!("saved {archive}, ")), "{text}");
        let is_compressed = fs::read(&archive).unwrap().starts_with(&[0x1f, 0x8b]);
        assert_eq!(is_compressed, name.ends_with("tgz"));
        let text = succeed(&["run", &archive, "-i", &data, "-i", &indices]);
        assert!(text.contains("2,3,F32 4, 5, 6, 1, 2, 3"), "{text}");
        assert!(succeed(&["facts", &archive, "--set", "N=2"]).contains("data: 2,3,F32"));
    }
    let archive = files.path("model.nnef.tgz");
    assert_eq!(
        fail(&["facts", &archive, "--stage", "loaded"]),
        "error: an NNEF archive has no stage loaded: it has types and shapes already
help: stages that it has: typed, decluttered, optimized
"
    );
    let wrong = files.path("model.zip");
    assert_eq!(
        fail(&["convert", &model, &wrong]),
        format!(
            "error: {wrong} is no NNEF archive by its name
help: its name must end in .nnef.tgz, .tgz or .nnef.tar
"
        )
    );
}

/// tract's writer panics at a dimension that is the broadcast of two symbols.
#[test]
fn convert_names_what_cannot_be_written() {
    let files = Files::new();
    let of = |name, symbol: &'static str| input(name, DatumType::F32, [symbol]);
    let inputs = vec![of("left", "N"), of("right", "M")];
    let add = standard(node("", "Add", &["left", "right"], "sum"), inputs);
    let mut add = add;
    let graph = add.graph.as_mut().unwrap();
    // So that the dimension has to be written.
    graph.node.push(node("", "Shape", &["sum"], "shape"));
    graph.node.push(node("", "Expand", &["left", "shape"], "output"));
    let model = files.model("model.onnx", &add);
    let archive = files.path("model.nnef.tar");
    let error = fail(&["convert", &model, &archive]);
    for expected in ["writing the model as NNEF", "\"node_output\"", "--set M=8 --set N=8"] {
        assert!(error.contains(expected), "{expected:?} in {error}");
    }
    assert!(!error.contains("/src/index"), "{error}");
    assert!(!Path::new(&archive).exists());
    succeed(&["convert", &model, &archive, "--set", "M=8", "--set", "N=8"]);
}

// All commands

#[test]
fn a_file_that_is_no_model() {
    let files = Files::new();
    assert_eq!(fail(&["facts", "nowhere.onnx"]), "error: there is no file nowhere.onnx\n");
    let folder = files.path("");
    let error = fail(&["run", &folder]);
    assert!(error.starts_with(&format!("error: {folder} has no model.onnx\n")), "{error}");
    let text = files.path("model.txt");
    fs::write(&text, "text").unwrap();
    let error = fail(&["run", &text]);
    assert!(error.contains(".nnef.tgz"), "{error}");
    let onnx = files.path("model.onnx");
    fs::write(&onnx, "text").unwrap();
    let error = fail(&["run", &onnx]);
    assert!(error.starts_with(&format!("error: {onnx} is not an ONNX file\n")), "{error}");
    let archive = files.path("model.nnef.tgz");
    fs::write(&archive, "text").unwrap();
    let error = fail(&["run", &archive]);
    assert!(error.starts_with(&format!("error: reading {archive}\n")), "{error}");
}

#[test]
fn a_file_that_is_no_tensor() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let error = fail(&["run", &model, "-i", "data=data.csv"]);
    assert!(
        error.contains("\"data.csv\" is no tensor by its name: .npy, .npz:KEY or .pb"),
        "{error}"
    );
    let error = fail(&["run", &model, "-i", "data.npy"]);
    assert!(error.contains("it must be an input's name, = and a file"), "{error}");
    assert!(fail(&["run", &model, "-i", "data=nowhere.npy"]).contains("No such file"));
    for name in ["bad.npy", "bad.npz", "bad.pb"] {
        let path = files.path(name);
        fs::write(&path, "no tensor").unwrap();
        let error = fail(&["run", &model, "-i", &format!("data={path}")]);
        assert!(error.contains(&format!("reading {path} for input \"data\"")), "{error}");
    }
}

/// A header that promises terabytes.
#[test]
fn a_tensor_that_is_not_all_there() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 3), }";
    npy.extend(format!("{header:117}\n").bytes());
    let path = files.path("huge.npy");
    fs::write(&path, npy).unwrap();
    let error = fail(&["run", &model, "-i", &format!("data={path}")]);
    assert!(error.contains("its shape asks for more elements than it has bytes: 0"), "{error}");
}

#[test]
fn random_inputs_that_do_not_fit_into_memory() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    for size in ["1000000000000000", "9223372036854775807"] {
        let error = fail(&["run", &model, "--random", "--set", &format!("N={size}")]);
        assert!(error.contains("does not fit into memory"), "{error}");
    }
}

#[test]
fn values_of_symbols_that_are_no_sizes() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    for set in ["N", "N=", "N=-1", "N=x", "N=9223372036854775808", "=3"] {
        let error = fail(&["facts", &model, &format!("--set={set}")]);
        assert!(error.contains(&format!("invalid value '{set}'")), "{error}");
    }
}

/// What a terminal would obey, or a file system.
#[test]
fn names_that_are_hostile() {
    let files = Files::new();
    let mut model = gather();
    let graph = model.graph.as_mut().unwrap();
    graph.node[0].name = "node\x1b[2J".into();
    graph.node[0].output[0] = "../out\x1b[2J".into();
    graph.output[0].name = "../out\x1b[2J".into();
    let model = files.model("model.onnx", &model);
    succeed(&["facts", &model]);
    let folder = files.path("saved");
    succeed(&["run", &model, "--random", "--set", "N=2", "-o", &folder]);
    let saved: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(saved, [".._out_u{1b}[2J.npy"]);
}

#[test]
fn outputs_that_become_one_in_nnef() {
    let files = Files::new();
    let mut model = gather();
    let graph = model.graph.as_mut().unwrap();
    graph.node[0].output[0] = "a/b".into();
    graph.node.push(node("", "Neg", &["data"], "a_b"));
    graph.output = vec![output("a/b"), output("a_b")];
    let model = files.model("model.onnx", &model);
    let error = fail(&["convert", &model, &files.path("model.nnef.tgz")]);
    assert!(error.contains("outputs \"a/b\" and \"a_b\" would have one name in NNEF"), "{error}");
}

#[test]
fn data_sets_that_would_be_passed_over() {
    let files = Files::new();
    let folder = files.copy("gather_7_example_2", "model");
    fs::create_dir(Path::new(&folder).join("test_data_set_3")).unwrap();
    let ran = run(&["check", &folder]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.contains("2 data sets, but only 1 without a gap"), "{}", ran.stdout);
}

#[test]
fn options_that_an_archive_has_no_use_for() {
    let files = Files::new();
    let archive = files.path("model.nnef.tgz");
    succeed(&["convert", "models/gather_7_example_2", &archive]);
    let error = fail(&["facts", &archive, "--negative-indices", "wrap"]);
    assert!(error.contains("options for reading ONNX do not change an NNEF archive"), "{error}");
}

#[test]
fn all_operators_that_nobody_implements_are_named() {
    let files = Files::new();
    let graph = |nodes: Vec<NodeProto>| GraphProto {
        node: nodes,
        input: vec![input("data", DatumType::F32, [2usize])],
        output: vec![output("output")],
        ..GraphProto::default()
    };
    let branch = GraphProto {
        node: vec![node("", "InBranch", &["data"], "b")],
        output: vec![output("b")],
        ..GraphProto::default()
    };
    let mut condition = node("", "If", &["data"], "c");
    let other_branch =
        GraphProto { node: vec![node("", "Relu", &["data"], "b")], ..branch.clone() };
    condition.attribute = vec![
        onnx_model::graph("then_branch", branch),
        onnx_model::graph("else_branch", other_branch),
    ];
    let nodes = vec![
        node("", "Unheard", &["data"], "a"),
        node("", "Unheard", &["a"], "a2"),
        node("some.domain", "Gather", &["a2"], "d"),
        node("some.domain", "Of", &["d"], "e"),
        condition,
        node("", "Relu", &["e"], "output"),
    ];
    // "Gather" of another domain is tract's by its name: that is how tract reads models.
    let model = files.model("model.onnx", &onnx_model::model(None, graph(nodes.clone())));
    assert_eq!(
        fail(&["facts", &model]),
        "error: the model has operators that tract does not implement: InBranch (node \"node_b\"); \
         Of of domain some.domain (node \"node_e\"); \
         Unheard (nodes \"node_a\", \"node_a2\")\n"
    );
    // With those of OpenVINO's domain.
    let mut nodes = nodes;
    nodes.push(node(DOMAIN, "Swish", &["a"], "s"));
    nodes.push(node(DOMAIN, "Gather", &["a", "a", "a"], "g"));
    let model = files.model("model.onnx", &onnx_model::model(Some(8), graph(nodes)));
    let error = fail(&["facts", &model]);
    for expected in ["Swish", "Unheard", "InBranch"] {
        assert!(error.contains(expected), "{expected:?} in {error}");
    }
    // With nothing but one of OpenVINO's domain.
    let nodes = vec![node(DOMAIN, "Unheard", &["data"], "output")];
    let model = files.model("model.onnx", &onnx_model::model(Some(8), graph(nodes)));
    assert_eq!(
        fail(&["facts", &model]),
        format!(
            "error: the model has operators that tract does not implement: Unheard of domain {DOMAIN} \
             (node \"node_output\")\n"
        )
    );
}

/// tract takes an output for granted that no node computes.
#[test]
fn a_panic_of_tract_is_an_error() {
    let files = Files::new();
    let mut model = gather();
    model.graph.as_mut().unwrap().output = vec![output("nowhere")];
    let model = files.model("model.onnx", &model);
    let error = fail(&["facts", &model]);
    let expected = format!("tract panicked while reading {model}: ");
    assert!(error.contains(&expected), "{error}");
    assert!(error.contains(" at tract-onnx-0.23.9/src/model.rs:"), "{error}");
}

#[test]
fn an_index_out_of_range_is_an_error_at_its_place() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let (data, _) = gather_inputs(&files);
    let indices = files.path("bad.npy");
    write_npy(&indices, &arr1(&[0i64, 2])).unwrap();
    let error = fail(&["run", &model, "-i", &data, "-i", &format!("indices={indices}")]);
    assert!(error.starts_with("error: running the model\n"), "{error}");
    assert!(error.contains("Gather-7: indices[1] is 2, which is out of range"), "{error}");
    assert!(!error.contains("help:"), "{error}");
}

#[test]
fn the_log_is_shown_on_request() {
    let files = Files::new();
    let mut model = gather();
    model.opset_import.retain(|import| import.domain != DOMAIN);
    let model = files.model("model.onnx", &model);
    let ran = run(&["facts", &model]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.stderr.starts_with("warning: node \"node_output\" is of domain"), "{}", ran.stderr);
    let verbose = run(&["facts", &model, "-vv"]);
    assert!(verbose.stderr.contains("debug: "), "{}", verbose.stderr);
    assert_eq!(verbose.stdout, ran.stdout);
}

#[test]
fn wrong_command_lines() {
    for (arguments, expected) in [
        (&["fact", "model.onnx"][..], "a similar subcommand exists: 'facts'"),
        (&["run"], "<MODEL>"),
        (&["run", "model.onnx", "--randon"], "a similar argument exists: '--random'"),
        (&["run", "model.onnx", "--seed", "x"], "invalid value 'x' for '--seed <N>'"),
        (&["check"], "<PATHS>..."),
        (&["convert", "model.onnx"], "<OUTPUT>"),
        (&["completions", "bsh"], "a similar value exists: 'bash'"),
    ] {
        let error = fail(arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let ran = run(&[]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.stderr.contains("Usage: tract-openvino"), "{}", ran.stderr);
}

const COMMANDS: [&str; 7] = ["run", "facts", "check", "bench", "convert", "completions", "man"];

#[test]
fn help_has_every_command_with_an_example() {
    let text = succeed(&["--help"]);
    for name in COMMANDS {
        assert!(text.contains(&format!("  {name} ")), "{name} in {text}");
        let help = succeed(&[name, "--help"]);
        let example = format!("Example:\n  tract-openvino {name} ");
        assert!(help.contains(&example), "{help}");
    }
    assert_eq!(succeed(&["--version"]), "tract-openvino 0.1.0\n");
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = succeed(&["completions", shell]);
        assert!(text.contains("standard-gather"), "{shell}: {text}");
    }
    assert!(succeed(&["man"]).contains(".TH tract-openvino 1"));
    let files = Files::new();
    assert_eq!(succeed(&["man", &files.path("man1")]), "");
    for name in COMMANDS {
        let page =
            fs::read_to_string(files.path(&format!("man1/tract-openvino-{name}.1"))).unwrap();
        assert!(page.contains("EXTRA") || page.contains("Example"), "{page}");
    }
}

#[test]
fn a_pipe_that_nobody_reads() {
    let files = Files::new();
    let wrong = files.copy("gather_8_example_7", "case");
    let path = format!("{wrong}/test_data_set_0/output_0.pb");
    save_tensor_file(&path, "output", &tensor1(&[4i32, 9, 0])).unwrap();
    for (arguments, status) in [
        (&["facts", "models/token_picker", "--json"][..], 0),
        (&["run", "models/token_picker"], 0),
        (&["check", "models/token_picker"], 0),
        (&["completions", "bash"], 0),
        (&["man"], 0),
        (&["check", &wrong], 1),
        (&["run", &wrong], 1),
    ] {
        let mut command = command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*stderr), (Some(status), ""), "{arguments:?}");
    }
}

// In a terminal

const COLUMNS: u16 = 80;

/// What a terminal shows: the status, and the bytes.
fn in_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> (u32, String) {
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};
    let size = PtySize { rows: 24, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
    let pty = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(PROGRAM);
    command.args(arguments);
    command.cwd(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_LOG"] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm-256color");
    for (name, value) in environment {
        command.env(name, value);
    }
    let mut child = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut reader = pty.master.try_clone_reader().unwrap();
    let mut bytes = vec![];
    // The end is an error on Linux.
    let _ = reader.read_to_end(&mut bytes);
    (child.wait().unwrap().exit_code(), String::from_utf8(bytes).unwrap())
}

/// The text without escape codes.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn a_terminal_gets_colours_and_lines_that_fit() {
    let files = Files::new();
    let model =
        files.model("a_name_that_takes_its_room_in_all_the_lines_that_have_it.onnx", &gather());
    let bench = ["bench", "models/token_picker", "--warm-up", "0", "--time", "0.01"];
    for (arguments, status) in [
        (&["facts", "models/token_picker"][..], 0),
        (&["facts", "models/token_picker", "--stage", "optimized"], 0),
        (&["run", "models/gather_8_layer"], 0),
        (&["run", &model], 2),
        (&["run", &model, "--random"], 2),
        (&["check", "models/token_picker"], 0),
        (&bench, 0),
        (&["--help"], 0),
        (&["run", "--help"], 0),
    ] {
        let (got, text) = in_terminal(arguments, &[]);
        assert_eq!(got, status, "{arguments:?}: {text}");
        assert!(text.contains("\x1b["), "no colour: {arguments:?}: {text:?}");
        for line in plain(&text).split(['\n', '\r']) {
            let width = line.chars().count();
            // One word may be a path that is longer.
            let fits = width <= COLUMNS.into() || line.split(' ').any(|word| word.len() > 60);
            assert!(fits, "{width} columns: {arguments:?}: {line}");
        }
    }
}

#[test]
fn a_terminal_shows_progress_and_a_pipe_does_not() {
    let (_, text) = in_terminal(&["check", "models/token_picker"], &[]);
    assert!(text.contains("0/1") && text.contains("1 model, 4 checks"), "{text:?}");
    let ran = run(&["check", "models/token_picker"]);
    assert_eq!(ran.stderr, "");
}

#[test]
fn no_color_is_honoured() {
    for arguments in [&["facts", "models/token_picker"][..], &["run", "models/token_picker"]] {
        let (status, text) = in_terminal(arguments, &[("NO_COLOR", "1")]);
        assert_eq!(status, 0);
        assert!(!text.contains("\x1b["), "{text:?}");
        // The lines still fit.
        assert!(
            text.lines().all(|line| line.trim_end().chars().count() <= COLUMNS.into()),
            "{text}"
        );
    }
}
