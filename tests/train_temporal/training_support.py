"""Caches and runs for the cross-checks of train_temporal."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(REPO / folder) for folder in ("common/python", "examples", "tests/support")]
from loaded_program import BUILD, loaded  # noqa: E402

PROGRAM = BUILD / "bin" / "coldframe-train_temporal"
MAKE_CACHE = BUILD / "tests" / "make_cache"


def exam(number, frames, label, patient=None, **more):
    """The description of one exam as make_cache wants it; evenly timed."""
    entry = {
        "id": f"exam-{number}",
        "patient": f"patient-{number}" if patient is None else patient,
        "time_s": [0.1 * t for t in range(frames)],
        "present": [1] * frames,
        "columns": {"label": label},
    }
    entry.update(more)
    return entry


def make_cache(folder, exams, features, recipe=None, name="made.cache", views=("clean",)):
    """exams: list of exam(); features: one [T, D] array per exam, [V, T, D] where there are several views."""
    source = folder / (name + ".source")
    source.mkdir()
    content = {
        "dimension": features[0].shape[-1],
        "views": list(views),
        "recipe": recipe or {"weights": {"sha256": "aa"}, "pool": "mean"},
        "exams": exams,
    }
    (source / "exams.json").write_text(json.dumps(content))
    np.concatenate([of_exam.reshape(-1, of_exam.shape[-1]) for of_exam in features]).astype("<f4").tofile(source / "features.f32")
    out = folder / name
    subprocess.run([MAKE_CACHE, source, out], check=True)
    return out


def ramp_exams(count, frames=8, dimension=6, seed=0, patients=None, ragged=False):
    """Exams whose label is only in the order of their frames: feature 0 rises or falls."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        length = frames - number % 3 if ragged else frames
        ramp = np.linspace(-1, 1, length)
        values = random.uniform(-1, 1, (length, dimension))
        values[:, 0] = ramp if number % 2 else -ramp
        patient = f"patient-{number if patients is None else number % patients}"
        exams.append(exam(number, length, str(number % 2), patient))
        features.append(values)
    return exams, features


def ramp_cache(folder, count=60, **options):
    name = options.pop("name", "made.cache")
    recipe = options.pop("recipe", None)
    return make_cache(folder, *ramp_exams(count, **options), recipe=recipe, name=name)


def uneven(exams, seed):
    """The exams at uneven times, some of which are unknown, and with missing frames."""
    random = np.random.default_rng(seed)
    for number, entry in enumerate(exams):
        steps = random.uniform(0.05, 2.0, len(entry["present"]))
        entry["time_s"] = list(np.cumsum(steps) - steps[0])
        if number % 4 == 0:
            entry["present"][2] = 0
        if number % 5 == 0:
            entry["time_s"] = [None] * len(steps)
        if number % 5 == 1:
            entry["time_s"][0] = None
    return exams


def uneven_run(folder, *words):
    """The cache of such exams, a run on them, exams and features."""
    exams, features = ramp_exams(40, ragged=True)
    exams = uneven(exams, 1)
    for entry, values in zip(exams, features):
        values[~np.array(entry["present"], bool)] = np.nan
    cache, run = make_cache(folder, exams, features), folder / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run, *quick("--folds", 2, "--seeds", 2, *words))
    return cache, run, exams, features


def present_frames(exams, features):
    """Returns what the cache holds of each exam's present frames, and their times."""
    present = [np.array(e["present"], bool) for e in exams]
    rows = [f.astype(np.float16).astype(np.float32)[p] for f, p in zip(features, present)]
    times = [np.array([np.nan if t is None else t for t in e["time_s"]])[p] for e, p in zip(exams, present)]
    return rows, times


def coldframe(*words, cwd=None, variables={}, **options):
    """`options`, further ones of subprocess.run(), are for a process that is started anew."""
    if options:
        return subprocess.run([str(PROGRAM), *map(str, words)], capture_output=True, text=True, cwd=cwd, **options)
    return loaded(PROGRAM).run(words, cwd, variables=variables)


def succeed(*words, **options):
    """What coldframe() returns of a command that must end well."""
    done = coldframe(*words, **options)
    assert done.returncode == 0, done.stderr
    return done


def held_at(name, hold, trace):
    """The environment of a process that waits, when it opens a file with this name, until `hold` is gone; `trace` appears
    then (tests/support/failing_files.c)."""
    hold.touch()
    return os.environ | dict(LD_PRELOAD=str(BUILD / "tests" / "failing_files.so"), COLDFRAME_TEST_FAULTS_UNDER=name,
                             COLDFRAME_TEST_FAULTS_EVERY="0", COLDFRAME_TEST_FAULTS_LOCKS="yes",
                             COLDFRAME_TEST_FAULTS_HOLD=str(hold), COLDFRAME_TEST_FAULTS_TRACE=str(trace))


def quick(*words, model="gru"):
    """`words` with small and short settings added: most tests are about files and errors. Fits are of one kind, unless
    `model` is None: as a user has it who does not ask."""
    small = {"--epochs": 12, "--hidden": 16, "--lr": 0.005, "--bootstrap": 50} | ({"--model": model} if model else {})
    added = [part for pair in small.items() if pair[0] not in words for part in pair]
    return [*words, *added]
