#!/usr/bin/env python3
"""Says which dependencies of the libraries want a newer Rust than the libraries do. Reads what
`cargo metadata --all-features` writes."""

import json
import sys

LIBRARIES = ["tract-openvino", "tract-openvino-ir", "tract-openvino-tokenizers", "tract-openvino-generation"]


def number(version):
    return ([int(part) for part in version.split(".")] + [0, 0])[:3]


def dependencies(metadata, roots):
    """The packages that are compiled for others."""
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    found, todo = set(), list(roots)
    while todo:
        package = todo.pop()
        if package not in found:
            found.add(package)
            kinds = ((dep["pkg"], {kind["kind"] for kind in dep["dep_kinds"]}) for dep in nodes[package])
            todo += [name for name, kind in kinds if kind != {"dev"}]
    return found


def main():
    metadata = json.load(sys.stdin)
    packages = {package["id"]: package for package in metadata["packages"]}
    roots = [id for id, package in packages.items() if package["name"] in LIBRARIES]
    least = {packages[root]["rust_version"] for root in roots}
    assert len(roots) == len(LIBRARIES) and len(least) == 1, f"{roots}: {least}"
    least = least.pop()
    used = [packages[id] for id in dependencies(metadata, roots)]
    newer = [it for it in used if number(it["rust_version"] or "1.0") > number(least)]
    for it in sorted(newer, key=lambda it: it["name"]):
        print(f"{it['name']} {it['version']} wants Rust {it['rust_version']}, which is newer than {least}")
    print(f"{len(used) - len(newer)} of {len(used)} packages do with Rust {least}, or do not say")
    sys.exit(bool(newer))


if __name__ == "__main__":
    main()
