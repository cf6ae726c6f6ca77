"""What is known of random models whose outputs are not simply those that OpenVINO's CPU plugin computes."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass
class Drawn:
    """What a rule may ask of a model: the operation that was drawn, its attributes as the file has them, and the
    values of its inputs."""

    kind: str
    attributes: dict
    inputs: list
    # Whether the outputs of the model are those of the operation.
    is_alone: bool
    # Of each Parameter of the model the shape as the file has it.
    shapes: list
    # The types of all layers.
    layers: list


@dataclass(frozen=True)
class Rule:
    # `MaxPool-8`, or `MaxPool` for all revisions.
    operation: str
    # Of a `Drawn`, whether the rule is about it.
    condition: object
    # The condition in words.
    text: str
    # How one knows.
    evidence: str
    # "plugin" or "reference": whose outputs are right, the CPU plugin's or those of OpenVINO's reference
    # implementations. A function of the inputs: its list of outputs is right. "differs": this project's reader
    # gives something else.
    verdict: object

    def is_about(self, drawn):
        return self.operation in (drawn.kind, drawn.kind.rsplit("-", 1)[0]) and self.condition(drawn)


RULES = []


def outputs_rule(drawn):
    """The first rule that says which outputs are right, or None."""
    return next((it for it in RULES if it.verdict != "differs" and it.is_about(drawn)), None)


def reader_rule(drawn):
    """The first rule that says that this project's reader gives something else, or None."""
    return next((it for it in RULES if it.verdict == "differs" and it.is_about(drawn)), None)


def drawn_of(xml, kind, inputs, is_alone):
    """What rules may ask, of the file."""
    root = ElementTree.fromstring(xml)
    layers = list(root.iter("layer"))
    type_ = kind.rsplit("-", 1)[0].lower()
    data = (it.find("data") for it in layers if it.get("type").lower() == type_)
    first = next(data, None)
    parameters = [it.find("data") for it in root.findall("layers/layer") if it.get("type") == "Parameter"]
    return Drawn(
        kind,
        {} if first is None else dict(first.attrib),
        inputs,
        is_alone,
        [re.sub(r"\s", "", it.get("shape", "")) for it in parameters],
        [it.get("type") for it in layers],
    )
