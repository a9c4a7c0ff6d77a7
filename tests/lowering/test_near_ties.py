"""Pairs away from ties: there multipliers near a scale mean what real arithmetic says."""

import numpy as np
import pytest

from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from qpasses.evidence.prove_pairs import add_inputs, near_ties, real_sum
from qpasses.evidence.prove_products import mul_inputs, products_near_ties, real_product
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers import add_numbers, mul_numbers
from qpasses.lowering.numbers.add_numbers import choose_add
from qpasses.lowering.numbers.mul_numbers import choose_mul

ONNX = load_target("onnx")


def triple(seed):
    rng = np.random.default_rng(seed)
    scales = np.exp(rng.uniform(-6, 1, 3)) if seed % 3 else 2.0 ** rng.integers(-6, 1, 3)
    zeros = rng.integers(0, 256, 3).tolist()
    return [
        Quantization(float(np.float32(scale)), zero, "uint8")
        for scale, zero in zip(scales, zeros, strict=True)
    ]


seeds = pytest.mark.parametrize("seed", range(8))


@seeds
@pytest.mark.parametrize("op", ["IntAdd", "IntSub"])
def test_away_from_ties_a_chosen_sum_is_the_real_one(seed, op, monkeypatch):
    asked = []

    def watched(*given):
        asked.append(near_ties(*given))
        return asked[-1]

    monkeypatch.setattr(add_numbers, "near_ties", watched)
    a, b, y = triple(seed)
    choice = choose_add(a, b, y, y.limits, ONNX, op)
    numbers = (int(each) for each in (choice.a_multiplier, choice.b_multiplier, choice.shift))
    given = add_inputs(a, b, y, y.limits, *numbers)
    meaning = OPS[op].reference(*given.values(), rounding="half_to_even")
    assert (meaning == real_sum(a, b, y, y.limits, op))[~asked[0]].all()


@seeds
def test_away_from_ties_a_chosen_product_is_the_real_one(seed, monkeypatch):
    asked = []

    def watched(*given):
        asked.append(products_near_ties(*given))
        return asked[-1]

    monkeypatch.setattr(mul_numbers, "products_near_ties", watched)
    a, b, y = triple(seed)
    choice = choose_mul(a, b, y, ONNX)
    given = mul_inputs(a, b, y, int(choice.multiplier), int(choice.shift))
    meaning = OPS["IntMul"].reference(*given.values(), rounding="half_to_even")
    assert (meaning == real_product(a, b, y))[~asked[0]].all()
