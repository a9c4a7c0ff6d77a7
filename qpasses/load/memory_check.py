"""Tensors that no machine holds, found before anything is allocated for them."""

from math import prod

import onnx

from calibration.inputs import tensors
from calibration.memory import beyond_memory
from opsets.errors import ModelError
from qpasses.ir.runtime import Arrays
from qpasses.load.conversion import described
from qpasses.load.upgrade import without_weights


def check_memory(model: onnx.ModelProto, sample: Arrays) -> None:
    """Raise ModelError, naming the tensor, if one is larger than the machine's memory.

    Sizes are inferred, for inputs of those of ``sample``.
    """
    light, fed = without_weights(model), tensors(sample)
    for value in light.graph.input:
        given = fed[value.name].shape if value.name in fed else ()
        for dim, size in zip(value.type.tensor_type.shape.dim, given, strict=False):
            dim.dim_value = size
    sized = onnx.shape_inference.infer_shapes(light, data_prop=True)
    writers = {name: node for node in model.graph.node for name in node.output}
    for value in [*sized.graph.value_info, *sized.graph.output]:
        kind = value.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        is_known = kind.elem_type != onnx.TensorProto.UNDEFINED and min(sizes, default=0) > 0
        if not is_known or value.name not in writers:
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if beyond := beyond_memory(prod(sizes), dtype.itemsize):
            raise ModelError(
                f"tensor {value.name!r} of {described(writers[value.name])}, {sizes}, would "
                f"hold {beyond}: give inputs of smaller sizes, or mend the model"
            )
