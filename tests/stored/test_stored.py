"""Files of version 1 of each format, as they were made then (`make`), are read as what they held: a cache, a run and a bundle.

A change of a format raises its version, and this folder gets a file of the new one. Its files are never made anew
for a change of the programs.
"""
import hashlib
import json
import pathlib

import numpy as np
import pytest
from PIL import Image

import loaded_program
from coldframe import Bundle, Cache, Run

HERE = pathlib.Path(__file__).resolve().parent
PIXELS = ["--random-weights", "0", "--architecture", "vit_tiny_patch16_224", "--pool", "mean", "--mean", "0.5", "--std", "0.5",
          "--image-size", "16", "--device", "cpu", "--precision", "fp32"]
LOST = "3-1.png"


def make_exams(folder):
    """Two frames each of stripes, of a label that their brightness tells; one frame is lost."""
    rows = ["exam,path,time,patient,label,phase"]
    for exam in range(12):
        for frame in range(2):
            name = f"{exam}-{frame}.png"
            across, down = np.meshgrid(np.arange(20), np.arange(24))
            level = (40 + 90 * (exam % 2) + 7 * exam + (5 + exam) * across + 9 * frame * down) % 256
            Image.fromarray(np.stack([level, level // 2, 255 - level], -1).astype(np.uint8)).save(folder / name)
            rows.append(f"exam-{exam},{name},{10 + 2.5 * frame},patient-{exam},{'no yes'.split()[exam % 2]},{frame}")
    (folder / LOST).write_bytes(b"")
    (folder / "exams.csv").write_text("\n".join(rows) + "\n")
    return folder / "exams.csv"


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def facts_of(path):
    """What the Python package reads of a cache, with digests of what is long."""
    cache = Cache(path)
    exams = []
    for row in cache.exams.drop(columns="ordinal").to_dict("records"):
        exam = row.pop("exam")
        row = {name: None if value != value else value for name, value in row.items()}  # NaN: unknown
        exams.append({"id": exam, **row, "times": list(cache.times(exam)), "present": [bool(p) for p in cache.present(exam)],
                      "phase": [int(p) for p in cache.frames(exam)["phase"]],
                      "first": [float(f) for f in cache.features(exam)[0, :4]],
                      **{f"features of {view}": digest(cache.features(exam, view).astype("<f2")) for view in cache.views},
                      **{f"cut of {view}": digest(cache.cut(exam, view)) for view in cache.views},
                      "thumbnails": digest(np.frombuffer(b"".join(cache.thumbnail(exam, t) for t in range(2)), np.uint8))})
    return json.loads(json.dumps({"views": cache.views, "dimension": cache.dimension, "recipe": cache.recipe, "exams": exams,
                                  "failures": cache.failures[["exam", "source"]].to_dict("records")}))


def outputs_of(run, cache):
    """What each fit of the run gives for the first exam, of PyTorch's own layers."""
    import torch

    exam = Cache(cache)
    features = torch.from_numpy(exam.features(0))[None]
    times = torch.from_numpy(np.asarray(exam.times(0)))[None]
    return [model(features, times)[0].tolist() for model in Run(run).models()]


def predicted(folder, *words):
    out = folder / f"{words[0].lstrip('-')}.csv"
    done = loaded_program.coldframe("predict", *words, "--out", out, "--device", "cpu", "--quiet")
    assert done.returncode in (0, 1), done.stderr
    header, *rows = [line.split(",") for line in out.read_text().splitlines()]
    wanted = [header.index("exam"), *(i for i, name in enumerate(header) if name.startswith("p_"))]
    return [[row[i] if i == wanted[0] else float(row[i]) for i in wanted] for row in rows]


@pytest.fixture(scope="module")
def values():
    return json.loads((HERE / "values.json").read_text())


def test_a_cache_is_read_by_the_package(values):
    assert facts_of(HERE / "cache.h5") == values["cache"]


def test_a_cache_is_read_by_the_programs(values, tmp_path):
    done = loaded_program.coldframe("cache", "verify", HERE / "cache.h5")
    assert done.returncode == 0, done.stdout + done.stderr
    for view in values["cache"]["views"]:
        out = tmp_path / f"{view}.npy"
        assert loaded_program.coldframe("cache", "export", out, HERE / "cache.h5", "--view", view, "--cut").returncode == 0
        features, cut = np.load(out), np.load(tmp_path / f"{view}.cut.npy")
        for i, exam in enumerate(values["cache"]["exams"]):
            assert digest(features[2 * i:2 * i + 2]) == exam[f"features of {view}"], exam["id"]
            assert digest(cut[2 * i:2 * i + 2]) == exam[f"cut of {view}"], exam["id"]
    ids, frames = (tmp_path / f"clean.{name}.csv" for name in ("exams", "frames"))
    assert all(exam["patient"] in ids.read_text() for exam in values["cache"]["exams"])
    assert frames.read_text().count("\n") == 1 + 2 * len(values["cache"]["exams"])


def test_a_run_predicts_as_it_did(values, tmp_path):
    now = predicted(tmp_path, "--run", HERE / "run", "--cache", HERE / "cache.h5")
    assert [row[0] for row in now] == [row[0] for row in values["run"]]
    assert np.allclose([row[1:] for row in now], [row[1:] for row in values["run"]], rtol=0, atol=1e-6)
    assert np.allclose(outputs_of(HERE / "run", HERE / "cache.h5"), values["outputs"], rtol=0, atol=1e-6)
    assert Run(HERE / "run").predictions["exam"].nunique() == len(values["cache"]["exams"])


def test_a_bundle_predicts_images_as_it_did(values, tmp_path):
    done = loaded_program.coldframe("bundle", "verify", HERE / "model.bundle")
    assert done.returncode == 0, done.stdout + done.stderr
    now = predicted(tmp_path, "--bundle", HERE / "model.bundle", "--input", make_exams(tmp_path), "--frame-columns", "phase")
    assert [row[0] for row in now] == [row[0] for row in values["bundle"]]
    # Features are computed anew, by another machine perhaps, and rounded to float16.
    assert np.allclose([row[1:] for row in now], [row[1:] for row in values["bundle"]], rtol=0, atol=2e-3)
    assert len(Bundle(HERE / "model.bundle").models()) == len(values["outputs"])
