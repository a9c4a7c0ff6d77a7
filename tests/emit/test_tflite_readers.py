"""Who else reads the files: Vela for Ethos-U, and the legalization of TFLite to TOSA."""

import pytest

from calibration import input_specs, open_samples
from qpasses import export
from tests.bench.tflite_files import NPUS, as_tosa, beside, on_npu
from tests.support.litert import needs_litert
from tests.support.litert_nets import integer_of
from tests.support.small_models import numbers
from tests.support.tosa_nets import C6, K, feeds, net

CNN = """
    u = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, k, c)  v = Relu (u)
    w = Conv <group = 6, pads = [1, 1, 1, 1]> (v, d)  a = Add (v, w)
    b = GlobalAveragePool (a)  e = Flatten (b)  y = Gemm (e, f)
"""


@pytest.fixture
def written(tmp_path):
    made = net(CNN, k=K, c=C6, d=numbers(6, 1, 3, 3) / 3, f=numbers(6, 5))
    integer, place = integer_of(made), tmp_path / "m.tflite"
    return made, integer, export(integer, place), place


@needs_litert
@pytest.mark.skipif(beside("vela") is None, reason="no Vela: pip install ethos-u-vela")
@pytest.mark.parametrize("npu", NPUS)
def test_vela_puts_all_operators_on_the_npu(written, npu):
    assert on_npu(written[-1], npu).startswith("all of ")


@needs_litert
@pytest.mark.skipif(
    beside("tosa-converter-for-tflite") is None or beside("tosa-opt") is None,
    reason="pip install tosa-converter-for-tflite; pip install --no-deps tosa-tools",
)
def test_what_is_legalized_to_tosa_gives_the_same_integers(written):
    made, integer, file, place = written
    samples = open_samples(feeds(made)[:4], input_specs(made))
    assert as_tosa(file, place, integer, made, samples) == "0 of 20 differ"
