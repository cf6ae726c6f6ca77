#!/usr/bin/env python3
"""Writes the tables of docs/performance.md and the charts beside this file from the CSV files, or checks them.

    python table.py
    python table.py --check

In the document, a table stands between `<!-- = NAME -->` and `<!-- end -->`. TABLES has the names.
"""

import csv
import re
import sys
from pathlib import Path
from statistics import geometric_mean

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs/performance.md"
OURS, TRACT, OPENVINO, ONNXRUNTIME = "tract-openvino-ir", "tract (ONNX)", "OpenVINO", "ONNX Runtime"
BF16, DEFAULTS = f"{OURS}, bf16", f"{OPENVINO}, defaults"


def runs(folder, *keys):
    """By processor, and then by these columns of its CSV file: the row of each runtime."""
    for file in sorted(HERE.glob(f"{folder}/*.csv")):
        found = {}
        with open(file, newline="") as lines:
            for row in csv.DictReader(lines):
                found.setdefault(tuple(row[it] for it in keys), {})[row["runtime"]] = row
        yield file.stem, found


def mean(runs, column, ours, theirs):
    """The geometric mean of what ours is of theirs."""
    pairs = [(it[ours].get(column), it[theirs].get(column)) for it in runs if ours in it and theirs in it]
    ratios = [float(a) / float(b) for a, b in pairs if a and b]
    return f"{geometric_mean(ratios):.2f}" if ratios else ""


