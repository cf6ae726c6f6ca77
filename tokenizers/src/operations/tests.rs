//! The operations as layers of a model, with literal inputs and outputs, and what is wrong with them.

use tract_openvino_ir::internal::*;

/// A model of one layer. Inputs are constants or, where they are named by a type and a shape, parameters.
struct Model {
    layers: String,
    edges: String,
    ports: String,
    weights: Vec<u8>,
    inputs: usize,
}

/// An input: a parameter, or a constant.
#[derive(Clone)]
enum Input {
    Parameter(&'static str, &'static str),
    I32(Vec<i32>),
    Scalar(i32),
    F32(Vec<f32>),
    Text(&'static str),
    Bytes(Vec<u8>),
}
use Input::*;

impl Model {
    fn new(operation: &str, attributes: &str, inputs: &[Input], outputs: usize) -> Model {
        let mut model = Model {
            layers: String::new(),
            edges: String::new(),
            ports: String::new(),
            weights: vec![],
            inputs: inputs.len(),
        };
        for (number, input) in inputs.iter().enumerate() {
            model.input(number, input);
        }
        let ports: String =
            (0..outputs).map(|port| format!("<port id=\"{}\"/>", 100 + port)).collect();
        let id = inputs.len();
        model.layers += &format!(
            "<layer id=\"{id}\" name=\"tested\" type=\"{operation}\" version=\"extension\"><data {attributes}/><input>{}</input>\
             <output>{ports}</output></layer>",
            model.ports
        );
        for port in 0..outputs {
            let result = id + 1 + port;
            model.layers += &format!(
                "<layer id=\"{result}\" name=\"result_{port}\" type=\"Result\" version=\"opset1\"><input><port id=\"0\"/></input></layer>"
            );
            model.edges += &format!(
                "<edge from-layer=\"{id}\" from-port=\"{}\" to-layer=\"{result}\" to-port=\"0\"/>",
                100 + port
            );
        }
        model
    }

    fn input(&mut self, number: usize, input: &Input) {
        let (ty, shape, bytes) = match input {
            Parameter(ty, shape) => {
                let dims: String =
                    shape.split(',').filter(|it| !it.is_empty()).map(|_| "<dim>-1</dim>").collect();
                self.layers += &format!(
                    "<layer id=\"{number}\" name=\"input_{number}\" type=\"Parameter\" version=\"opset1\">\
                     <data shape=\"{shape}\" element_type=\"{ty}\"/><output><port id=\"0\" precision=\"{}\">{dims}</port></output></layer>",
                    ty.to_uppercase()
                );
                return self.edge(number);
            }
            I32(numbers) => (
                "i32",
                numbers.len().to_string(),
                numbers.iter().flat_map(|it| it.to_le_bytes()).collect(),
            ),
            Scalar(number) => ("i32", String::new(), number.to_le_bytes().to_vec()),
            F32(numbers) => (
                "f32",
                numbers.len().to_string(),
                numbers.iter().flat_map(|it| it.to_le_bytes()).collect(),
            ),
            Text(text) => ("u8", text.len().to_string(), text.as_bytes().to_vec()),
            Bytes(bytes) => ("u8", bytes.len().to_string(), bytes.clone()),
        };
        let (offset, size) = (self.weights.len(), bytes.len());
        let dims = if shape.is_empty() { String::new() } else { format!("<dim>{shape}</dim>") };
        self.weights.extend(bytes);
        self.layers += &format!(
            "<layer id=\"{number}\" name=\"input_{number}\" type=\"Const\" version=\"opset1\">\
             <data element_type=\"{ty}\" shape=\"{shape}\" offset=\"{offset}\" size=\"{size}\"/>\
             <output><port id=\"0\" precision=\"{}\">{dims}</port></output></layer>",
            ty.to_uppercase()
        );
        self.edge(number);
    }

    fn edge(&mut self, number: usize) {
        self.ports += &format!("<port id=\"{number}\"/>");
        let to = self.inputs;
        self.edges += &format!(
            "<edge from-layer=\"{number}\" from-port=\"0\" to-layer=\"{to}\" to-port=\"{number}\"/>"
        );
    }

