#!/usr/bin/env python3
"""Fails if a number of more than 32 bits does not say its type.

    .ci/numbers.py [FILE...]

Where sizes have 32 bits, such as in WebAssembly, `1 << 32` as a `usize` does not compile; here it does, as the compiler looks at one
target. A number that says that it has 64 bits (`1u64 << 32`) is none that a `usize` can be: so the compiler finds it here, too.
It looks at literals, and at shifts of literals by literals. Floats, texts and comments are left out.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The crates that run where there are 32 bits, with their tests, and what their tests share.
FOLDERS = ["kernels", "src", "tests", "ir/src", "ir/tests", "tokenizers/src", "generation/src", "model-cases", "gather-cases"]

# What is no code, and what may hide in it: longest first.
NO_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | b?r(\#*)".*?"\1 | b?"(?:\\.|[^"\\])*" | '(?:\\.[^']*|[^'\\])'""", re.VERBOSE | re.DOTALL
)
LITERAL = r"(?:0x[0-9a-fA-F_]+|0b[01_]+|0o[0-7_]+|[0-9][0-9_]*)"
TYPE = r"(?P<type>(?:[iu](?:8|16|32|64|128|size)|f32|f64)?)"
# No part of a name, of a float or of a tuple.
NUMBER = re.compile(rf"(?<![\w.])(?P<number>{LITERAL}){TYPE}(?![\w])(?!\.[0-9])(?:\s*<<\s*(?P<shift>[0-9]+)\b)?")


def value(text):
    text = text.replace("_", "")
    return int(text, 0 if text[:2] in ("0x", "0b", "0o") else 10)


def wrong(source):
    """The lines of numbers that have more than 32 bits and no type that has, and what is written there."""
    code = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    for found in NUMBER.finditer(code):
        number = value(found["number"]) << int(found["shift"] or 0)
        if number >= 1 << 32 and found["type"] in ("", "usize", "isize"):
            yield source.count("\n", 0, found.start()) + 1, found[0].strip()


def main():
    files = [Path(name) for name in sys.argv[1:]]
    files = files or sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.rs"))
    count = 0
    for file in files:
        for line, number in wrong(file.read_text()):
            count += 1
            print(f"{file}:{line}: {number} has more than 32 bits: it must say its type, as 1u64 << 32 does, and be no usize")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