def markdown(columns, rows):
    """A table, with columns of numbers to the right."""
    number = [all(re.fullmatch(r"[\d.]*", row[at]) for row in rows) for at in range(len(columns))]
    lines = [columns, ["---:" if it else "---" for it in number], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def models():
    lines = []
    for processor, found in runs("models", "threads", "model"):
        for threads in ["1", "2"]:
            these = [of for (count, _), of in found.items() if count == threads]
            if these:
                lines.append([processor, threads, str(len(these))])
                lines[-1] += [mean(these, "median_ms", OURS, it) for it in (TRACT, OPENVINO, ONNXRUNTIME)]
                lines[-1] += [mean(these, it, OURS, OPENVINO) for it in ("ready_ms", "memory_mib")]
    columns = ["run / tract (ONNX)", "run / OpenVINO", "run / ONNX Runtime", "load / OpenVINO", "memory / OpenVINO"]
    return markdown(["processor", "threads", "models", *columns], lines)


def bf16_models():
    """With products in bf16, where that was measured."""
    lines = []
    for processor, found in runs("models", "threads", "model"):
        for threads in ["1", "2"]:
            these = [of for (count, _), of in found.items() if count == threads and BF16 in of]
            if these:
                ratios = [mean(these, "median_ms", BF16, it) for it in (DEFAULTS, OURS)]
                ratios += [mean(these, it, BF16, DEFAULTS) for it in ("ready_ms", "memory_mib")]
                lines.append([processor, threads, str(len(these)), *ratios])
    columns = ["run / OpenVINO, defaults", "run / f32", "load / OpenVINO, defaults", "memory / OpenVINO, defaults"]
    return markdown(["processor", "threads", "models", *columns], lines)


WEAK = {
    "mobilenet_v2": "MobileNetV2: many small convolutions",
    "resnet50": "ResNet-50",
    "unet": "U-Net: large images, few channels",
    "lstm_tagger": "LSTM tagger: one step after the other",
    "segformer_b0": "SegFormer B0",
    "swin_v2_t": "Swin v2",
}


def weak_spots():
    """Where OpenVINO is furthest ahead, on one thread."""
    found = dict(runs("models", "threads", "model"))
    lines = [[name, *(mean([of["1", it]], "median_ms", OURS, OPENVINO) for of in found.values())] for it, name in WEAK.items()]
    return markdown(["model", *found], lines)


def int8_models():
    lines = []
    others = [OPENVINO, ONNXRUNTIME, TRACT, f"{OURS}, f32"]
    for processor, found in runs("quantized", "threads", "model"):
        for threads in ["1", "2"]:
            these = [of for (count, _), of in found.items() if count == threads]
            if these:
                lines.append([processor, threads, *(mean(these, "median_ms", OURS, it) for it in others)])
                lines[-1].append(mean(these, "mean", OURS, OPENVINO))
    columns = [f"run / {it}" for it in [*others[:-1], "f32 model"]]
    return markdown(["processor", "threads", *columns, "error / OpenVINO"], lines)


LANGUAGE = {"prompt_ms": "prefill", "tokens_per_s": "decode", "first_s": "first token", "memory_mib": "memory"}


def language(these, weights=""):
    """Cells of LANGUAGE: rounded beside OpenVINO's defaults, and exact beside OpenVINO in f32. With weights of f16 ours is exact."""
    rounded = "tract" if weights == "f16" else "tract_bytes"
    for ours, theirs in [(rounded, "openvino"), ("tract", "openvino_f32")]:
        for column in LANGUAGE:
            # Tokens per second are what time is of theirs, upside down.
            yield mean(these, column, theirs, ours) if column == "prompt_ms" else mean(these, column, ours, theirs)


def language_table(name, lines):
    return markdown([*name, *LANGUAGE.values(), *(f"exact: {it}" for it in LANGUAGE.values())], lines)


def language_models():
    """By the type of the weights, with a prompt of 128 tokens, on one thread."""
    lines = []
    for processor, found in runs("language", "threads", "context", "model"):
        for weights in ["f16", "int8", "int4"]:
            these = [of for (*it, model), of in found.items() if it == ["1", "128"] and model.endswith(weights)]
            lines.append([processor, weights, *language(these, weights)])
    return language_table(["processor", "weights"], lines)


def long_prompts():
    """By the length of the prompt, of int8 and int4 weights, on processors where 4,096 tokens were measured, on one thread."""
    lines, contexts = [], ["128", "1024", "4096"]
    for processor, found in runs("language", "threads", "context", "model"):
        if contexts[-1] in {context for _, context, _ in found}:
            for context in contexts:
                these = [of for (*it, model), of in found.items() if it == ["1", context] and not model.endswith("f16")]
                lines.append([processor, context, *language(these)])
    return language_table(["processor", "prompt, tokens"], lines)


def gathers():
    lines = []
    for file in sorted(HERE.glob("gathers/*.csv")):
        ratios = {}
        for row in csv.DictReader(open(file, newline="")):
            fastest = min(float(row[it]) for it in ["OpenVINO", "ONNX Runtime", "tract"] if row[it])
            ratios[row["workload"], row["threads"]] = float(row["tract-openvino"]) / fastest
        (workload, threads), worst = max(ratios.items(), key=lambda it: it[1])
        faster = sum(it <= 1 for it in ratios.values())
        numbers = f"{geometric_mean(ratios.values()):.2f}", f"{faster} of {len(ratios)}"
        lines.append([file.stem, *numbers, f"{worst:.2f}, `{workload}`, threads: {threads}"])
    return markdown(["processor", "time / fastest other", "cases where it is the fastest", "the worst case"], lines)


TABLES = {
    "models": models,
    "bf16 models": bf16_models,
    "weak spots": weak_spots,
    "int8 models": int8_models,
    "language models": language_models,
    "long prompts": long_prompts,
    "gathers": gathers,
}


def chart(title, groups, own_scale=False):
    """SVG of horizontal bars: for each group its name, and for each of its bars what it is, how long, and what is said beside."""
    colours = ["#8c8c8c", "#d98e04", "#3b78b5", "#2a9d5c"]
    most = max(length for _, bars in groups for _, length, _ in bars)
    parts, y = [f'<text x="10" y="20" font-weight="bold">{title}</text>'], 44
    for name, bars in groups:
        parts.append(f'<text x="10" y="{y}">{name}</text>')
        longest = max(length for _, length, _ in bars) if own_scale else most
        for (label, length, beside), colour in zip(bars, colours[-len(bars) :]):
            width = 380 * length / longest
            parts.append(f'<rect x="270" y="{y - 11}" width="{width:.0f}" height="14" fill="{colour}"/>')
            parts.append(f'<text x="262" y="{y}" text-anchor="end">{label}</text>')
            parts.append(f'<text x="{276 + width:.0f}" y="{y}">{beside}</text>')
            y += 18
        y += 12
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {y - 12}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def known():
    """Three models that people know."""
    processor, groups = "intel-xeon-amx", []
    for name, folder, model in [
        ("ResNet-50", "models", "resnet50"),
        ("ResNet-50, int8", "quantized", "resnet50"),
        ("BERT base", "models", "bert_base"),
    ]:
        of = dict(runs(folder, "threads", "model"))[processor]["1", model]
        times = {it: float(of[it]["median_ms"]) for it in (TRACT, ONNXRUNTIME, OPENVINO, OURS)}
        groups.append((name, [(it, time, f"{time:.0f} ms") for it, time in times.items()]))
    return chart("Time of a run on one thread (Intel Xeon with AMX)", groups)


def known_language():
    """Prefill and decode of three sizes, in int8."""
    found, groups = dict(runs("language", "model", "threads", "context"))["amd-epyc-zen-4"], []
    for name, model in [("SmolLM2 135M", "smollm2"), ("Qwen2 0.5B", "qwen2"), ("Llama 1B", "llama")]:
        of = found[f"{model}_int8", "1", "128"]
        rows = [("OpenVINO", of["openvino"]), ("tract-openvino", of["tract_bytes"])]
        speeds = [(it, 128e3 / float(row["prompt_ms"]), float(row["tokens_per_s"])) for it, row in rows]
        groups.append((f"{name}, prefill", [(it, speed, f"{speed:.0f}") for it, speed, _ in speeds]))
        groups.append((f"{name}, decode", [(it, speed, f"{speed:.1f}") for it, _, speed in speeds]))
    return chart("Tokens per second, int8 weights, one thread (AMD EPYC, Zen 4); each pair of bars has its own scale", groups, own_scale=True)


def main():
    text = DOCUMENT.read_text()
    marked = re.compile(r"(<!-- = (.*?) -->\n).*?(?=<!-- end -->)", re.DOTALL)
    written = {
        DOCUMENT: marked.sub(lambda match: match[1] + TABLES[match[2]](), text),
        HERE / "known.svg": known(),
        HERE / "language.svg": known_language(),
    }
    for path, new in written.items():
        if path.is_file() and path.read_text() == new:
            continue
        if sys.argv[1:] == ["--check"]:
            sys.exit(f"{path} and the results differ: run {Path(__file__)}")
        path.write_text(new)


if __name__ == "__main__":
    main()
