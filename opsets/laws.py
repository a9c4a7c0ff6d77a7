"""Laws that ops share: identities of their references, which hold for all arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import Law


def order_moves_with_the_row(reference: Callable[..., NDArray[Any]]) -> Law:
    """A row turned round along ``axis`` gives its result turned round."""

    def law(x: NDArray[Any], *args: Any, axis: int, **attributes: Any) -> None:
        turned = np.ascontiguousarray(np.flip(x, axis=axis))
        np.testing.assert_array_equal(
            np.flip(reference(x, *args, axis=axis, **attributes), axis=axis),
            reference(turned, *args, axis=axis, **attributes),
        )

    return law
