//! Text as tokens, and tokens as text, piece by piece.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tract_core::internal::*;

use crate::files::Files;
use crate::tokenize::Tokenize;
#[cfg(feature = "tokenizer-ir")]
use crate::tokenizer_ir;
#[cfg(feature = "tokenizer-json")]
use crate::tokenizer_json;

/// The tokenizer of a model. A clone shares it.
#[derive(Debug, Clone)]
pub struct TextTokenizer(Arc<dyn Tokenize>);

impl TextTokenizer {
    /// The tokenizer of a folder: `openvino_tokenizer.xml` with `openvino_detokenizer.xml`, as openvino_tokenizers writes them, or
    /// `tokenizer.json` of Hugging Face where these are not there, or have operations that are not supported. The features
    /// `tokenizer-ir` and `tokenizer-json`, which are on by default, say which of them are read.
    ///
    /// # Errors
    ///
    /// The files are missing, or are no tokenizer.
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<TextTokenizer> {
        TextTokenizer::from_files(&Files::folder(folder.as_ref()))
    }

    /// The tokenizer of a model's files.
    pub(crate) fn from_files(files: &Files) -> TractResult<TextTokenizer> {
        const JSON: &str = "tokenizer.json";
        #[cfg(feature = "tokenizer-ir")]
        if tokenizer_ir::are_in(files) {
            match tokenizer_ir::IrTokenizer::read(files) {
                Ok(tokenizer) => return Ok(TextTokenizer(Arc::new(tokenizer))),
                Err(_) if cfg!(feature = "tokenizer-json") && files.has(JSON) => (),
                Err(error) => return Err(error),
            }
        }
        #[cfg(feature = "tokenizer-json")]
        {
            tokenizer_json::read(files, JSON).map(TextTokenizer::new)
        }
        #[cfg(not(feature = "tokenizer-json"))]
        bail!(
            "{} has no tokenizer that this program reads: {JSON} needs the feature tokenizer-json, openvino_tokenizer.xml with \
             openvino_detokenizer.xml tokenizer-ir",
            files.place()
        )
    }

    /// A tokenizer of Hugging Face that was read or made elsewhere. It neither pads nor truncates from now on.
    #[cfg(feature = "tokenizer-json")]
    pub fn new(tokenizer: tokenizers::Tokenizer) -> TextTokenizer {
        TextTokenizer(Arc::new(tokenizer_json::plain(tokenizer)))
    }

    /// The tokens of a text. `special` adds those that the tokenizer puts around a text, such as one for its beginning; a chat
    /// template has them already. The texts of special tokens are these tokens in any case.
    ///
    /// # Errors
    ///
    /// The tokenizer has no token for a part of the text.
    pub fn encode(&self, text: &str, special: bool) -> TractResult<Vec<u32>> {
        self.0.encode(text, special).context("dividing a text into tokens")
    }

    /// The text of tokens, without special ones. Bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// The tokenizer cannot put these tokens together.
    pub fn decode(&self, tokens: &[u32]) -> TractResult<String> {
        self.decode_with(tokens, true)
    }

    /// The text of tokens, with or without special ones.
    fn decode_with(&self, tokens: &[u32], skip_special_tokens: bool) -> TractResult<String> {
        self.0.decode(tokens, skip_special_tokens).context("putting tokens together")
    }

    /// The special token that has exactly this text, if there is one. [`decode`](Self::decode) leaves it out.
    pub fn special_token(&self, text: &str) -> Option<u32> {
        self.0.special_token(text)
    }

    /// The token of this text, special or not: as the vocabulary of `tokenizer.json` has it, or as `openvino_detokenizer.xml` writes
    /// it.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.0.token(text)
    }

    /// The text of tokens that come one by one.
    pub fn stream(&self) -> TextStream<'_> {
        self.stream_after(&[])
    }

    /// The text of tokens that come one by one after others, whose text is not repeated. Some tokenizers leave out the space of a
    /// word where a text begins: here it does not begin.
    pub fn stream_after(&self, tokens: &[u32]) -> TextStream<'_> {
        TextStream { tokenizer: self, pieces: Pieces::after(tokens, true) }
    }
}

/// The special tokens of a model's files, by their names in transformers. A text that is `None` is one of which a file says that there is
/// no such token.
///
/// # Errors
///
/// A file cannot be read, or a token in it has no text.
pub(crate) fn special_tokens(files: &Files) -> TractResult<BTreeMap<&'static str, Option<String>>> {
    const NAMES: [&str; 7] = [
        "bos_token",
        "eos_token",
        "unk_token",
        "sep_token",
        "pad_token",
        "cls_token",
        "mask_token",
    ];
    let mut tokens = BTreeMap::new();
    // The second one is that of older versions.
    for file in ["tokenizer_config.json", "special_tokens_map.json"] {
        let values: Map<String, Value> = files.json(file)?.unwrap_or_default();
        for name in NAMES {
            let Some(value) = values.get(name) else { continue };
            let text = match (value, value.get("content")) {
                (Value::Null, _) => None,
                (Value::String(text), _) | (_, Some(Value::String(text))) => Some(text.clone()),
                _ => bail!(
                    "in {}, {name} is {value}, but must be a text, or have its text as content",
                    files.place_of(file)
                ),
            };
            let known = tokens.entry(name).or_insert(None);
            *known = known.take().or(text);
        }
    }
    Ok(tokens)
}

