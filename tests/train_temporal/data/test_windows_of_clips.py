"""Rows that are windows of clips in training: on made exams whose label lies in motion alone, a bar that moves to the left or
to the right. A frame does not show it, nor do all frames of an exam without their order."""

import csv
import json

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from training_support import coldframe, quick, succeed

SIDE = LENGTH = 16  # the bar passes every place once
EXAMS = 60
PIXELS = ["--image-size", SIDE, "--mean", 0, "--std", 1, "--device", "cpu", "--precision", "fp32"]
CLIP = ["--clip", 4, "--clip-every", 1, "--clip-axes", "btchw"]


class Motion(torch.nn.Module):
    """[B, T, 3, H, W] -> how alike a frame is to the one before, moved to the right less moved to the left, and what frames
    show beside that."""

    def forward(self, x):
        grey = x.mean(2)
        before, now = grey[:, :-1], grey[:, 1:]
        right = (before.roll(1, 3) * now).mean(dim=[1, 2, 3])
        left = (before.roll(-1, 3) * now).mean(dim=[1, 2, 3])
        return torch.stack([right - left, grey.mean(dim=[1, 2, 3]), grey.std(dim=[1, 2, 3])], 1)


class Columns(torch.nn.Module):
    """[B, 3, H, W] -> where the bar is."""

    def forward(self, x):
        return x.mean(dim=[1, 2])


def bar(random, right):
    places = (random.integers(SIDE) + np.arange(LENGTH) * (1 if right else -1)) % SIDE
    frames = random.integers(0, 30, (LENGTH, SIDE, SIDE))
    for frame, place in zip(frames, places):
        frame[:, [place, (place + 1) % SIDE]] += 180
    return np.repeat(frames[..., None], 3, -1).astype(np.uint8)


