"""Preprocessing: numpy repeats here what becomes of the pixels of a picture."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from calibration import (
    PRESET_NOTES,
    PRESETS,
    Preprocessing,
    open_samples,
)
from calibration.presets import parts_of, preprocessing
from opsets.errors import DataError, UsageError
from tests.support.picture_files import (
    ANY_GRAY,
    ANY_SIZE,
    RAW,
    image_input,
    message_of,
    picture,
    pixels,
    read,
    read_pixels,
)
from tests.support.thoroughness import thoroughly

# Values


RGB = slice(None)
BGR = slice(None, None, -1)
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
MEANINGS = {
    "imagenet": lambda x: (x / 255 - IMAGENET_MEAN) / IMAGENET_STD,
    "caffe": lambda x: x[..., BGR] - [104, 117, 123],
    "inception": lambda x: x / 127.5 - 1,
    "clip": lambda x: (
        (x / 255 - [0.48145466, 0.4578275, 0.40821073]) / [0.26862954, 0.26130258, 0.27577711]
    ),
    "cifar10": lambda x: (x / 255 - [0.4914, 0.4822, 0.4465]) / [0.2023, 0.1994, 0.2010],
    "mnist": lambda x: (x / 255 - 0.1307) / 0.3081,
    "yolo": lambda x: x / 255,
    "yolox": lambda x: x[..., BGR],
    "unit": lambda x: x / 255,
    "raw": lambda x: x,
}
"""What each preset makes of [..., channels] pixels, in float64."""


def test_every_preset_has_a_note_and_a_meaning():
    assert PRESETS.keys() == PRESET_NOTES.keys() == MEANINGS.keys()
    assert all(note and len(note) < 90 for note in PRESET_NOTES.values())


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_presets_give_the_values_their_families_of_models_expect(tmp_path, name, layout):
    channels = 1 if name == "mnist" else 3
    content = pixels(8, 9, channels)
    expected = MEANINGS[name](content.astype(np.float64))
    shape = (None, 8, 9, channels)
    if layout == "NCHW":
        expected, shape = expected.transpose(2, 0, 1), (None, channels, 8, 9)
    path = picture(tmp_path, "a.png", content)
    values = read(path, image_input(*shape), PRESETS[name])
    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    np.testing.assert_allclose(values, expected[None], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["unit", "raw"])
def test_presets_without_colours_serve_gray_models_too(tmp_path, name):
    content = pixels(8, 9, 1)
    values = read(picture(tmp_path, "a.png", content), ANY_GRAY, PRESETS[name])
    expected = MEANINGS[name](content.astype(np.float64)).transpose(2, 0, 1)[None]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


amounts = st.floats(-300, 300, width=32)


@thoroughly(100)
@given(
    amounts.filter(lambda scale: abs(scale) > 1e-3),
    st.lists(amounts, min_size=3, max_size=3),
    st.lists(amounts.filter(lambda std: abs(std) > 1e-3), min_size=3, max_size=3),
    st.sampled_from(["RGB", "BGR"]),
)
def test_values_are_scaled_then_shifted_then_divided(scale, mean, std, channels):
    how = preprocessing(scale=scale, mean=mean, std=std, channels=channels)
    content = pixels(3, 4)
    turned = content[..., RGB if channels == "RGB" else BGR].astype(np.float64)
    wanted = (turned * scale - mean) / std
    largest = (255 * abs(scale) + np.abs(mean)) / np.abs(std)
    found = how.values(content)
    assert (np.abs(found - wanted) <= 1e-6 * largest).all()


def test_mean_and_std_are_in_the_order_in_which_the_model_gets_the_channels(tmp_path):
    path = picture(tmp_path, "a.png", np.uint8([[[10, 20, 30]]]))
    for channels, expected in {"RGB": [9, 9, 9], "BGR": [29, 9, -11]}.items():
        how = preprocessing(channels=channels, mean=(1, 2, 3), std=(1, 2, 3))
        means, stds = np.array([1, 2, 3]), np.array([1, 2, 3])
        order = [10, 20, 30] if channels == "RGB" else [30, 20, 10]
        wanted = (np.array(order) - means) / stds
        assert wanted[0] == expected[0]
        np.testing.assert_allclose(read(path, how=how).ravel(), wanted, rtol=1e-6)


def test_a_rank_3_input_gets_pictures_without_a_batch(tmp_path):
    content = pixels(4, 5)
    path = picture(tmp_path, "a.png", content)
    assert np.array_equal(read(path, image_input(3, 4, 5)), content.transpose(2, 0, 1))
    assert np.array_equal(read(path, image_input(4, 5, 3)), content)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float64])
def test_inputs_of_other_types_get_the_same_values(tmp_path, dtype):
    content = pixels(4, 5)
    values = read(picture(tmp_path, "a.png", content), image_input(1, 4, 5, 3, dtype=dtype))
    assert values.dtype == dtype
    assert np.array_equal(values, content[None])


def test_a_signed_input_gets_pixels_that_are_shifted_into_its_range(tmp_path):
    content = pixels(4, 5)
    path, specs = picture(tmp_path, "a.png", content), image_input(1, 4, 5, 3, dtype=np.int8)
    values = read(path, specs, preprocessing("raw", mean=128))
    assert np.array_equal(values[0], content.astype(int) - 128)


@pytest.mark.parametrize(
    ("how", "dtype", "value"),
    [
        (PRESETS["unit"], np.uint8, "0.00392157"),
        (PRESETS["caffe"], np.uint8, "-104"),
        (preprocessing(mean=-1), np.uint8, "256"),
        (RAW, np.int8, "128"),
    ],
)
def test_values_that_an_integer_input_does_not_hold_are_refused(tmp_path, how, dtype, value):
    path = picture(tmp_path, "a.png", np.zeros((4, 5, 3), np.uint8))
    message = message_of(DataError, path, image_input(1, 4, 5, 3, dtype=dtype), None, how)
    for culprit in ("'image'", value, np.dtype(dtype).name, "--preprocess raw"):
        assert culprit in message


def test_values_beyond_the_floats_of_the_input_are_refused(tmp_path):
    path = picture(tmp_path, "a.png", pixels(4, 5))
    for dtype, scale in ((np.float32, 3e38), (np.float16, 300.0)):
        specs = image_input(1, 3, 4, 5, dtype=dtype)
        message = message_of(DataError, path, specs, None, preprocessing(scale=scale))
        assert f"{np.dtype(dtype)} does not hold" in message


# Sizes


def test_a_picture_of_the_right_size_is_never_resampled_or_cropped(tmp_path):
    content = pixels(8, 9)
    path = picture(tmp_path, "a.png", content)
    for resize in ("crop", "stretch", "pad"):
        how = Preprocessing(resize=resize, crop_fraction=0.5)
        assert np.array_equal(read_pixels(path, image_input(1, 3, 8, 9), how), content)


def test_an_input_of_free_size_gets_each_picture_in_its_own(tmp_path):
    first, second = pixels(8, 9), pixels(5, 4)
    picture(tmp_path, "1.png", first)
    picture(tmp_path, "2.png", second)
    feeds = [feed["image"] for _, feed in open_samples(tmp_path, ANY_SIZE, None, RAW)]
    assert np.array_equal(feeds[0][0], first.transpose(2, 0, 1))
    assert np.array_equal(feeds[1][0], second.transpose(2, 0, 1))


def test_an_input_of_free_size_gets_the_size_that_is_given(tmp_path):
    path = picture(tmp_path, "a.png", pixels(8, 9))
    assert read(path, how=preprocessing(size=(3, 5))).shape == (1, 3, 3, 5)
    half_free = image_input(1, 3, 3, None)
    assert read(path, half_free, preprocessing(size=(3, 5))).shape == (1, 3, 3, 5)
    assert "give a size" in message_of(DataError, path, half_free, None, RAW)


def test_a_size_that_the_input_does_not_take_is_refused(tmp_path):
    path = picture(tmp_path, "a.png", pixels(8, 9))
    specs, how = image_input(1, 3, 8, 9), preprocessing(size=(9, 8))
    message = message_of(DataError, path, specs, None, how)
    assert "(9, 8)" in message
    assert "'image': float32[1, 3, 8, 9]" in message


def test_stretched_pictures_are_scaled_on_both_sides(tmp_path):
    content = np.zeros((6, 8, 3), np.uint8)
    content[:, 4:] = 200
    path = picture(tmp_path, "a.png", content)
    found = read_pixels(path, image_input(1, 3, 12, 4), preprocessing("raw"))
    assert (found[:, 0] == 0).all()
    assert (found[:, -1] == 200).all()
    wanted = Image.fromarray(content).resize((4, 12), Image.Resampling.BILINEAR)
    assert np.array_equal(found, np.asarray(wanted))


def scaled_then_cropped(content, height, width, fraction):
    """What evaluation on ImageNet does: scale the whole picture, cut out the middle."""
    have_height, have_width = content.shape[:2]
    high, wide = round(height / fraction), round(width / fraction)
    if wide * have_height >= high * have_width:
        high = have_height * wide // have_width
    else:
        wide = have_width * high // have_height
    whole = Image.fromarray(content).resize((wide, high), Image.Resampling.BILINEAR)
    top, left = round((high - height) / 2), round((wide - width) / 2)
    return np.asarray(whole.crop((left, top, left + width, top + height)))


@thoroughly(100)
@given(
    st.tuples(st.integers(3, 90), st.integers(3, 90)),
    st.tuples(st.integers(3, 40), st.integers(3, 40)),
    st.sampled_from([1.0, 224 / 256]),
)
def test_crops_are_the_middle_of_the_scaled_picture(tmp_path_factory, have, size, fraction):
    path = tmp_path_factory.getbasetemp() / "crop.png"
    content = pixels(*have)
    Image.fromarray(content).save(path)
    how = Preprocessing(size=size, resize="crop", crop_fraction=fraction)
    if have != size:
        wanted = scaled_then_cropped(content, *size, fraction).astype(int)
        assert np.abs(read_pixels(path, how=how) - wanted).max() <= 2  # each side rounds


def test_imagenet_scales_the_shorter_side_to_256_for_a_crop_of_224(tmp_path):
    content = np.zeros((256, 400, 3), np.uint8)
    content[16:240, 88:312] = pixels(224, 224)
    path = picture(tmp_path, "a.png", content)
    how = preprocessing("imagenet", scale=1, mean=0, std=1)
    found = read_pixels(path, image_input(1, 3, 224, 224), how)
    assert np.array_equal(found, pixels(224, 224))


def test_a_crop_of_a_very_long_picture_takes_no_room_for_the_rest(tmp_path):
    path = picture(tmp_path, "a.png", np.full((2, 60000, 3), 7, np.uint8))
    found = read(path, image_input(1, 3, 224, 224), preprocessing("raw", resize="crop"))
    assert (found == 7).all()


@pytest.mark.parametrize(
    ("have", "inner"), [((4, 8), (5, 10)), ((8, 4), (10, 5)), ((20, 20), (10, 10))]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_padded_pictures_keep_their_shape_at_the_top_left_of_gray(
    tmp_path, have, inner, channels
):
    path = picture(tmp_path, "a.png", np.full((*have, channels), 9, np.uint8))
    specs = image_input(1, channels, 10, 10)
    found = read_pixels(path, specs, preprocessing("raw", resize="pad"))
    wanted = np.full((10, 10, channels), 114)
    wanted[: inner[0], : inner[1]] = 9
    assert np.array_equal(found, wanted)


def test_a_line_of_pixels_is_padded_too(tmp_path):
    path = picture(tmp_path, "a.png", np.full((1, 1000, 3), 9, np.uint8))
    found = read_pixels(path, image_input(1, 3, 8, 8), preprocessing("raw", resize="pad"))
    assert (found[0] == 9).all()
    assert (found[1:] == 114).all()


# Preprocessings


def test_parts_that_are_given_replace_those_of_a_preset():
    made = preprocessing("imagenet", layout="NHWC", size=(8, 9), resize="pad", std=2)
    assert (made.layout, made.size, made.resize, made.std) == ("NHWC", (8, 9), "pad", (2.0,))
    assert (made.scale, made.mean) == (PRESETS["imagenet"].scale, PRESETS["imagenet"].mean)
    assert preprocessing("imagenet") == PRESETS["imagenet"]
    assert preprocessing() == PRESETS["raw"] == Preprocessing()


def test_the_numbers_of_a_preset_stay_with_their_colours():
    turned = preprocessing("imagenet", channels="BGR")
    assert turned.mean == PRESETS["imagenet"].mean[::-1]
    assert turned.std == PRESETS["imagenet"].std[::-1]
    assert preprocessing("caffe", channels="RGB").mean == (123, 117, 104)
    assert preprocessing("caffe", channels="BGR") == PRESETS["caffe"]
    given = preprocessing("imagenet", channels="BGR", mean=(1, 2, 3))
    assert given.mean == (1, 2, 3)


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="'imagnet'") as raised:
        preprocessing("imagnet")
    for name in PRESETS:
        assert name in str(raised.value)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("channels", "rgb"),
        ("layout", "CHW"),
        ("resize", "letterbox"),
        ("size", (0, 5)),
        ("size", (5,)),
        ("size", (5, 5.5)),
        ("size", 224),
        ("size", "ab"),
        ("crop_fraction", 0),
        ("crop_fraction", 1.5),
        ("scale", 0),
        ("scale", np.inf),
        ("scale", "much"),
        ("mean", np.nan),
        ("mean", (1, 2)),
        ("mean", (1, 2, 3, 4)),
        ("mean", ((1, 2, 3),)),
        ("mean", ()),
        ("mean", 1e39),
        ("std", 0),
        ("std", (1, 0, 1)),
        ("std", 1e-60),
        ("std", (1, np.inf, 1)),
    ],
)
def test_parts_that_make_no_sense_are_refused_by_name(part, value):
    with pytest.raises(UsageError) as raised:
        preprocessing(**{part: value})
    assert part in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_preprocessings_go_through_json():
    whole = preprocessing("caffe", size=(8, 9), layout="NHWC")
    for made in [*PRESETS.values(), whole]:
        text = json.dumps(made.as_json(), allow_nan=False)
        assert Preprocessing.from_json(json.loads(text)) == made


@pytest.mark.parametrize("spoiled", [{"channel": "RGB"}, {"std": [0]}, {"resize": None}, [1]])
def test_json_that_is_no_preprocessing_is_refused(spoiled):
    with pytest.raises(UsageError):
        Preprocessing.from_json(spoiled)


def test_what_the_input_says_can_be_put_in():
    [spec] = image_input(None, 8, 9, 3)
    made = PRESETS["unit"].resolved(spec)
    assert (made.channels, made.layout, made.size) == ("RGB", "NHWC", (8, 9))
    assert made.resolved(spec) == made


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"mean": 0.25},
        {"channels": "gray", "mean": 3.0, "std": 2.0},
        {"channels": "BGR"},
        {"layout": "NHWC", "size": (9, 7), "resize": "pad", "scale": 0.5},
        {"crop_fraction": 0.5},
    ],
)
def test_parts_make_the_preprocessing_that_they_are_of(name, parts):
    made = preprocessing(name, **parts)
    found = parts_of(made)
    assert preprocessing(found.pop("preprocess"), **found) == made
