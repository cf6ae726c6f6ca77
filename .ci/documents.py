#!/usr/bin/env python3
"""Runs the commands of documents, and compares what they print with what the documents show.

    .ci/documents.py README.md docs/performance.md

Each line of a block of sh is run as it stands there. A block of text shows what the block of sh before it prints to
standard output, except that floats may differ by rounding; only prose may stand between the two. Blocks of console are
not run: they have commands that need other models, other runtimes or hours. What these print is not shown.
"""

import difflib
import math
import re
import subprocess
import sys
import time


def blocks(document):
    """The language and the text of each block."""
    with open(document) as file:
        return re.findall(r"^ *```(\w+)\n(.*?)^ *```$", file.read(), re.DOTALL | re.MULTILINE)


def run(command):
    """What a command prints to standard output, which is shown, too."""
    print(f"\n=== {command}", flush=True)
    started = time.monotonic()
    # No command waits for input.
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", command], text=True, **streams)
    output = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        output += line
    if process.wait():
        sys.exit(f"{command}\nended with status {process.returncode}")
    print(f"=== {time.monotonic() - started:.0f} s", flush=True)
    return output


FLOAT = r"-?\d+\.\d+"


def lines(text):
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def alike(shown, printed):
    """Whether texts are the same but for the rounding of floats."""
    floats = [map(float, re.findall(FLOAT, text)) for text in (shown, printed)]
    return re.split(FLOAT, shown) == re.split(FLOAT, printed) and all(
        math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-4) for pair in zip(*floats)
    )


def main():
    outputs = {}
    for document in sys.argv[1:]:
        output = None
        for language, text in blocks(document):
            if language == "sh":
                commands = text.replace("\\\n", "").splitlines()
                for command in commands:
                    if command not in outputs:
                        outputs[command] = run(command)
                output = "".join(outputs[command] for command in commands)
            elif language == "text":
                if output is None:
                    sys.exit(f"{document} shows output of no command:\n{text}")
                shown, printed = lines(text), lines(output)
                if not alike("\n".join(shown), "\n".join(printed)):
                    sys.exit("\n".join(difflib.unified_diff(shown, printed, document, "what it prints", lineterm="")))
                output = None
            else:
                output = None


if __name__ == "__main__":
    main()
