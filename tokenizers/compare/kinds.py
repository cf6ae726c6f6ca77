"""Tokenizers of the kinds that models have, made on the spot, and what openvino_tokenizers converts them to."""

import contextlib
import io
import json
import os
import tempfile
from collections import Counter
from pathlib import Path

# One thread, so that ties are always decided in the same way.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import openvino as ov
import sentencepiece
import tiktoken
import transformers
from openvino_tokenizers import convert_tokenizer
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

transformers.utils.logging.set_verbosity_error()

# Sentences for training: of many scripts, with digits and punctuation.
SENTENCES = [line.replace("\\n", "\n") for line in """\
The river rises in the hills, and it doesn't reach the sea before May; they've measured 1,234.56 litres a second.
We're reading: what's written isn't always what you'd said. "Who's there?" she asked - nobody (at all) answered!
Le garçon a mangé une crêpe près de la forêt où naît l'été. Ça coûte 12,50 €.
Die Straße führt über Köln; größere Häuser gehören den Bürgern.
El niño comió piña mañana. ¿Cuántos años tienes? ¡Ninguno!
Річка тече до моря. Мы читаем книгу о погоде в ноябре 2024 года.
Το ποτάμι είναι βαθύ και ήσυχο. Πού πηγαίνει;
النهر عميق وهادئ، والمدينة قريبة من البحر.
הנהר עמוק ושקט והעיר קרובה לים.
नदी गहरी है और शहर समुद्र के पास है।
แม่น้ำลึกและเงียบสงบ เมืองอยู่ใกล้ทะเล
河很深也很安静，城市离大海不远。我们今天读书。
川は深くて静かです。カタカナとひらがなを読みます。
강은 깊고 조용하며 도시는 바다 가까이에 있습니다.
Sông sâu và yên tĩnh, thành phố ở gần biển.
ნაკადი ღრმაა. Գետը խորն է։ ወንዙ ጥልቅ ነው።
def area(width, height=2.0):\\n    return width * height  # metres\\n
if (x >= 0 && y[i] != null) { total += x * 0x1F; } else { print("none"); }
😀 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️ ✓ → ∑ ½ ² №
""".splitlines()]

# How GPT-2, Llama 3 and Qwen2 divide a text into words.
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")


def common(counts, most):
    """The most common ones, in one order."""
    return [it for it, _ in sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:most]]


def fast(tokenizer, **settings):
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)


