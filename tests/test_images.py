"""Pictures as samples: Pillow decodes them, and numpy repeats here what becomes of pixels."""

import json
import os
import sys

import numpy as np
import pytest
from feeds import FLOAT, TWO_INPUTS, names_of
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from small_models import cnn, pictures, save

from calibration import (
    PRESET_NOTES,
    PRESETS,
    InputSpec,
    Preprocessing,
    collect,
    input_specs,
    open_samples,
)
from calibration.presets import preprocessing
from opsets.errors import DataError, UsageError

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


@settings(deadline=None, derandomize=True, database=None)
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


@settings(deadline=None, derandomize=True, database=None)
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


# Files


def test_pictures_of_class_folders_come_in_natural_order(tmp_path):
    ordered = [
        "2.PNG",
        "cat/1.jpg",
        "cat/2.Jpeg",
        "cat/10.webp",
        "cat-fish/1.bmp",
        "dog/sub/1.gif",
    ]
    for i, name in enumerate(reversed(ordered)):
        picture(tmp_path, name, pixels(4, 5, seed=i))
    for other in ("labels.txt", "cat/notes.md", "dog/1.npy", "._1.png", ".thumbs/1.png"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_bytes(b"not a picture")
    samples = open_samples(tmp_path, ANY_SIZE, None, RAW)
    assert names_of(samples) == ordered
    assert list(samples.paths) == [tmp_path / name for name in ordered]
    assert samples.description == f"6 pictures in {tmp_path}"
    assert not samples.random


@pytest.mark.parametrize(
    "suffix", ["jpg", "jpeg", "png", "bmp", "webp", "tif", "tiff", "ppm", "gif"]
)
def test_pictures_of_every_kind_are_read(tmp_path, suffix):
    content = np.full((8, 8, 3), 200, np.uint8)
    found = read_pixels(picture(tmp_path, f"a.{suffix}", content))
    assert np.abs(found - content).max() <= 2


def test_a_pgm_is_read(tmp_path):
    content = pixels(4, 5, 1)
    path = picture(tmp_path, "a.pgm", content)
    assert np.array_equal(read_pixels(path, ANY_GRAY), content)


def test_one_picture_may_be_given_by_itself(tmp_path):
    picture(tmp_path, "b.png", pixels(4, 5, seed=1))
    path = picture(tmp_path, "a.png", pixels(4, 5))
    samples = open_samples(str(path), ANY_SIZE, None, RAW)
    assert names_of(samples) == ["a.png"]
    assert samples.paths == [path]
    assert samples.description == f"1 picture in {path}"
    assert np.array_equal(read_pixels(path), pixels(4, 5))


def test_the_limit_takes_pictures_of_all_classes(tmp_path):
    for kind in "abcd":
        for i in range(5):
            picture(tmp_path, f"{kind}/{i}.png", pixels(2, 2))
    samples = open_samples(tmp_path, ANY_SIZE, 4, RAW)
    assert names_of(samples) == ["a/0.png", "b/0.png", "c/0.png", "d/0.png"]
    assert samples.description == f"4 of 20 pictures in {tmp_path}"


def test_a_folder_inside_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    picture(tmp_path, "cats/1.png", pixels(2, 2))
    closed = (tmp_path / "dogs").absolute()
    closed.mkdir()
    scandir = os.scandir

    def guarded(path):
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    message = message_of(DataError, tmp_path, ANY_SIZE, None, RAW)
    assert message == f"{closed}: cannot be read: Permission denied"


def test_linked_folders_are_searched_once(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    picture(elsewhere, "1.png", pixels(2, 2))
    data = tmp_path / "data"
    data.mkdir()
    (data / "cats").symlink_to(elsewhere)
    (elsewhere / "again").symlink_to(data)
    assert names_of(open_samples(data, ANY_SIZE, None, RAW)) == ["cats/1.png"]


def test_pictures_are_decoded_when_they_are_reached_any_number_of_times(tmp_path):
    for i in range(3):
        picture(tmp_path, f"{i}.png", pixels(4, 5, seed=i))
    (tmp_path / "3.png").write_bytes(b"no picture")
    samples = open_samples(tmp_path, ANY_SIZE, None, RAW)
    expected = [{"image": read(tmp_path / f"{i}.png")} for i in range(3)]
    for _ in range(2):
        found = iter(samples)
        for wanted in expected:
            np.testing.assert_array_equal(next(found)[1]["image"], wanted["image"])
    with pytest.raises(DataError, match=r"3\.png: cannot be read as a picture"):
        list(samples)


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "webp", "bmp", "tif"])
def test_a_truncated_picture_is_refused_by_file(tmp_path, suffix):
    whole = picture(tmp_path, f"a.{suffix}", pixels(16, 16)).read_bytes()
    for size in range(0, len(whole) * 3 // 4, max(1, len(whole) // 20)):
        path = save(tmp_path, f"a.{suffix}", whole[:size])
        message = message_of(DataError, tmp_path, ANY_SIZE, None, RAW)
        assert message.startswith(f"{path}: cannot be read as a picture: ")


def test_a_picture_that_vanishes_is_named(tmp_path):
    path = picture(tmp_path, "a.png", pixels(4, 5))
    samples = open_samples(tmp_path, ANY_SIZE, None, RAW)
    path.unlink()
    with pytest.raises(DataError, match=r"a\.png: cannot be read"):
        list(samples)


def test_a_picture_of_a_listed_kind_may_have_the_name_of_another_but_no_other_kind(tmp_path):
    path = picture(tmp_path, "a.jpg", pixels(4, 5), format="PNG")
    assert np.array_equal(read_pixels(path), pixels(4, 5))
    path = picture(tmp_path, "a.png", pixels(4, 5), format="PCX")
    assert str(path) in message_of(DataError, path, ANY_SIZE, None, RAW)


# Modes of pictures


ORIENTATIONS = {
    2: np.fliplr,
    3: lambda x: np.rot90(x, 2),
    4: np.flipud,
    5: lambda x: x.swapaxes(0, 1),
    6: lambda x: np.rot90(x, -1),
    7: lambda x: np.rot90(x, 2).swapaxes(0, 1),
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_pictures_are_turned_upright(tmp_path, orientation):
    content, exif = pixels(4, 6), Image.Exif()
    exif[0x0112] = orientation
    path = picture(tmp_path, "a.png", content, exif=exif)
    assert np.array_equal(read_pixels(path), ORIENTATIONS[orientation](content))


def test_the_colours_of_a_palette_are_used(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    path = picture(tmp_path, "a.png", image, transparency=b"\x00\xff")
    assert read_pixels(path).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    gray = [[round(0.299 * r + 0.587 * g + 0.114 * b)] for r, g, b in read_pixels(path)[0]]
    assert read_pixels(path, ANY_GRAY)[0].tolist() == gray


@pytest.mark.parametrize("channels", [2, 4])
def test_alpha_is_dropped(tmp_path, channels):
    content = pixels(4, 5, channels)
    found = read_pixels(picture(tmp_path, "a.png", content))
    assert np.array_equal(found, np.broadcast_to(content[..., :-1], (4, 5, 3)))


def test_gray_pictures_serve_colour_models_and_the_other_way_round(tmp_path):
    gray, colour = pixels(4, 5, 1), pixels(4, 5)
    path = picture(tmp_path, "gray.png", gray)
    assert np.array_equal(read_pixels(path), gray.repeat(3, 2))
    path = picture(tmp_path, "colour.png", colour)
    luma = colour.astype(float) @ [0.299, 0.587, 0.114]
    assert np.abs(read_pixels(path, ANY_GRAY)[..., 0] - luma).max() <= 1


def test_black_and_white_pictures_have_pixels_0_and_255(tmp_path):
    path = picture(tmp_path, "a.png", Image.fromarray(pixels(4, 5, 1)[..., 0] > 99))
    assert set(read_pixels(path, ANY_GRAY).flat) == {0, 255}


def test_cmyk_is_turned_into_rgb(tmp_path):
    image = Image.new("CMYK", (3, 2), (0, 255, 255, 0))
    assert np.array_equal(read_pixels(picture(tmp_path, "a.tif", image))[0, 0], [255, 0, 0])


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
@pytest.mark.parametrize("specs", [ANY_SIZE, ANY_GRAY], ids=["colour", "gray"])
def test_16_bit_gray_is_scaled_to_8(tmp_path, suffix, specs):
    levels = np.array([[0, 128, 129, 257, 32768, 65407, 65535]], np.uint16)
    path = picture(tmp_path, f"a.{suffix}", Image.fromarray(levels))
    found = read_pixels(path, specs)
    assert (found == np.rint(levels / 257)[..., None]).all()


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_pictures_of_32_bit_numbers_are_refused(tmp_path, dtype):
    path = picture(tmp_path, "a.tif", Image.fromarray(np.ones((4, 5), dtype)))
    message = message_of(DataError, path, ANY_GRAY, None, RAW)
    assert message.startswith(f"{path}: ")
    assert "32-bit numbers" in message
    assert ".npz" in message


def test_the_first_picture_of_several_in_a_file_is_used(tmp_path):
    frames = [Image.fromarray(np.full((2, 2, 3), 50 * i, np.uint8)) for i in range(1, 4)]
    path = picture(tmp_path, "a.gif", frames[0], save_all=True, append_images=frames[1:])
    assert (read_pixels(path) == 50).all()


def test_odd_metadata_and_large_sizes_are_no_reason_to_speak(tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15)
    path = picture(tmp_path, "a.png", pixels(4, 5))
    assert np.array_equal(read_pixels(path), pixels(4, 5))
    assert len(recwarn) == 0
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    assert str(path) in message_of(DataError, path, ANY_SIZE, None, RAW)


# What is refused


def test_pictures_without_preprocessing_are_refused_with_what_to_give(tmp_path):
    path = picture(tmp_path, "a.png", pixels(4, 5))
    for data in (tmp_path, path):
        message = message_of(UsageError, data, ANY_SIZE)
        assert message.startswith(f"{data}: pictures need to know what the model expects: ")
        assert message.endswith("or --scale/--mean/--std")
        assert "--preprocess imagenet|caffe|" in message


def test_pictures_without_pillow_are_refused_with_how_to_get_it(tmp_path, monkeypatch):
    picture(tmp_path, "a.png", pixels(4, 5))
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "calibration.decoding", raising=False)
    with pytest.raises(UsageError) as raised:
        open_samples(tmp_path, ANY_SIZE, None, RAW)
    assert str(raised.value) == "pictures need Pillow: pip install pillow"


def test_a_folder_of_arrays_and_pictures_is_refused(tmp_path):
    picture(tmp_path, "a.png", pixels(4, 5))
    save(tmp_path, "b.npy", pictures(1))
    for how in (None, RAW):
        message = message_of(DataError, tmp_path, ANY_SIZE, None, how)
        for culprit in (tmp_path, "a.png", "b.npy"):
            assert str(culprit) in message


def test_a_folder_of_neither_is_refused(tmp_path):
    (tmp_path / "labels.txt").write_text("0 1 2")
    message = message_of(DataError, tmp_path, ANY_SIZE, None, RAW)
    for way in (tmp_path, ".npy", ".npz", "pictures", "test_data_set_*"):
        assert str(way) in message


UNFIT = {
    "several inputs": (TWO_INPUTS, RAW, "2 inputs ('a', 'b')", ".npz"),
    "no inputs": ([], RAW, "no inputs", ""),
    "rank 2": (image_input(None, 10), RAW, "'image'", ".npz"),
    "rank 5": (image_input(1, 3, 2, 8, 8), RAW, "'image'", ".npz"),
    "two channels": (image_input(1, 2, 8, 8), RAW, "'image'", ".npz"),
    "free channels": (image_input(None, None, None, None), RAW, "'image'", ".npz"),
    "bool": (image_input(1, 3, 8, 8, dtype=np.bool_), RAW, "'image'", ".npz"),
    "a batch": (image_input(4, 3, 8, 8), RAW, "takes 4 pictures at once", ".npz"),
    "either layout": (image_input(1, 3, 8, 3), RAW, "NCHW or NHWC", "--layout"),
    "the other layout": (
        image_input(1, 3, 8, 8),
        preprocessing(layout="NHWC"),
        "NHWC",
        ".npz",
    ),
    "too few channels": (ANY_GRAY, PRESETS["inception"], "takes gray", "not RGB"),
    "too many channels": (ANY_SIZE, PRESETS["mnist"], "takes colour", "not gray"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_inputs_that_take_no_such_pictures_are_refused(tmp_path, name):
    specs, how, *reasons = UNFIT[name]
    picture(tmp_path, "a.png", pixels(8, 8))
    message = message_of(DataError, tmp_path, specs, None, how)
    for reason in reasons:
        assert reason in message


def test_a_layout_that_is_given_decides_where_both_fit(tmp_path):
    path = picture(tmp_path, "a.png", pixels(8, 3))
    found = read(path, image_input(1, 3, 8, 3), preprocessing(layout="NCHW"))
    assert np.array_equal(found[0], pixels(8, 3).transpose(2, 0, 1))


def test_three_means_for_one_channel_are_refused(tmp_path):
    path = picture(tmp_path, "a.png", pixels(4, 5))
    how = preprocessing(mean=(1, 2, 3))
    message = message_of(UsageError, path, ANY_GRAY, None, how)
    assert "mean (1.0, 2.0, 3.0)" in message
    assert "1 channel" in message


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


def test_ranges_over_pictures_are_those_over_their_values(tmp_path):
    made, contents = cnn(), [pixels(8, 8, 1, seed=i) for i in range(5)]
    for i, content in enumerate(contents):
        picture(tmp_path, f"{i}.png", content)
    specs = input_specs(made)
    arrays = np.stack(contents).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(64)
    how = preprocessing(scale=1 / 64)
    found = collect(made, ["x", "y"], open_samples(tmp_path, specs, None, how))
    assert found == collect(made, ["x", "y"], open_samples(arrays, specs))