/// The text of tokens that come one by one, in whole characters. All pieces together are what [`TextTokenizer::decode`] gives.
#[derive(Debug, Clone)]
pub struct TextStream<'a> {
    tokenizer: &'a TextTokenizer,
    pieces: Pieces,
}

impl TextStream<'_> {
    /// The stream with the texts of special tokens, or without them, as it is at first.
    pub fn with_skip_special_tokens(mut self, skip_special_tokens: bool) -> Self {
        self.pieces.skip_special_tokens = skip_special_tokens;
        self
    }

    /// The text that is complete with this token. It is empty if the token ends within a character: then the rest of the
    /// character brings the whole of it.
    ///
    /// # Errors
    ///
    /// The tokenizer cannot put these tokens together.
    pub fn push(&mut self, token: u32) -> TractResult<String> {
        self.pieces.push(self.tokenizer, token)
    }

    /// The rest of the text, if no token comes any more: U+FFFD for half a character.
    ///
    /// # Errors
    ///
    /// The tokenizer cannot put these tokens together.
    pub fn finish(&mut self) -> TractResult<String> {
        self.pieces.finish(self.tokenizer)
    }
}

/// What a [`TextStream`] knows, without its tokenizer.
#[derive(Debug, Clone)]
pub(crate) struct Pieces {
    tokens: Vec<u32>,
    skip_special_tokens: bool,
    /// The first token that is decoded again. What is before it does not change the text any more; what is from here to
    /// `decoded` may, as some tokenizers leave out a space where a text begins.
    context: usize,
    /// The first token whose text has not come yet.
    decoded: usize,
}

impl Pieces {
    /// After other tokens.
    pub(crate) fn after(tokens: &[u32], skip_special_tokens: bool) -> Pieces {
        Pieces { tokens: tokens.to_vec(), skip_special_tokens, context: 0, decoded: tokens.len() }
    }

    /// [`TextStream::push`].
    pub(crate) fn push(&mut self, tokenizer: &TextTokenizer, token: u32) -> TractResult<String> {
        self.tokens.push(token);
        let piece = self.rest(tokenizer)?;
        if piece.is_empty() || piece.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        (self.context, self.decoded) = (self.decoded, self.tokens.len());
        Ok(piece)
    }

    /// [`TextStream::finish`].
    pub(crate) fn finish(&mut self, tokenizer: &TextTokenizer) -> TractResult<String> {
        let piece = self.rest(tokenizer)?;
        (self.context, self.decoded) = (self.decoded, self.tokens.len());
        Ok(piece)
    }

    /// The text of the tokens that have not come yet.
    fn rest(&self, tokenizer: &TextTokenizer) -> TractResult<String> {
        let decode = |end: usize| {
            let tokens = &self.tokens[self.context..end];
            tokenizer.decode_with(tokens, self.skip_special_tokens)
        };
        let (before, mut text) = (decode(self.decoded)?, decode(self.tokens.len())?);
        // A decoder that changes what has come, which those of language models do not, cannot take it back.
        let common = before.chars().zip(text.chars()).take_while(|(a, b)| a == b);
        let common = common.map(|(character, _)| character.len_utf8()).sum();
        Ok(text.split_off(common))
    }
}

