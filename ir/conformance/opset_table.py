#!/usr/bin/env python3
"""Writes OpenVINO's operation sets as the table that the tests compare the reader with.

    python opset_table.py ../src/opsets.txt            writes it
    python opset_table.py ../src/opsets.txt --check    compares it, and writes nothing

The operations are those of the headers of the package `openvino` (`openvino/opsets/opsetN_tbl.hpp`). A line has an
operation, and the first operation set with each of its revisions.
"""

import argparse
import re
import sys
from pathlib import Path

import openvino

HEADERS = Path(openvino.__file__).parent / "include/openvino/opsets"


def operations():
    """Of each operation the first sets with each of its revisions."""
    firsts, known = {}, {}
    numbers = sorted(int(re.search(r"opset(\d+)_tbl", it.name)[1]) for it in HEADERS.glob("opset*_tbl.hpp"))
    for number in numbers:
        text = (HEADERS / f"opset{number}_tbl.hpp").read_text()
        text = re.sub(r"//.*", "", text)
        for name, revision in re.findall(r"^\s*_OPENVINO_OP_REG\((\w+),\s*ov::op::(v\d+)\)", text, re.MULTILINE):
            if known.get(name) != revision:
                known[name] = revision
                firsts.setdefault(name, []).append(number)
    return numbers, firsts


def table():
    version = openvino.get_version().split("-")[0]
    numbers, firsts = operations()
    head = f"# OpenVINO {version}, opset{numbers[0]} to opset{numbers[-1]}, as ir/conformance/opset_table.py writes them.\n"
    return head + "".join(f"{name} {' '.join(map(str, firsts[name]))}\n" for name in sorted(firsts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    if not arguments.check:
        arguments.file.write_text(table())
    elif arguments.file.read_text() != table():
        sys.exit(f"{arguments.file} is not what this script writes")


if __name__ == "__main__":
    main()
