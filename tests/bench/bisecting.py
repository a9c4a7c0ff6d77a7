"""make bisect: emulated devices whose rule bisect names, planted faults that it locates."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import qpasses
from opsets.target import load_target
from qpasses.checking.bisecting.bisection import Bisection
from qpasses.load.integer_model import IntegerModel, read_integer_model
from tests.bench.markdown import replaced, table
from tests.support.emulated_device import RULES, Device, save_dump
from tests.support.planted_faults import FAULTS, planted

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "bisect.md"
MODELS = ROOT / "models"
DATA = MODELS / "digits_cnn"

Feed = Mapping[str, Any]


@dataclass(frozen=True)
class Named:
    """The ``rule`` of a device, and what bisect says of it."""

    rule: str
    found: Bisection

    @property
    def is_named(self) -> bool:
        """Whether it is among the rules that explain every code of all nodes."""
        return self.rule in self.found.rules


@dataclass(frozen=True)
class Located:
    """A planted fault, where it is, and what bisect found."""

    kind: str
    model: str
    node: str
    found: Bisection

    @property
    def is_located(self) -> bool:
        """Whether its node, and no other one, is found."""
        return [each.node for each in self.found.faults] == [self.node]


@cache
@cache
def few_bits(rounding: str) -> onnx.ModelProto:
    """digits_cnn for a machine whose multipliers have two bits: ties are frequent there."""
    target = replace(
        load_target("onnx"),
        name="few_bits",
        multiplier_bits=2,
        rounding=rounding,
        fast_kernels=False,
    )
    return quantized("digits_cnn", target=target)


def quantized(name: str, **options: Any) -> onnx.ModelProto:
    """A shipped model as integers."""
    made = qpasses.quantize(
        MODELS / name / f"{name}.onnx", DATA / "calibration.npz", samples=64, **options
    ).model
    assert made is not None
    return made


def pictures(count: int, name: str = "image") -> list[Feed]:
    """So many of the digits that no calibration has seen."""
    images = np.load(DATA / "test.npz")["image"]
    places = np.linspace(0, len(images) - 1, count).astype(int)
    return [{name: images[place : place + 1]} for place in places]


def compared(
    model: onnx.ModelProto, read: IntegerModel, device: Device, feeds: Sequence[Feed]
) -> Bisection:
    """What bisect says of a device's dump."""
    with tempfile.TemporaryDirectory() as folder:
        save_dump(Path(folder), [device.run(feed) for feed in feeds])
        return qpasses.bisect(model, folder, feeds)


def named(samples: int, rules: Sequence[str] = (*RULES,)) -> Iterator[Named]:
    """Each of ``rules`` on a file of another rounding, by its own name."""
    for rule in rules:
        model = few_bits(RULES[rule].file)
        read = read_integer_model(model, "digits_cnn")
        found = compared(model, read, Device(read, RULES[rule].codes), pictures(samples))
        yield Named(rule, found)


def located(count: int, samples: int = 2) -> Iterator[Located]:
    """So many faults, kind by kind, in nodes of two models that a number draws."""
    models = {name: quantized(name) for name in ("digits_cnn", "digits_vit")}
    reads = {name: read_integer_model(model, name) for name, model in models.items()}
    kinds, rng = [*FAULTS], np.random.default_rng(1)
    for number in range(count):
        kind, name = kinds[number % len(kinds)], [*models][number // len(kinds) % 2]
        read, feeds = reads[name], pictures(samples, models[name].graph.input[0].name)
        right = Device(read).run(feeds[0])
        while True:
            tensor = str(rng.choice([*right]))
            fault = planted(kind, int(rng.integers(1 << 30)))
            if _may_be(right[tensor]) and not np.array_equal(
                fault(right[tensor]), right[tensor]
            ):
                break
        device = Device(read, faults={tensor: fault})
        node = next(n.name for n in read.graph.nodes if tensor in [t.name for t in n.outputs])
        yield Located(kind, name, node, compared(models[name], read, device, feeds))


def _may_be(codes: Any) -> bool:
    return bool(codes.ndim > 1 and codes.shape[1 if codes.ndim > 2 else -1] > 1)


def rules_table(rules: Sequence[Named]) -> str:
    """Which rules are named, and which give the same codes."""
    rows = []
    for each in rules:
        others = "; ".join(rule for rule in each.found.rules if rule != each.rule)
        rows.append([each.rule, "yes" if each.is_named else "no", others or "-"])
    named = sum(each.is_named for each in rules)
    head = ["the device's rule", "named", "gives every code as well"]
    return f"{named} of {len(rules)} rules were named:\n\n{table(head, rows)}"


def faults_table(faults: Sequence[Located]) -> str:
    """How many faults of each kind are located, at their node and at no other one."""
    rows = []
    for kind in FAULTS:
        of_kind = [each for each in faults if each.kind == kind]
        right = sum(each.is_located for each in of_kind)
        rows.append([kind, str(len(of_kind)), str(right)])
    right = sum(each.is_located for each in faults)
    head = ["fault", "planted", "located"]
    return f"{right} of {len(faults)} faults were located:\n\n{table(head, rows)}"


def main() -> None:
    """Print both, or write them; exit code 1 if a rule is not named, a fault not located."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="into docs/bisect.md")
    asked = parser.parse_args()
    rules, faults = [*named(asked.samples)], [*located(asked.faults)]
    found = f"{rules_table(rules)}\n{faults_table(faults)}"
    print(found)
    for each in faults:
        if not each.is_located:
            nodes = [tensor.node for tensor in each.found.faults]
            print(f"not located: {each.kind} at {each.node} of {each.model}: {nodes}")
    if asked.write:
        text = replaced(DOCUMENT.read_text("utf-8"), "devices", found)
        DOCUMENT.write_text(text, "utf-8")
    right = all(each.is_named for each in rules) and all(each.is_located for each in faults)
    sys.exit(not right)


if __name__ == "__main__":
    main()
