"""Animated GIF and PNG against Pillow's frames and times."""

import struct
import subprocess

import numpy as np
import pytest
from PIL import Image

from frames_helper import BUILD, kept_frames, read, sha256
from test_images import chunk, photo

RNG = np.random.default_rng(9)
DURATIONS = [40, 250, 30, 90]  # of 10 ms, FFmpeg makes 100, as browsers do


def sprites(mode="RGB", count=4):
    """A square that moves over a picture that stays, so that encoders store parts of frames."""
    base = photo(61, 47)
    frames = []
    for i in range(count):
        frame = base.copy()
        frame.paste(photo(15, 12), (9 * i, 7 * i))
        if mode == "RGBA":
            frame = frame.convert("RGBA")
            frame.putalpha(photo(61, 47).convert("L").point(lambda level: 255 * (level > 90)))
        frames.append(frame.quantize(100) if mode == "P" else frame.convert(mode))
    return frames


ANIMATIONS = {
    "rgb.gif": ("P", {}), "left.gif": ("P", {"disposal": 1}), "cleared.gif": ("P", {"disposal": 2}),
    "restored.gif": ("P", {"disposal": [1, 3, 3, 1]}), "rgb.png": ("RGB", {}), "grey.png": ("L", {}),
    "alpha.png": ("RGBA", {"blend": 1}), "cleared.png": ("RGB", {"disposal": 1}),
    "restored.png": ("RGB", {"disposal": 2}),
}


@pytest.mark.parametrize("name", ANIMATIONS)
def test_animations_equal_pillows(tmp_path, name):
    mode, options = ANIMATIONS[name]
    first, *others = sprites(mode)
    path = tmp_path / name
    first.save(path, save_all=True, append_images=others, duration=DURATIONS, **options)
    expected = []
    with Image.open(path) as image:
        for index in range(image.n_frames):
            image.seek(index)
            expected.append(sha256(np.asarray(image.convert("RGB"))))
    (exam,) = read(path).values()
    assert "error" not in exam, exam
    assert [slot["sha256"] for slot in exam["slots"]] == expected
    times = [slot["time_s"] for slot in exam["slots"]]
    assert times == pytest.approx(np.cumsum([0, *DURATIONS[:-1]]) / 1000)


def test_some_frames_of_an_animation(tmp_path):
    first, *others = sprites()
    first.save(tmp_path / "a.png", save_all=True, append_images=others, duration=40)
    everything = read(tmp_path / "a.png")["a"]["slots"]
    some = read(tmp_path / "a.png", frames=2)["a"]["slots"]
    assert [slot["sha256"] for slot in some] == [everything[i]["sha256"] for i in (0, 3)]
    assert [slot["index"] for slot in some] == [0, 3]


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_of_truncated_animations_whole_frames_are_kept(tmp_path, suffix):
    first, *others = sprites()
    first.save(tmp_path / f"whole.{suffix}", save_all=True, append_images=others, duration=40)
    content = (tmp_path / f"whole.{suffix}").read_bytes()
    for length in np.linspace(60, len(content) - 3, 20).astype(int):
        (tmp_path / f"{length}.{suffix}").write_bytes(content[:length])
    exams = read(tmp_path)
    whole = exams.pop("whole")["slots"]
    kept = [kept_frames(exam, whole) for exam in exams.values()]
    assert len(kept) == 20 and max(kept) >= len(whole) - 1


def test_an_animated_webp_is_refused_by_name(tmp_path):
    first, *others = sprites()
    first.save(tmp_path / "a.webp", save_all=True, append_images=others, duration=40)
    assert "it is an animated WebP" in read(tmp_path / "a.webp")["a"]["error"]


def test_a_chunk_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    """FFmpeg would allocate 2 GB for it."""
    first, *others = sprites()
    first.save(tmp_path / "a.png", save_all=True, append_images=others)
    whole = (tmp_path / "a.png").read_bytes()
    at = whole.index(b"fcTL") - 4
    (tmp_path / "a.png").write_bytes(whole[:at] + (2_000_000_000).to_bytes(4, "big") + b"eXIf" + whole[at:])
    exam = read(tmp_path / "a.png")["a"]
    assert "truncated" in exam["error"]
    limited = subprocess.run(["prlimit", f"--as={1 << 30}", BUILD / "tests/frames_driver", tmp_path / "a.png", "0"],
                             capture_output=True, text=True)
    assert "truncated" in limited.stdout, limited.stderr


def test_a_picture_of_more_memory_than_is_given_is_refused(tmp_path):
    """9000 x 9000 of 16 bits and four samples: 648 MB, though of so few pixels that the file could hold them."""
    header = struct.pack(">IIBBBBB", 9000, 9000, 16, 6, 0, 0, 0)
    control = struct.pack(">IIIIIHHBB", 0, 9000, 9000, 0, 0, 1, 10, 0, 0)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join([
        chunk(b"IHDR", header), chunk(b"acTL", struct.pack(">II", 1, 0)), chunk(b"fcTL", control),
        chunk(b"IDAT", bytes(100_000)), chunk(b"IEND", b"")]))
    assert "more than the 512 MB" in read(tmp_path / "a.png")["a"]["error"]