    fn run(&self, inputs: &[Tensor]) -> TractResult<Vec<Tensor>> {
        let xml = format!(
            "<net name=\"test\" version=\"11\"><layers>{}</layers><edges>{}</edges></net>",
            self.layers, self.edges
        );
        let mut reader = ir();
        crate::register(reader.registry_mut());
        let model = reader.model_for_bytes(xml.as_bytes(), self.weights.clone())?;
        let inputs = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
        let outputs = model.into_optimized()?.into_runnable()?.run(inputs)?;
        Ok(outputs.into_iter().map(|output| output.into_tensor()).collect())
    }
}

/// The parameters of rows of strings.
const ROWS: [Input; 5] = [
    Parameter("i32", "?"),
    Parameter("i32", "?"),
    Parameter("i32", "?"),
    Parameter("i32", "?"),
    Parameter("u8", "?"),
];

/// The parameters of strings.
const STRINGS: [Input; 3] = [Parameter("i32", "?"), Parameter("i32", "?"), Parameter("u8", "?")];

/// Strings one after the other.
fn strings(strings: &[&[u8]]) -> [Tensor; 3] {
    let mut ends = vec![0];
    for string in strings {
        ends.push(ends[ends.len() - 1] + string.len() as i32);
    }
    let begins = &ends[..strings.len()];
    [tensor1(begins), tensor1(&ends[1..]), tensor1(&strings.concat())]
}

/// Rows of strings.
fn rows(rows: &[&[&[u8]]]) -> Vec<Tensor> {
    let mut ends = vec![0];
    for row in rows {
        ends.push(ends[ends.len() - 1] + row.len() as i32);
    }
    let mut tensors = vec![tensor1(&ends[..rows.len()]), tensor1(&ends[1..])];
    tensors.extend(strings(&rows.concat()));
    tensors
}

/// A constant of strings.
fn constant(of: &[&[u8]]) -> Vec<Input> {
    let [begins, ends, bytes] = strings(of);
    let numbers =
        |tensor: &Tensor| tensor.try_as_plain_ram().unwrap().as_slice::<i32>().unwrap().to_vec();
    let bytes = bytes.try_as_plain_ram().unwrap().as_slice::<u8>().unwrap().to_vec();
    vec![I32(numbers(&begins)), I32(numbers(&ends)), Bytes(bytes)]
}

/// The strings of outputs.
fn texts(tensors: &[Tensor]) -> Vec<String> {
    let strings = crate::strings::Strings::new(&[&tensors[0], &tensors[1], &tensors[2]]).unwrap();
    strings.iter().map(|string| String::from_utf8(string.to_vec()).unwrap()).collect()
}

/// The rows of tokens.
fn tokens(tensors: &[Tensor]) -> Vec<Vec<i32>> {
    let elements = tensors[2].try_as_plain_ram().unwrap();
    let elements = elements.as_slice::<i32>().unwrap();
    let rows = crate::strings::Rows::new(&tensors[0], &tensors[1], elements.len()).unwrap();
    rows.iter().map(|row| elements[row].to_vec()).collect()
}

fn inputs<const N: usize>(
    parameters: [Input; N],
    constants: impl IntoIterator<Item = Input>,
) -> Vec<Input> {
    parameters.into_iter().chain(constants).collect()
}

#[track_caller]
fn fails<T>(result: TractResult<T>, expected: &str) {
    let error = result.err().map_or_else(String::new, |error| format!("{error:#}"));
    assert!(error.contains(expected), "{expected:?} is not in {error:?}");
}

fn bpe(attributes: &str) -> Model {
    let vocabulary = constant(&[b"a", b"b", b"c", b"ab", b"abc", b"bc", b"<0x64>", b"?"]);
    let (left, right) = (constant(&[b"b", b"a", b"a"]), constant(&[b"c", b"b", b"bc"]));
    Model::new("BPETokenizer", attributes, &inputs(ROWS, [vocabulary, left, right].concat()), 3)
}

#[test]
fn byte_pairs() -> TractResult<()> {
    let texts = rows(&[&[b"abc", b"ab"], &[], &[b"cab", b"adb", b"", b"e"]]);
    // What is in no token is left out, so that its neighbours are merged.
    assert_eq!(tokens(&bpe("").run(&texts)?), [vec![4, 3], vec![], vec![2, 3, 3]]);
    let attributes = "unk_token=\"?\" byte_fallback=\"true\"";
    assert_eq!(tokens(&bpe(attributes).run(&texts)?), [vec![4, 3], vec![], vec![2, 3, 0, 6, 1, 7]]);
    let attributes = "end_suffix=\"c\"";
    assert_eq!(tokens(&bpe(attributes).run(&texts)?)[0], [4, 2, 4]);
    Ok(())
}

#[test]
fn merges_as_strings() -> TractResult<()> {
    let vocabulary = constant(&[b"a", b"b", b"ab"]);
    let of = |merges: &[&[u8]]| {
        let inputs = inputs(ROWS, [vocabulary.clone(), constant(merges)].concat());
        Model::new("BPETokenizer", "", &inputs, 3).run(&rows(&[&[b"aab"]]))
    };
    assert_eq!(tokens(&of(&[b"a b"])?), [[0, 2]]);
    fails(of(&[b"b a"]), "merge 0 has the token \"ba\", which is not in the vocabulary");
    Ok(())
}

/// In time that is no more than a little above linear.
#[test]
fn a_long_piece() -> TractResult<()> {
    let texts = rows(&[&[&b"abc".repeat(100_000)]]);
    assert_eq!(tokens(&bpe("").run(&texts)?)[0], vec![4; 100_000]);
    Ok(())
}

#[test]
fn pieces_of_words() -> TractResult<()> {
    let constants =
        [constant(&[b"[UNK]", b"un", b"##aff", b"##able", b"a"]), vec![Scalar(0)]].concat();
    let model =
        Model::new("WordpieceTokenizer", "max_bytes_per_word=\"9\"", &inputs(ROWS, constants), 3);
    let texts = rows(&[&[b"unaffable", b"unaffables", b"ab", b"a", b"unable", b""]]);
    assert_eq!(tokens(&model.run(&texts)?), [[1, 2, 3, 0, 0, 4, 1, 3, 0]]);
    Ok(())
}

#[test]
fn unigrams() -> TractResult<()> {
    let vocabulary = constant(&[b"<unk>", b"a", b"b", b"ab", b"aba"]);
    let constants = [vocabulary, vec![F32(vec![0., -1., -1., -1.5, -4.])]].concat();
    let model = Model::new("UnigramTokenizer", "unk_token_id=\"0\"", &inputs(ROWS, constants), 3);
    let texts = rows(&[&["aba".as_bytes(), "b€€a".as_bytes(), b"", b"a\xe2"]]);
    assert_eq!(tokens(&model.run(&texts)?), [[3, 1, 2, 0, 1, 1, 0]]);
    Ok(())
}

#[test]
fn the_longest_token() -> TractResult<()> {
    let constants = [constant(&[b"a", b"ab", b"b"]), vec![I32(vec![7, 8, 9])]].concat();
    let model = Model::new("TrieTokenizer", "", &inputs(ROWS, constants), 3);
    assert_eq!(tokens(&model.run(&rows(&[&[b"aabb"], &[b"b"]]))?), [vec![7, 8, 9], vec![9]]);
    fails(model.run(&rows(&[&[b"ac"]])), "no token for byte 0x63 at position 1");
    Ok(())
}

#[test]
fn splits() -> TractResult<()> {
    let of = |attributes: &str, text: &str| -> TractResult<Vec<String>> {
        let model = Model::new("RegexSplit", attributes, &inputs(ROWS, [Text("-+")]), 5);
        Ok(texts(&model.run(&rows(&[&[text.as_bytes()]]))?[2..]))
    };
    assert_eq!(of("behaviour=\"remove\"", "a--b-c-")?, ["a", "b", "c"]);
    assert_eq!(of("behaviour=\"isolate\"", "a--b")?, ["a", "--", "b"]);
    assert_eq!(of("behaviour=\"remove\" invert=\"true\"", "a--b-")?, ["--", "-"]);
    assert_eq!(of("behaviour=\"mergedwithnext\"", "a--b-c-")?, ["a", "--b", "-c", "-"]);
    assert_eq!(of("behaviour=\"mergedwithprevious\"", "a--b-c")?, ["a--", "b-", "c"]);
    assert_eq!(of("behaviour=\"remove\" max_splits=\"1\"", "a-b-c")?, ["a", "b-c", "c"]);
    fails(of("behaviour=\"other\"", "a"), "attribute behaviour is \"other\", but must be one of");
    fails(of("max_splits=\"0\"", "a"), "attribute max_splits is 0");
    Ok(())
}

#[test]
fn special_tokens() -> TractResult<()> {
    let model =
        Model::new("SpecialTokensSplit", "", &inputs(ROWS, [Text(r"(<s>)|(?:\s*)(<m>)")]), 6);
    let found = model.run(&rows(&[&[b"a<s>b  <m> c"], &[b""]]))?;
    assert_eq!(texts(&found[2..]), ["a", "<s>", "b", "<m>", " c"]);
    assert_eq!(found[5], tensor1(&[false, true, false, true, false]));
    assert_eq!((&found[0], &found[1]), (&tensor1(&[0, 5]), &tensor1(&[5, 5])));
    Ok(())
}

#[test]
fn replacements() -> TractResult<()> {
    let of = |attributes: &str, pattern: &'static str, by: &'static str, text: &[u8]| {
        let model = Model::new(
            "RegexNormalization",
            attributes,
            &inputs(STRINGS, [Text(pattern), Text(by)]),
            3,
        );
        let found = model.run(&strings(&[text]))?;
        TractResult::Ok(found[2].try_as_plain_ram()?.as_slice::<u8>()?.to_vec())
    };
    assert_eq!(of("", " ", "_", b"a b c")?, b"a_b_c");
    assert_eq!(of("global_replace=\"false\"", " ", "_", b"a b c")?, b"a_b c");
    assert_eq!(of("", r"(a)(x)?", "$2$1", b"axa")?, b"axa");
    assert_eq!(of("", r"(^)(.)", r"_\2", b"\nab")?, b"_\nab");
    assert_eq!(of("", r"x*", "-", b"axb")?, b"-a--b-");
    assert_eq!(of("", "b", "c", b"b\xff\xf0b")?, b"c\xff\xf0c");
    fails(of("", "(a)", "$2", b"a"), "the replacement has group 2");
    fails(of("", "(a", "", b"a"), "in the regular expression \"(a\"");
    Ok(())
}

#[test]
fn combined_truncated_and_padded() -> TractResult<()> {
    let rows_of_tokens = [tensor1(&[0, 2]), tensor1(&[2, 5]), tensor1(&[1, 2, 3, 4, 5])];
    let parameters = || [Parameter("i32", "?"), Parameter("i32", "?"), Parameter("i32", "?")];
    let special = [Scalar(0), Scalar(1), I32(vec![9])];
    let all = special.into_iter().chain(parameters()).chain([I32(vec![7, 8])]).collect::<Vec<_>>();
    let combined = Model::new("CombineSegments", "", &all, 6).run(&rows_of_tokens)?;
    assert_eq!(tokens(&combined), [vec![9, 1, 2], vec![9, 3, 4, 5]]);
    assert_eq!(tokens(&combined[3..]), [vec![7, 8, 8], vec![7, 8, 8, 8]]);

    let truncated = |side: &'static str, most: i32| {
        let all = inputs(parameters(), [Scalar(most), Text(side), Text("longest_first")]);
        Model::new("Truncate", "", &all, 3).run(&rows_of_tokens)
    };
    assert_eq!(tokens(&truncated("right", 2)?), [[1, 2], [3, 4]]);
    assert_eq!(tokens(&truncated("left", 2)?), [[1, 2], [4, 5]]);
    fails(truncated("right", -1), "max_length is less than 0");
    fails(truncated("up", 1), "trunc_side is \"up\"");

