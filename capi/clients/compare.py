#!/usr/bin/env python3
"""Compares what a client printed with two libraries. Lines that begin with "values" may differ by as much as outputs of whole models may
(ir/README.md), and all others not at all.

    compare.py OURS OPENVINO
"""

import sys
from itertools import zip_longest

ABSOLUTE, RELATIVE = 1e-4, 1e-3


def differs(found, expected):
    if found is None or expected is None or not found.startswith("values "):
        return found != expected
    (name, numbers), (other, others) = [line.rsplit(":", 1) for line in (found, expected)]
    numbers, others = [[float(number) for number in line.split()] for line in (numbers, others)]
    close = [abs(a - b) <= ABSOLUTE + RELATIVE * abs(b) for a, b in zip(numbers, others)]
    return name != other or len(numbers) != len(others) or not all(close)


ours, theirs = [open(path).read().splitlines() for path in sys.argv[1:3]]
wrong = [(a, b) for a, b in zip_longest(ours, theirs) if differs(a, b)]
for a, b in wrong:
    print(f"ours:     {str(a)[:300]}\nOpenVINO: {str(b)[:300]}")
compared = sum(line.startswith("values ") for line in theirs)
print(f"{len(theirs)} lines, {compared} of them with numbers: {len(wrong)} differ")
sys.exit(bool(wrong))
