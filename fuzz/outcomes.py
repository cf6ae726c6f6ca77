"""What bad_input.py and bad_files.py share: a process with limits for each run, what came of it as the cell
of a table, and the tables as Markdown."""

import importlib.metadata
import importlib.util
import json
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

GUARD = 777
GUARD_INDEX = 3


def guarded(array, guard):
    """A copy of the array in the middle of a buffer that is full of the guard's number."""
    margin = 4096
    buffer = np.full(array.size + 2 * margin, guard, array.dtype)
    view = buffer[margin : margin + array.size].reshape(array.shape)
    view[...] = array
    return view


# --- processes --------------------------------------------------------------------------------------


def add_limits(parser):
    """The arguments that say how a run is limited."""
    parser.add_argument("--only", default="", help="cases whose section or name contains this")
    parser.add_argument("--seconds", type=float, default=10, help="limit of time of a run")
    parser.add_argument("--memory", type=float, default=4, help="limit of memory of a run, in GiB")
    parser.add_argument("--document", choices=["check", "write"],
                        help="compare the column of tract-openvino in docs/bad_input.md with what it does, or write it")
    parser.add_argument("--jobs", type=int, default=2, help="how many runs at a time")


def run_limited(command, options, **more):
    """Runs a command within the limits of time and of memory."""

    def limit():
        bytes_ = int(options.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return subprocess.run(
        command, capture_output=True, text=True, timeout=options.seconds, preexec_fn=limit, **more
    )


def measure_all(measure, pairs, options):
    """The cell of each pair of a runtime and a case: `measure` makes it, unless time runs out."""

    def cell(pair):
        try:
            return measure(*pair, options)
        except subprocess.TimeoutExpired:
            return f"no answer in {options.seconds:g} s"

    with ThreadPoolExecutor(options.jobs) as pool:
        return dict(zip(pairs, pool.map(cell, pairs), strict=True))


def child(run):
    """Runs one case here and prints what came of it as lines of JSON. `run` is given what it calls when the
    model is loaded, and returns shape and elements of the output."""

    def say(**what):
        print(json.dumps(what), flush=True)

    try:
        shape, values = run(lambda: say(loaded=True))
        say(shape=shape, values=[float(value) for value in values[:6]])
    except MemoryError as error:
        say(error=f"MemoryError {error}")
    except Exception as error:
        say(error=str(error))


# --- what came of it --------------------------------------------------------------------------------

NO_MEMORY = re.compile(r"bad_alloc|MemoryError|alloc\w* .*memory|memory alloc\w*|out of memory", re.I)
NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf)|NaN")
# What stands around the part of a message that says what is wrong.
BOILERPLATE = [
    r"Exception from \S+:\d+:",
    r"\[CPU\] \w+ node with name '\S*' ",
    r"Check '.*' failed at \S+:\d+:",
    r"While validating node '.*' with friendly_name '\S*':",
    r"\[ONNXRuntimeError\] : \d+ : \w+ : ",
    r"Non-zero status code returned while running .*? Status Message: ",
    r"This is an invalid model\. ",
    r"Node ?(:\S* |\(gather\) Op \(\w+\) )",
    r"\S*/(?=\w+\.(cc|cpp|h|hpp|rs))",
    r"\w+\.(cc|h):\d+ .*?\(.*?\) ",
    r"Caught exception: ",
    r'Evaluating #\d+ "gather" \S+: ',
    r'Translating node #\d+ "gather" \S+ ToTypedTranslator: ',
    r'Failed analyse for node #\d+ "gather" \S+: Infering facts: ',
    r"Applying rule GivenRule \{ .*? \}: ",
    r'running pass \w+: declutter node #\d+ "gather" \w+: ',
    r"in output_facts invocation for \S+: ",
    r"Building node gather \(\w+\): ",
    r"^\s*(Gather(ND)?-\d: )+",
]


def shorten(message, length=88):
    """The part of a message that says what is wrong, on one line."""
    for pattern in BOILERPLATE:
        message = re.sub(pattern, "", message)
    message = " ".join(message.split()).replace("`", "'").replace("|", "\\|")
    return message if len(message) <= length else message[: length - 1].rstrip() + "…"


