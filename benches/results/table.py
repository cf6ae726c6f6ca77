#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from the results of all processors, or checks them.

    python table.py
    python table.py --check

For gathers, a ratio is the time of the fastest other runtime divided by the time of tract-openvino; the table has the
workloads that all processors have. What the table of networks has is said in ../networks/compare.py.
"""

import csv
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "performance.md"
sys.path.append(str(HERE.parent / "networks"))

import compare  # noqa: E402

OTHERS = ["OpenVINO", "ONNX Runtime", "tract"]


def ratios(file):
    """The ratio of each workload and number of threads."""
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    others = lambda row: [float(row[it]) for it in OTHERS if row[it]]
    return {
        (row["workload"], row["threads"]): min(others(row)) / float(row["tract-openvino"])
        for row in rows
    }


def table():
    results = {file.stem: ratios(file) for file in sorted(HERE.glob("*.csv"))}
    lines = ["| workload | threads | " + " | ".join(results) + " |", "|---|---" + "|---:" * len(results) + "|"]
    for workload, threads in next(iter(results.values())):
        found = [it.get((workload, threads)) for it in results.values()]
        if None not in found:
            lines.append(f"| {workload} | {threads} | " + " | ".join(f"{it:.2f}" for it in found) + " |")
    return "\n".join(lines) + "\n"


def networks():
    """A table for each processor."""
    text = ""
    for file in sorted((HERE / "networks").glob("*.csv")):
        with open(file, newline="") as lines:
            text += f"{file.stem}:\n\n{compare.table(list(csv.DictReader(lines)))}\n"
    return text


def main():
    text = written = DOCUMENT.read_text()
    for name, new in [("ratios", table()), ("networks", networks())]:
        between = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
        written, count = between.subn(lambda _: new, written)
        if count != 1:
            sys.exit(f"{DOCUMENT} has no place for the table of {name}")
    if sys.argv[1:] != ["--check"]:
        DOCUMENT.write_text(written)
    elif written != text:
        sys.exit(f"a table in {DOCUMENT} is not that of the results: run {Path(__file__)}")


if __name__ == "__main__":
    main()
