"""What `coldframe extract` refuses or says before it computes, in words that fit the situation."""

import json

import pytest

from test_extract import RANDOM, coldframe, make_exams

WEIGHTS = ["--preset", "dino-vits16", "--device", "cpu"]


@pytest.mark.parametrize("content, what", [
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
    (b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>", "a web page")])
@pytest.mark.parametrize("option, name", [("--weights", "w.pth"), ("--weights", "w.safetensors"), ("--backbone", "w.pt")])
def test_what_a_failed_download_left_is_named(tmp_path, content, what, option, name):
    manifest = make_exams(tmp_path, exams=1, frames=1)
    (tmp_path / name).write_bytes(content)
    done = coldframe("extract", "--input", manifest, "--out", tmp_path / "x.h5", *WEIGHTS, option, tmp_path / name, expect=3)
    assert what in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_preset_without_weights_asks_for_them(tmp_path):
    done = coldframe("extract", "--input", make_exams(tmp_path, 1, 1), "--out", tmp_path / "x.h5", *WEIGHTS, expect=2)
    assert "give --weights FILE" in done.stderr and "no backbone" not in done.stderr


def test_a_folder_of_other_things_takes_no_cache(tmp_path):
    manifest = make_exams(tmp_path)
    images = tmp_path / "e0"
    before = sorted(path.name for path in images.iterdir())
    for out in [tmp_path, images]:
        done = coldframe("extract", "--input", manifest, "--out", out, *RANDOM, expect=3)
        assert "holds other things" in done.stderr
    assert sorted(path.name for path in images.iterdir()) == before
    (tmp_path / "empty").mkdir()
    coldframe("extract", "--input", manifest, "--out", tmp_path / "empty", *RANDOM)
    coldframe("extract", "--input", manifest, "--out", tmp_path / "empty", *RANDOM)


def test_the_summary_says_what_computed(tmp_path):
    command = ["extract", "--input", make_exams(tmp_path, 1), "--out", tmp_path / "x.h5", *RANDOM]
    text = coldframe(*command).stdout
    assert ("backbone   12 blocks of width 192, 3 heads, patches of 16 pixels, gelu, pooling mean, images of 64×64; "
            "random weights of seed 0\n") in text
    summary = json.loads(coldframe(*command, "--json").stdout)
    assert summary["backbone"]["architecture"]["heads"] == 3 and summary["image_size"] == 64
    rotary = ["vit_small_plus_patch16_dinov3" if word == "vit_tiny_patch16_224" else word for word in RANDOM]
    text = coldframe(*command[:4], tmp_path / "y.h5", *rotary).stdout
    assert "gated silu, rotary positions, pooling mean" in text


def test_one_exam_is_not_several(tmp_path):
    manifest = make_exams(tmp_path, exams=3, frames=1)
    command = ["extract", "--input", manifest, "--out", tmp_path / "x.h5", *RANDOM]
    coldframe(*command)
    manifest.write_text("".join(manifest.read_text().splitlines(keepends=True)[:-1]))
    assert "1 cached exam is not in the input; it stays in the cache" in coldframe(*command).stderr