    let dense = |attributes: &str, length: i32| {
        Model::new(
            "RaggedToDense",
            attributes,
            &inputs(parameters(), [Scalar(length), Scalar(0)]),
            2,
        )
        .run(&rows_of_tokens)
    };
    let found = dense("", 3)?;
    assert_eq!(found[0], tensor2(&[[1, 2, 0], [3, 4, 5]]));
    assert_eq!(found[1], tensor2(&[[true, true, false], [true; 3]]));
    assert_eq!(dense("pad_right=\"false\"", 4)?[0], tensor2(&[[0, 0, 1, 2], [0, 3, 4, 5]]));
    assert_eq!(dense("", 1)?[0], tensor2(&[[1], [3]]));
    fails(dense("m_pad_max_length=\"true\"", 4), "row 1 begins at 2");
    Ok(())
}

#[test]
fn pairs_that_are_too_long() -> TractResult<()> {
    let parameters = || (0..6).map(|_| Parameter("i32", "?"));
    let of = |first: i32, second: i32, most: i32, mode: &'static str| -> TractResult<[usize; 2]> {
        let all: Vec<Input> =
            parameters().chain([Scalar(most), Text("right"), Text(mode)]).collect();
        let row = |len: i32| [tensor1(&[0]), tensor1(&[len]), tensor1(&vec![0; len as usize])];
        let found = Model::new("Truncate", "", &all, 6).run(&[row(first), row(second)].concat())?;
        Ok([tokens(&found)[0].len(), tokens(&found[3..])[0].len()])
    };
    assert_eq!(of(9, 2, 10, "longest_first")?, [8, 2]);
    assert_eq!(of(2, 9, 10, "longest_first")?, [2, 8]);
    assert_eq!(of(8, 9, 7, "longest_first")?, [3, 4]);
    assert_eq!(of(9, 8, 7, "longest_first")?, [4, 3]);
    assert_eq!(of(9, 8, 7, "only_first")?, [7, 8]);
    assert_eq!(of(9, 8, 7, "only_second")?, [9, 7]);
    assert_eq!(of(3, 4, 7, "only_second")?, [3, 4]);
    Ok(())
}

