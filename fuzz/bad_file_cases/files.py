"""What is not IR at all, and weights that are not those of the model."""

import numpy as np

from bad_file_cases import good, section
from bad_file_cases.net import Net, edited, floats


def transpose():
    """The model that most of these change: a matrix, transposed by a constant order."""
    net = Net()
    x = net.input("x", floats(2, 3))
    order = net.constant([1, 0], "order")
    return net.result(net.layer("Transpose-1", [x, order], [("f32", [3, 2])]))


NET = transpose()
WHOLE = {"weights": bytes(NET.weights), "inputs": NET.inputs}


def changed(*edits):
    return edited(NET.text(), *edits)


def add_files():
    case = section("The file")
    case("file_empty", "empty", "", **WHOLE)
    case("file_text", "not XML", "This is a model.\n", **WHOLE)
    case("file_binary", "an ELF file", b"\x7fELF\x02\x01\x01" + bytes(57), **WHOLE)
    case("file_cut_short", "XML that ends in the middle", NET.text()[: len(NET.text()) // 2], **WHOLE)
    case("file_utf16", "UTF-16", NET.text().encode("utf-16"), text="valid XML", **WHOLE)
    entities = '<!ENTITY a0 "ha">'
    for number in range(1, 12):
        entities += f'<!ENTITY a{number} "{f"&a{number - 1};" * 10}">'
    laughs = changed(
        ("<net ", f"<!DOCTYPE net [{entities}]>\n<net "), ('name="net"', 'name="&a11;"')
    )
    case("file_entities", "DOCTYPE with entities that make 10¹¹ characters", laughs, **WHOLE)
    deep = "<a>" * 4_000 + "</a>" * 4_000
    case("file_deep", "4000 elements within each other", changed(("</net>", f"{deep}</net>")),
         text="valid", outputs=good(floats(2, 3).T), **WHOLE)
    case("file_root", "the root element is <model>",
         changed(("<net ", "<model "), ("</net>", "</model>")), **WHOLE)
    for version in [7, 12]:
        case(f"file_version_{version}", f"version {version}",
             changed(('version="11"', f'version="{version}"')), **WHOLE)
    case("file_no_layers", "no <layers>", '<net name="net" version="11"/>', **WHOLE)


def add_weights():
    case = section("Weights")
    case("weights_missing", "no .bin", NET.text(), **{**WHOLE, "weights": None})
    case("weights_cut_short", "half of the .bin", NET.text(),
         **{**WHOLE, "weights": WHOLE["weights"][:8]})
    case("weights_of_another", "the .bin of another model", NET.text(),
         **{**WHOLE, "weights": np.array([0.25, -3], np.float64).tobytes()})
    offset, size, shape = 'offset="0"', 'size="16"', 'shape="2" offset'
    case("weights_offset_negative", "offset −8", changed((offset, 'offset="-8"')), **WHOLE)
    case("weights_offset_overflow", "offset 2⁶⁴ − 8",
         changed((offset, f'offset="{2**64 - 8}"')), **WHOLE)
    case("weights_size_overflow", "size 2⁶³ − 1",
         changed((size, f'size="{2**63 - 1}"')), **WHOLE)
    case("weights_size_small", "size 8, shape [2] of i64", changed((size, 'size="8"')), **WHOLE)
    huge = ",".join([str(2**32)] * 3)
    case("weights_shape_overflow", "shape 2³² × 2³² × 2³²",
         changed((shape, f'shape="{huge}" offset')), **WHOLE)
    case("weights_shape_empty", "shape 0 × 2³² × 2³²",
         changed((shape, f'shape="0,{2**32},{2**32}" offset')), **WHOLE)
    case("weights_type", "element type f33",
         changed(('element_type="i64"', 'element_type="f33"')), **WHOLE)
    for name, what, ends in [
        ("strings_cut_short", "strings whose ends are behind the bytes", [0, 2, 2**30]),
        ("strings_backwards", "a string that ends before it begins", [0, 6, 2]),
    ]:
        content = np.array([2, *ends], np.int32).tobytes() + b"abcd"
        net = Net()
        strings = net.raw_constant("string", [2], content, "strings")
        case(name, what, net.result(strings))


def add():
    add_files()
    add_weights()
