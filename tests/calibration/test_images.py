"""Pictures as samples: which files, how they are decoded, what is refused."""

import os
import sys

import numpy as np
import pytest
from PIL import Image

from calibration import (
    PRESETS,
    collect,
    input_specs,
    open_samples,
)
from calibration.presets import preprocessing
from opsets.errors import DataError, UsageError
from tests.support.feeds import TWO_INPUTS, names_of
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
from tests.support.small_models import cnn, pictures, save

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
    "either layout": (image_input(1, 3, 8, 3), RAW, "NCHW or NHWC", "--picture-layout"),
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


def test_ranges_over_pictures_are_those_over_their_values(tmp_path):
    made, contents = cnn(), [pixels(8, 8, 1, seed=i) for i in range(5)]
    for i, content in enumerate(contents):
        picture(tmp_path, f"{i}.png", content)
    specs = input_specs(made)
    arrays = np.stack(contents).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(64)
    how = preprocessing(scale=1 / 64)
    found = collect(made, ["x", "y"], open_samples(tmp_path, specs, None, how))
    assert found == collect(made, ["x", "y"], open_samples(arrays, specs))