#[test]
fn numbers_and_their_tokens() -> TractResult<()> {
    let vocabulary = constant(&[b"a", b"<s>", "é".as_bytes()]);
    let all = [vec![Parameter("i32", "?,?")], vocabulary.clone(), vec![I32(vec![1])]].concat();
    let decoder = Model::new("VocabDecoder", "", &all, 5);
    let found = decoder.run(&[tensor2(&[[0, 1, 2], [-1, 3, 0]])])?;
    assert_eq!(texts(&found[2..]), ["a", "", "é", "", "", "a"]);
    assert_eq!(found[1], tensor1(&[3, 6]));
    let found = decoder.run(&[Tensor::zero::<i32>(&[2, 0])?])?;
    assert_eq!(texts(&found[2..]), ["", ""]);
    let all = [STRINGS.to_vec(), vocabulary, vec![I32(vec![5, 6, 7]), Scalar(-1)]].concat();
    let found =
        Model::new("VocabEncoder", "", &all, 1).run(&strings(&["é".as_bytes(), b"b", b"a"]))?;
    assert_eq!(found[0], tensor1(&[7, -1, 5]));
    Ok(())
}

#[test]
fn bytes_characters_and_rows() -> TractResult<()> {
    let found = Model::new("BytesToChars", "", &ROWS, 5).run(&rows(&[&[b"a b", b"\xff\n"]]))?;
    assert_eq!(texts(&found[2..]), ["aĠb", "ÿĊ"]);
    let back = Model::new("CharsToBytes", "", &ROWS, 3).run(&found)?;
    assert_eq!(back[2], tensor1(b"a b\xff\n"));
    assert_eq!(back[1], tensor1(&[5]));
    fails(
        Model::new("CharsToBytes", "", &ROWS, 3).run(&rows(&[&["€".as_bytes()]])),
        "stands for no byte",
    );
    let found =
        Model::new("ByteFallback", "", &STRINGS, 3).run(&strings(&[b"<0x41>", b"<mask>", b"x"]))?;
    assert_eq!(texts(&found), ["A", "<mask>", "x"]);
    let found = Model::new("FuzeRagged", "", &ROWS[..4], 2)
        .run(&rows(&[&[b"ab", b"c"], &[], &[b"d"]])[..4])?;
    assert_eq!((&found[0], &found[1]), (&tensor1(&[0, 3, 3]), &tensor1(&[3, 3, 4])));
    let validate = Model::new("UTF8Validate", "replace_mode=\"true\"", &STRINGS, 3);
    assert_eq!(texts(&validate.run(&strings(&[b"a\xff", b"b"]))?), ["a\u{fffd}", "b"]);
    Ok(())
}

