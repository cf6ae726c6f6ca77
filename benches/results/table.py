#!/usr/bin/env python3
"""Writes the tables of measurements into the documents, or checks them.

    python table.py
    python table.py --check

In the documents, a table stands between `<!-- = NAME -->` and `<!-- end -->`. TABLES has the names.
"""

import csv
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent / "networks"))

import compare  # noqa: E402

OURS = "tract-openvino"
OTHERS = ["OpenVINO", "ONNX Runtime", "tract"]
# Where networks were measured with the kernels as they are. Tables have these.
CURRENT = ["amd-epyc-zen-3", "amd-epyc-zen-4", "intel-xeon-amx"]


def results(folder=HERE):
    """The rows of each processor's CSV file."""
    for file in sorted(folder.glob("*.csv")):
        with open(file, newline="") as lines:
            yield file.stem, list(csv.DictReader(lines))


def markdown(columns, rows):
    """A table, with columns of numbers to the right."""
    number = [all(re.fullmatch(r"[\d.]*", row[at]) for row in rows) for at in range(len(columns))]
    lines = [columns, ["---:" if it else "---" for it in number], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def plural(threads):
    return f"{threads} thread{'s' * (threads != '1')}"


def ratios(rows):
    """By workload and number of threads: the time of the fastest other runtime divided by that of tract-openvino."""
    return {
        (row["workload"], row["threads"]): min(float(row[it]) for it in OTHERS if row[it]) / float(row[OURS])
        for row in rows
    }


def gathers():
    """The ratios of the workloads, with a column for each processor and number of threads."""
    found = {
        (processor, threads): {workload: ratio for (workload, of), ratio in ratios(rows).items() if of == threads}
        for processor, rows in results()
        for threads in ["1", "2"]
    }
    workloads = set.intersection(*(set(it) for it in found.values()))
    first = next(iter(found.values()))
    rows = [[it, *(f"{column[it]:.2f}" for column in found.values())] for it in first if it in workloads]
    return markdown(["workload", *(f"{processor}, {plural(threads)}" for processor, threads in found)], rows)


def gathers_in_short():
    """A sentence for each processor."""
    text = ""
    for processor, rows in results():
        found = ratios(rows)
        faster = sum(ratio >= 1 for ratio in found.values())
        (worst, threads), least = min(found.items(), key=lambda it: it[1])
        text += (
            f"* `{processor}`: tract-openvino is the fastest in {faster} of {len(found)} cases (a workload and a number of "
            f"threads). The geometric mean of the ratios is {compare.geometric_mean(found.values()):.2f}. The lowest ratio is "
            f"{least:.2f}, of `{worst}` with {plural(threads)}.\n"
        )
    return text


def networks():
    """The networks on one thread."""
    tables = ""
    for processor, rows in results(HERE / "networks"):
        if processor in CURRENT:
            rows = [row for row in rows if row["threads"] == "1"]
            tables += f"{processor}:\n\n{compare.table(rows).replace(', 1 |', ' |')}\n"
    return tables


def networks_in_short():
    """A sentence for each processor and number of threads."""
    text = ""
    for processor, rows in results(HERE / "networks"):
        times = {}
        for row in rows:
            times.setdefault(row["threads"], {}).setdefault(row["network"], {})[row["runtime"]] = float(row["median_ms"])
        for threads, by_network in times.items():
            means = [
                f"{compare.geometric_mean([it[compare.OURS] / it[other] for it in by_network.values() if other in it]):.2f} "
                f"times as long as on {other}"
                for other in compare.RUNTIMES[1:4]
            ]
            text += (
                f"* `{processor}`, {plural(threads)}: {len(by_network)} networks take "
                f"{', '.join(means[:-1])} and {means[-1]} (geometric means).\n"
            )
    return text


def kinds():
    """What each kind of operators takes of a network, as a part of OpenVINO's time: the mean of all networks."""
    text = ""
    for processor, rows in results(HERE / "networks/kinds"):
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
        text += f"{processor}, {len(whole)} networks:\n\n"
        text += markdown(["operators", compare.OURS, compare.OPENVINO, "share of the difference"], lines)
    return text


def three_numbers():
    """What our times and memory are of those of others, for each processor: means of all networks on one thread."""
    lines = []
    for processor, rows in results(HERE / "networks"):
        if processor not in CURRENT:
            continue
        runtimes = {}
        for row in rows:
            if row["threads"] == "1":
                runtimes.setdefault(row["runtime"], {})[row["network"]] = row
        ours = runtimes[compare.OURS]
        others = compare.RUNTIMES[1:4]
        for column, name in [("median_ms", "a run"), ("ready_ms", "loading"), ("memory_mib", "memory")]:
            means = [
                compare.geometric_mean([float(ours[it][column]) / float(row[column]) for it, row in runtimes[other].items()])
                for other in others
            ]
            lines.append([processor, name, *(f"{it:.2f}" for it in means)])
    return markdown(["processor", "", *others], lines)


def quantized():
    """Quantised networks, of each processor."""
    text = ""
    for processor, rows in results(HERE / "quantized"):
        text += f"{processor}:\n\n{compare.quantized_table(rows)}\n\n"
    return text


def language_models():
    """Language models, of each processor: ours beside OpenVINO's with its defaults and in f32."""
    text = ""
    for processor, rows in results(HERE / "language"):
        cases = {}
        for row in rows:
            cases.setdefault((row["model"], row["threads"], row["context"]), {})[row["runtime"]] = row
        columns = {"prompt_ms": "prompt, ms", "tokens_per_s": "tokens per second", "memory_mib": "memory, MiB", "ready_s": "ready, s"}
        if "first_s" in rows[0]:
            columns["first_s"] = "first token, s"
        text += f"{processor}:\n\n| model | threads | context | {' | '.join(columns.values())} | in bytes: ms, tokens, MiB |\n"
        text += "| --- |" + " ---: |" * (len(columns) + 3) + "\n"
        for case, of in cases.items():
            runtimes = [of.get(name, {}) for name in ["tract", "openvino", "openvino_f32"]]
            cells = [" / ".join(it.get(column) or "–" for it in runtimes) for column in columns]
            in_bytes = of.get("tract_bytes")
            cells.append(" / ".join(in_bytes[column] for column in list(columns)[:3]) if in_bytes else "–")
            text += f"| {' | '.join([*case, *cells])} |\n"
        text += "\n"
    return text


TABLES = {
    "language models": language_models,
    "quantized networks": quantized,
    "gathers": gathers,
    "gathers in short": gathers_in_short,
    "networks": networks,
    "networks in short": networks_in_short,
    "three numbers": three_numbers,
    "kinds of operators": kinds,
}


def main():
    marked = re.compile(r"(<!-- = (.*?) -->\n).*?(?=<!-- end -->)", re.DOTALL)
    for document in [ROOT / "README.md", ROOT / "docs/performance.md"]:
        text = document.read_text()
        new = marked.sub(lambda match: match[1] + TABLES[match[2]](), text)
        if new != text and sys.argv[1:] == ["--check"]:
            sys.exit(f"{document.relative_to(ROOT)} and the results differ: run {Path(__file__)}")
        if new != text:
            document.write_text(new)


if __name__ == "__main__":
    main()
