"""Made cohorts of 200 exams × 12 frames × 32 features whose labels depend on feature 0 in ways that longitudinal imaging
knows: a change beside a level that differs between patients, a trend over visits, the highest value, and others."""
import numpy as np

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


def level(random, label):
    values = noise(random)
    values[:, 0] += 0.8 * label
    return values


def order(random, label):
    """A feature rises or falls; both classes hold the same frames."""
    values = noise(random)
    ramp = np.sort(random.uniform(-2, 2, FRAMES))
    values[:, 0] = ramp if label else ramp[::-1]
    return values


# Cohort: what makes an exam, and the share of each class.
COHORTS = {"change": (change, [0.5, 0.5]), "maximum": (maximum, [0.5, 0.5]), "rare class": (rare, [0.95, 0.05]),
           "three in a row": (consecutive, [0.5, 0.5]), "gap × feature": (gap, [0.5, 0.5]),
           "five classes": (five, [0.4, 0.25, 0.2, 0.1, 0.05]), "level": (level, [0.5, 0.5]), "order": (order, [0.5, 0.5])}
VISITS = 4
NAMES = ["change", "trend over visits", *list(COHORTS)[1:]]


def rotation(seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(DIMENSION, DIMENSION)))[0]


def made(name, seed, rotated):
    """[(patient, visit, label or "", features [T, D], times [T])] of a cohort."""
    random = np.random.default_rng([seed, sum(map(ord, name))])
    turn = rotation(seed) if rotated else np.eye(DIMENSION)
    exams = []
    if name == "trend over visits":
        for patient in range(COUNT):
            label, mean = patient % 2, 3 * random.normal()
            own = 0.5 * random.normal(size=DIMENSION)
            for visit in range(VISITS):
                values = own + random.normal(size=(3, DIMENSION))
                values[:, 0] = mean + visit * (0.5 if label else -0.1) + 0.4 * random.normal() + 0.4 * random.normal(size=3)
                exams.append((patient, visit, str(label) if visit == VISITS - 1 else "", values @ turn, np.arange(3.0)))
        return exams
    make, shares = COHORTS[name]
    labels = np.repeat(np.arange(len(shares)), np.round(np.array(shares) * COUNT).astype(int))
    random.shuffle(labels)
    for patient, label in enumerate(labels):
        values = make(random, label)
        values, times = values if isinstance(values, tuple) else (values, np.arange(FRAMES) * 0.5)
        exams.append((patient, 0, str(label), values @ turn, times))
    return exams


def joined(exams):
    """(features [T, D], label) of every labelled exam, with earlier visits before it, and its patient."""
    rows = []
    for patient, visit, label, values, _ in exams:
        if label:
            before = [other[3] for other in exams if other[0] == patient and other[1] < visit] if visit else []
            rows.append((np.concatenate([*before, values]), int(label), patient))
    return rows
