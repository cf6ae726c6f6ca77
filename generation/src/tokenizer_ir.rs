//! Tokenizers as models of their own: `openvino_tokenizer.xml` and `openvino_detokenizer.xml`, which openvino_tokenizers writes.

use std::sync::OnceLock;

use tract_core::internal::*;
use tract_openvino_ir::{Ir, IrProtoModel, ir};
use tract_openvino_kernels::{KernelsRunnable, KernelsTransform};
use tract_openvino_tokenizers::{Options, register_with};

use crate::files::Files;
use crate::tokenize::Tokenize;

/// The file of the tokenizer, and that of the detokenizer.
const FILES: [&str; 2] = ["openvino_tokenizer.xml", "openvino_detokenizer.xml"];

/// Whether a model's files have them.
pub(crate) fn are_in(files: &Files) -> bool {
    FILES.iter().all(|name| files.has(name))
}

/// A tokenizer and a detokenizer.
#[derive(Debug)]
pub(crate) struct IrTokenizer {
    /// With special tokens around a text: true.
    tokenizer: Variants,
    /// With the texts of special tokens: true.
    detokenizer: Variants,
}

/// A model with special tokens and without, each of which is read when it is needed first.
#[derive(Debug)]
struct Variants {
    proto: IrProtoModel,
    /// Where it is, for errors.
    place: String,
    with: OnceLock<Result<Variant, String>>,
    without: OnceLock<Result<Variant, String>>,
}

#[derive(Debug)]
struct Variant {
    model: KernelsRunnable,
    /// The name of each output.
    outputs: Vec<String>,
}

/// The reader of models with special tokens, or without them. A tokenizer looks at the first option alone, a detokenizer at the second
/// one.
fn reader(special: bool) -> Ir {
    let mut ir = ir();
    let options = Options { add_special_tokens: special, skip_special_tokens: !special };
    register_with(ir.registry_mut(), options);
    ir
}

impl Variants {
    fn new(files: &Files, name: &str) -> TractResult<Variants> {
        let place = files.place_of(name);
        let proto = files.ir_model(&reader(false), name);
        let proto = proto.with_context(|| format!("reading {place}"))?;
        let variants = Variants { proto, place, with: OnceLock::new(), without: OnceLock::new() };
        variants.get(false)?;
        Ok(variants)
    }

    /// The model with special tokens, or without them.
    fn get(&self, special: bool) -> TractResult<&Variant> {
        let place = if special { &self.with } else { &self.without };
        let variant =
            place.get_or_init(|| self.read(special).map_err(|error| format!("{error:#}")));
        variant.as_ref().map_err(|error| format_err!("reading {}: {error}", self.place))
    }

    fn read(&self, special: bool) -> TractResult<Variant> {
        let model = reader(special).model_for_proto_model(&self.proto)?;
        ensure!(
            model.inputs.len() == 1,
            "it has {} inputs, but must have one: that of the texts, or of the tokens",
            model.inputs.len()
        );
        ensure!(!model.outputs.is_empty(), "it has no outputs");
        let name = |outlet: &OutletId| model.outlet_label(*outlet).unwrap_or_default().to_string();
        let outputs = model.outputs.iter().map(name).collect();
        let model = KernelsTransform::default().runnable(model)?;
        Ok(Variant { model, outputs })
    }
}

impl Variant {
    /// The outputs for an input.
    fn run(&self, input: Tensor) -> TractResult<TVec<TValue>> {
        self.model.run(tvec!(input.into()))
    }

    /// The number of the output of this name.
    fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|output| output == name)
    }
}

impl IrTokenizer {
    /// The tokenizer of a model's files.
    pub(crate) fn read(files: &Files) -> TractResult<IrTokenizer> {
        let [tokenizer, detokenizer] = FILES;
        Ok(IrTokenizer {
            tokenizer: Variants::new(files, tokenizer)?,
            detokenizer: Variants::new(files, detokenizer)?,
        })
    }

    /// The token whose text alone this is, if there is one.
    fn single(&self, text: &str) -> TractResult<Option<u32>> {
        let &[token] = &*self.encode(text, false)? else { return Ok(None) };
        Ok((self.decode(&[token], false)? == text).then_some(token))
    }
}