def sizes(shape):
    return " × ".join(str(size) for size in shape) if len(shape) > 0 else "scalar"


def describe_value(known, shape, values):
    """A cell for an output, with a word on numbers that are not among those that the operator moves: `known`,
    or any but the guard's where it computes new ones."""
    if 0 in shape:
        return f"value: empty, {sizes(shape)}"
    count = int(np.prod(shape, dtype=object))
    shown = ", ".join(f"{value:.3g}" for value in values) + (", …" if count > len(values) else "")
    cell = f"value: {shown}"
    if known is None:
        return f"**{cell}** (read past an input: the guard)" if GUARD in values else cell
    known = known | {0.0}
    if any(value not in known for value in values):
        beside = all(value in known | {float(GUARD)} for value in values)
        cell = f"**{cell}** ({'read past data: the guard' if beside else 'not from data'})"
    return cell


def describe_death(status, stderr):
    """A cell for a process that ended by a signal or a panic, else None."""
    if status == 101 and "panicked at" in stderr:
        message = stderr.split("panicked at", 1)[1].split("\n", 2)[1]
        return f"**panic**: {shorten(message)}"
    if status < 0:
        if "memory allocation of" in stderr or "bad_alloc" in stderr:
            return f"**out of memory** ({signal.Signals(-status).name})"
        return f"**crash: {signal.Signals(-status).name}**"
    return None


def describe_error(message, loaded):
    if NO_MEMORY.search(message):
        return f"out of memory (error: {shorten(message, 60)})"
    return f"error ({'run' if loaded else 'load'}): {shorten(message)}"


def cell_of_python(known, process):
    """A cell for a run in a Python process, which is a [`child`]."""
    said = {}
    for line in process.stdout.splitlines():
        if line.startswith("{"):
            said.update(json.loads(line))
    if "values" in said:
        return describe_value(known, said["shape"], said["values"])
    if "error" in said:
        return describe_error(said["error"], "loaded" in said)
    death = describe_death(process.returncode, process.stderr)
    return death or f"error: {shorten(process.stderr)}"


# --- the tables -------------------------------------------------------------------------------------


def print_row(cells):
    print(f"| {' | '.join(cells)} |")


def print_header(cells):
    print_row(cells)
    print(f"|{'---|' * len(cells)}")


def version_of_package(name):
    """The version of a Python package, or None if it is not installed."""
    found = importlib.util.find_spec(name) is not None
    return importlib.metadata.version(name) if found else None


def version_of_crate(name):
    """The version of a crate that the programs here are built with."""
    lock = (Path(__file__).parents[1] / "Cargo.lock").read_text()
    return re.search(rf'name = "{name}"\nversion = "(.*?)"', lock).group(1)


def print_versions(titles, versions, options):
    """Prints what was measured, and within which limits."""
    parts = [f"{titles[it]} {version or '(not installed: skipped)'}" for it, version in versions.items()]
    print(f"Measured: {', '.join(parts)}; numpy {np.__version__}; limits of a run: "
          f"{options.seconds:g} s, {options.memory:g} GiB.")


def in_document(first_column, cells, write):
    """Writes or checks the column of tract-openvino in those tables of the document whose first column has this name."""
    path = Path(__file__).parents[1] / "docs" / "bad_input.md"
    lines = path.read_text().splitlines()
    cells, column, stale = iter(cells), None, []
    for number, line in enumerate(lines):
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if first_column in row[:1] and "tract-openvino" in row:
            column = row.index("tract-openvino")
        elif not row:
            column = None
        elif column and not row[0].startswith("---"):
            row[column] = next(cells)
            lines[number] = f"| {' | '.join(row)} |"
            if lines[number] != line:
                stale.append(f"-{line}\n+{lines[number]}")
    if write:
        path.write_text("\n".join(lines) + "\n")
    elif stale:
        sys.exit("\n".join([*stale, f"{path} is not what tract-openvino does: write it with --document write"]))


def print_section(section, header):
    """Prints the heading of a section and the head of its table."""
    print(f"\n### {section}\n")
    print_header(header)
