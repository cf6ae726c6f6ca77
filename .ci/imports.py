#!/usr/bin/env python3
"""Lists which files and folders of each crate's `src` import from which, and fails if there is a circle.

    .ci/imports.py

A folder is one place, and tests do not count; within some folders files are places, too. In a crate whose `lib.rs` has the
table "How it is built" in the order of the imports, no arrow may run up: a row imports only from itself and the rows below it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Whether the table in lib.rs has the order of the imports.
CRATES = {"kernels/src": True, "src": False, "ir/src": True, "tokenizers/src": True, "generation/src": True, "capi/src": True}

# Folders whose files are places, too, and how the crate names them.
FOLDERS = {"kernels/src/quantized": "crate::quantized"}


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


def imports(source, prefix="crate"):
    """For each place of a crate or a folder, those that it imports from. `prefix` is what names of the places begin with."""
    files = sorted(source.rglob("*.rs"))
    root = next(root for root in (source / "lib.rs", source / "mod.rs") if root.exists())
    tests = set(re.findall(r"#\[cfg\(test\)\]\s*(?:pub\S* )?mod (\w+);", root.read_text()))
    places = {file.relative_to(source).parts[0].removesuffix(".rs") for file in files} - {root.stem} - tests
    arrows = {place: set() for place in places}
    # What the root re-exports, by its name there.
    reexports = re.findall(r"\buse (\w+)::(\w+|\{[^;]*);", code(root))
    home = {name: place for place, tree in reexports if place in places for name in names(tree)}
    for file in files:
        path = [part for part in file.relative_to(source).with_suffix("").parts if part != "mod"]
        if not path or path[0] not in places or file.name == "tests.rs":
            continue
        for start, tree in re.findall(rf"\b({prefix}|super(?:::super)*)::(\w+|\{{[^;]*)", code(file)):
            if start == prefix or start.count("super") == len(path):
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
for crate, arrows in [(crate, imports(ROOT / crate)) for crate in CRATES] + [
    (folder, imports(ROOT / folder, prefix)) for folder, prefix in FOLDERS.items()
]:
    for place, below in sorted(arrows.items()):
        print(f"{crate}: {place} -> {', '.join(sorted(below)) or 'nothing'}")
    if places := circle(arrows):
        wrong.append(f"{crate}: in a circle: {', '.join(places)}")
    if CRATES.get(crate):
        table = re.findall(r"^//! \| (`[^|]*) \|", (ROOT / crate / "lib.rs").read_text(), re.MULTILINE)
        rows = {}
        for row, files in enumerate(table):
            for place in re.findall(r"`(\w+)", files):
                rows.setdefault(place, row)
        wrong += [f"{crate}: {place} is not in the table of lib.rs" for place in arrows if place not in rows]
        for place, other in sorted((place, other) for place in arrows for other in arrows[place]):
            if rows.get(other, 0) < rows.get(place, 0):
                wrong.append(f"{crate}: {place} -> {other} runs up")
sys.exit("\n".join(wrong) or 0)