def byte_level(texts, size, special, pre_tokenizer, normalizer=None, **model):
    """A BPE of bytes, trained."""
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def split(pattern):
    """Words as a regular expression says, as bytes."""
    isolated = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([isolated, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2(texts, size):
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = byte_level(texts, size, ["<|endoftext|>"], level)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return fast(tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>", pad_token="<|endoftext|>")


def llama3(texts, size):
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]
    tokenizer = byte_level(texts, size, special, split(LLAMA_3), ignore_merges=True)
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return fast(tokenizer, bos_token=special[0], eos_token=special[2], pad_token=special[1])


def qwen2(texts, size):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = byte_level(texts, size, special, split(QWEN_2), normalizers.NFC())
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False, special=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return fast(tokenizer, eos_token=special[2], pad_token=special[0])


def bert(texts, size, is_uncased):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=is_uncased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    # A trainer would take them in an order of its own.
    letters, pieces = Counter(), Counter()
    for text in texts:
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text)):
            for first in range(len(word)):
                mark = "##" if first else ""
                letters[mark + word[first]] += 1
                pieces.update(mark + word[first:last] for last in range(first + 2, min(first + 9, len(word) + 1)))
    tokens = [*special, *common(letters, size * 2 // 3)]
    tokens += common(pieces, size - len(tokens))
    tokenizer.model = models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return fast(tokenizer, model_input_names=inputs, model_max_length=512, **dict(zip(names, special)))


def pieces(texts, size, **settings):
    """A model of the library sentencepiece, trained."""
    with tempfile.TemporaryDirectory() as folder:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
            **settings,
        )
    found = sentencepiece_model_pb2.ModelProto()
    found.ParseFromString(model.getvalue())
    return found


def unigram(model, special, byte_fallback=False):
    """A model of sentencepiece with other tokens at its beginning."""
    ordinary = [(it.piece, it.score) for it in model.pieces if it.type == 1]
    vocabulary = [(text, 0.0) for text in special] + ordinary
    return Tokenizer(models.Unigram(vocabulary, special.index("<unk>"), byte_fallback))


def t5(texts, size):
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer = unigram(pieces(texts, size, model_type="unigram", normalization_rule_name="identity"), special)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens([*special, "<extra_id_0>", "<extra_id_1>"])
    return fast(tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def xlmr(texts, size, rules=None):
    """With the charsmap of sentencepiece's nmt_nfkc, or of other rules, which are lines of a source and a target."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"normalization_rule_name": "nmt_nfkc"}
        if rules:
            file = Path(folder) / "rules.tsv"
            file.write_text(rules)
            settings = {"normalization_rule_tsv": str(file)}
        model = pieces(texts, size, model_type="unigram", **settings)
    tokenizer = unigram(model, special)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, normalized=False)])
    return fast(tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", mask_token="<mask>")


def word_level(texts, size):
    special = ["[PAD]", "[UNK]", "[EOS]"]
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    return fast(tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]")


class Tiktoken(PreTrainedTokenizer):
    """A tokenizer of the library tiktoken, as models that came with one have it."""

    vocab_files_names = {"vocab_file": "tiny.tiktoken"}
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, encoding, **settings):
        self.encoder = encoding
        self.special = dict(encoding._special_tokens)
        super().__init__(**settings)

    @property
    def vocab_size(self):
        return self.encoder.n_vocab

    def get_vocab(self):
        return {**self.encoder._mergeable_ranks, **self.special}

    def _tokenize(self, text, **_):
        return [self.encoder.decode_single_token_bytes(token) for token in self.encoder.encode(text)]

    def _convert_token_to_id(self, token):
        return self.special.get(token, self.encoder._mergeable_ranks.get(token))

    def _convert_id_to_token(self, index):
        return self.encoder.decode_single_token_bytes(index)

    def save_vocabulary(self, *_, **__):
        return ()


def tiktoken_kind(texts, size):
    """Its ranks are those of a trained BPE of bytes."""
    tokenizer = byte_level(texts, size, [], split(QWEN_2))
    as_byte = {letter: byte for byte, letter in enumerate_bytes()}
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda it: it[1])
    ranks = {bytes(as_byte[letter] for letter in token): rank for rank, (token, _) in enumerate(vocabulary)}
    special = {"<|endoftext|>": len(ranks), "<|fim|>": len(ranks) + 1}
    encoding = tiktoken.Encoding("tiny", pat_str=QWEN_2, mergeable_ranks=ranks, special_tokens=special)
    return Tiktoken(encoding, eos_token="<|endoftext|>", pad_token="<|endoftext|>", extra_special_tokens=["<|fim|>"])


def enumerate_bytes():
    """Each byte with the letter that stands for it in a vocabulary of bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [byte for byte in range(256) if byte not in plain]
    return [(byte, chr(byte)) for byte in plain] + [(byte, chr(256 + k)) for k, byte in enumerate(other)]


def llama2(texts, size):
    """A BPE of characters, with bytes for those that are not in it."""
    special = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    letters = common(Counter("".join(texts).replace(" ", "▁")), size // 4)
    trainer = trainers.BpeTrainer(vocab_size=size // 2, initial_alphabet=letters, limit_alphabet=len(letters), show_progress=False)
    trained.train_from_iterator(texts, trainer)
    model = json.loads(trained.to_str())["model"]
    letters = [token for token, _ in sorted(model["vocab"].items(), key=lambda it: it[1])]
    vocabulary = {token: number for number, token in enumerate([*special, *bytes_, *letters])}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = trained.normalizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return fast(tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<unk>")


def roberta(texts, size):
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = byte_level(texts, size, special, pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return fast(tokenizer, cls_token="<s>", sep_token="</s>", mask_token="<mask>", model_max_length=512, **names)


def mistral(texts, size):
    """As Llama 2, but with Metaspace before its first word only."""
    made = llama2(texts, size)
    tokenizer = made.backend_tokenizer
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return fast(tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<unk>")


KINDS = {
    "gpt2": gpt2,
    "llama3": llama3,
    "qwen2": qwen2,
    "bert_uncased": lambda texts, size: bert(texts, size, True),
    "bert_cased": lambda texts, size: bert(texts, size, False),
    "t5": t5,
    "xlmr": xlmr,
    "word_level": word_level,
    "tiktoken": tiktoken_kind,
    "llama2": llama2,
    "mistral": mistral,
    "roberta": roberta,
}


def special_tokens(tokenizer):
    """The texts of the tokens that were added to a vocabulary."""
    return [token.content for token in tokenizer.added_tokens_decoder.values()]


def converted(tokenizer, padding_side="right", skip_special_tokens=True):
    """The tokenizer and the detokenizer as models."""
    tokenizer.padding_side = padding_side
    with contextlib.redirect_stdout(io.StringIO()):
        return convert_tokenizer(tokenizer, with_detokenizer=True, skip_special_tokens=skip_special_tokens)


def write(tokenizer, folder):
    """Writes the models of a tokenizer into a folder: those with padding at the right and without the texts of special tokens, as
    they are by default, and the others."""
    folder.mkdir(parents=True, exist_ok=True)
    models = dict(zip(["openvino_tokenizer", "openvino_detokenizer"], converted(tokenizer)))
    others = converted(tokenizer, "left", False)
    models |= dict(zip(["left_tokenizer", "special_detokenizer"], others))
    for name, model in models.items():
        ov.save_model(model, folder / f"{name}.xml", compress_to_fp16=False)
