"""Examples: what of samples and outputs is shown side by side."""

import base64
import io

import numpy as np
from PIL import Image

from qpasses.analysis.walking import Example
from qpasses.jobs.examples import example_json
from tests.support.small_models import numbers


def shown(real, found, feed=None):
    real, found = {"y": real}, {"y": found}
    made = Example("a sample", feed or {"x": numbers(1, 4)}, real, found)
    return example_json(made)


def pixels(uri):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))))


def test_classes_are_the_five_likeliest_with_probabilities():
    logits = np.log(np.array([[0.05, 0.4, 0.1, 0.2, 0.15, 0.1]])) + 3
    found = shown(logits, logits[:, ::-1])["outputs"][0]
    assert found["kind"] == "top-5"
    assert [place for place, _ in found["float"]] == [1, 3, 4, 2, 5]
    assert [place for place, _ in found["integer"]] == [4, 2, 1, 0, 3]
    np.testing.assert_allclose([p for _, p in found["float"]], [0.4, 0.2, 0.15, 0.1, 0.1])


def test_probabilities_are_shown_as_they_are():
    given = np.array([[0.5, 0.2, 0.1, 0.1, 0.1]])
    assert [p for _, p in shown(given, given)["outputs"][0]["float"]] == given[0].tolist()


def test_pictures_are_drawn_on_the_scale_of_float():
    real = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    found = shown(real, real * 2, {"x": np.repeat(real, 3, axis=1)})
    output = found["outputs"][0]
    assert output["kind"] == "image"
    assert (pixels(output["float"]).min(), pixels(output["float"]).max()) == (0, 255)
    doubled = np.clip((real[0, 0] * 2 + 1) * 127.5, 0, 255)
    np.testing.assert_allclose(pixels(output["integer"]), doubled, atol=1)
    assert pixels(found["picture"]).shape == (8, 8, 3)


def test_of_other_outputs_the_first_numbers_are_shown():
    real = numbers(1, 3, 4)
    found = shown(real, real + 1)
    assert found["picture"] is None
    assert found["outputs"][0]["kind"] == "values"
    assert found["outputs"][0]["float"] == real.ravel()[:8].astype(float).tolist()


def test_a_picture_may_have_its_channels_last():
    feed = {"x": np.linspace(0, 1, 10 * 9 * 3, dtype=np.float32).reshape(1, 10, 9, 3)}
    found = shown(feed["x"][..., :1], feed["x"][..., :1], feed)
    assert pixels(found["picture"]).shape == (10, 9, 3)
    assert pixels(found["outputs"][0]["integer"]).shape == (10, 9)
