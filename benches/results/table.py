#!/usr/bin/env python3
"""Writes what the documents say of results, or checks it.

    python table.py
    python table.py --check

In the documents, this stands between `<!-- = NAME -->` and `<!-- end -->`. NAME is

* a CSV file, which is shown as a table;
* a file of Rust and a constant in it;
* or one of PARTS, which are functions here.
"""

import csv
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent / "networks"))

import compare  # noqa: E402

OURS = "tract-openvino"
OTHERS = ["OpenVINO", "ONNX Runtime", "tract"]


def read(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def markdown(columns, rows):
    """A table, with columns of numbers to the right."""
    number = [all(re.fullmatch(r"[\d.]*", row[at]) for row in rows) for at in range(len(columns))]
    lines = [columns, ["---:" if it else "---" for it in number], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- gathers ----------------------------------------------------------------------------------------


def ratios(file):
    """By workload and number of threads: the time of the fastest other runtime divided by that of tract-openvino."""
    return {
        (row["workload"], row["threads"]): min(float(row[it]) for it in OTHERS if row[it]) / float(row[OURS])
        for row in read(file)
    }


def gathers():
    """The ratios of the workloads that all processors have."""
    processors = {file.stem: ratios(file) for file in sorted(HERE.glob("*.csv"))}
    first, *others = processors.values()
    rows = [
        [*workload, *(f"{it[workload]:.2f}" for it in processors.values())]
        for workload in first
        if all(workload in it for it in others)
    ]
    return markdown(["workload", "threads", *processors], rows)


def gathers_in_short():
    """A sentence for each processor."""
    text = ""
    for file in sorted(HERE.glob("*.csv")):
        found = ratios(file)
        faster = sum(ratio >= 1 for ratio in found.values())
        (worst, threads), least = min(found.items(), key=lambda it: it[1])
        text += (
            f"* `{file.stem}`: tract-openvino is the fastest in {faster} of {len(found)} cases (a workload and a number of "
            f"threads). The geometric mean of the ratios is {compare.geometric_mean(found.values()):.2f}. The lowest ratio is "
            f"{least:.2f}, of `{worst}` with {threads} thread{'s' * (threads != '1')}.\n"
        )
    return text


# --- networks ---------------------------------------------------------------------------------------


def networks():
    """A table for each processor."""
    files = sorted((HERE / "networks").glob("*.csv"))
    return "\n".join(f"{file.stem}:\n\n{compare.table(read(file))}\n" for file in files)


def kinds():
    """What each kind of operators takes of a network, as a part of OpenVINO's time: the mean of all networks."""
    text = ""
    for file in sorted((HERE / "networks/kinds").glob("*.csv")):
        rows = read(file)
        whole = {}
        for row in rows:
            whole[row["network"]] = whole.get(row["network"], 0) + float(row[compare.OPENVINO])
        parts = {kind: [0.0, 0.0] for kind in compare.KINDS}
        for row in rows:
            for at, runtime in enumerate([compare.OURS, compare.OPENVINO]):
                parts[row["kind"]][at] += float(row[runtime]) / whole[row["network"]] / len(whole)
        beyond = sum(ours - theirs for ours, theirs in parts.values())
        lines = [
            [kind, f"{ours:.2f}", f"{theirs:.2f}", f"{100 * (ours - theirs) / beyond:.0f} %"]
            for kind, (ours, theirs) in parts.items()
        ]
        text += f"{file.stem}, {len(whole)} networks:\n\n"
        text += markdown(["operators", compare.OURS, compare.OPENVINO, "share of the difference"], lines)
    return text


def three_numbers():
    """What our times and memory are of those of others, for each processor: means of all networks on one thread."""
    lines = []
    for file in sorted((HERE / "networks").glob("*.csv")):
        runtimes = {}
        for row in read(file):
            if row["threads"] == "1":
                runtimes.setdefault(row["runtime"], {})[row["network"]] = row
        ours = runtimes.pop(compare.OURS)
        for column, name in [("median_ms", "a run"), ("ready_ms", "loading"), ("memory_mib", "memory")]:
            means = [
                compare.geometric_mean([float(ours[it][column]) / float(row[column]) for it, row in other.items()])
                for other in runtimes.values()
            ]
            lines.append([file.stem, name, *(f"{it:.2f}" for it in means)])
    return markdown(["processor", "", *runtimes], lines)


def networks_in_short():
    """A sentence for each processor and number of threads."""
    text = ""
    for file in sorted((HERE / "networks").glob("*.csv")):
        times = {}
        for row in read(file):
            times.setdefault(row["threads"], {}).setdefault(row["network"], {})[row["runtime"]] = float(row["median_ms"])
        for threads, by_network in times.items():
            means = [
                f"{compare.geometric_mean([it[compare.OURS] / it[other] for it in by_network.values() if other in it]):.2f} "
                f"times as long as on {other}"
                for other in compare.RUNTIMES[1:]
            ]
            text += (
                f"* `{file.stem}`, {threads} thread{'s' * (threads != '1')}: {len(by_network)} networks take "
                f"{', '.join(means[:-1])} and {means[-1]} (geometric means).\n"
            )
    return text


def memory_in_short():
    """What the networks take beyond twice their weights, for each processor where that is known."""
    text = ""
    for file in sorted((HERE / "networks").glob("*.csv")):
        rows = [row for row in read(file) if row["runtime"] == compare.OURS and row["threads"] == "1"]
        if "loading_mib" not in rows[0]:
            continue
        for column, verb in [("loading_mib", "loading takes"), ("running_mib", "loading and a run take")]:
            more = {row["network"]: float(row["weights_mib"]) for row in rows if float(row[column]) >= 2 * float(row["weights_mib"])}
            text += (
                f"* `{file.stem}`: {verb} less than twice the weights for {len(rows) - len(more)} of {len(rows)} networks, among "
                f"them all with more than {max(more.values())} MiB of weights. The others are {', '.join(sorted(more))}.\n"
            )
    return text


# --- bad input --------------------------------------------------------------------------------------


def outcomes(first_column):
    """How often each runtime did what, in the tables of docs/bad_input.md whose first column has this name."""
    counts, columns = {}, []
    for line in (ROOT / "docs" / "bad_input.md").read_text().splitlines():
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        cells = [cell.strip() for cell in cells]
        if not cells:
            columns = []
        elif cells[0] == first_column and OURS in cells:
            columns = cells[cells.index(OURS) :]
        elif columns:
            for runtime, cell in zip(columns, cells[-len(columns) :]):
                word = re.match(r"(\**)(error|value|crash|panic|out of memory|no answer)", cell)
                if word:
                    bold = {"value": ", foreign memory", "out of memory": ", abort"}.get(word[2], "") if word[1] else ""
                    counts.setdefault(word[2] + bold, dict.fromkeys(columns, 0))[runtime] += 1
    order = ["error", "value", "value, foreign memory", "crash", "panic", "out of memory", "out of memory, abort", "no answer"]
    kinds = [it for it in order if it in counts]
    runtimes = counts["error"]
    return markdown(["", *kinds], [[it, *(str(counts[kind][it]) for kind in kinds)] for it in runtimes])


# --- numbers in the text ----------------------------------------------------------------------------


def found(pattern, file):
    match = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    if not match:
        sys.exit(f"{file} has no {pattern}")
    return match[1]


def constant(file, name):
    """The value of a constant or a field in a file of Rust, as a power of two if it is large."""
    text = found(rf"\b{name}: (?:\w+ = )?([\d_ <]+)[;,]", file)
    value, _, shift = text.replace("_", "").partition("<<")
    value = int(value) << int(shift or 0)
    exponent = value.bit_length() - 1
    if value < 1 << 13 or value != 1 << exponent:
        return str(value)
    return "2" + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def version_of_tract():
    return found('^tract-core = "=(.*)"', "Cargo.toml")


def versions():
    """Of what tract-openvino is measured beside."""
    openvino, onnxruntime = (found(f"^{it}==(.*)", "benches/networks/requirements.txt") for it in ["openvino", "onnxruntime"])
    return f"The other runtimes are OpenVINO {openvino}, ONNX Runtime {onnxruntime} and tract {version_of_tract()}.\n"


def tolerance(name):
    """What outputs may differ by in the tests of models of IR."""
    values = found(rf"^const {name}: Tolerance = Tolerance {{ (.*) }};", "ir/tests/models.rs")
    absolute, relative = re.fullmatch("atol: (.*), rtol: (.*)", values).groups()
    return f"{absolute} + {relative} · |expected|"


PARTS = {
    "gathers": gathers,
    "gathers in short": gathers_in_short,
    "networks": networks,
    "networks in short": networks_in_short,
    "three numbers": three_numbers,
    "memory in short": memory_in_short,
    "kinds of operators": kinds,
    "outcomes of bad input": lambda: outcomes("bad input"),
    "outcomes of bad files": lambda: outcomes("bad file"),
    "the tolerance of networks": lambda: tolerance("NETWORKS"),
    "the tolerance of operations": lambda: tolerance("OPERATIONS"),
    "the version of Rust": lambda: found('^rust-version = "(.*)"', "Cargo.toml"),
    "the version of tract": version_of_tract,
    "versions": versions,
}


def part(name):
    if name in PARTS:
        return PARTS[name]()
    if name.endswith(".csv"):
        rows = read(ROOT / name)
        return markdown(list(rows[0]), [list(row.values()) for row in rows])
    file, _, of = name.partition(" ")
    if not file.endswith(".rs"):
        sys.exit(f"{name!r} is no part of a document: see {Path(__file__)}")
    return constant(file, of)


def written(match):
    text = part(match["name"])
    # Lines stand alone, a value within a line.
    text = f"\n{text}" if text.endswith("\n") else text
    return f"<!-- = {match['name']} -->{text}<!-- end -->"


def main():
    marked = re.compile(r"<!-- = (?P<name>.*?) -->.*?<!-- end -->", re.DOTALL)
    stale = []
    folders = [ROOT, *(ROOT / it for it in ["docs", "cli", "ir", "ir/docs", "benches/results"])]
    for document in sorted(file for folder in folders for file in folder.glob("*.md")):
        text = document.read_text()
        new = marked.sub(written, text)
        if new != text:
            stale.append(str(document.relative_to(ROOT)))
            if sys.argv[1:] != ["--check"]:
                document.write_text(new)
    if stale and sys.argv[1:] == ["--check"]:
        sys.exit(f"{', '.join(stale)} and the results differ: run {Path(__file__)}")


if __name__ == "__main__":
    main()
