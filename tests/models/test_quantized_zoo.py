"""Quantized models as people publish them: integer only, or what is left has a reason."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

import qpasses
from tests.bench.quantized_zoo import FOLDER, PUBLISHED
from tests.support.thoroughness import THOROUGH

pytestmark = [
    pytest.mark.zoo,
    pytest.mark.skipif(
        not FOLDER.is_dir(),
        reason=f"no quantized models at {FOLDER}: set QPASSES_ZOO to the folder of the zoo",
    ),
]


@dataclass(frozen=True)
class State:
    """What becomes of a file: the nodes left in float by op, and why.

    ``not_kept``: so many weights have other integers than in the file, and why.
    """

    verdict: str = "ok"
    left: dict[str, int] = field(default_factory=dict)
    why: str = ""
    not_kept: int = 0
    why_not: str = ""


SHAPES = "has no integer form in this version"

TOO_SMALL = "their scale is too small for int32 to hold the bias"

STATES = {
    "ort_qdq_u8_block": State(left={"Add": 1}, why="does not say how it is stored"),
    "ort_qdq16_op21_block": State(
        "incomplete", {"Add": 3, "Conv": 6}, "to uint16 with a zero point beside the middle"
    ),
    "yolo_lpr_qdq_u8s8": State("incomplete", {"Cast": 6, "Range": 6}, SHAPES),
    "tflite_movenet_lightning_int8": State("incomplete", {"Cast": 5}, SHAPES),
    "yolov8n_320_dyn_s8": State(left={"Concat": 1}, why="with what is much wider"),
    "tinyml_mobilenetv3_cifar_dyn": State(not_kept=3, why_not=f"{TOO_SMALL}: quantized anew"),
    "ort_qdq_axis_snps": State(
        not_kept=2,
        why_not="they take more than 8 bits without their zero point: quantized anew",
    ),
}
"""Of those that are not all integer, or keep not all."""

LONG = {
    *("mobilenetv2_imagenet_qdq_s8s8", "mobilenetv2_imagenet_qoperator"),
    *("tflite_mobilenetv2_imagenet_qat_u8", "tinyml_mobilenetv3_cifar_dyn"),
    *("tinyml_mobilenetv3_cifar_qdq_s8", "ssd_mobilenet_st_qdq", "yolo_lpr_qdq_u8s8"),
    *("tflite_movenet_lightning_int8", "yolov8n_320_dyn_s8", "espcn_nnresize_brevitas_qcdq"),
    *("espcn_nnresize_brevitas", "micro_kws_m_qoperator"),
}
"""Files for the thorough."""

every_file = pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            each,
            id=each.name,
            marks=pytest.mark.skipif(
                not THOROUGH and each.name in LONG,
                reason="takes long: `make thorough` runs it",
            ),
        )
        for each in PUBLISHED
    ],
)


def test_every_file_of_the_folder_is_listed():
    files = {path.stem for path in FOLDER.glob("*.onnx")}
    assert files == {each.name for each in PUBLISHED}
    assert files >= STATES.keys() | LONG


@every_file
def test_it_is_integer_only_or_what_is_left_has_a_reason(given):
    state = STATES.get(given.name, State())
    feeds = given.feeds(6)
    data = feeds[:4] if given.needs_data else None
    made, exact = (qpasses.integerize(given.path, data, exact=e) for e in (False, True))
    summary, kept = made.report["summary"], made.report["kept"]

    left = summary["float_nodes"]
    assert made.verdict == state.verdict
    assert summary["integer_only"] == (state.verdict == "ok")
    assert Counter(node["op_type"] for node in left) == state.left
    assert all(state.why in node["reason"] for node in left)

    assert len(kept["weights_not_kept"]) == state.not_kept
    assert {*kept["weights_not_kept"].values()} <= {state.why_not}
    assert given.needs_data or kept["from_samples"] == []

    verified = qpasses.verify(made.model, given.path, feeds[4:])
    assert verified.report["summary"]["problems"] == []
    assert verified.verdict == state.verdict

    channels, moved = (exact.report["summary"][n] for n in ("channels", "channels_moved"))
    assert moved <= channels / 100
