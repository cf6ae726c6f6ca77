#!/usr/bin/env python3
"""Runs the commands of documents, and compares what they print with what the documents show.

    .ci/documents.py README.md cli/README.md

Each line of a block of sh is run as it stands there, once. A block of text directly after it (but for prose) shows what it
prints to standard output; floats may differ by rounding.
"""

import math
import re
import subprocess
import sys
import time


def run(command):
    """What a command prints to standard output, which is shown, too."""
    print(f"\n=== {command}", flush=True)
    started = time.monotonic()
    # No command waits for input.
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    output = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        output += line
    if process.wait():
        sys.exit(f"{command}\nended with status {process.returncode}")
    print(f"=== {time.monotonic() - started:.0f} s", flush=True)
    return output


FLOAT = r"-?\d+\.\d+"


def alike(shown, printed):
    """Whether texts are the same but for the rounding of floats."""
    texts = ["\n".join(line.rstrip() for line in text.strip("\n").splitlines()) for text in (shown, printed)]
    rest, floats = [[function(FLOAT, text) for text in texts] for function in (re.split, re.findall)]
    return rest[0] == rest[1] and all(
        math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=1e-4) for a, b in zip(*floats)
    )


outputs = {}
for document in sys.argv[1:]:
    output = ""
    text = open(document).read()
    for language, block in re.findall(r"^ *```(\w+)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
        if language == "sh":
            output = ""
            for command in block.replace("\\\n", "").splitlines():
                if command not in outputs:
                    outputs[command] = run(command)
                output += outputs[command]
        elif language == "text" and not alike(block, output):
            sys.exit(f"{document} shows\n{block}\nbut this is printed:\n{output}")