#[cfg(all(test, feature = "tokenizer-json"))]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;

    use super::*;

    fn tokenizer(
        tokens: impl Iterator<Item = String>,
        merges: Value,
        rest: Value,
    ) -> TextTokenizer {
        let vocabulary: Map<String, Value> =
            tokens.zip(0..).map(|(token, id)| (token, id.into())).collect();
        let end = json!({
            "id": vocabulary.len(), "content": "<end>", "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        });
        let text = json!({
            "added_tokens": [end],
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
            "pre_tokenizer": rest["pre_tokenizer"],
            "decoder": rest["decoder"],
        });
        TextTokenizer::new(text.to_string().parse().unwrap())
    }

    /// A token for each byte, a few for several, and `<end>`, which is token 260.
    pub(crate) fn bytes() -> TextTokenizer {
        let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
        alphabet.sort();
        let letters = alphabet.iter().map(char::to_string);
        let merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "he")];
        let words = merges.iter().map(|(a, b)| format!("{a}{b}"));
        let level = json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
        });
        let rest = json!({"pre_tokenizer": level, "decoder": level});
        tokenizer(letters.chain(words), json!(merges), rest)
    }

    /// As that of Llama 2: a mark for each space, bytes of their own for what has no token, and no space at the beginning.
    pub(crate) fn pieces() -> TextTokenizer {
        let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
        let words = ["▁", "▁he", "llo", "▁you", "ä", "!"].map(String::from);
        let decoders = json!([
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]);
        let rest = json!({"decoder": {"type": "Sequence", "decoders": decoders}});
        tokenizer(bytes.chain(words), json!([]), rest)
    }

    fn streamed(tokenizer: &TextTokenizer, tokens: &[u32]) -> Vec<String> {
        let mut stream = tokenizer.stream();
        let mut pieces: Vec<String> =
            tokens.iter().map(|token| stream.push(*token).unwrap()).collect();
        pieces.push(stream.finish().unwrap());
        pieces
    }

    #[test]
    fn characters_of_several_tokens() -> TractResult<()> {
        let tokenizer = bytes();
        let tokens = tokenizer.encode("hell 🦀é<end>!", false)?;
        let pieces = streamed(&tokenizer, &tokens);
        assert_eq!(pieces, ["hell", " ", "", "", "", "🦀", "", "é", "", "!", ""]);
        assert_eq!(streamed(&tokenizer, &tokens[..4]), ["hell", " ", "", "", "\u{FFFD}"]);
        assert_eq!(tokenizer.token("<end>"), Some(260));
        Ok(())
    }

    #[test]
    fn texts_with_special_tokens() -> TractResult<()> {
        let tokenizer = bytes();
        let tokens = tokenizer.encode("hell<end>!", false)?;
        let mut stream = tokenizer.stream().with_skip_special_tokens(false);
        let pieces: TractResult<Vec<String>> = tokens.iter().map(|it| stream.push(*it)).collect();
        assert_eq!(pieces?, ["hell", "<end>", "!"]);
        assert_eq!(tokenizer.special_token("<end>"), Some(260));
        assert_eq!(
            (tokenizer.special_token("he"), tokenizer.special_token("<end>!")),
            (None, None)
        );
        Ok(())
    }

    #[test]
    fn spaces_of_words() {
        let tokenizer = pieces();
        let tokens = ["▁he", "llo", "<end>", "▁you", "<0xC3>", "<0xA4>"];
        let tokens = tokens.map(|text| tokenizer.token(text).unwrap());
        assert_eq!(streamed(&tokenizer, &tokens), ["he", "llo", "", " you", "", "ä", ""]);
        // After others, a word has its space.
        let mut stream = tokenizer.stream_after(&tokens[..3]);
        let pieces: Vec<String> = tokens[3..].iter().map(|it| stream.push(*it).unwrap()).collect();
        assert_eq!(pieces, [" you", "", "ä"]);
    }

    #[test]
    fn no_tokenizer() {
        let folder = tempfile::tempdir().unwrap();
        let error = || format!("{:#}", TextTokenizer::from_folder(&folder).unwrap_err());
        assert!(error().contains("tokenizer.json"), "{}", error());
        std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
        assert!(error().contains("tokenizer.json"), "{}", error());
    }

    #[test]
    fn special_tokens_of_both_files() -> TractResult<()> {
        let folder = tempfile::tempdir()?;
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        assert!(special_tokens(&Files::folder(folder.path()))?.is_empty());
        write(
            "tokenizer_config.json",
            r#"{"eos_token": "</s>", "pad_token": null, "unk_token": null}"#,
        )?;
        write(
            "special_tokens_map.json",
            r#"{"bos_token": {"content": "<s>"}, "eos_token": "<old>", "unk_token": "<unk>"}"#,
        )?;
        let tokens = special_tokens(&Files::folder(folder.path()))?;
        let text = |name: &str| tokens.get(name).map(|text| text.as_deref());
        assert_eq!(text("bos_token"), Some(Some("<s>")));
        assert_eq!(text("eos_token"), Some(Some("</s>")));
        assert_eq!(text("unk_token"), Some(Some("<unk>")));
        assert_eq!((text("pad_token"), text("sep_token")), (Some(None), None));
        write("tokenizer_config.json", r#"{"eos_token": 2}"#)?;
        let error = special_tokens(&Files::folder(folder.path())).unwrap_err().to_string();
        assert!(error.contains("tokenizer_config.json, eos_token is 2, but must be"), "{error}");
        Ok(())
    }

    proptest! {
        #[test]
        fn pieces_are_the_text(text in "[a-z hel🦀äé€]{0,20}") {
            let tokenizer = bytes();
            let pieces = streamed(&tokenizer, &tokenizer.encode(&text, false).unwrap());
            let is_whole = |piece: &String| !piece.contains(char::REPLACEMENT_CHARACTER);
            prop_assert!(pieces.iter().all(is_whole));
            prop_assert_eq!(pieces.concat(), text);
        }

        #[test]
        fn any_tokens(tokens in prop::collection::vec(0u32..261, 0..20)) {
            let tokenizer = bytes();
            let expected = tokenizer.decode(&tokens).unwrap();
            prop_assert_eq!(streamed(&tokenizer, &tokens).concat(), expected);
        }
    }
}
