#!/usr/bin/env python3
"""Compares the tokenizers of this crate with those of OpenVINO on random strings, or measures both.

    cargo build --release --package tract-openvino-tokenizers --example texts
    python compare.py target/release/examples/texts                        10,000 strings for each kind of tokenizer
    python compare.py target/release/examples/texts --kind gpt2 --seed 7   others, of one kind
    python compare.py target/release/examples/texts --time                 times and memory

Each kind is made on the spot, as `kinds.py` has it, and trained on text that Python itself carries. OpenVINO's tables of characters
are of Unicode 14, as those of Python 3.11, with which texts are sorted: texts with characters that these do not have are counted apart.
So are texts with bytes that are no UTF-8, unless this crate has an error for them: OpenVINO's regular expressions take them for UTF-8,
and read what follows, which may be memory behind the text. The status is 1 if other ones differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path
from pydoc_data import topics

sys.dont_write_bytecode = True

import kinds
from strings import Strings
from theirs import memory

TEXTS = kinds.SENTENCES * 5 + [line for topic in topics.topics.values() for line in topic.splitlines() if line.strip()]
HERE = Path(__file__).resolve().parent
# The models of a folder of `kinds.write`, and one more for texts that are no UTF-8.
MODELS = {"openvino_tokenizer": "texts", "left_tokenizer": "texts", "openvino_detokenizer": "ids", "special_detokenizer": "ids"}
PACKED = "packed_tokenizer"


class Process:
    """A model in a process that answers lines of JSON: `theirs.py`, or the example."""

    def __init__(self, *command):
        self.command = [str(word) for word in command]
        self.process = None

    def start(self):
        """Starts the process, unless it runs, and gives what it says first."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.first = json.loads(self.process.stdout.readline())
        return self.first

    def answer(self, batch):
        self.start()
        self.process.stdin.write(json.dumps(batch) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            # A crash.
            status, self.process = self.process.wait(), None
            return {"error": f"the process ended with status {status}"}
        return json.loads(line)

    def run(self, batch):
        """The outputs, or a text about why there are none."""
        answer = self.answer(batch)
        if "error" in answer:
            return f"error: {answer['error']}"
        # NumPy does not keep NULs at the end of a text.
        return [[row.rstrip("\0") if isinstance(row, str) else row for row in output] for output in answer["outputs"]]

    def peak(self):
        return memory(self.process.pid, "VmHWM")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process = None


def theirs(file, *words):
    return Process(sys.executable, HERE / "theirs.py", file, *words)


def write_packed(folder):
    """Writes the tokenizer once more, for texts that come packed in bytes: strings are UTF-8 here."""
    text = (folder / "openvino_tokenizer.xml").read_text()
    for old, new in [('element_type="string"', 'element_type="u8"'), ('type="StringTensorUnpack" version="opset15"', 'type="StringTensorUnpack" version="extension"')]:
        assert text.count(old) == 1, f"{folder.name} has {text.count(old)} times {old}"
        text = text.replace(old, new)
    (folder / f"{PACKED}.xml").write_text(text)
    (folder / f"{PACKED}.bin").write_bytes((folder / "openvino_tokenizer.bin").read_bytes())


def differ(expected, got):
    """An error is one, whatever it says."""
    return expected != got and not (isinstance(expected, str) and isinstance(got, str))


def shortened(value):
    text = repr(value)
    return text if len(text) < 400 else f"{text[:200]} … {text[-200:]} ({len(text)} characters)"


def difference(expected, got):
    """What differs."""
    if isinstance(expected, str) or isinstance(got, str) or len(expected) != len(got):
        return f"OpenVINO {shortened(expected)}\n    here     {shortened(got)}"
    port = next(k for k, (a, b) in enumerate(zip(expected, got)) if a != b)
    return f"output {port}\n    OpenVINO {shortened(expected[port])}\n    here     {shortened(got[port])}"


def is_apart(text):
    """Whether a text is no UTF-8, or has characters that this Python's Unicode does not have; or a batch of texts that are no UTF-8."""
    return isinstance(text[0] if isinstance(text, list) else text, dict) or isinstance(text, str) and any(unicodedata.category(letter) == "Cn" for letter in text)


def compare(program, file, batches, shown):
    """How many texts or rows of ids differ, how many texts with new characters or broken ones, and for how many this crate has an error."""
    # OpenVINO takes any bytes in a tensor of strings.
    openvino = theirs(file.with_stem("openvino_tokenizer") if file.stem == PACKED else file)
    ours = Process(program, file)
    different, apart, errors = 0, 0, 0
    for batch in batches:
        expected, got = openvino.run(batch), ours.run(batch)
        # If nothing is left of any text of a batch, OpenVINO gives one row.
        lost = not isinstance(expected, str) and not isinstance(batch[0], list) and len(expected[0]) < len(batch)
        if lost or not differ(expected, got):
            continue
        # Which of them it is, unless it is the batch.
        alone = [(it, openvino.run([it]), ours.run([it])) for it in batch]
        found = [it for it in alone if differ(it[1], it[2])] or [(batch, expected, got)]
        errors += sum(isinstance(got, str) for _, _, got in found)
        apart += sum(is_apart(it[0]) for it in found)
        found = [it for it in found if not is_apart(it[0])]
        different += len(found)
        for it, a, b in found[: max(shown, 0)]:
            print(f"  {file.parent.name}/{file.stem}: {shortened(it)}\n    {difference(a, b)}")
        shown -= len(found)
    openvino.close()
    ours.close()
    return different, apart, errors


def compare_all(program, names, seed, count, shown, to):
    """Compares tokenizers, and gives the number of differences."""
    rows, differences = [], 0
    for name in names:
        tokenizer = kinds.KINDS[name](TEXTS, 4000)
        folder = to / name
        kinds.write(tokenizer, folder)
        write_packed(folder)
        strings = Strings(f"{seed} {name}", kinds.special_tokens(tokenizer))
        texts = list(strings.batches(count))
        openvino = theirs(folder / "openvino_tokenizer.xml")
        ids = [openvino.run(batch)[0] for batch in texts] + [strings.ids(len(tokenizer)) for _ in range(count // 4)]
        openvino.close()
        broken = [[{"bytes": text.hex()} for text in strings.broken(batch)] for batch in texts]
        inputs = {"texts": texts, "ids": ids, "bytes": broken}
        found, apart, errors = zip(*[compare(program, folder / f"{model}.xml", inputs[kind], shown) for model, kind in [*MODELS.items(), (PACKED, "bytes")]])
        differences += sum(found) + errors[-1]
        rows.append(f"| {name} | {count} | {found[0]} | {found[1]} | {sum(apart[:-1])} | {sum(map(len, ids))} | {found[2]} | {found[3]} | {apart[-1]} |")
        print(rows[-1], flush=True)
    print(
        "\n| tokenizer | texts | differences | padded at the left | with new characters | rows of ids | differences "
        "| with special tokens | broken UTF-8 |",
        "|" + "---|" * 9,
        *rows,
        sep="\n",
    )
    return differences


def cpu(process):
    """Seconds that the threads of a process have run, which others on the machine do not change."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{process}/task").iterdir()) / 1e9


def measured(process, texts):
    """Seconds to load, and the least for each list of texts, and the most bytes of memory beyond those of Python."""
    first, least = process.start(), []
    for alike in texts:
        times = []
        for text in alike:
            before = cpu(process.process.pid)
            process.answer([text])
            times.append(cpu(process.process.pid) - before)
        least.append(min(times))
    peak = process.peak() - first.get("memory_before", 0)
    process.close()
    return [first["load_nanoseconds"] / 1e9, *least, peak]


def time_all(program, names, rounds, to):
    """Times in turns, each in a process of its own, all on one core; the least of all rounds. Gives how many kinds take more than 12
    times as long for 10 times as much of one character: a square would be 100."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # The GNU C library keeps what is freed. Else it may give the system its memory back within a run, several times.
    os.environ |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    words = " ".join(TEXTS).split()
    words *= 110_000 // len(words) + 1
    # Those of a list differ, so that nobody knows a text from before; the first of a list finds memory that is new.
    texts = [
        [" ".join(words[100 * k : 100 * k + 100]) for k in range(20)],
        [" ".join(words[1000 * k : 1000 * k + 100_000]) for k in range(4)],
        ["a" * (100_000 - k) for k in range(4)],
        ["a" * (1_000_000 - k) for k in range(4)],
    ]
    print("| tokenizer | load | 100 words | 100,000 words | memory | 1 MB against 100 kB of one character | the same, OpenVINO |")
    print("|---|---|---|---|---|---|---|")
    bad = 0
    for name in names:
        folder = to / name
        kinds.write(kinds.KINDS[name](TEXTS, 4000), folder)
        file = folder / "openvino_tokenizer.xml"
        best = {}
        for _ in range(rounds):
            for who, process in [("theirs", theirs(file, "shapes")), ("ours", Process(program, file, "shapes"))]:
                found = measured(process, texts)
                best[who] = [min(pair) for pair in zip(best.get(who, found), found)]
        ratios = [best["ours"][k] / best["theirs"][k] for k in (0, 1, 2, 5)]
        growth, their_growth = (best[who][4] / best[who][3] for who in ("ours", "theirs"))
        bad += growth > 12
        print(f"| {name} | " + " | ".join(f"{ratio:.2f}" for ratio in [*ratios, growth, their_growth]) + " |", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the example texts of this crate")
    parser.add_argument("--kind", action="append", choices=kinds.KINDS, help="only this one; may be repeated")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=10_000, help="the number of strings")
    parser.add_argument("--show", type=int, default=10, help="the most differences that are shown for each kind")
    parser.add_argument("--to", type=Path, help="where the models are kept")
    parser.add_argument("--time", action="store_true", help="measure both")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    program = options.program.resolve()
    names = options.kind or list(kinds.KINDS)
    with tempfile.TemporaryDirectory() as folder:
        to = options.to or Path(folder)
        if options.time:
            return time_all(program, names, options.rounds, to) > 0
        return compare_all(program, names, options.seed, options.count, options.show, to) > 0


if __name__ == "__main__":
    sys.exit(main())
