"""Cohorts for models that find change. Seven made ones of 200 exams × 12 frames × 32 features have labels that depend on
feature 0 in ways that longitudinal imaging knows: a change beside a level that differs between patients, a trend over
visits, the highest value, and others. Beside them are the nine of the defaults (../defaults/cohorts.py, at most 200
exams) and the pocus clips in the caches that ../README.md says how to make."""
import csv
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parents[1] / "train_temporal"), str(HERE.parent / "defaults")]
import cohorts as defaults  # noqa: E402
from training_support import BUILD  # noqa: E402

COUNT, FRAMES, DIMENSION = 200, 12, 32


def noise(random, frames=FRAMES):
    """Features of a patient: a level of each, and what varies from frame to frame."""
    return 0.5 * random.normal(size=DIMENSION) + random.normal(size=(frames, DIMENSION))


def change(random, label):
    """The change from the first to the last frame; the level is the patient's."""
    values = noise(random)
    values[:, 0] = 3 * random.normal() + 0.5 * random.normal(size=FRAMES)
    values[:, 0] += np.linspace(0, 1.5 if label else -0.2, FRAMES)
    return values


def maximum(random, label):
    """The highest of twelve values."""
    while True:
        values = noise(random)
        values[:, 0] = random.normal(size=FRAMES)
        if (values[:, 0].max() > 1.6) == bool(label):
            return values


def rare(random, label):
    """A weak shift of the level."""
    values = noise(random)
    values[:, 0] = 0.3 * random.normal() + random.normal(size=FRAMES) + 1.15 * label
    return values


def consecutive(random, label):
    """Three frames are raised: one after another, or apart."""
    values = noise(random)
    if label:
        marked = random.integers(FRAMES - 2) + np.arange(3)
    else:
        while True:
            marked = np.sort(random.choice(FRAMES, 3, replace=False))
            if np.diff(marked).min() > 1:
                break
    values[:, 0] = 0.3 * random.normal(size=FRAMES)
    values[marked, 0] += 3
    return values


def gap(random, label):
    """The long interval lies before the frame that is raised, or before another one."""
    values = noise(random)
    marked, other = random.choice(np.arange(1, FRAMES), 2, replace=False)
    values[:, 0] = 0.3 * random.normal(size=FRAMES)
    values[marked, 0] += 3
    steps = random.uniform(0.5, 1.5, FRAMES)
    steps[marked if label else other] = 8
    return values, np.cumsum(steps)


def five(random, label):
    """The level rises with the class."""
    values = noise(random)
    values[:, 0] = 0.3 * random.normal() + random.normal(size=FRAMES) + 0.8 * label
    return values


# Cohort: what makes an exam, and the share of each class.
COHORTS = {"change": (change, [0.5, 0.5]), "maximum": (maximum, [0.5, 0.5]), "rare class": (rare, [0.95, 0.05]),
           "three in a row": (consecutive, [0.5, 0.5]), "gap × feature": (gap, [0.5, 0.5]),
           "five classes": (five, [0.4, 0.25, 0.2, 0.1, 0.05])}
VISITS = 4
NINE = [name for name in defaults.COHORTS if name not in ("order, little noise", "nothing")]
REAL = {"pocus, MobileNetV2": "pocus.cache", "pocus, DINOv2-S": "pocus-dinov2.cache"}
NAMES = ["change", "trend over visits", *list(COHORTS)[1:], *NINE, *REAL]


def rotation(seed, dimension):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, dimension)))[0]


def trend(random):
    """A feature's slope over four visits of three frames, of which the last one is labelled; its level is the patient's."""
    for patient in range(COUNT):
        label, mean = patient % 2, 3 * random.normal()
        own = 0.5 * random.normal(size=DIMENSION)
        for visit in range(VISITS):
            values = own + random.normal(size=(3, DIMENSION))
            values[:, 0] = mean + visit * (0.5 if label else -0.1) + 0.4 * random.normal() + 0.4 * random.normal(size=3)
            yield patient, visit, str(label) if visit == VISITS - 1 else "", values, np.arange(3.0)


def one_by_one(random, make, shares, count=COUNT):
    """Exams of patients of their own."""
    labels = np.repeat(np.arange(len(shares)), np.round(np.array(shares) * count).astype(int))
    random.shuffle(labels)
    for patient, label in enumerate(labels):
        values = make(random, label)
        values, times = values if isinstance(values, tuple) else (values, np.arange(FRAMES) * 0.5)
        yield patient, 0, str(label), values, times


def clips(cache):
    from reference_data import read_cache  # imports PyTorch

    exams = read_cache(BUILD / cache)
    with (HERE.parents[3] / "shared/data/pocus/exams.csv").open() as file:
        for row in csv.DictReader(file):
            exam = exams[row["exam"]]
            yield row["patient"], 0, row["abnormal"], exam.features.numpy(), exam.seconds


def made(name, seed, rotated):
    """[(patient, visit, label or "", features [T, D], times [T])] of a cohort."""
    random = np.random.default_rng([seed, sum(map(ord, name))])
    if name in REAL:
        exams = clips(REAL[name])
    elif name in NINE:
        full, _, make = defaults.COHORTS[name]
        exams = one_by_one(random, make, [0.5, 0.5], min(full, COUNT))
    else:
        exams = trend(random) if name == "trend over visits" else one_by_one(random, *COHORTS[name])
    exams = list(exams)
    turn = rotation(seed, exams[0][3].shape[1]) if rotated else None
    return [(patient, visit, label, values @ turn if rotated else values, times)
            for patient, visit, label, values, times in exams]


def joined(exams):
    """[(number, patient, label, features [T, D], seconds [T])] of every labelled exam, behind earlier visits of the same
    patient, which are 100 days apart."""
    rows = []
    for number, (patient, visit, label, *_) in enumerate(exams):
        if not label:
            continue
        seen = [one for one in exams if one[0] == patient and one[1] < visit] if visit else []
        seen.append(exams[number])
        seconds = [100 * 86400 * before + times for _, before, _, _, times in seen]
        rows.append((number, patient, int(label), np.concatenate([one[3] for one in seen]), np.concatenate(seconds)))
    return rows