def extract(manifest, out, *words):
    done = coldframe("extract", "--input", manifest, "--out", out, *PIXELS, *words)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Clips of 16 frames, two exams of each patient on two days; in streams.csv the first half of each is stream A."""
    folder, random = tmp_path_factory.mktemp("motion"), np.random.default_rng(0)
    rows = [["exam", "path", "frame", "patient", "label", "day", "time", "stream"]]
    for number in range(EXAMS):
        right = number // 2 % 2
        np.save(folder / f"{number}.npy", bar(random, right))
        rows += [[f"e{number}", f"{number}.npy", frame, f"p{number // 2}", right, number % 2, 0.1 * frame, "AB"[frame // 8]]
                 for frame in range(LENGTH)]
    for name, columns in {"exams.csv": 7, "streams.csv": 8}.items():
        with open(folder / name, "w", newline="") as file:
            csv.writer(file).writerows(row[:columns] for row in rows)
    torch.jit.script(Motion()).save(str(folder / "motion.pt"))
    torch.jit.script(Columns()).save(str(folder / "columns.pt"))
    extract(folder / "exams.csv", folder / "clips.cache", "--backbone", folder / "motion.pt", *CLIP)
    extract(folder / "exams.csv", folder / "frames.cache", "--backbone", folder / "columns.pt")
    return folder


def train(study, cache, out, *words):
    succeed("train", "--cache", cache, "--target", "label", "--out", out, *quick("--folds", 2, *words))
    summary = json.loads((out / "summary.json").read_text())
    return {own["name"]: own["metrics"]["auroc"][own["metrics"]["auroc"]["primary"]]["value"] for own in summary["models"]}


def test_windows_show_what_frames_without_order_do_not(study, tmp_path):
    clips = train(study, study / "clips.cache", tmp_path / "clips", "--epochs", 40, "--compare", "single,mean,shuffled,blank,clock")
    frames = train(study, study / "frames.cache", tmp_path / "frames", "--epochs", 40, "--model", "mean", "--compare", "single")
    assert clips["gru"] > 0.95 and clips["single"] > 0.95 and clips["mean"] > 0.95  # the motion lies within each window
    assert max(abs(clips[name] - 0.5) for name in ("blank", "clock")) < 0.25
    assert max(abs(value - 0.5) for value in frames.values()) < 0.3
    methods = (tmp_path / "clips/METHODS.md").read_text()
    assert "embedded each window of frames once" in methods and " Windows: " in methods
    assert "embedded each frame once" in (tmp_path / "frames/METHODS.md").read_text()


def test_windows_overlap_and_are_uneven(study, tmp_path):
    """Times, a masked window, and predictions on the same cache."""
    text = (study / "exams.csv").read_text().splitlines()
    moved = [line if not line.startswith("e3,") else ",".join([*line.split(",")[:6], f"{float(line.split(',')[6]) ** 2:.3f}"])
             for line in text]
    moved = [line.replace("5.npy,4,", ",4,") if line.startswith("e5,") else line for line in moved]
    (study / "moved.csv").write_text("\n".join(moved) + "\n")
    cache = extract(study / "moved.csv", tmp_path / "x.cache", "--backbone", study / "motion.pt", *CLIP, "--clip-step", 2)
    assert train(study, cache, tmp_path / "run", "--epochs", 40)["gru"] > 0.95
    succeed("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv", "--explain", tmp_path / "why.csv")
    why, predicted = pd.read_csv(tmp_path / "why.csv").set_index("exam"), pd.read_csv(tmp_path / "p.csv").set_index("exam")
    assert len(predicted) == EXAMS and predicted.loc["e5", ["frames", "frames_missing"]].tolist() == [5, 2]
    assert np.flatnonzero(why.loc["e5"].contribution == 0).tolist() == [1, 2]
    assert why.loc["e3"].time_s.tolist() == pytest.approx([0.05 * (t ** 2 + (t + 3) ** 2) / 10 for t in range(0, 14, 2)], abs=2e-3)
    succeed("evaluate", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "again", "--bootstrap", 10)


def test_streams_and_visits_of_windows(study, tmp_path):
    cache = extract(study / "streams.csv", tmp_path / "x.cache", "--backbone", study / "motion.pt", *CLIP, "--frame-columns", "stream")
    done = succeed("train", "--cache", cache, "--target", "label", "--streams", "stream", "--out", tmp_path / "streams",
                   *quick("--folds", 2, "--epochs", 2, "--compare", "all"))
    assert "only-A" in done.stdout
    succeed("train", "--cache", cache, "--target", "label", "--visits", "day", "--out", tmp_path / "visits", *quick("--folds", 2, "--epochs", 2))


def test_no_window_holds_frames_of_two_streams(study, tmp_path):
    cache = extract(study / "streams.csv", tmp_path / "x.h5", "--backbone", study / "motion.pt", *CLIP, "--frame-columns", "stream",
                    "--clip-step", 1)
    with h5py.File(cache) as file:
        first, last = (file[f"frames/columns/window_{end}"].asstr()[:].astype(int) for end in ("first", "last"))
    assert len(first) == EXAMS * 10 and ((first < 8) == (last < 8)).all()


def test_a_bundle_makes_the_windows_of_its_recipe(study, tmp_path):
    train(study, study / "clips.cache", tmp_path / "run", "--epochs", 2)
    succeed("bundle", "make", tmp_path / "run", "--weights", study / "motion.pt", "--out", tmp_path / "b")
    assert "clip-every = 1" in (tmp_path / "b/extract.ini").read_text()
    succeed("predict", "--bundle", tmp_path / "b", "--input", study / "exams.csv", "--device", "cpu", "--out", tmp_path / "one.csv")
    succeed("predict", "--run", tmp_path / "run", "--cache", study / "clips.cache", "--out", tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_another_rate_is_another_recipe(study, tmp_path):
    train(study, study / "clips.cache", tmp_path / "run", "--epochs", 2)
    other = extract(study / "exams.csv", tmp_path / "x.cache", "--backbone", study / "motion.pt", "--clip", 4, "--clip-every", 2,
                    "--clip-axes", "btchw")
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", other, "--out", tmp_path / "p.csv")
    assert done.returncode == 3 and "clip" in done.stderr
    overlapping = extract(study / "exams.csv", tmp_path / "y.cache", "--backbone", study / "motion.pt", *CLIP, "--clip-step", 2)
    succeed("predict", "--run", tmp_path / "run", "--cache", overlapping, "--out", tmp_path / "p.csv")
