"""Made cohorts of known truth, binary and half of each class: what tells the classes apart is one thing alone.

COHORTS: name → (exams, exams in a quick look, what makes one exam). A maker gets a generator of random numbers and the
label, and gives features [T, D] and the seconds of its frames.
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "train_temporal"))
import training_support  # noqa: E402

FRAMES = 12


def even(frames=FRAMES):
    return 0.1 * np.arange(frames)


def order(random, label, slope=0.5, noise=1.0, width=16):
    """A feature rises or falls along the exam; the others are noise."""
    values = random.normal(0, noise, (FRAMES, width))
    values[:, 0] += slope * np.linspace(-1, 1, FRAMES) * (1 if label else -1)
    return values, even()


def interval(random, label, width=16, noise=0.1):
    """The one long interval comes before the one marked frame, or before another."""
    values = random.normal(0, 1, (FRAMES, width))
    values[:, 0] = random.normal(0, noise, FRAMES)
    marked, other = random.choice(np.arange(1, FRAMES), 2, replace=False)
    values[marked, 0] += 1
    steps = random.uniform(0.5, 1.5, FRAMES)
    steps[0], steps[marked if label else other] = 0, 8
    return values, np.cumsum(steps)


def rhythm(random, label, width=16):
    """Intervals grow or shrink: the same set of intervals, the same duration."""
    steps = np.sort(np.exp(random.uniform(-2, 1, FRAMES - 1)))
    return random.normal(size=(FRAMES, width)), np.concatenate([[0], np.cumsum(steps if label else steps[::-1])])


def one_frame(random, label, height=4.0, width=16):
    """One frame at a random place stands out in a feature, in class 1 only."""
    values = random.normal(size=(FRAMES, width))
    if label:
        values[random.integers(FRAMES), 0] += height
    return values, even()


def duration(random, label, width=16):
    """Exams of class 1 take longer; intervals are uneven within both."""
    steps = random.uniform(0.5, 1.5, FRAMES) * np.exp(random.normal(0.3 if label else -0.3, 0.3))
    return random.normal(size=(FRAMES, width)), np.cumsum(steps) - steps[0]


def ramp(random, label):
    """The slope of a feature that every exam has, of exams of 6 to 20 frames and 64 features."""
    frames = int(random.integers(6, 21))
    values = random.normal(size=(frames, 64))
    values[:, 0] += 2 * np.linspace(-1, 1, frames) * (1 if label else -1)
    return values, even(frames)


def xor(random, label, width=8):
    """Two features have the same sign in every frame, or opposite ones."""
    values = random.normal(size=(FRAMES, width))
    first = random.choice([-1, 1])
    values[:, 0] += 2 * first
    values[:, 1] += 2 * first * (-1 if label else 1)
    return values, even()


def confounder(random, label):
    """A scanner that goes with the label in four of five exams, and a weak finding, among 64 features."""
    values = random.normal(size=(FRAMES, 64)) + random.normal(0, 0.5, 64)
    values[:, 1] += 2 * (label if random.random() < 0.8 else 1 - label)
    values[:, 0] += 0.6 * label
    return values, even()


def embedding(random, label):
    """A weak shift of the mean along one direction of 384 features that hang together within an exam."""
    values = random.normal(size=(FRAMES, 384)) + random.normal(0, 1, 384)
    direction = np.random.default_rng(9).normal(size=384)
    return values + (1.5 if label else -1.5) * direction / np.linalg.norm(direction), even()


def nothing(random, label):
    """Noise: no model can be better than chance."""
    return random.normal(size=(FRAMES, 16)), even()


COHORTS = {
    "order": (320, 160, order),
    "order, little noise": (40, 40, lambda random, label: order(random, label, 2.0, 0.3)),
    "interval": (320, 160, interval),
    "rhythm": (160, 80, rhythm),
    "one frame": (320, 160, one_frame),
    "duration": (160, 80, duration),
    "ramp": (5000, 400, ramp),
    "xor": (320, 160, xor),
    "confounder": (160, 80, confounder),
    "embedding": (300, 150, embedding),
    "nothing": (160, 80, nothing),
}


def make(folder, name, seed=0, quick=False, count=None):
    """Writes the cohort as a cache and gives its path."""
    full, few, maker = COHORTS[name]
    count = count or (few if quick else full)
    random = np.random.default_rng([seed, list(COHORTS).index(name)])
    exams, features = [], []
    for number in range(count):
        label = number % 2
        values, times = maker(random, label)
        exams.append(training_support.exam(number, len(values), str(label), time_s=list(times)))
        features.append(values)
    return training_support.make_cache(folder, exams, features, name=f"{name.replace(' ', '-').replace(',', '')}-{seed}.cache")
