#!/usr/bin/env python3
"""Writes tiny tokenizers of each kind as openvino_tokenizers converts them, with what OpenVINO makes of texts and of ids, or checks
them.

    python generate.py             writes the folders of `cases/`
    python generate.py --check     compares the committed files with what would be written

`cases.json` has batches of texts for the model of its name, or of ids, and the outputs for each.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(ROOT / "models"), str(HERE.parent / "compare")]

import kinds
from compare import MODELS, theirs
from shared import stale_files, write_files
from strings import Strings
from transformers import PreTrainedTokenizerFast

# The tokens of each kind. Those of bytes have 256 before they begin.
SIZE = 330
# For the charsmap: code points in hexadecimal, and what they become.
RULES = "".join(
    f"{' '.join(f'{ord(letter):X}' for letter in source)}\t{' '.join(f'{ord(letter):X}' for letter in target)}\n"
    for source, target in {"Ａ": "A", "ﬁ": "fi", "①": "1", "\u00a0": " ", "\t": " ", "e\u0301": "é", "\u200b": "", "…": "...", "½": "1/2"}.items()
)
# The tokenizer of a language model for tests, as Hugging Face has it.
TINY = ROOT / "generation" / "models" / "tiny" / "tokenizer.json"
# Models with padding at the left, and with the texts of special tokens, are there for these.
LEFT, SPECIAL = {"roberta"}, {"llama2"}


def compact(xml):
    """The XML of a model without what does not matter: indentation, names of layers that count what the process has made before, and
    the versions of packages."""
    xml = re.sub(r">\s+<", "><", xml.strip())
    xml = re.sub(r'"Result_\d+,', '"', xml)
    xml = re.sub(r"</edges>.*", "</edges></net>", xml)
    xml = re.sub(r'(<layer id="(\d+)" name=)"\w+" type="(\w+)"', r'\1"\3_\2" type="\3"', xml)
    return re.sub(r'names="([A-Za-z]+)_\d+"', r'names="\1"', xml).replace("><", ">\n<", 2).replace("<layer ", "\n<layer ") + "\n"


def batches(name, tokenizer):
    """Batches of texts and of ids, neither of them long."""
    strings = Strings(f"cases {name}", kinds.special_tokens(tokenizer))
    texts = [["", "a  river\tflows", kinds.SENTENCES[1]]]
    while len(texts) < 8:
        batch = [it for it in strings.batch(4) if len(it) < 40]
        if batch:
            texts.append(batch)
    ids = []
    while len(ids) < 8:
        batch = strings.ids(len(tokenizer))
        if batch[0]:
            ids.append([[min(max(it, -(2**31)), 2**31 - 1) for it in row] for row in batch])
    return texts, ids


def files_of(name, make):
    """The files of a folder of `cases/`."""
    tokenizer = make(kinds.SENTENCES * 3, SIZE)
    texts, ids = batches(name, tokenizer)
    files, cases = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        kinds.write(tokenizer, folder)
        for model, kind in MODELS.items():
            if "left" in model and name not in LEFT or "special" in model and name not in SPECIAL:
                continue
            file = folder / f"{model}.xml"
            file.write_text(compact(file.read_text()))
            openvino = theirs(file)
            runs = texts if kind == "texts" else ids
            if kind == "texts":
                # Their tokens are ids that mean something.
                encoded = [openvino.run(batch)[0] for batch in texts]
                ids = ids[:8] + [it for it in encoded if it[0]]
            cases[model] = [[batch, openvino.run(batch)] for batch in runs]
            openvino.close()
            for suffix in ["xml", "bin"]:
                files[f"{name}/{model}.{suffix}"] = (folder / f"{model}.{suffix}").read_bytes()
    lines = ",\n".join(
        f"{json.dumps(model)}: [\n" + ",\n".join(json.dumps(run, ensure_ascii=True, separators=(",", ":")) for run in runs) + "\n]"
        for model, runs in cases.items()
    )
    files[f"{name}/cases.json"] = f"{{\n{lines}\n}}\n".encode()
    return files


def tiny(*_):
    return PreTrainedTokenizerFast(tokenizer_file=str(TINY))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    files = {}
    for name, make in [*kinds.KINDS.items(), ("tiny", tiny)]:
        if name == "xlmr":
            make = lambda texts, size: kinds.xlmr(texts, size, RULES)
        files |= files_of(name, make)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")
    if check:
        stale = stale_files(HERE / "cases", files)
        sys.exit(f"not what is written: {stale}" if stale else 0)
    write_files(HERE / "cases", files)


if __name__ == "__main__":
    main()