#[test]
fn other_forms_of_rows() -> TractResult<()> {
    let parameters = [Parameter("i32", "?"), Parameter("i32", "?")];
    let found = Model::new("RaggedToSparse", "", &parameters, 1)
        .run(&[tensor1(&[0, 2, 2]), tensor1(&[2, 2, 3])])?;
    assert_eq!(found[0], tensor2(&[[0, 0], [0, 1], [2, 0]]));
    let model = Model::new("RaggedToRagged", "", &[Parameter("i32", "?"), Scalar(4)], 2);
    let found = model.run(&[tensor1(&[0, 0, 2, 5])])?;
    assert_eq!((&found[0], &found[1]), (&tensor1(&[0, 2, 2, 3]), &tensor1(&[2, 2, 3, 3])));
    fails(model.run(&[tensor1(&[1, 0])]), "rowids[1] is 0");
    Ok(())
}

#[test]
fn arrays_of_strings() -> TractResult<()> {
    let two = [STRINGS.to_vec(), constant(&[b"a"])].concat();
    let found = Model::new("EqualStr", "", &two, 1).run(&strings(&[b"a", b"b", b"a"]))?;
    assert_eq!(found[0], tensor1(&[1, 0, 1]));
    let join = Model::new("ContribStringJoin", "", &inputs(STRINGS, [Text(", "), Scalar(0)]), 3);
    assert_eq!(texts(&join.run(&strings(&[b"a", b"", b"c"]))?), ["a, , c"]);
    let hash = Model::new("StringToHashBucket", "num_buckets=\"1000\"", &STRINGS, 1);
    let lengths: Vec<Vec<u8>> =
        [0, 2, 5, 9, 20, 40, 100].iter().map(|len| vec![b'x'; *len]).collect();
    let found = hash.run(&strings(&lengths.iter().map(|it| &**it).collect::<Vec<_>>()))?;
    let buckets = found[0].try_as_plain_ram()?;
    assert!(buckets.as_slice::<i64>()?.iter().all(|bucket| (0..1000).contains(bucket)));
    let numbers = Model::new("NumericToString", "", &[Parameter("f32", "?")], 1);
    let found = numbers.run(&[tensor1(&[1.5f32, 1e7])])?;
    assert_eq!(found[0], tensor1(&["1.5".to_string(), "1e+07".to_string()]));
    Ok(())
}

