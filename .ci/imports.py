#!/usr/bin/env python3
"""Lists which files and folders of each crate's `src` import from which, and fails if there is a circle.

    .ci/imports.py

A folder is one place, and tests do not count. In a crate whose `lib.rs` has the table "How it is built" in the order of
the imports, no arrow may run up: a row imports only from the rows below it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Whether the table in lib.rs has the order of the imports.
CRATES = {"kernels/src": False, "src": False, "ir/src": True, "generation/src": True}


def code(file):
    """The text of a file, without its comments and tests."""
    text = re.sub(r"//.*", "", file.read_text())
    return re.split(r"#\[cfg\([^\]]*\btest\b[^\]]*\)\]\s*mod \w+ \{", text)[0]


def names(tree):
    """The first names of what follows `crate::`: one, or those of a list in braces."""
    if not tree.startswith("{"):
        return re.findall(r"^\w+", tree)
    flat = tree[1:]
    while flat != (flat := re.sub(r"\{[^{}]*\}", "", flat)):
        pass
    return [name for item in flat.split("}")[0].split(",") for name in re.findall(r"^\s*(\w+)", item)]


def imports(source):
    """For each place, those that it imports from."""
    files = sorted(source.rglob("*.rs"))
    tests = set(re.findall(r"#\[cfg\(test\)\]\s*mod (\w+);", (source / "lib.rs").read_text()))
    places = {file.relative_to(source).parts[0].removesuffix(".rs") for file in files} - {"lib"} - tests
    arrows = {place: set() for place in places}
    # What lib.rs re-exports, by its name there.
    reexports = re.findall(r"\buse (\w+)::(\w+|\{[^;]*);", code(source / "lib.rs"))
    home = {name: place for place, tree in reexports if place in places for name in names(tree)}
    for file in files:
        path = [part for part in file.relative_to(source).with_suffix("").parts if part != "mod"]
        if path[0] not in places or file.name == "tests.rs":
            continue
        for start, tree in re.findall(r"\b(crate|super(?:::super)*)::(\w+|\{[^;]*)", code(file)):
            if start == "crate" or start.count("super") == len(path):
                arrows[path[0]] |= {home.get(name, name) for name in names(tree)} & places - {path[0]}
    return arrows


def circle(arrows):
    """The places that are left when those are taken away, again and again, that import nothing of the rest, or that
    nothing of the rest imports."""
    left = set(arrows)
    while outer := {it for it in left if not arrows[it] & left or not any(it in arrows[other] for other in left)}:
        left -= outer
    return sorted(left)


wrong = []
for crate, ordered in CRATES.items():
    arrows = imports(ROOT / crate)
    for place, below in sorted(arrows.items()):
        print(f"{crate}: {place} -> {', '.join(sorted(below)) or 'nothing'}")
    if places := circle(arrows):
        wrong.append(f"{crate}: in a circle: {', '.join(places)}")
    if ordered:
        table = re.findall(r"^//! \| `(\w+)", (ROOT / crate / "lib.rs").read_text(), re.MULTILINE)
        rows = {place: row for row, place in reversed(list(enumerate(table)))}
        wrong += [f"{crate}: {place} is not in the table of lib.rs" for place in arrows if place not in rows]
        for place, other in sorted((place, other) for place in arrows for other in arrows[place]):
            if rows.get(other, 0) < rows.get(place, 0):
                wrong.append(f"{crate}: {place} -> {other} runs up")
sys.exit("\n".join(wrong) or 0)
