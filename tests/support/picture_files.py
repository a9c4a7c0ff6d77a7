"""Pictures written for a test, and what a model would get of them."""

import numpy as np
import pytest
from PIL import Image

from calibration import (
    InputSpec,
    Preprocessing,
    open_samples,
)
from tests.support.feeds import FLOAT

UINT8 = np.dtype(np.uint8)
RAW = Preprocessing()


def image_input(*shape, dtype=FLOAT):
    return [InputSpec("image", np.dtype(dtype), shape)]


ANY_SIZE = image_input(None, 3, None, None)
ANY_GRAY = image_input(None, 1, None, None)


def pixels(height, width, channels=3, seed=0):
    """Random uint8 [height, width, channels]."""
    return np.random.default_rng([seed, height, width]).integers(
        0, 256, (height, width, channels), dtype=np.uint8
    )


def picture(folder, name, content, **options):
    """Write uint8 pixels, or an Image of Pillow, as a picture; its path."""
    if isinstance(content, np.ndarray):
        content = Image.fromarray(content[..., 0] if content.shape[-1] == 1 else content)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    content.save(folder / name, **options)
    return folder / name


def read(path, specs=ANY_SIZE, how=RAW):
    """The one picture at ``path`` as the model gets it."""
    [(_, feed)] = open_samples(path, specs, None, how)
    return feed["image"]


def read_pixels(path, specs=ANY_SIZE, how=RAW):
    """The same as [height, width, channels] of whole numbers."""
    values = read(path, specs, how)[0].transpose(1, 2, 0)
    assert np.array_equal(values, np.rint(values))
    return values.astype(np.int64)


def message_of(error, *arguments):
    """The message of opening and reading ``arguments``, which ends in ``error``: one line."""
    with pytest.raises(error) as raised:
        list(open_samples(*arguments))
    assert raised.type is error
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)
