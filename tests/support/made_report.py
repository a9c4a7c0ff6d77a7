"""A made-up report of an analysis, of as many nodes as are asked for."""

from math import exp, sin

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M"
    "9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

EVIDENCE = {
    "kind": "thresholds",
    "domain": 2271046,
    "mismatches": 0,
    "body": "onnxruntime",
    "reference_moved": 6,
    "reference_max_lsb": 1,
    "channels": 16,
    "accumulator": [-114186, 92218],
    "headroom_bits": 14,
    "bound": None,
    "problem": "",
}


def made_report(nodes=500, name=lambda text: text, channels=256):
    """Every name through ``name``; a chain of convolutions, with skips from every third."""
    graph = [_node(index, name, channels) for index in range(nodes)]
    tensors = [
        _tensor(index, kind, name, nodes, channels)
        for index in range(1, nodes)
        for kind in ("activation", "weights")
    ]
    return {
        "tool": {"name": "qpasses", "version": "0.1.0"},
        "command": "analyze",
        "command_line": f"qpasses analyze {name('model')}.onnx",
        "configuration": {"activation_bits": 8, "preprocessing": None, "nodes": [name("c")]},
        "model": {"path": name("model.onnx"), "sha256": "0f20fdd5"},
        "target": "onnx",
        "samples": {"source": name("samples"), "preprocessing": None},
        "summary": {
            "verdict": "incomplete",
            "because": [name("a node is float")],
            "integer_node_share": 0.998,
            "integer_mac_share": 0.9975,
            "fast_mac_share": 1.0,
            "macs": 470592,
            "float_nodes": [{"name": name("exp"), "op_type": "Exp", "reason": name("why")}],
        },
        "evidence": {"nodes": [{"name": each["name"], **EVIDENCE} for each in graph[1:]]},
        "warnings": [name("warned")],
        "benchmark": {
            "latencies": [
                {
                    "graph": "float",
                    "threads": 1,
                    "median_ms": 5.3813767,
                    "low_ms": 5.2,
                    "high_ms": 5.9,
                    "ratio": 1.0,
                }
            ],
            "slowest": [
                {"name": name("conv"), "op": "IntConv", "milliseconds": 0.3, "share": 0.15}
            ],
            "differing": 0,
        },
        "analysis": {
            "samples": {"walked": 20, "costed": 12},
            "seconds": 60,
            "outputs": [{"name": name("logits"), "sqnr_db": 21.64, "cosine": 0.99654321}],
            "tensors": tensors,
            "left_out": [{"tensor": name("constant"), "reason": name("never changes")}],
            "findings": [
                {
                    "kind": "outlier channels",
                    "tensor": name("t1"),
                    "text": name("19 times as far"),
                    "option": "--activation-scales per-channel",
                }
            ],
            "by_sample": [{"name": name("0.png"), "sqnr_db": 20.04}],
            "graph": graph,
            "tried": [
                {
                    "option": "--exact",
                    "gain_db": -0.25,
                    "samples": 5,
                    "price": name("slow"),
                    "kept": False,
                }
            ],
            "examples": [_example(name)],
        },
    }


def _node(index, name, channels):
    inputs = [index - 1] * (index > 0) + [index - 4] * (index > 3 and index % 3 == 1)
    first = index == 0
    count = 0 if first else channels
    return {
        "name": name(f"block{index}/conv"),
        "op": "QuantizeLinear" if first else "IntConv",
        "inputs": [name(f"t{each}") for each in inputs],
        "outputs": [name(f"t{index}")],
        "kind": "boundary" if first else "integer",
        "formula": "" if first else name("sum(x) * multiplier >> shift"),
        "reason": "",
        "multiplier": [8388608 + 31 * index + each for each in range(count)],
        "shift": [24 + each % 7 for each in range(count)],
        "evidence": None if first else EVIDENCE,
    }


def _tensor(index, kind, name, nodes, channels):
    weights = kind == "weights"
    sqnr = 45 - 20 * index / nodes + sin(index)
    return {
        "tensor": name(f"w{index}" if weights else f"t{index}"),
        "real": name(f"real{index}"),
        "kind": kind,
        "node": name(f"block{index}/conv"),
        "op": "IntConv",
        "depth": index,
        "shape": [1, channels, 56, 56],
        "type": "int8" if weights else "uint8",
        "scale": [0.01 + each / 7e4 for each in range(channels)] if weights else 0.0312,
        "zero_point": [0] * channels if weights else 110,
        "range": None if weights else [-3.432, 4.524],
        "axis": 0 if weights else None,
        "sqnr_db": None if weights else sqnr,
        "cosine": None if weights else 1 - 10 ** (-sqnr / 10) / 2,
        "local_sqnr_db": sqnr + 7 + sin(3 * index),
        "local_cosine": 0.99991234,
        "cost": {
            "alone_db": sqnr + 3,
            "share": (1.1 + sin(7 * index)) / (2.2 * nodes),
            "gain_db": 0.01 * index,
            "samples": 12,
        }
        if index % 5
        else None,
        "split": None
        if weights
        else {
            "inputs": 0.5,
            "weights": 0.3,
            "clipping": 0.02,
            "rounding": 0.2,
            "multipliers": -0.02,
        },
        "clipped": 0.00042,
        "smallest": -4.125,
        "largest": 7.75,
        "histogram": {
            "edges": [-4.125 + each * 11.875 / 128 for each in range(129)],
            "counts": [int(2e4 * exp(-(((each - 50) / 20) ** 2))) for each in range(128)],
        },
        "channels": {
            "axis": 1,
            "largest": [1.1 + sin(index * each) for each in range(channels)],
            "sqnr_db": [sqnr + 3 * sin(index + each) for each in range(channels)],
        },
    }


def _example(name):
    top = [[281, 0.62], [282, 0.2]]
    boxes = [[0.1, 0.2, 0.6, 0.9, 0.91, 0]]
    return {
        "sample": name("0.png"),
        "picture": PIXEL,
        "outputs": [
            {"name": name("logits"), "kind": "top-5", "float": top, "integer": top[::-1]},
            {"name": name("picture"), "kind": "image", "float": PIXEL, "integer": PIXEL},
            {"name": name("boxes"), "kind": "detections", "float": boxes, "integer": []},
            {"name": name("numbers"), "kind": "values", "float": [1.5], "integer": [1.25]},
        ],
    }


def without_numbers(value):
    """``value`` with null for every number."""
    if isinstance(value, dict):
        return {key: without_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_numbers(each) for each in value]
    return None if isinstance(value, int | float) and not isinstance(value, bool) else value


def without_entries(value):
    """``value`` with every list empty."""
    if isinstance(value, dict):
        return {key: without_entries(each) for key, each in value.items()}
    return [] if isinstance(value, list) else value
