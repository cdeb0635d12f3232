"""A study of made exams, and bundles of it."""
import sys
import types

import pathlib

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import training_support  # noqa: E402
from training_support import quick  # noqa: E402
from tuning_support import PIXELS, extract, made_exams, tiny_vit  # noqa: E402


def coldframe(*words, expect=0, **variables):
    done = training_support.coldframe(*words, variables=variables)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def study(folder, *backbone, exams=12, manifest=None, pixels=PIXELS):
    """Exams, their cache by `backbone` (words of extract) and a run of two folds with a control."""
    manifest = manifest or made_exams(folder / "exams", exams)
    cache = extract(manifest, folder / "exams.cache", *backbone, *pixels, "--device", "cpu")
    coldframe("train", "--cache", cache, "--target", "label", "--out", folder / "run", "--compare", "mean",
              *quick("--folds", 2, "--epochs", 2))
    return types.SimpleNamespace(folder=folder, exams=manifest, cache=cache, run=folder / "run")


def vit_study(folder, *words):
    weights = tiny_vit(folder / "vit.safetensors")
    made = study(folder, "--weights", weights, *words)
    made.weights = weights
    return made


def bundle(made, name="model.bundle", *words, expect=0):
    return coldframe("bundle", "make", made.run, "--out", made.folder / name, *words, expect=expect)


def flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study with its bundle."""
    made = vit_study(tmp_path_factory.mktemp("study"), "--license", "cc-by-nc-4.0")
    bundle(made, "model.bundle", "--weights", made.weights, "--license", "apache-2.0")
    made.bundle = made.folder / "model.bundle"
    return made


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())