#[test]
fn what_is_refused() {
    let run = |operation: &str| Model::new(operation, "", &STRINGS, 3).run(&strings(&[b"a"]));
    fails(run("SentencepieceTokenizer"), "use_sentencepiece_backend");
    fails(run("BPETokenizer"), "the number of inputs is 3, but must be one of [11, 14, 15, 18]");
    fails(run("NormalizeUnicode2"), "NormalizeUnicode2");
}

/// Rows that are none are errors.
#[test]
fn ranges_out_of_range() {
    let mut texts = rows(&[&[b"ab"]]);
    texts[1] = tensor1(&[2]);
    fails(bpe("").run(&texts), "rows[0] is 0..2, but must be a range within the 1 elements");
    let mut texts = rows(&[&[b"ab"]]);
    texts[3] = tensor1(&[3]);
    fails(bpe("").run(&texts), "strings[0] is 0..3, but must be a range within the 2 bytes");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    /// Whatever the bytes are, there is an answer.
    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        let pieces = rows(&[&[&bytes, b"a"], &[&bytes]]);
        bpe("byte_fallback=\"true\"").run(&pieces).unwrap();
        for pattern in [r"\s+(?!\S)|\s+", "(?=a)a|[^a]", "."] {
            let isolated = Model::new("RegexSplit", "behaviour=\"isolate\"", &inputs(ROWS, [Text(pattern)]), 5);
            isolated.run(&pieces).unwrap();
        }
        let strings = strings(&[&bytes]);
        for attributes in ["normalization_form=\"nfkc\" case_fold=\"true\"", "normalization_form=\"nfc\" escape_whitespaces=\"true\""] {
            Model::new("CharsMapNormalization", attributes, &STRINGS, 3).run(&strings).unwrap();
        }
        let validated = Model::new("UTF8Validate", "replace_mode=\"true\"", &STRINGS, 3).run(&strings).unwrap();
        let found = texts(&validated);
        proptest::prop_assert_eq!(found.len(), 1);
    }
}