impl Tokenize for IrTokenizer {
    fn encode(&self, text: &str, special: bool) -> TractResult<Vec<u32>> {
        let variant = self.tokenizer.get(special)?;
        let outputs = variant.run(tensor1(&[text.to_string()]))?;
        let integers = |output: usize| -> TractResult<Vec<i64>> {
            let numbers = outputs[output].cast_to::<i64>()?;
            Ok(numbers.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
        };
        let tokens = integers(variant.output("input_ids").unwrap_or(0))?;
        // Some pad to a length of their own.
        let mask = match variant.output("attention_mask") {
            Some(output) => integers(output)?,
            None => vec![1; tokens.len()],
        };
        let tokens = tokens.into_iter().zip(mask).filter(|(_, mask)| *mask != 0);
        let tokens = tokens.map(|(token, _)| {
            let number = u32::try_from(token).ok();
            number.with_context(|| format!("the tokenizer gives {token}, which is no token"))
        });
        tokens.collect()
    }

    fn decode(&self, tokens: &[u32], skip_special_tokens: bool) -> TractResult<String> {
        if tokens.is_empty() {
            return Ok(String::new());
        }
        let variant = self.detokenizer.get(!skip_special_tokens)?;
        let tokens: Vec<i64> = tokens.iter().map(|token| i64::from(*token)).collect();
        let tokens = tensor1(&tokens).into_shape(&[1, tokens.len()])?;
        let outputs = variant.run(tokens)?;
        let texts = outputs[variant.output("string_output").unwrap_or(0)].try_as_plain_ram()?;
        texts.as_slice::<String>()?.first().cloned().context("the detokenizer gives no text")
    }

    fn token(&self, text: &str) -> Option<u32> {
        self.single(text).ok().flatten()
    }

    fn special_token(&self, text: &str) -> Option<u32> {
        let token = self.token(text)?;
        let is_left_out = self.decode(&[token], true).is_ok_and(|text| text.is_empty());
        (is_left_out && !text.is_empty()).then_some(token)
    }
}

#[cfg(all(test, feature = "tokenizer-json"))]
mod tests {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::{TextGenerator, TextTokenizer};

    /// The tokenizer of `models/tiny` as openvino_tokenizers converts it.
    const CONVERTED: &str = "../tokenizers/tests/cases/tiny";

    /// A folder with files of others.
    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (from, names) in files {
            for name in names.split(' ') {
                fs::copy(Path::new(from).join(name), folder.path().join(name)).unwrap();
            }
        }
        folder
    }

    const MODELS: &str = "openvino_tokenizer.xml openvino_tokenizer.bin openvino_detokenizer.xml openvino_detokenizer.bin";

    #[test]
    fn both_kinds_do_the_same() -> TractResult<()> {
        let folder = folder(&[(CONVERTED, MODELS)]);
        let converted = TextTokenizer::from_folder(&folder)?;
        let json = TextTokenizer::from_folder("models/tiny")?;
        for text in [
            "",
            "hell 🦀é",
            "<|im_start|>user\nHello! <|im_end|>",
            "  a\t\u{1}b\r\n\n",
            "<|im_start|><|im_start|>x<|im_end|",
        ] {
            for special in [false, true] {
                assert_eq!(
                    converted.encode(text, special)?,
                    json.encode(text, special)?,
                    "{text:?}"
                );
            }
            let tokens = json.encode(text, false)?;
            for skip in [false, true] {
                let streamed = |tokenizer: &TextTokenizer| -> TractResult<Vec<String>> {
                    let mut stream = tokenizer.stream().with_skip_special_tokens(skip);
                    let pieces = tokens.iter().map(|token| stream.push(*token));
                    let mut pieces = pieces.collect::<TractResult<Vec<String>>>()?;
                    pieces.push(stream.finish()?);
                    Ok(pieces)
                };
                assert_eq!(streamed(&converted)?, streamed(&json)?, "{text:?}");
            }
            assert_eq!(converted.decode(&tokens)?, json.decode(&tokens)?);
        }
        // Half a character.
        let tokens = json.encode("é", false)?;
        assert_eq!(converted.decode(&tokens[..1])?, "\u{FFFD}");
        for text in ["<|im_end|>", "<|im_start|>", "e", "ee", "", "<|im_end|>e"] {
            assert_eq!(converted.token(text), json.token(text), "{text:?}");
            assert_eq!(converted.special_token(text), json.special_token(text), "{text:?}");
        }
        Ok(())
    }

    #[test]
    fn texts_without_tokenizer_json() -> TractResult<()> {
        const MODEL: &str = "openvino_model.xml openvino_model.bin config.json generation_config.json \
             chat_template.jinja tokenizer_config.json";
        let folder = folder(&[("models/tiny", MODEL), (CONVERTED, MODELS)]);
        let texts = |generator: TextGenerator| -> TractResult<[String; 2]> {
            let config = generator.config().clone().with_max_new_tokens(30);
            let on_text = |_: &str| std::ops::ControlFlow::Continue(());
            let answer =
                generator.chat()?.answer(&[crate::Message::user("Hello!")], &config, on_text)?;
            Ok([generator.generate("Hello", &config, on_text)?.text, answer.text])
        };
        let expected = texts(TextGenerator::from_folder_exact("models/tiny")?)?;
        assert_eq!(texts(TextGenerator::from_folder_exact(&folder)?)?, expected);
        Ok(())
    }

    /// As with operations that are not supported.
    #[test]
    fn models_that_cannot_be_read() -> TractResult<()> {
        let folder = folder(&[(CONVERTED, MODELS), ("models/tiny", "tokenizer.json")]);
        let file = folder.path().join("openvino_tokenizer.xml");
        let xml = fs::read_to_string(&file)?;
        assert!(xml.contains("BPETokenizer"));
        fs::write(&file, xml.replace("BPETokenizer", "WhateverTokenizer"))?;
        assert_eq!(TextTokenizer::from_folder(&folder)?.encode("ab", false)?.len(), 2);
        fs::remove_file(folder.path().join("tokenizer.json"))?;
        let error = format!("{:#}", TextTokenizer::from_folder(&folder).unwrap_err());
        assert!(
            error.contains("openvino_tokenizer.xml") && error.contains("WhateverTokenizer"),
            "{error}"
        );
        Ok(())
    }
}
