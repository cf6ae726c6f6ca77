//! The command line as people use it: spawned, with the text that they see.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gather_cases::onnx_model::{self, Dim, input, node, output};
use model_cases::{DataSet, Npz, load_tensor_file, save_tensor_file};
use ndarray_npy::{NpzReader, NpzWriter, read_npy, write_npy};
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
    for variable in [
        "TRACT_OPENVINO_THREADS",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "RUST_LOG",
        "RUST_BACKTRACE",
    ] {
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

    fn text(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A file with ones.
    fn ones(&self, name: &str, shape: &[usize]) -> String {
        let path = self.path(name);
        write_npy(&path, &ArrayD::<f32>::ones(shape)).unwrap();
        path
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

/// The XML of IR that adds two inputs, which go by several names, and have these shapes.
fn ir_sum(left: &str, right: &str) -> String {
    let dims = |shape: &str| -> String {
        shape.split(',').map(|dim| format!("<dim>{}</dim>", dim.replace('?', "-1"))).collect()
    };
    let parameter = |id: usize, names: &str, shape: &str| {
        format!(
            r#"<layer id="{id}" name="layer_{id}" type="Parameter" version="opset1">
                <data shape="{shape}" element_type="f32"/>
                <output><port id="0" precision="FP32" names="{names}">{}</port></output>
            </layer>"#,
            dims(shape)
        )
    };
    let (left_layer, right_layer) =
        (parameter(0, "left,left:0", left), parameter(1, "right", right));
    let (left, right) = (dims(left), dims(right));
    format!(
        r#"<net name="sum" version="11"><layers>{left_layer}{right_layer}
            <layer id="2" name="add" type="Add" version="opset1"><data auto_broadcast="numpy"/>
                <input><port id="0">{left}</port><port id="1">{right}</port></input>
                <output><port id="2" precision="FP32" names="sum">{left}</port></output>
            </layer>
            <layer id="3" name="sum/sink" type="Result" version="opset1">
                <input><port id="0">{left}</port></input>
            </layer>
        </layers><edges>
            <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
            <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
            <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
        </edges></net>"#
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

/// The file of [`gather`], with those of inputs that suit it.
fn gather_files() -> (Files, String, [String; 2]) {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let inputs = gather_inputs(&files);
    (files, model, inputs)
}

/// The files of inputs that suit [`gather`], as the program takes them.
fn gather_inputs(files: &Files) -> [String; 2] {
    let (data, indices) = (files.path("data.npy"), files.path("indices.npy"));
    write_npy(&data, &arr2(&[[1f32, 2., 3.], [4., 5., 6.]])).unwrap();
    write_npy(&indices, &arr1(&[1i64, 0])).unwrap();
    [format!("data={data}"), format!("indices={indices}")]
}

// run

#[test]
fn run_compares_a_model_folder_with_its_data_sets() {
    assert_eq!(
        succeed(&["run", "models/token_picker"]),
        "models/token_picker
test_data_set_0
  scores 3,4,F32 27, 16, -2, 8, 22, 3, -23, -21, 3, 0, -10, 8
  matches output_0
test_data_set_1
  scores 2,4,F32 -7, 6, -2, 4, -5, 4, -8, -6
  matches output_0
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
  DOES NOT MATCH output_0: I32 7 expected at [2], got I32 0
"
        )
    );
}

#[test]
fn run_reads_npy_npz_and_pb() {
    let (files, model, [data, _]) = gather_files();
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
    let (files, model, [data, indices]) = gather_files();
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
fn run_keeps_strings() {
    let files = Files::new();
    let identity = node("", "Identity", &["data"], "output");
    let model = standard(identity, vec![input("data", DatumType::String, [2usize])]);
    let model = files.model("model.onnx", &model);
    let expected = tensor1(&["text".to_string(), "ä".into()]);
    let (pb, folder) = (files.path("in.pb"), files.path("out"));
    save_tensor_file(&pb, "data", &expected).unwrap();
    succeed(&["run", &model, "-i", &format!("data={pb}"), "-o", &folder]);
    let data = format!("data={folder}/output.npy");
    succeed(&["run", &model, "-i", &data, "-o", &folder, "--format", "pb"]);
    assert_eq!(load_tensor_file(format!("{folder}/output_0.pb")).unwrap(), expected);
}

#[test]
fn texts_become_tokens_and_tokens_texts() {
    let files = Files::new();
    let model = |name: &str| format!("tokenizers/tests/cases/bert_uncased/{name}.xml");
    let tokenizer = model("openvino_tokenizer");
    let folder = files.path("out");
    let texts = ["--text", "A river", "--text", "The sea, at night"];
    let stdout = succeed(&[&["run", &*tokenizer, "-o", &*folder], &texts[..]].concat());
    let expected = "\n  input_ids 2,10,I64\n    2 19 325 141 226 3 0 0 0 0\n    2 234 327 7 33 19 10 320 278 3\n  \
                    token_type_ids 2,10,I64\n";
    assert!(stdout.contains(expected), "{stdout}");
    let ids = format!("Parameter={folder}/input_ids.npy");
    let stdout = succeed(&["run", &model("openvino_detokenizer"), "-i", &ids]);
    assert!(stdout.ends_with(" 2,String\n    a river\n    the sea, at night\n"), "{stdout}");
    // Nothing that a terminal would follow.
    let tiny = "tokenizers/tests/cases/tiny/openvino_tokenizer.xml";
    succeed(&["run", tiny, "--text", "-a\x1b[2J\n", "-o", &folder]);
    let tiny = "tokenizers/tests/cases/tiny/openvino_detokenizer.xml";
    let stdout = succeed(&["run", tiny, "-i", &ids]);
    assert!(stdout.ends_with("\n    -a\\u{1b}[2J\\n\n"), "{stdout:?}");
    // A model of numbers.
    let error = fail(&["run", "models/token_picker", "--text", "a"]);
    assert!(error.contains("--text is for a model with one input of strings"), "{error}");
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
    let [data, _] = gather_inputs(&files);
    let error = fail(&["run", &model, "-i", &data]);
    assert!(error.starts_with("error: nothing to feed to input indices (2,I64)\n"), "{error}");
}

#[test]
fn an_input_that_there_is_not() {
    let (_files, model, [data, _]) = gather_files();
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
    let (files, model, [data, indices]) = gather_files();
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
    let [data, _] = gather_inputs(&files);
    let text = succeed(&["run", &model, "--random", "-i", &data]);
    assert!(text.contains("output 2,3,F32 "), "{text}");
    assert!(["1, 2, 3", "4, 5, 6"].iter().any(|row| text.contains(row)), "{text}");
}

#[test]
fn random_values_are_in_the_range_that_is_given() {
    let files = Files::new();
    let identity = |dt| {
        let node = node("", "Identity", &["data"], "output");
        files.model("model.onnx", &standard(node, vec![input("data", dt, [1000usize])]))
    };
    let run = |dt, range: &str| {
        let (model, out) = (identity(dt), files.path("out"));
        succeed(&["run", &model, "--random", "--random-range", range, "-o", &out]);
        format!("{out}/output.npy")
    };
    let integers: ArrayD<i64> = read_npy(run(DatumType::I64, "data=5..8")).unwrap();
    assert!((5..8).all(|number| integers.iter().any(|it| *it == number)), "{integers}");
    assert!(integers.iter().all(|it| (5..8).contains(it)), "{integers}");
    let ends: ArrayD<i8> = read_npy(run(DatumType::I8, "-128..=127")).unwrap();
    assert!([-128, 127].iter().all(|end| ends.iter().any(|it| it == end)), "{ends}");
    // More digits than a double has.
    let greatest = format!("data={0}..={0}", u64::MAX);
    let one: ArrayD<u64> = read_npy(run(DatumType::U64, &greatest)).unwrap();
    assert!(one.iter().all(|it| *it == u64::MAX), "{one}");
    let floats: ArrayD<f32> = read_npy(run(DatumType::F32, "data=-2.5..-1")).unwrap();
    assert!(floats.iter().all(|it| (-2.5..=-1.).contains(it)), "{floats}");
    assert!(floats.iter().any(|it| *it < -2.) && floats.iter().any(|it| *it > -1.5), "{floats}");
    // Without a name it is for those that have no range of their own, and for no booleans.
    let model = files.model("model.onnx", &gather());
    let ranges = ["--random-range", "7..=7", "--random-range", "indices=0..2"];
    let text = succeed(&[&["run", &model, "--random", "--set", "N=2"][..], &ranges].concat());
    assert!(text.ends_with("output 2,3,F32 7, 7, 7, 7, 7, 7\n"), "{text}");
    run(DatumType::Bool, "0..2");

    let error = |dt, range: &str| {
        let model = identity(dt);
        fail(&["run", &model, "--random", "--random-range", range])
    };
    assert_eq!(
        error(DatumType::I8, "data=0..200"),
        "error: input \"data\": random range data=0..200\n  I8 holds whole numbers from -128 to 127\n"
    );
    for (dt, range, expected) in [
        (DatumType::U8, "-1..3", "U8 holds whole numbers from 0 to 255"),
        (DatumType::U64, "0..1e50", "U64 holds whole numbers from 0 to 18446744073709551615"),
        (DatumType::I32, "0..0.5", "\"0.5\" is not a whole number, but the input is of type I32"),
        (DatumType::F16, "0..1e5", "its ends must be numbers from -6.5504e4 to 6.5504e4 for F16"),
        (DatumType::Bool, "data=0..1", "input \"data\" is of booleans, which have no range"),
        (DatumType::F32, "dta=0..1", "did you mean \"data\"?"),
        (DatumType::F32, "data=1..1", "there is no number in this range"),
        (DatumType::F32, "data=0..NaN", "\"NaN\" is not a number"),
        (DatumType::F32, "data=0,1", "it must be LOW..HIGH or LOW..=HIGH"),
    ] {
        let error = error(dt, range);
        assert!(error.contains(expected), "{range}: {error}");
    }
    let model = files.model("model.onnx", &gather());
    let range = ["--random-range", "data=0..1"];
    let error = fail(&[&["run", &model, "--random"][..], &range, &range].concat());
    assert_eq!(error, "error: input \"data\" has two random ranges\n");
    let error = fail(&[&["run", &model][..], &range].concat());
    assert!(error.contains("--random"), "{error}");
    let [data, _] = gather_inputs(&files);
    let error = fail(&[&["run", &model, "-i", &data, "--random"][..], &range].concat());
    assert_eq!(error, "error: input \"data\" has a file and a random range\n");
}

#[test]
fn random_inputs_need_values_for_symbols() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    assert_eq!(
        fail(&["run", &model, "--random"]),
        "error: input \"data\" has shape N,3: a random tensor needs a value for N
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
    let (files, model, [data, _]) = gather_files();
    let indices = files.path("negative.npy");
    write_npy(&indices, &arr1(&[-1i64, 0])).unwrap();
    let indices = format!("indices={indices}");
    let arguments = ["run", &model, "-i", &data, "-i", &indices];
    let error = fail(&arguments);
    assert!(error.contains("Gather-7: indices[0] is -1, but must be in"), "{error}");
    assert!(error.contains("help: with --negative-indices wrap"), "{error}");
    let text = succeed(&[&arguments[..], &["--negative-indices", "wrap"]].concat());
    assert!(text.contains("4, 5, 6, 1, 2, 3"), "{text}");
    let error = fail(&[&arguments[..], &["--negative-indices", "warp"]].concat());
    assert!(error.contains("'wrap'"), "{error}");

    let standard = "models/onnx_test_gathernd_example_int32";
    assert!(succeed(&["inspect", standard]).contains("ONNX GatherND"));
    assert!(!succeed(&["inspect", standard, "--tract-gather"]).contains("ONNX GatherND"));
}

#[test]
fn indices_of_the_standard_domain_are_checked() {
    let files = Files::new();
    let inputs = || {
        vec![
            input("data", DatumType::F32, [2usize, 3]),
            input("indices", DatumType::I64, [1usize, 1]),
        ]
    };
    let data = files.ones("data.npy", &[2, 3]);
    // The columns of updates, if there are any.
    for (op_type, columns) in [
        ("GatherND", None),
        ("GatherElements", None),
        ("ScatterND", Some(3)),
        ("ScatterElements", Some(1)),
    ] {
        let mut node = node("", op_type, &["data", "indices"], "output");
        let mut inputs = inputs();
        let mut arguments = vec![format!("data={data}")];
        if let Some(columns) = columns {
            node.input.push("updates".into());
            inputs.push(input("updates", DatumType::F32, [1usize, columns]));
            arguments.push(format!("updates={}", files.ones("updates.npy", &[1, columns])));
        }
        let model = files.model("model.onnx", &standard(node, inputs));
        let run_with = |index: i64| {
            let indices = files.path("indices.npy");
            write_npy(&indices, &arr2(&[[index]])).unwrap();
            let mut all = vec!["run".to_string(), model.clone()];
            for argument in arguments.iter().chain([&format!("indices={indices}")]) {
                all.extend(["-i".into(), argument.clone()]);
            }
            run(&all.iter().map(|it| &**it).collect::<Vec<_>>())
        };
        assert_eq!(run_with(-1).status, Some(0), "{op_type}");
        // Random ones are in range.
        for seed in ["1", "2", "3"] {
            succeed(&["run", &model, "--random", "--seed", seed]);
        }
        for bad in [2, -3] {
            let ran = run_with(bad);
            let expected =
                format!("ONNX {op_type}: indices[0, 0] is {bad}, but must be in [-2, 1]");
            assert!(ran.status == Some(2) && ran.stderr.contains(&expected), "{}", ran.stderr);
        }
    }
}

#[test]
fn shapes_that_contradict_the_graph_are_ignored() {
    let files = Files::new();
    let mut model = gather();
    model.graph.as_mut().unwrap().value_info = vec![input("output", DatumType::F32, [7usize, 3])];
    let path = files.model("model.onnx", &model);
    let facts = succeed(&["inspect", &path, "--ignore-value-info"]);
    assert!(facts.contains("output output: 2,3,F32"));
    let ran = run(&["inspect", &path]);
    assert_eq!((ran.status, &*ran.stdout), (Some(0), &*facts));
    let expected = format!(
        "note: {path}: the shapes that it declares are ignored, as with --ignore-value-info (or \
                            with_ignore_value_info(true) of the reader), because "
    );
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    // With values for its symbols, too; and each command says it once.
    for arguments in [
        &["inspect", &path, "--set", "N=4", "--stage", "loaded"][..],
        &["run", &path, "--random", "--set", "N=4"],
        &["bench", &path, "--random", "--set", "N=4", "--time", "0", "--warm-up", "0"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("declares are ignored").count(), 1, "{}", ran.stderr);
    }
    let folder = files.copy("token_picker", "folder");
    let file = format!("{folder}/model.onnx");
    let mut declares = ModelProto::decode(&*fs::read(&file).unwrap()).unwrap();
    let graph = declares.graph.as_mut().unwrap();
    let first = graph.node[0].output[0].clone();
    graph.value_info.push(input(&first, DatumType::F32, [3usize, 1, 4, 1, 5, 9, 2]));
    fs::write(&file, declares.encode_to_vec()).unwrap();
    let ran = run(&["check", &folder]);
    assert_eq!(ran.status, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr.matches("declares are ignored").count(), 1, "{}", ran.stderr);
    // Something else is wrong, too.
    model.graph.as_mut().unwrap().node[0].input.pop();
    model.graph.as_mut().unwrap().node[0].op_type = "Concat".into();
    model.graph.as_mut().unwrap().node[0].domain = String::new();
    let error = fail(&["inspect", &files.model("model.onnx", &model)]);
    assert!(!error.contains("declares are ignored"), "{error}");
}

/// A model folder: each data set has the inputs and is to have the outputs of the others.
fn folder_of(files: &Files, name: &str, model: &ModelProto, data_sets: &[Vec<Tensor>]) -> String {
    files.model(&format!("{name}/model.onnx"), model);
    for (number, inputs) in data_sets.iter().enumerate() {
        let folder = files.path(&format!("{name}/test_data_set_{number}"));
        fs::create_dir_all(&folder).unwrap();
        for (k, tensor) in inputs.iter().enumerate() {
            save_tensor_file(format!("{folder}/input_{k}.pb"), "", tensor).unwrap();
        }
    }
    files.path(name)
}

#[test]
fn any_name_of_a_dimension() {
    let files = Files::new();
    let model = |dims: [&'static str; 2]| {
        let square = node("", "Mul", &["x", "x"], "output");
        standard(square, vec![input("x", DatumType::F32, dims)])
    };
    let zeros = |shape: &[usize]| vec![Tensor::zero::<f32>(shape).unwrap()];
    for dims in [
        ["batch size", "past_length + 1"],
        ["DynamicDimension.0", "2N"],
        ["floor(H/2)", "H"],
        ["batch-size", "?"],
        ["floor", "seq/len"],
    ] {
        let folder = folder_of(&files, "named", &model(dims), &[zeros(&[2, 4]), zeros(&[3, 6])]);
        succeed(&["check", &folder, "--bless"]);
        let text = succeed(&["check", &folder]);
        assert!(text.contains("5 passed, 0 failed"), "{dims:?}: {text}");
        let archive = files.path("model.nnef.tgz");
        succeed(&["convert", &folder, &archive]);
        let pb = files.path("x.pb");
        save_tensor_file(&pb, "x", &zeros(&[3, 6])[0]).unwrap();
        let text = succeed(&["run", &archive, "-i", &format!("x={pb}")]);
        assert!(text.contains("3,6,F32"), "{dims:?}: {text}");
    }
    let path = files.model("model.onnx", &model(["batch size", "2N"]));
    for (set, expected) in [("batch size=5", "x: 5,_2N,F32"), ("_2N=5", "x: batch_size,5,F32")] {
        let text = succeed(&["inspect", &path, "--set", set]);
        assert!(text.contains(expected), "{text}");
    }
    let error = fail(&["inspect", &path, "--set", "batch=5"]);
    assert!(error.contains("the model has no symbol \"batch\""), "{error}");
}

/// What a loop ends with is nothing to the next data set.
#[test]
fn data_sets_have_no_state_in_common() {
    let files = Files::new();
    let weights = |shape: &[usize]| {
        let numbers: Vec<f32> =
            (0..shape.iter().product()).map(|it| it as f32 / 20. - 0.3).collect();
        Tensor::from_shape(shape, &numbers).unwrap()
    };
    for (op_type, rows) in [("LSTM", 8), ("GRU", 6), ("RNN", 2)] {
        let recurrent = node("", op_type, &["x", "w", "r"], "output");
        let recurrent = onnx_model::with_attribute(recurrent, onnx_model::int("hidden_size", 2));
        let mut model =
            standard(recurrent, vec![input("x", DatumType::F32, ["steps", "batch", "3"])]);
        let graph = model.graph.as_mut().unwrap();
        graph.initializer = vec![
            onnx_model::initializer("w", &weights(&[1, rows, 3])),
            onnx_model::initializer("r", &weights(&[1, rows, 2])),
        ];
        let x = vec![weights(&[4, 2, 3])];
        let folder = folder_of(&files, "recurrent", &model, &[x.clone(), x.clone(), x]);
        succeed(&["check", &folder, "--bless"]);
        let of = |number: usize| {
            load_tensor_file(format!("{folder}/test_data_set_{number}/output_0.pb")).unwrap()
        };
        assert_eq!([of(1), of(2)], [of(0), of(0)], "{op_type}");
        assert!(succeed(&["check", &folder, "--atol", "1e-6"]).contains("5 passed, 0 failed"));
        succeed(&["run", &folder, "--atol", "1e-6"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

const UNET: &str = "ir/models/networks/unet";

#[test]
fn run_compares_a_folder_of_ir_with_its_data_sets() {
    let folder = "ir/models/gather/embedding";
    let text = succeed(&["run", folder]);
    for expected in ["test_data_set_0\n  output_0 ", "test_data_set_1\n", "  matches output_0\n"] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert_eq!(text.matches("matches output_0").count(), 2, "{text}");
    // The file itself is no folder.
    let error = fail(&["run", &format!("{folder}/model.xml")]);
    assert!(error.starts_with("error: nothing to feed to input input_0 ("), "{error}");
}

/// Optimum's names, and what else it writes beside the model.
#[test]
fn a_folder_of_optimum_is_a_model() {
    let files = Files::new();
    let folder = files.copy("../ir/models/gather/revision_8_out_of_range", "exported");
    for extension in ["xml", "bin"] {
        let path = |name: &str| format!("{folder}/{name}.{extension}");
        fs::rename(path("model"), path("openvino_model")).unwrap();
    }
    files.text("exported/openvino_tokenizer.xml", "no IR");
    assert!(succeed(&["check", &folder]).starts_with("1 model, 5 checks: 5 passed"));
    assert!(succeed(&["run", &folder]).contains("matches output_0"));
    assert!(succeed(&["inspect", &folder]).contains("Gather-8"));
    succeed(&["bench", &folder, "--warm-up", "0", "--time", "0"]);
    succeed(&["convert", &folder, &files.path("model.nnef.tgz")]);
    // As it is written, it has no data sets.
    fs::remove_file(format!("{folder}/test_data_set_0.npz")).unwrap();
    for command in ["run", "bench"] {
        let error = fail(&[command, &folder]);
        assert!(error.starts_with("error: nothing to feed to inputs "), "{error}");
    }
    succeed(&["run", &folder, "--random"]);
}

#[test]
fn run_says_that_all_differences_are_small() {
    let ran = run(&["run", "ir/models/softmax/axes"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.contains("DOES NOT MATCH"), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("note: all failures are floats within 0.001"), "{}", ran.stderr);
    succeed(&["run", "ir/models/softmax/axes", "--atol", "1e-5"]);
}

#[test]
fn inputs_of_ir_go_by_each_of_their_names() {
    let files = Files::new();
    let model = files.text("model.xml", &ir_sum("?,2", "?,2"));
    let ones = files.ones("ones.npy", &[3, 2]);
    let right = format!("right={ones}");
    for name in ["left", "left:0", "layer_0"] {
        let text = succeed(&["run", &model, "-i", &format!("{name}={ones}"), "-i", &right]);
        assert_eq!(text, format!("{model}\n  sum 3,2,F32 2, 2, 2, 2, 2, 2\n"));
        let text = succeed(&["inspect", &model, "--shape", &format!("{name}=N,?")]);
        assert!(text.contains("input  left: N,2,F32\n  input  right: N,2,F32\n"), "{text}");
    }
    let [left, alias, typo] = ["left", "left:0", "lift:0"].map(|name| format!("{name}={ones}"));
    assert_eq!(
        fail(&["run", &model, "-i", &left, "-i", &alias]),
        "error: input \"left:0\" is given twice\n"
    );
    assert_eq!(
        fail(&["run", &model, "-i", &typo, "-i", &right]),
        "error: the model has no input \"lift:0\"\nhelp: did you mean \"left:0\"?\n"
    );
    let error = fail(&["inspect", &model, "--shape", "lift=3,2"]);
    assert!(error.contains("the inputs are \"left\", \"left:0\", \"right\""), "{error}");
}

#[test]
fn two_inputs_of_ir_that_disagree() {
    let files = Files::new();
    let model = files.text("model.xml", &ir_sum("?,2", "?,2"));
    let left = format!("left={}", files.ones("left.npy", &[3, 2]));
    let right = format!("right={}", files.ones("right.npy", &[4, 2]));
    assert_eq!(
        fail(&["run", &model, "-i", &left, "-i", &right]),
        "error: input \"right\": expected left_0,2,F32, got 4,2,F32
help: left_0 is 3 by input \"left\"
"
    );
    // Sizes that the file gives.
    let model = files.text("model.xml", &ir_sum("3,2", "4,2"));
    let error = fail(&["inspect", &model]);
    assert!(error.contains("layer 2 \"add\" (Add, opset1)"), "{error}");
}

/// One file cannot be read, and one cannot be run.
#[test]
fn every_command_says_what_is_wrong_with_a_file_of_ir() {
    let files = Files::new();
    let folder = files.path("model");
    let data_set = format!("{folder}/test_data_set_0");
    fs::create_dir_all(&data_set).unwrap();
    let zeros = Tensor::zero::<i32>(&[3, 2]).unwrap();
    for name in ["input_0", "input_1", "output_0"] {
        save_tensor_file(format!("{data_set}/{name}.pb"), name, &zeros).unwrap();
    }
    let archive = files.path("model.nnef.tgz");
    let commands: [&[&str]; 5] = [
        &["inspect", &folder],
        &["convert", &folder, &archive],
        &["run", &folder],
        &["bench", &folder, "--warm-up", "0", "--time", "0"],
        &["check", &folder],
    ];
    let quotient = ir_sum("3,2", "3,2").replace("Add", "Divide");
    for (xml, failing, causes) in [
        (
            ir_sum("3,2", "4,2"),
            &commands[..],
            [
                &*format!("in {folder}/model.xml"),
                "in layer 2 \"add\" (Add, opset1)",
                "dimensions 3 and 4 must be equal: layer 2 \"add\" (Add, opset1) broadcasts shapes [3, 2] and [4, 2]",
            ],
        ),
        (
            quotient.replace("f32", "i32").replace("FP32", "I32"),
            &commands[2..],
            [
                "running the model",
                "Evaluating #2 \"add\" OpenVinoFloorDivide",
                "OpenVinoFloorDivide: a divisor is 0: integers cannot be divided by 0",
            ],
        ),
    ] {
        files.text("model/model.xml", &xml);
        for arguments in failing {
            if arguments[0] != "check" {
                assert_eq!(fail(arguments), format!("error: {}\n", causes.join("\n  ")));
                continue;
            }
            let ran = run(arguments);
            assert_eq!(ran.status, Some(1));
            let (cause, line) = (causes[1..].join(": "), format!("FAIL {folder}"));
            let mut failures = ran.stdout.lines().filter(|it| it.starts_with(&line)).peekable();
            assert!(failures.peek().is_some(), "{}", ran.stdout);
            assert!(failures.all(|it| it.ends_with(&cause)), "{}", ran.stdout);
        }
    }
}

#[test]
fn constants_have_a_limit() {
    let model = "ir/models/gather/revision_7";
    succeed(&["inspect", model, "--constants-limit", "1"]);
    let error = fail(&["inspect", model, "--constants-limit", "0"]);
    assert!(error.contains("raise this limit") && error.contains("--constants-limit"), "{error}");
}

#[test]
fn weights_from_another_file() {
    let files = Files::new();
    let folder = files.copy("../ir/models/gather/embedding", "model");
    let (bin, other) = (format!("{folder}/model.bin"), files.path("other.weights"));
    fs::rename(bin, &other).unwrap();
    let error = fail(&["run", &folder]);
    let expected = "the .bin must be beside the .xml, or its path must be given";
    assert!(
        error.contains(&format!("there are no weights: opening the weights {folder}/model.bin: ")),
        "{error}"
    );
    assert!(error.contains(expected), "{error}");
    assert!(succeed(&["run", &folder, "--weights", &other]).contains("matches output_0"));
}

#[test]
fn negative_indices_count_from_the_end_in_ir() {
    let model = "ir/models/gather/revision_1";
    succeed(&["run", model]);
    let text = succeed(&["inspect", model]);
    assert!(text.contains("Gather-1") && text.contains("negative: from the end"), "{text}");
    let text = succeed(&["inspect", model, "--negative-indices", "as-specified"]);
    assert!(!text.contains("negative: from the end"), "{text}");
}

// Shapes

#[test]
fn shapes_of_inputs_are_given_by_name() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let facts = |model: &str, shape: &str| succeed(&["inspect", model, "--shape", shape]);
    for (shape, expected) in
        [("data=4,3", "4,3"), ("data=2*k,?", "2*k,3"), ("data=?,?", "N,3"), ("data= M , 3 ", "M,3")]
    {
        let text = facts(&model, shape);
        assert!(text.contains(&format!("input  data: {expected},F32\n")), "{shape}: {text}");
    }
    let error = |model: &str, shape: &str| fail(&["inspect", model, "--shape", shape]);
    assert_eq!(
        error(&model, "dat=4,3"),
        "error: the model has no input \"dat\"\nhelp: did you mean \"data\"?\n"
    );
    for (shape, expected) in [
        ("data=4", "input \"data\" has rank 2, but the shape \"4\" has rank 1"),
        ("data=4,%", "\"%\" is none of ?, a size, a symbol like N, and a product like 32*h"),
        ("data", "it must be an input's name, = and a shape"),
    ] {
        let error = error(&model, shape);
        assert!(error.contains(expected), "{shape}: {error}");
    }
    let text = facts(UNET, "x=N,3,4*h,4*w");
    assert!(text.contains("  input  x: N,3,4*h,4*w,F32\n"), "{text}");
    assert!(text.contains(": N,2,4*h,4*w,F32\n"), "{text}");
    for (shape, expected) in [
        ("x=N,3,4*h", "the shape given for input \"x\" has rank 3"),
        ("x=N,5,4*h,4*w", "dimension 1 of input \"x\" is given as 5, but the file declares 3"),
        ("y=N,3,4*h,4*w", "a shape is given for input \"y\", but the inputs are \"x\""),
    ] {
        let error = error(UNET, shape);
        assert!(error.contains(expected), "{shape}: {error}");
    }
}

#[test]
fn sizes_are_those_of_the_tensors_where_symbols_do_not_do() {
    let files = Files::new();
    // tract takes two symbols for two sizes.
    let of = |name, symbol: &'static str| {
        input(name, DatumType::F32, [Dim::Symbol(symbol), Dim::Size(2)])
    };
    let axis = onnx_model::int("axis", 1);
    let concat = node("", "Concat", &["left", "right"], "output");
    let onnx =
        standard(onnx_model::with_attribute(concat, axis), vec![of("left", "N"), of("right", "M")]);
    let onnx = files.model("model.onnx", &onnx);
    let ones = files.ones("ones.npy", &[3, 2]);
    let (left, right) = (format!("left={ones}"), format!("right={ones}"));
    let arguments = [&*onnx, "-i", &left, "-i", &right];
    let ran = run(&[&["run"][..], &arguments].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("3,4,F32"), "{}", ran.stdout);
    let expected = "note: the sizes are those of the tensors, because ";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
    let ran = run(&[&["bench"][..], &arguments, &["--warm-up", "0", "--time", "0"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
    // Without tensors it is an error, and so it is with sizes that do not do either.
    fail(&["inspect", &onnx]);
    let wrong = format!("left={}", files.ones("wrong.npy", &[4, 2]));
    let error = fail(&["run", &onnx, "-i", &wrong, "-i", &right]);
    assert!(error.contains("Sym(N)") && error.contains("Sym(M)"), "{error}");
}

#[test]
fn sizes_that_do_not_fit_are_errors_of_the_run() {
    let files = Files::new();
    let image = |height| files.ones(&format!("{height}.npy"), &[1, 3, height, 32]);
    let ran = run(&["run", UNET, "-i", &format!("x={}", image(64))]);
    assert_eq!((ran.status, &*ran.stderr), (Some(0), ""));
    assert!(ran.stdout.contains("1,2,64,32,F32"), "{}", ran.stdout);
    let error = fail(&["run", UNET, "-i", &format!("x={}", image(62))]);
    assert!(error.contains("as in another tensor"), "{error}");
    // Each data set may have sizes of its own.
    let ran = run(&["run", UNET, "--atol", "1e-4", "--rtol", "1e-3"]);
    assert_eq!(ran.status, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.matches("  matches output_0").count(), 2, "{}", ran.stdout);
}

// inspect

#[test]
fn inspect_of_ir_says_which_layer_a_node_is_there_for() {
    let text = succeed(&["inspect", "ir/models/squeeze/axes"]);
    for expected in ["  input  input_0: 1,3,1,2,1,F32\n", "of Squeeze-1\n", "of Squeeze-15\n"] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    let text = succeed(&["inspect", "ir/models/squeeze/axes", "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    let nodes = facts["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["name"] == "squeeze_2").unwrap();
    assert_eq!(node["layer"], "Squeeze-15");
    // Sizes with symbols have names.
    let text = succeed(&["inspect", "ir/models/shape_graphs/causal_mask"]);
    assert!(text.contains("TDim = input_0_1"), "{text}");
}

#[test]
fn inspect_shows_types_shapes_and_parameters() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    assert_eq!(
        succeed(&["inspect", &model]),
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
    let text = succeed(&["inspect", &model, "--set", "N=8", "--stage", "optimized"]);
    assert!(text.starts_with(&format!("{model}, optimized\n  input  data: 8,3,F32\n")), "{text}");
    assert!(!text.contains("symbols:"), "{text}");
}

#[test]
fn inspect_of_the_kernels_say_what_the_rules_made() {
    let model = "ir/models/networks/ocr_cls";
    let text = succeed(&["inspect", model, "--stage", "kernels"]);
    assert!(text.contains("replaced by PackedConvolution"), "{text}");
    let text = succeed(&["inspect", model, "--stage", "kernels", "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    let decisions = facts["decisions"].as_array().unwrap();
    assert!(decisions.iter().any(|it| it["rule"] == "pool" && it["replaced"] == true));
    // Without them there are tract's own operators.
    let text = succeed(&["bench", "models/token_picker", "--plain", "--time", "0.01"]);
    assert!(text.contains("runs per second"), "{text}");
    let close = ["run", model, "--atol", "1e-4"];
    let [plain, ours] = [&[&close[..], &["--plain"]].concat()[..], &close].map(succeed);
    assert!(plain.contains("matches output_0") && ours.contains("matches output_0"), "{plain}");
    let fast = succeed(&["run", model, "--fast", "--atol", "0.1"]);
    assert!(fast.contains("matches output_0"), "{fast}");
    let text = succeed(&["bench", "models/token_picker", "--fast", "--time", "0.01"]);
    assert!(text.contains("runs per second"), "{text}");
    let error = fail(&["run", model, "--fast", "--plain"]);
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn facts_of_a_loaded_model_has_constants_and_what_is_not_known() {
    let files = Files::new();
    let mut model = gather();
    // What the length of the indices is, nobody says: it has a name.
    model.graph.as_mut().unwrap().input[1] = input("indices", DatumType::I64, ["?"]);
    // What the size of another output is, is not known yet.
    let graph = model.graph.as_mut().unwrap();
    graph.node.push(node("", "NonZero", &["data"], "places"));
    graph.output.push(output("places"));
    let model = files.model("model.onnx", &model);
    let text = succeed(&["inspect", &model, "--stage", "loaded"]);
    for expected in [
        "input  indices: indices_0,I64\n",
        "output output: indices_0,3,F32\n",
        "output places: 2,?,I64\n",
        "axis I64 = 0",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn facts_as_json() {
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let text = succeed(&["inspect", &model, "--json"]);
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

/// What Graphviz would read: the nodes by their names in the text, with their labels, and the edges with theirs.
fn parse_dot(text: &str) -> (Vec<[String; 2]>, Vec<[String; 3]>) {
    use layout::gv::parser::ast::{AttributeList, Stmt};
    let label = |attributes: &AttributeList| {
        let label = attributes.iter().find(|(name, _)| name == "label");
        label.unwrap_or_else(|| panic!("no label: {attributes:?}")).1.clone()
    };
    let graph = layout::gv::DotParser::new(text).process().unwrap();
    let (mut nodes, mut edges) = (vec![], vec![]);
    for statement in &graph.list.list {
        match statement {
            Stmt::Node(node) => nodes.push([node.id.name.clone(), label(&node.list)]),
            Stmt::Edge(edge) => {
                let [(to, _)] = &*edge.to else { panic!("{edge:?}") };
                edges.push([edge.from.name.clone(), to.name.clone(), label(&edge.list)]);
            }
            other => panic!("{other:?}"),
        }
    }
    (nodes, edges)
}

#[test]
fn facts_as_dot() {
    let text = succeed(&["inspect", "models/gather_7_example_4", "--dot"]);
    let (nodes, edges) = parse_dot(&text);
    let labels: Vec<&str> = nodes.iter().map(|[_, label]| &**label).collect();
    let expected = ["data\ninput\n", "indices\ninput\n", "gather\nGather-7\n", "output\noutput\n"];
    assert_eq!(labels, expected);
    let name = |label: &str| &*nodes.iter().find(|[_, it]| it == label).unwrap()[0];
    let [data, indices, gather, output] = expected.map(name);
    assert_eq!(
        edges,
        [
            [data, gather, "2,1,5,4,F32"],
            [indices, gather, "2,3,I64"],
            [gather, output, "2,1,3,4,F32"],
        ]
    );
    // A stage whose nodes are others.
    let text = succeed(&["inspect", SILERO, "--dot", "--stage", "kernels"]);
    assert!(parse_dot(&text).0.iter().any(|[_, label]| label.contains("\nof LSTMSequence-5\n")));
    let error = fail(&["inspect", SILERO, "--dot", "--json"]);
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn facts_as_dot_of_names_that_are_hostile() {
    let files = Files::new();
    let name = "a\" ] }\\\n\u{1b}// \\\"";
    let identity = node(name, "Sqrt", &[name], "output");
    let model = standard(identity, vec![input(name, DatumType::F32, [1usize])]);
    let model = files.model("model.onnx", &model);
    let (nodes, edges) = parse_dot(&succeed(&["inspect", &model, "--dot"]));
    let printed = "a\" ] }\\\\n\\u{1b}// \\\"";
    assert_eq!(nodes[0][1], format!("{printed}\ninput\n"));
    assert_eq!((nodes.len(), edges.len()), (3, 2));
}

#[test]
fn a_stage_that_there_is_not() {
    let error = fail(&["inspect", "models/token_picker", "--stage", "optimised"]);
    assert!(error.contains("a similar value exists: 'optimized'"), "{error}");
}

// check

#[test]
fn check_finds_all_models_below_a_folder() {
    let files = Files::new();
    files.copy("gather_7_example_1", "some/deep/one");
    files.copy("gather_8_example_7", "two");
    let text = succeed(&["check", &files.path("")]);
    let expected = "2 models, 10 checks: 10 passed, 0 failed in ";
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
    for (line, stage) in
        ran.stdout.lines().zip(["loaded", "typed", "decluttered", "optimized", "kernels"])
    {
        assert_eq!(
            line,
            format!(
                "FAIL {folder}, {stage}, test_data_set_0: output 0: I32 9 expected at [1], got I32 0"
            )
        );
    }
    let summary = ran.stdout.lines().last().unwrap();
    assert!(summary.starts_with("1 model, 5 checks: 0 passed, 5 failed in "), "{summary}");
    let report = fs::read_to_string(junit).unwrap();
    assert!(report.contains("tests=\"5\"") && report.contains("failures=\"5\""), "{report}");
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
fn check_blesses_outputs_in_npz_files() {
    let files = Files::new();
    let folder = files.copy("../ir/models/gather/embedding", "case");
    let load = || DataSet::load(&folder, 1).unwrap().unwrap();
    let right = load();
    let wrong = DataSet { outputs: vec![tensor1(&[1f32])], ..right.clone() };
    wrong.save(&folder, 1).unwrap();
    let text = succeed(&["check", &folder, "--bless"]);
    assert!(
        text.starts_with(&format!("BLESSED {folder}/test_data_set_1.npz:output_0\n")),
        "{text}"
    );
    let found = load();
    assert_eq!((found.inputs, found.outputs), (right.inputs, right.outputs));
    // Now there is nothing to bless.
    let text = succeed(&["check", &folder, "--bless"]);
    assert!(text.starts_with("1 model"), "{text}");
}

#[test]
fn check_blesses_outputs_that_are_not_there_yet() {
    let files = Files::new();
    for (model, output) in [
        ("../ir/models/gather/embedding", "test_data_set_0.npz:output_0"),
        ("gather_8_example_7", "test_data_set_0/output_0.pb"),
    ] {
        let folder = files.copy(model, &model.replace(['.', '/'], "_"));
        let load = || DataSet::load(&folder, 0).unwrap().unwrap();
        let right = load();
        match fs::remove_file(format!("{folder}/test_data_set_0/output_0.pb")) {
            Ok(()) => (),
            Err(_) => DataSet { outputs: vec![], ..right.clone() }.save(&folder, 0).unwrap(),
        }
        let ran = run(&["check", &folder]);
        assert_eq!(ran.status, Some(1), "{}{}", ran.stdout, ran.stderr);
        let expected = "the data set has 0 outputs, but the model has 1: check --bless";
        assert!(ran.stdout.contains(expected), "{}", ran.stdout);
        let text = succeed(&["check", &folder, "--bless"]);
        assert!(text.starts_with(&format!("BLESSED {folder}/{output}\n")), "{text}");
        assert_eq!(load().outputs, right.outputs);
    }
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
    assert!(lines[3].starts_with("4 models, 8 checks: 5 passed, 3 failed"), "{lines:?}");
}

#[test]
fn check_of_ir_with_open_dimensions() {
    let text = succeed(&["check", "ir/models/gather"]);
    assert!(text.contains(" 0 failed in "), "{text}");
    let near_enough = ["--atol", "1e-4", "--rtol", "1e-3"];
    for shape in [&[][..], &["--shape", "x=N,3,4*h,4*w"]] {
        let ran = run(&[&["check", UNET][..], &near_enough, shape].concat());
        assert_eq!((ran.status, &*ran.stderr), (Some(0), ""), "{}", ran.stdout);
        assert!(ran.stdout.contains(" 5 passed, 0 failed in "), "{}", ran.stdout);
    }
}

/// A model that tract can only run with known sizes.
#[test]
fn check_says_where_it_has_the_sizes_of_the_data_sets() {
    let files = Files::new();
    let of = |name, symbol: &'static str| {
        input(name, DatumType::F32, [Dim::Symbol(symbol), Dim::Size(2)])
    };
    let concat = node("", "Concat", &["left", "right"], "output");
    let concat = onnx_model::with_attribute(concat, onnx_model::int("axis", 1));
    let folder = files.path("sized");
    fs::create_dir_all(format!("{folder}/test_data_set_0")).unwrap();
    files.model("sized/model.onnx", &standard(concat, vec![of("left", "N"), of("right", "M")]));
    for (file, columns) in [("input_0", 2), ("input_1", 2), ("output_0", 4)] {
        let tensor = Tensor::zero::<f32>(&[3, columns]).unwrap();
        save_tensor_file(format!("{folder}/test_data_set_0/{file}.pb"), file, &tensor).unwrap();
    }
    let ran = run(&["check", &folder]);
    assert_eq!(ran.status, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains(" with the sizes of the data sets only), 0 failed"),
        "{}",
        ran.stdout
    );
    let expected = format!("note: {folder}: the sizes are those of the data sets, because ");
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
}

#[test]
fn check_says_that_all_failures_are_small() {
    let files = Files::new();
    let ran = run(&["check", "ir/models/softmax/axes"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.starts_with("note: all failures are floats within 0.001"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--atol") && ran.stderr.contains("--rtol"), "{}", ran.stderr);
    // Not if there is another one.
    files.copy("../ir/models/softmax/axes", "small");
    let folder = files.copy("gather_8_example_7", "integers");
    let path = format!("{folder}/test_data_set_0/output_0.pb");
    save_tensor_file(&path, "output", &tensor1(&[4i32, 9, 0])).unwrap();
    let ran = run(&["check", &files.path("")]);
    assert_eq!((ran.status, &*ran.stderr), (Some(1), ""));
}

#[test]
fn check_with_nothing_to_check() {
    let files = Files::new();
    let folder = files.path("");
    let help = "help: a model folder has a model.onnx, or a model.xml or openvino_model.xml and its .bin, and data \
                sets: test_data_set_N folders or test_data_set_N.npz files\n";
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

// compare

/// A network with a variable, constants that are computed, and layers with several outputs.
const SILERO: &str = "ir/models/networks/silero_stateful";

/// What OpenVINO computes in its layers: `cli/layer_values.py` wrote it, for the inputs of its first data set.
const VALUES: &str = "cli/tests/silero_stateful_values.npz";

#[test]
fn compare_of_layers_that_are_all_as_expected() {
    for stage in ["typed", "decluttered", "optimized", "kernels"] {
        let text = succeed(&["compare", SILERO, VALUES, "--atol", "1e-4", "--stage", stage]);
        let expected = "outputs of layers: 51 compared, 51 as expected, 0 not";
        assert_eq!(text, format!("{SILERO}, {stage}\n{expected}\n"));
    }
    let ran = run(&["compare", SILERO, VALUES]);
    assert_eq!(ran.status, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("note: all failures are floats within 0.001"), "{}", ran.stderr);
}

#[test]
fn compare_names_the_first_layer_that_differs() {
    let files = Files::new();
    let folder = files.copy("../ir/models/networks/silero_stateful", "broken");
    let path = format!("{folder}/model.xml");
    let xml = fs::read_to_string(&path).unwrap();
    let relu = "/encoder/2/activation/Relu\" type=\"ReLU\"";
    assert_eq!(xml.matches(relu).count(), 1);
    fs::write(&path, xml.replace(relu, &relu.replace("ReLU", "Abs"))).unwrap();
    let ran = run(&["compare", &folder, VALUES, "--atol", "1e-4"]);
    assert_eq!((ran.status, &*ran.stderr), (Some(1), ""), "{}", ran.stdout);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[1].starts_with("FIRST DIFFERENCE in layer "), "{lines:?}");
    assert!(lines[1].ends_with("/encoder/2/activation/Relu\" (Abs, opset1)"), "{lines:?}");
    assert!(lines[2].starts_with("  F32 0 expected at [0, "), "{lines:?}");
    assert!(lines[3].starts_with("  greatest error "), "{lines:?}");
    assert!(lines[3].contains(": 0 expected, got "), "{lines:?}");
    assert!(lines[4].starts_with("then in \""), "{lines:?}");
}

/// Values for the network with one layer, `add`, whose inputs are `layer_0` and `layer_1`.
fn compare_sum(arrays: &[(&str, ArrayD<f32>)], model: &str, files: &Files) -> Ran {
    let path = files.path("values.npz");
    let mut writer = NpzWriter::new(fs::File::create(&path).unwrap());
    for (name, array) in arrays {
        writer.add_array(*name, array).unwrap();
    }
    writer.finish().unwrap();
    run(&["compare", model, &path])
}

/// The reader makes them one node, but each has a value in the file.
#[test]
fn compare_of_equal_layers() {
    let files = Files::new();
    let xml = ir_sum("2", "2");
    let (start, end) = (xml.find("<layer id=\"2\"").unwrap(), xml.find("</layers>").unwrap());
    let twin = xml[start..end].replace("id=\"2\" name=\"add\"", "id=\"4\" name=\"twin\"");
    let twin = twin.replace("id=\"3\" name=\"sum/sink\"", "id=\"5\" name=\"twin/sink\"");
    let edges: String = [(0, 0, 4, 0), (1, 0, 4, 1), (4, 2, 5, 0)]
        .map(|(from, port, to, input)| {
            format!(
                r#"<edge from-layer="{from}" from-port="{port}" to-layer="{to}" to-port="{input}"/>"#
            )
        })
        .concat();
    let xml = xml.replace("</layers>", &format!("{twin}</layers>"));
    let model = files.text("model.xml", &xml.replace("</edges>", &format!("{edges}</edges>")));
    let array = |a: f32, b: f32| arr1(&[a, b]).into_dyn();
    let compare = |twin: ArrayD<f32>| {
        let inputs = [("layer_0", array(1., 2.)), ("layer_1", array(3., 4.))];
        let layers = [("add", array(4., 6.)), ("twin", twin)];
        compare_sum(&[inputs, layers].concat(), &model, &files)
    };
    let ran = compare(array(4., 6.));
    assert_eq!((ran.status, &*ran.stderr), (Some(0), ""), "{}", ran.stdout);
    assert!(ran.stdout.contains(": 2 compared, 2 as expected"), "{}", ran.stdout);
    let ran = compare(array(4., 7.));
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.contains("FIRST DIFFERENCE in layer 4 \"twin\" (Add"), "{}", ran.stdout);
}

#[test]
fn compare_says_which_arrays_have_no_layer() {
    let files = Files::new();
    let (model, values) = (files.text("model.xml", &ir_sum("2", "2")), files.path("values.npz"));
    let array = |a: f32, b: f32| arr1(&[a, b]).into_dyn();
    let (left, right) = (("layer_0", array(1., 2.)), ("layer_1", array(3., 4.)));
    let compare = |more: &[(&str, ArrayD<f32>)]| {
        let arrays = [&[left.clone(), right.clone()], more].concat();
        compare_sum(&arrays, &model, &files)
    };

    let ran = compare(&[("add", array(4., 6.)), ("fused\n", array(0., 0.))]);
    let expected = format!(
        "{model}, optimized
outputs of layers: 1 compared, 1 as expected, 0 not
not compared: 1, as no layer that the model's outputs depend on has the name: \"fused\\\\n\"
"
    );
    assert_eq!((ran.status, &*ran.stdout, &*ran.stderr), (Some(0), &*expected, ""));
    let ran = compare(&[("add", array(4., f32::NAN))]);
    assert_eq!(ran.status, Some(1));
    let text = "  F32 NaN expected at [1], got F32 6
  greatest error NaN at [1]: NaN expected, got 6
";
    assert!(ran.stdout.contains(text), "{}", ran.stdout);

    // Other files than those that are meant.
    let ran = compare(&[]);
    let expected = format!(
        "error: {values} has no values of layers
help: layer_values.py writes them, by the names of the layers
"
    );
    assert_eq!((ran.status, ran.stderr), (Some(2), expected));
    let ran = compare_sum(&[left, ("add", array(4., 6.))], &model, &files);
    let expected = format!(
        "error: {values} has no array \"layer_1\"
help: layer_values.py writes one for each input, by the name of its layer
"
    );
    assert_eq!((ran.status, ran.stderr), (Some(2), expected));
    let wrong = arr1(&[1f32, 2., 3.]).into_dyn();
    let ran = compare_sum(&[("layer_0", wrong), right], &model, &files);
    assert_eq!(ran.status, Some(2));
    let error = fail(&["compare", &model, &files.text("text.npz", "text")]);
    assert!(error.starts_with(&format!("error: reading {}\n", files.path("text.npz"))), "{error}");
    let error = fail(&["compare", &model, "nowhere.npz"]);
    assert!(error.starts_with("error: reading nowhere.npz\n"), "{error}");
    let error = fail(&["compare", "models/token_picker", VALUES]);
    assert!(error.contains("has no layers of OpenVINO IR to compare"), "{error}");
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

/// A short measurement, as JSON.
fn bench_json(more: &[&str]) -> serde_json::Value {
    let short = ["bench", "--json", "--warm-up", "0"];
    serde_json::from_str(&succeed(&[&short[..], more].concat())).unwrap()
}

#[test]
fn bench_as_json() {
    let measured = bench_json(&["models/token_picker", "--time", "0.05", "--threads", "1"]);
    let start = |name: &str| measured["start"][name].as_u64().unwrap();
    assert!(start("load_nanoseconds") > 0 && start("first_run_nanoseconds") > 0, "{measured}");
    if cfg!(target_os = "linux") {
        assert!(start("memory_bytes") > 1 << 20, "{measured}");
    }
    assert_eq!(measured["model"], "models/token_picker");
    assert_eq!(measured["inputs"], serde_json::json!(["2,4,I64", "2,I32", "2,2,I32", "3,2,F32"]));
    assert_eq!((&measured["threads"], &measured["parallel"]), (&1.into(), &1.into()));
    assert_eq!(measured["stage"], "kernels");
    let time = |name: &str| measured["nanoseconds"][name].as_u64().unwrap();
    let times = ["minimum", "median", "percentile_95", "percentile_99"].map(time);
    assert!(0 < times[0] && times.is_sorted(), "{times:?}");
    let nodes = measured["profile"]["nodes"].as_array().unwrap();
    let sum: u64 = nodes.iter().map(|node| node["nanoseconds"].as_u64().unwrap()).sum();
    let total = measured["profile"]["total_nanoseconds"].as_u64().unwrap();
    assert!(nodes.iter().any(|node| node["name"] == "look_up"), "{measured}");
    assert!(0 < sum && sum <= total, "{sum} of {total}");
    assert_eq!(
        bench_json(&["models/token_picker", "--plain", "--time", "0"])["stage"],
        "optimized"
    );
}

#[test]
fn bench_beside_a_baseline() {
    let files = Files::new();
    let mut baseline = bench_json(&["models/token_picker", "--time", "0.05"]);
    let time = |value: &serde_json::Value| value.as_f64().unwrap();
    // As if a run had taken a thousand times as long, almost all of it in one node, and had had another one.
    for name in ["minimum", "median", "percentile_95", "percentile_99"] {
        baseline["nanoseconds"][name] = 1_000_000_000.into();
    }
    let total = (time(&baseline["profile"]["total_nanoseconds"]) * 1000.) as u64;
    baseline["profile"]["total_nanoseconds"] = total.into();
    let nodes = baseline["profile"]["nodes"].as_array_mut().unwrap();
    let node = nodes.iter_mut().find(|node| node["name"] == "look_up").unwrap();
    node["nanoseconds"] = (total / 2).into();
    node["operator"] = "Slow".into();
    let gone = serde_json::json!({"name": "gone", "operator": "Gone", "nanoseconds": total / 4});
    nodes.push(gone);
    let path = files.text("before.json", &baseline.to_string());
    let short = ["--baseline", &path, "--warm-up", "0", "--time", "0.05"];
    let text = succeed(&[&["bench", "models/token_picker"][..], &short].concat());
    let row = |start: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(start));
        line.unwrap_or_else(|| panic!("{start:?} in {text}")).split_whitespace().collect::<Vec<_>>()
    };
    let [.., now, before, ratio] = row("median, µs")[..] else { panic!("{text}") };
    let [now, before, ratio] = [now, before, ratio].map(|it| it.parse::<f64>().unwrap());
    assert_eq!(before, 1e6);
    assert!((now / before - ratio).abs() < 1e-3, "{text}");
    assert_eq!(row("gone")[1..3], ["Gone", "-"]);
    assert!(row("look_up").windows(2).any(|words| words == ["was", "Slow"]), "{text}");
    // What takes a small part of the whole is not among what changed.
    assert!(!text.contains(" pick "), "{text}");

    // Other conditions are a note, and another model is an error.
    baseline["processor"] = "Z80".into();
    let path = files.text("z80.json", &baseline.to_string());
    let short = ["--baseline", &path, "--warm-up", "0", "--time", "0", "--plain"];
    let ran = run(&[&["bench", "models/token_picker"][..], &short].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("note: the ratios are not of the model alone: processor: "));
    let expected = ", but Z80 in the baseline; stage: optimized, but kernels in the baseline\n";
    assert!(ran.stderr.ends_with(expected), "{}", ran.stderr);
    let error = fail(&[&["bench", "models/gather_7_layer"][..], &short].concat());
    assert!(error.starts_with("error: the baseline is of another model: "), "{error}");
    let text = files.text("text.json", "{}");
    let error = fail(&["bench", "models/token_picker", "--baseline", &text]);
    assert!(error.contains("text.json is not a measurement: missing field `model`"), "{error}");
    let error = fail(&["bench", "models/token_picker", "--baseline", "nowhere.json"]);
    assert!(error.starts_with("error: reading nowhere.json\n"), "{error}");
}

#[test]
fn bench_of_runs_at_once() {
    let short = ["bench", "models/token_picker", "--warm-up", "0", "--time", "0.05"];
    for (threads, how) in [("1", "each on a thread of its own"), ("2", "which share 2 threads")] {
        let text = succeed(&[&short[..], &["--parallel", "3", "--threads", threads]].concat());
        let first = text.lines().next().unwrap();
        assert!(first.ends_with(&format!(" runs, 3 at once, {how}")), "{text}");
        assert!(!text.contains("profile"), "{text}");
    }
    // The time is that of all threads together, not the sum of theirs.
    let alone = ["--parallel", "3", "--threads", "1"];
    let measured = bench_json(&[&["models/token_picker", "--time", "0.3"], &alone[..]].concat());
    let number = |name: &str| measured[name].as_f64().unwrap();
    let seconds = number("runs") / number("runs_per_second");
    assert!((0.3..0.8).contains(&seconds), "{measured}");
    // Each has the state of a model of its own, and runs at least once.
    let measured = bench_json(&[SILERO, "--parallel", "3", "--time", "0"]);
    assert_eq!((&measured["runs"], &measured["profile"]), (&3.into(), &serde_json::Value::Null));
    // An error of a run does not leave the other threads waiting.
    let files = Files::new();
    let model = files.model("model.onnx", &gather());
    let [data, _] = gather_inputs(&files);
    let path = files.path("far.npy");
    write_npy(&path, &arr1(&[0i64, 9])).unwrap();
    let far = format!("indices={path}");
    let error = fail(&["bench", &model, "-i", &data, "-i", &far, "--parallel", "2"]);
    assert!(error.contains("9"), "{error}");
}

/// Each run of a model whose variables grow begins anew: with the mask of the first run, the second one of a state would fail.
#[test]
fn bench_of_variables_that_grow() {
    let model = "generation/models/tiny/openvino_model.xml";
    let feed = ["--random-range", "0..=3", "--random-range", "attention_mask=1..=1"];
    let sizes = ["input_ids=1,4", "attention_mask=1,4", "position_ids=1,4", "beam_idx=1"];
    let sizes: Vec<&str> = sizes.iter().flat_map(|size| ["--shape", size]).collect();
    let first_row = ["--random-range", "beam_idx=0..=0", "--warm-up", "0.01", "--time", "0.05"];
    let text = succeed(&[&["bench", model, "--random"], &feed[..], &first_row, &sizes].concat());
    assert!(text.contains("runs per second"), "{text}");
}

#[cfg(feature = "generation")]
#[test]
fn bench_of_a_language_model() {
    let short =
        ["bench", "generation/models/tiny", "--time", "0", "--prefill", "9", "--decode", "3"];
    let text = succeed(&[&short[..], &["--threads", "1"]].concat());
    for row in [" pp9 ", " tg3 "] {
        assert!(text.contains(row), "{row:?} in {text}");
    }
    let text = succeed(&[&short[..], &["--json", "--exact"]].concat());
    let measured: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(measured["exact"], true);
    for (number, name) in ["pp9", "tg3"].into_iter().enumerate() {
        let test = &measured["tests"][number];
        assert_eq!(test["name"], name);
        assert!(test["tokens_per_second"].as_f64().unwrap() > 0., "{measured}");
    }
    let error = fail(&["bench", "generation/models/tiny", "--prefill", "1000000"]);
    assert!(error.contains("--prefill is 1000000, but the model takes"), "{error}");
}

/// All cores, unless an option or the environment says something else.
#[test]
fn threads() {
    let bench = ["bench", "models/token_picker", "--json", "--warm-up", "0", "--time", "0"];
    let measured = |arguments: &[&str], variable: Option<&str>| {
        let mut command = command(&[&bench[..], arguments].concat());
        command.envs(variable.map(|threads| ("TRACT_OPENVINO_THREADS", threads)));
        let output = command.output().unwrap();
        let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        measured["threads"].as_u64().unwrap()
    };
    let processors = std::thread::available_parallelism().unwrap().get() as u64;
    assert!((1..=processors).contains(&measured(&[], None)));
    assert_eq!(measured(&[], Some("3")), 3);
    assert_eq!(measured(&["--threads", "2"], Some("3")), 2);
    let mut command = command(&bench);
    let output = command.env("TRACT_OPENVINO_THREADS", "all").output().unwrap();
    let expected =
        "error: TRACT_OPENVINO_THREADS is \"all\", but must be a number of threads, 1 or more\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

/// Tensors within a model, by the names of layers, tensors and nodes.
#[test]
fn outputs_by_name() {
    const OCR: &str = "ir/models/networks/ocr_cls";
    let text = succeed(&["run", OCR, "--output", "linear_1.tmp_1", "--output", "linear_1.tmp_0"]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(lines[0].starts_with("  linear_1.tmp_1 1,2,F32 "), "{text}");
    assert!(lines[1].starts_with("  linear_1.tmp_0 1,2,F32 "), "{text}");
    assert!(!text.contains("matches"), "{text}");
    let error = fail(&["run", OCR, "--output", "linear_1.tmp_3"]);
    assert!(
        error.contains("the model has no output, tensor or layer \"linear_1.tmp_3\""),
        "{error}"
    );
    assert!(error.contains("help: did you mean \"linear_1.tmp_0\"?"), "{error}");
    let text = succeed(&["run", "models/token_picker", "--output", "pick"]);
    assert!(text.contains("  pick"), "{text}");
    let error = fail(&["run", "models/token_picker", "--output", "pock"]);
    assert!(
        error.contains("no output, tensor or node \"pock\"\nhelp: did you mean \"pick\"?"),
        "{error}"
    );
    for command in [&["check", OCR][..], &["compare", OCR, VALUES]] {
        let error = fail(&[command, &["--output", "linear_1.tmp_1"]].concat());
        assert!(error.contains("expected outputs are those of the whole model"), "{error}");
    }
}

#[test]
fn backtraces_of_errors() {
    let stderr = |backtrace: &str| {
        let mut command = command(&["run", "nowhere.onnx"]);
        let output = command.env("RUST_BACKTRACE", backtrace).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(stderr("0"), "error: there is no file nowhere.onnx\n");
    assert!(stderr("1").contains("model_file"), "{}", stderr("1"));
}

/// The name that it had before.
#[test]
fn inspect_is_facts() {
    let [new, old] = ["inspect", "facts"].map(|name| succeed(&[name, "models/token_picker"]));
    assert_eq!(new, old);
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
    let (files, model, [data, indices]) = gather_files();
    for name in ["model.nnef.tgz", "model.tgz", "model.nnef.tar"] {
        let archive = files.path(name);
        let text = succeed(&["convert", &model, &archive]);
        assert!(text.starts_with(&format!("saved {archive}, ")), "{text}");
        let is_compressed = fs::read(&archive).unwrap().starts_with(&[0x1f, 0x8b]);
        assert_eq!(is_compressed, name.ends_with("tgz"));
        let text = succeed(&["run", &archive, "-i", &data, "-i", &indices]);
        assert!(text.contains("2,3,F32 4, 5, 6, 1, 2, 3"), "{text}");
        assert!(succeed(&["inspect", &archive, "--set", "N=2"]).contains("data: 2,3,F32"));
    }
    let archive = files.path("model.nnef.tgz");
    assert_eq!(
        fail(&["inspect", &archive, "--stage", "loaded"]),
        "error: only ONNX models have a stage loaded: others have types and shapes already
help: stages that it has: typed, decluttered, optimized, kernels
"
    );
    let wrong = files.path("model.zip");
    assert_eq!(
        fail(&["convert", &model, &wrong]),
        format!(
            "error: {wrong} is not the name of an NNEF archive
help: its name must end in .nnef.tgz, .tgz or .nnef.tar
"
        )
    );
}

#[test]
fn convert_of_ir() {
    let files = Files::new();
    let archive = files.path("model.nnef.tgz");
    let model = files.text("model.xml", &ir_sum("?,2", "2"));
    succeed(&["convert", &model, &archive]);
    // The first of the names, and not that of the layer.
    let left = format!("left={}", files.ones("left.npy", &[3, 2]));
    let right = format!("right={}", files.ones("right.npy", &[2]));
    let text = succeed(&["run", &archive, "-i", &left, "-i", &right]);
    assert_eq!(text, format!("{archive}\n  sum 3,2,F32 2, 2, 2, 2, 2, 2\n"));
    // Symbols that turned out to be equal.
    let model = files.text("model.xml", &ir_sum("?,2", "?,2"));
    succeed(&["convert", &model, &archive]);
    let right = format!("right={}", files.ones("right.npy", &[3, 2]));
    let text = succeed(&["run", &archive, "-i", &left, "-i", &right]);
    assert_eq!(text, format!("{archive}\n  sum 3,2,F32 2, 2, 2, 2, 2, 2\n"));
    // Operators of our own, and sizes that are known when the model runs.
    succeed(&["convert", "ir/models/range/inputs", &archive]);
    let data_set =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../ir/models/range/inputs/test_data_set_0.npz");
    let inputs = [0, 1, 2].map(|k| format!("input_{k}={data_set}"));
    let [start, stop, step] = &inputs;
    let text = succeed(&["run", &archive, "-i", start, "-i", stop, "-i", step]);
    let expected = Npz::open(data_set).unwrap().read("output_0").unwrap();
    let text = text.lines().last().unwrap();
    assert!(text.starts_with(&format!("  output_0 {},I64 ", expected.len())), "{text}");
    // One that NNEF has not.
    assert_eq!(
        fail(&["convert", "ir/models/interpolate/cubic", &archive]),
        "error: NNEF has no operator OpenVinoInterpolate, which is that of node #1 \"interpolate_14\"
help: a model with it runs from its own file only
"
    );
    // Its archive would not be read.
    let error = fail(&["convert", "ir/models/max_pool/values_and_indices", &archive]);
    assert!(error.starts_with("error: reading the archive that was written\n"), "{error}");
}

/// The names of inputs and outputs that `facts` shows.
fn names(model: &str) -> Vec<String> {
    let text = succeed(&["inspect", model]);
    let lines =
        text.lines().filter(|line| line.starts_with("  input") || line.starts_with("  output"));
    lines.map(|line| line.split(' ').rfind(|word| word.ends_with(':')).unwrap().into()).collect()
}

#[test]
fn convert_keeps_inputs_and_outputs_and_their_names() {
    let files = Files::new();
    let archive = files.path("model.nnef.tgz");
    for ir in ["parameter/unused", "parameter/straight_to_result", "result/names", "squeeze/not_1"]
    {
        let model = format!("ir/models/{ir}");
        succeed(&["convert", &model, &archive]);
        assert_eq!(names(&archive), names(&model), "{ir}");
    }
    let of = |name| input(name, DatumType::F32, [2usize]);
    let graph = |nodes: Vec<NodeProto>, outputs: &[&str]| {
        let graph = GraphProto {
            node: nodes,
            input: ["a/b", "a_b", "600", "unused"].map(of).to_vec(),
            initializer: vec![onnx_model::initializer("shape", &tensor1(&[2i64]))],
            output: outputs.iter().map(|name| output(name)).collect(),
            ..GraphProto::default()
        };
        files.model("model.onnx", &onnx_model::model(None, graph))
    };
    let mut split = node("", "Split", &["a/b"], "part");
    split.name = "split".into();
    split.output.push("other part".into());
    // It has the name that the second output of the other node has in an archive.
    let mut negative = node("", "Neg", &["a_b"], "neg\"ative");
    negative.name = "split_1".into();
    let nodes = vec![
        split,
        negative,
        node("", "Identity", &["600"], "same"),
        // tract leaves it out, and takes its name for the input.
        node("", "Reshape", &["600", "shape"], "same again"),
        onnx_model::with_attribute(
            node("", "Concat", &["other part", "neg\"ative"], "joined"),
            onnx_model::int("axis", 0),
        ),
    ];
    let outputs = ["same", "same again", "joined", "part", "neg\"ative"];
    let model = graph(nodes, &outputs);
    succeed(&["convert", &model, &archive]);
    assert_eq!(names(&archive), names(&model));
    let inputs = ["a/b:", "a_b:", "600:", "unused:"];
    assert_eq!(names(&model)[..4], inputs);
    let arguments = ["--random", "--seed", "3"];
    let outputs = |model: &str| {
        let text = succeed(&[&["run", model][..], &arguments].concat());
        text.split_once('\n').unwrap().1.to_string()
    };
    assert_eq!(outputs(&archive), outputs(&model));
    // tract has one constant for equal ones, and one name for it.
    let ran = run(&["convert", "ir/models/shape_of/types", &archive]);
    assert_eq!(
        (ran.status, &*ran.stderr),
        (Some(0), "note: output \"output_0\" is named \"output_1\" in the archive\n")
    );
    let error =
        fail(&["convert", &graph(vec![node("", "Neg", &["a_b"], "b")], &["b", "b"]), &archive]);
    assert!(error.contains("two outputs have the name \"b\""), "{error}");
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
    assert_eq!(fail(&["inspect", "nowhere.onnx"]), "error: there is no file nowhere.onnx\n");
    let folder = files.path("");
    let error = fail(&["run", &folder]);
    let no_model = format!("error: {folder} has no model.onnx, model.xml or openvino_model.xml\n");
    assert_eq!(error, format!("{no_model}help: the folder is empty\n"));
    let text = files.text("model.txt", "text");
    assert_eq!(
        fail(&["inspect", &folder]),
        format!("{no_model}help: in the folder is \"model.txt\"\n")
    );
    files.text("encoder.xml", "text");
    assert_eq!(
        fail(&["bench", &folder]),
        format!("{no_model}help: give one of the files of the folder: \"encoder.xml\"\n")
    );
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
        error.contains("\"data.csv\" is not the name of a tensor file: it must end in .npy"),
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
    assert!(
        error.contains("its header states more elements than the 0 bytes that follow it"),
        "{error}"
    );
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
        let error = fail(&["inspect", &model, &format!("--set={set}")]);
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
    succeed(&["inspect", &model]);
    let folder = files.path("saved");
    succeed(&["run", &model, "--random", "--set", "N=2", "-o", &folder]);
    let saved: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(saved, [".._out_u{1b}[2J.npy"]);
}

#[test]
fn an_output_that_no_file_expects() {
    let files = Files::new();
    let folder = files.copy("../ir/models/activation/hard", "model");
    let mut data_set = DataSet::load(&folder, 0).unwrap().unwrap();
    data_set.outputs.pop();
    data_set.save(&folder, 0).unwrap();
    for ran in [run(&["run", &folder]), run(&["check", &folder])] {
        assert_ne!(ran.status, Some(0));
        let text = ran.stdout + &ran.stderr;
        assert!(text.contains("outputs, but test_data_set_0 has"), "{text}");
    }
}

#[test]
fn data_sets_that_would_be_passed_over() {
    let files = Files::new();
    let folder = files.copy("../ir/models/gather/embedding", "ir");
    fs::rename(format!("{folder}/test_data_set_1.npz"), format!("{folder}/test_data_set_2.npz"))
        .unwrap();
    let ran = run(&["check", &folder]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.contains("2 data sets, but only 1 without a gap"), "{}", ran.stdout);
    let folder = files.copy("gather_7_example_2", "model");
    fs::create_dir(Path::new(&folder).join("test_data_set_3")).unwrap();
    let ran = run(&["check", &folder]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.contains("2 data sets, but only 1 without a gap"), "{}", ran.stdout);
}

#[test]
fn options_that_do_nothing() {
    let files = Files::new();
    let archive = files.path("model.nnef.tgz");
    succeed(&["convert", "models/gather_7_example_2", &archive]);
    let (onnx, ir) = ("models/gather_7_example_2", "ir/models/gather/revision_7");
    for (arguments, expected) in [
        (
            &[&*archive, "--negative-indices", "wrap"][..],
            "options for reading ONNX and OpenVINO IR do not change an NNEF archive",
        ),
        (&[&archive, "--shape", "data=2,3"], "the shapes of an NNEF archive are fixed"),
        (&[onnx, "--weights", "model.bin"], "the weights of an ONNX model are in its own file"),
        (
            &[onnx, "--constants-limit", "1"],
            "options for reading OpenVINO IR do not change an ONNX model",
        ),
        (
            &[onnx, "--iterations-limit", "5"],
            "options for reading OpenVINO IR do not change an ONNX model",
        ),
        (&[ir, "--tract-gather"], "options for reading ONNX do not change OpenVINO IR"),
        (&[ir, "--ignore-value-info"], "options for reading ONNX do not change OpenVINO IR"),
    ] {
        let error = fail(&[&["inspect"], arguments].concat());
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
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
        fail(&["inspect", &model]),
        "error: the model has operators that tract does not implement: InBranch (node \"node_b\"); \
         Of of domain some.domain (node \"node_e\"); \
         Unheard (nodes \"node_a\", \"node_a2\")\n"
    );
    // With those of OpenVINO's domain.
    let mut nodes = nodes;
    nodes.push(node(DOMAIN, "Conv", &["a"], "s"));
    nodes.push(node(DOMAIN, "Gather", &["a", "a", "a"], "g"));
    let model = files.model("model.onnx", &onnx_model::model(Some(8), graph(nodes)));
    let error = fail(&["inspect", &model]);
    for expected in ["Conv", "Unheard", "InBranch"] {
        assert!(error.contains(expected), "{expected:?} in {error}");
    }
    // With nothing but one of OpenVINO's domain.
    let nodes = vec![node(DOMAIN, "Unheard", &["data"], "output")];
    let model = files.model("model.onnx", &onnx_model::model(Some(8), graph(nodes)));
    assert_eq!(
        fail(&["inspect", &model]),
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
    let error = fail(&["inspect", &model]);
    let expected = format!("tract panicked while reading {model}: ");
    assert!(error.contains(&expected), "{error}");
    assert!(error.contains(" at tract-onnx-0.23.9/src/model.rs:"), "{error}");
}

#[test]
fn an_index_out_of_range_is_an_error_at_its_place() {
    let (files, model, [data, _]) = gather_files();
    let indices = files.path("bad.npy");
    write_npy(&indices, &arr1(&[0i64, 2])).unwrap();
    let error = fail(&["run", &model, "-i", &data, "-i", &format!("indices={indices}")]);
    assert!(error.starts_with("error: running the model\n"), "{error}");
    assert!(error.contains("Gather-7: indices[1] is 2, but must be in"), "{error}");
    assert!(!error.contains("help:"), "{error}");
}

#[test]
fn the_log_is_shown_on_request() {
    let files = Files::new();
    let mut model = gather();
    model.opset_import.retain(|import| import.domain != DOMAIN);
    let model = files.model("model.onnx", &model);
    let ran = run(&["inspect", &model]);
    assert_eq!(ran.status, Some(0));
    assert!(ran.stderr.starts_with("warning: node \"node_output\" is of domain"), "{}", ran.stderr);
    let verbose = run(&["inspect", &model, "-vv"]);
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

const COMMANDS: [&str; 8] =
    ["run", "inspect", "check", "compare", "bench", "convert", "completions", "man"];

#[test]
fn help_has_every_command_with_an_example() {
    let text = succeed(&["--help"]);
    for name in COMMANDS {
        assert!(text.contains(&format!("  {name} ")), "{name} in {text}");
        let help = succeed(&[name, "--help"]);
        let example = format!(":\n  tract-openvino {name} ");
        assert!(help.contains(&example), "{help}");
    }
    assert_eq!(
        succeed(&["--version"]),
        concat!("tract-openvino ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = succeed(&["completions", shell]);
        assert!(text.contains("tract-gather"), "{shell}: {text}");
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
        (&["inspect", "models/token_picker", "--json"][..], 0),
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

// generate and chat

#[cfg(feature = "generation")]
mod generation {
    use super::*;

    const TINY: &str = "generation/models/tiny";

    /// What a command prints to standard output and standard error that does as it should, when it is told this.
    #[track_caller]
    fn told(arguments: &[&str], input: &str) -> [String; 2] {
        use std::io::Write;
        let mut command = command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{stderr}");
        [stdout, stderr]
    }

    #[track_caller]
    fn text(arguments: &[&str]) -> String {
        let all = [&["generate", TINY, "--prompt", "Hello", "--max-new-tokens", "12"], arguments]
            .concat();
        let [stdout, stderr] = told(&all, "");
        assert!(
            stderr.contains(" tokens at ") && stderr.contains(" per second; prompt: "),
            "{stderr}"
        );
        stdout
    }

    #[test]
    fn generate_continues_a_text() {
        let greedy = text(&[]);
        assert_eq!(text(&["--greedy", "--threads", "2"]), greedy);
        assert_ne!(text(&["--no-template"]), greedy);
        assert_eq!(text(&["--temperature", "1e-6"]), greedy);
        assert_eq!(text(&["--temperature", "0", "--top-k", "9"]), greedy);
        assert_eq!(text(&["--top-k", "1"]), greedy);
        let drawn = ["--temperature", "3", "--top-k", "0", "--top-p", "0.99", "--seed"];
        let drawn = |seed| text(&[&drawn[..], &[seed]].concat());
        assert_eq!(drawn("1"), drawn("1"));
        assert_ne!(drawn("1"), drawn("2"));
        assert!(!text(&["--beams", "3"]).is_empty());
        // Rounding changes a text of many tokens.
        let long = |more: &[&str]| {
            let all = ["generate", TINY, "--prompt", "Hello", "--max-new-tokens", "100"];
            told(&[&all, more].concat(), "")[0].clone()
        };
        assert_ne!(long(&[]), long(&["--exact"]));
        let first = greedy.chars().next().unwrap().to_string();
        assert_eq!(text(&["--stop", &first]), "\n");
        assert_ne!(text(&["--repetition-penalty", "0.01"]), greedy);
    }

    #[test]
    fn generate_refuses() {
        for (arguments, error) in [
            (["--temperature", "nan"], "error: temperature is NaN, but must be above 0\n"),
            (["--top-p", "2"], "error: top_p is 2, but must be above 0 and at most 1\n"),
            (["--beams", "0"], "error: num_beams is 0, but must be from 1 to 256\n"),
            (["--stop", ""], "error: a stop string is empty, but must have a character\n"),
        ] {
            let all = [&["generate", TINY, "--prompt", "Hello"][..], &arguments].concat();
            assert_eq!(fail(&all), error);
        }
        let long = "long".repeat(100);
        let error = fail(&["generate", TINY, "--prompt", &long]);
        assert!(error.contains("the model has 256 positions at most"), "{error}");
        let error = fail(&["generate", "models/token_picker", "--prompt", "Hello"]);
        assert!(error.contains("models/token_picker/tokenizer.json"), "{error}");
        let error = fail(&["generate", TINY, "--prompt", "Hello", "--threads", "0"]);
        assert!(error.contains("0 is not in 1..=1024"), "{error}");
        let error = fail(&["generate", TINY, "--prompt-file", "models/no_prompt.txt"]);
        assert!(error.contains("reading the prompt from models/no_prompt.txt"), "{error}");
    }

    /// A folder with settings alone: there is no model yet that could be loaded.
    #[test]
    fn options_are_checked_before_the_model_is_loaded() {
        let files = Files::new();
        let tokenizer = format!("{}/../{TINY}/tokenizer.json", env!("CARGO_MANIFEST_DIR"));
        fs::copy(tokenizer, files.path("tokenizer.json")).unwrap();
        let folder = files.path("");
        let generate = ["generate", &folder, "--prompt", "Hello"];
        let error = |more: &[&str]| fail(&[&generate, more].concat());
        assert!(error(&[]).contains("openvino_model.xml"), "{}", error(&[]));
        let zero = error(&["--max-new-tokens", "0"]);
        assert_eq!(zero, "error: max_new_tokens is 0, but must be at least 1\n");
        let mut threads = command(&generate);
        let threads = threads.env("TRACT_OPENVINO_THREADS", "many").output().unwrap();
        let threads = String::from_utf8(threads.stderr).unwrap();
        assert!(threads.starts_with("error: TRACT_OPENVINO_THREADS is \"many\""), "{threads}");

        let settings = r#"{"stop_strings": ["."], "presence_penalty": 1.5}"#;
        files.text("generation_config.json", settings);
        let unsupported = error(&[]);
        assert!(unsupported.contains("presence_penalty is 1.5, which is not supported"));
        assert!(unsupported.contains("help: --ignore-unsupported-settings"), "{unsupported}");
        let ignored = ["--ignore-unsupported-settings", "--beams", "2"];
        let beams = error(&ignored);
        assert!(beams.contains("but there is \".\"") && beams.contains("--no-stop-strings"));
        // What it advises is enough.
        let ran = run(&[&generate[..], &ignored, &["--no-stop-strings"]].concat());
        assert!(ran.stderr.starts_with("warning: presence_penalty is 1.5"), "{}", ran.stderr);
        assert!(ran.stderr.contains("openvino_model.xml"), "{}", ran.stderr);
        // This one is a token.
        files.text("generation_config.json", r#"{"stop_strings": ["<|im_end|>"]}"#);
        let special = error(&["--beams", "2"]);
        assert!(special.contains("openvino_model.xml"), "{special}");
    }

    #[test]
    fn prompts_from_elsewhere() {
        let files = Files::new();
        let file = files.text("prompt.txt", "Hello\n");
        let generate = ["generate", TINY, "--greedy", "--max-new-tokens", "8"];
        let text = |more: &[&str], input| told(&[&generate, more].concat(), input)[0].clone();
        let expected = text(&["--prompt", "Hello"], "");
        assert_eq!(text(&["--prompt", "-"], "Hello"), expected);
        assert_eq!(text(&["--prompt-file", &file], ""), expected);
        assert_ne!(text(&["--prompt", "Hello", "--system", "Be short."], ""), expected);
    }

    #[test]
    fn generate_as_json() {
        let generate = ["generate", TINY, "--greedy", "--max-new-tokens", "8", "--prompt", "Hello"];
        let [text, _] = told(&generate, "");
        let [json, stderr] = told(&[&generate[..], &["--json"]].concat(), "");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        // Control characters are in JSON alone.
        let shown = json["text"].as_str().unwrap().replace(char::is_control, "");
        assert_eq!(shown, text.trim_end_matches('\n'));
        assert_eq!(json["tokens"].as_array().unwrap().len(), 8);
        assert_eq!((&json["end"], &*stderr), (&"max_new_tokens".into(), ""));
        for rate in ["prefill_tokens", "prefill_tokens_per_second", "decode_tokens_per_second"] {
            assert!(json[rate].as_f64().unwrap() > 0., "{rate}");
        }
    }

    /// It does not go on computing.
    #[test]
    fn a_text_that_nobody_reads() {
        let generate = ["generate", TINY, "--prompt", "Hello", "--max-new-tokens", "100"];
        let mut child =
            command(&generate).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(stderr.starts_with("stopped: "), "{stderr}");
    }

    #[test]
    fn chat_answers_lines() {
        let arguments = ["chat", TINY, "--max-new-tokens", "4"];
        let count = |input: &str| {
            let [_, stderr] = told(&arguments, input);
            stderr.lines().filter(|line| line.contains(" tokens at ")).count()
        };
        assert_eq!(count(""), 0);
        assert_eq!(count("Hello!"), 1);
        assert_eq!(count("Hello!\n\nAnd now?\n"), 2);
        let answers =
            |more: &[&str]| told(&[&arguments, more].concat(), "Hello!\nAnd now?\n")[0].clone();
        assert_eq!(answers(&[]), answers(&["--greedy"]));
        assert_ne!(answers(&[]), answers(&["--system", "Be short."]));
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
    for variable in [
        "TRACT_OPENVINO_THREADS",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "RUST_LOG",
        "RUST_BACKTRACE",
    ] {
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
        (&["inspect", "models/token_picker"][..], 0),
        (&["inspect", "models/token_picker", "--stage", "optimized"], 0),
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
    assert!(text.contains("0/1") && text.contains("1 model, 5 checks"), "{text:?}");
    let ran = run(&["check", "models/token_picker"]);
    assert_eq!(ran.stderr, "");
}

#[test]
fn no_color_is_honoured() {
    for arguments in [&["inspect", "models/token_picker"][..], &["run", "models/token_picker"]] {
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
