"""Made cohorts whose truth is known, and what a reader must be told of each."""
import json
import re
import sys

import numpy as np
from training_support import REPO, exam, make_cache, succeed

sys.path.append(str(REPO / "tests" / "benchmarks" / "train"))
import change_cohorts  # noqa: E402

FRAMES, DIMENSION = 6, 4


def even(random, frames=FRAMES):
    return np.arange(frames) * 0.5


def uneven(random, frames=FRAMES):
    return np.concatenate([[0], np.cumsum(random.uniform(0.5, 2.0, frames - 1))])


def noise(random, frames=FRAMES):
    return random.normal(size=(frames, DIMENSION))


def order(random, label):
    """A feature rises or falls; both classes hold the same frames."""
    values = noise(random)
    ramp = np.sort(random.uniform(-2, 2, FRAMES))
    values[:, 0] = ramp if label else ramp[::-1]
    return values, even(random)


def ramp(random, label):
    """As order, slower, on a level that differs from exam to exam."""
    values = 0.3 * noise(random)
    values[:, 0] += np.linspace(-1, 1, FRAMES) * (1 if label else -1) + random.uniform(-2, 2)
    return values, even(random)


def interval(random, label):
    """The one long interval lies before the marked frame, or before another one."""
    values = 0.1 * noise(random)
    marked, other = random.choice(np.arange(1, FRAMES), 2, replace=False)
    values[marked, 0] += 1
    steps = random.uniform(0.5, 1.5, FRAMES)
    steps[0], steps[marked if label else other] = 0, 8
    return values, np.cumsum(steps)


def rhythm(random, label):
    """Long and short intervals in turn, the long one first or the short one; features of noise."""
    steps = np.tile([1.0, 4.0] if label else [4.0, 1.0], 3) * random.uniform(0.98, 1.02, 6)
    return noise(random, 7), np.concatenate([[0], np.cumsum(steps)])


def duration(random, label):
    """The time that an exam takes; features of noise."""
    return noise(random), uneven(random) * (3 if label else 1)


def length(random, label):
    """The number of frames; features of noise."""
    frames = int(random.integers(7, 10) if label else random.integers(3, 6))
    return noise(random, frames), even(random, frames)


def one_frame(random, label):
    """One frame at any place is marked in class 1."""
    values = 0.3 * noise(random)
    values[random.integers(FRAMES), 0] += 4 * label
    return values, even(random)


def level(random, label):
    """A feature's mean."""
    values = noise(random)
    values[:, 0] += 3 if label else -3
    return values, even(random)


def xor(random, label):
    """Two features in every frame, of which neither tells anything alone."""
    values = 0.2 * noise(random)
    sign = random.choice([-1, 1])
    values[:, 0] += sign
    values[:, 1] += sign if label else -sign
    return values, even(random)


def first(random, label):
    """The first frame alone."""
    values = noise(random)
    values[0, 0] += 4 if label else -4
    return values, even(random)


def middle(random, label):
    """The middle frame alone."""
    values = 0.3 * noise(random)
    values[FRAMES // 2, 0] += 3 if label else -3
    return values, even(random)


def confounder(random, label):
    """What level does, among images whose size tells the label as well."""
    values, times = level(random, label)
    return values, times, {"width": 128 if label else 64}


def change(random, label):
    """A feature rises a little, or not, from a level that differs from exam to exam: shuffled frames show it in their
    spread nearly as well."""
    values = noise(random)
    values[:, 0] = 3 * random.normal() + np.linspace(0, 1.5 * label, FRAMES) + 0.2 * random.normal(size=FRAMES)
    return values, even(random)


def of_change(name):
    """A cohort of the benchmark `change`, with fewer features."""
    def make(random, label):
        values = change_cohorts.COHORTS[name][0](random, label)
        values, times = values if isinstance(values, tuple) else (values, even(random, change_cohorts.FRAMES))
        return values[:, :DIMENSION], times
    return make


def trend(random, label):
    """The slope of a feature over three visits; its level is the patient's."""
    values = 0.3 * noise(random, 6)
    values[:, 0] += 3 * random.normal() + np.repeat(np.arange(3.0) * (1 if label else -1), 2)
    return values, even(random, 2), {"visits": 3}


def null(random, label):
    return noise(random), uneven(random)


UNCLAIMED = ("no", "undecided")

# Cohort: what makes it, the controls, and what must be said, as read_verdict() has it: one thing, or one of several.
COHORTS = {
    "order": (order, "shuffled,blank,mean,single",
              {"learnt": True, "order": "yes", "features": "yes", "mean": "less", "single": "less"}),
    "ramp": (ramp, "shuffled,mean", {"learnt": True, "order": "yes", "mean": "less"}),
    "interval": (interval, "shuffled,blank,mean",
                 {"learnt": True, "order": "yes", "features": "yes", "mean": "less"}),
    "rhythm": (rhythm, "blank,mean", {"learnt": True, "features": "no", "mean": "less"}),
    "duration": (duration, "blank,clock", {"learnt": True, "features": "no", "pixels": "no"}),
    "length": (length, "clock,mean", {"learnt": True, "pixels": "no", "mean": "less"}),
    "one frame": (one_frame, "shuffled,blank,single",
                  {"learnt": True, "order": "no", "features": "yes", "single": "less"}),
    "level": (level, "shuffled,mean,clock",
              {"learnt": True, "order": "no", "mean": "equal", "pixels": "yes"}),
    "xor": (xor, "shuffled,mean,single",
            {"learnt": True, "order": "no", "mean": "equal", "single": "equal"}),
    "first": (first, "single", {"learnt": True, "single": "less"}),
    "middle": (middle, "single", {"learnt": True, "single": "equal"}),
    "confounder": (confounder, "shuffled,clock", {"learnt": True, "order": "no", "pixels": "no"}),
    "change": (change, "shuffled,summary", {"learnt": True, "order": "no", "summary": "equal"}),
    "maximum": (of_change("maximum"), "shuffled,summary", {"learnt": True, "order": "no", "summary": "equal"}),
    "trend": (trend, "mean,summary", {"learnt": True, "mean": "less", "summary": "equal"}),
    "rare class": (of_change("rare class"), "shuffled,summary",
                   {"learnt": True, "order": UNCLAIMED, "summary": ("equal", "undecided")}),
    "three in a row": (of_change("three in a row"), "shuffled,summary",
                       {"learnt": True, "order": "yes", "summary": "less"}),
    "gap": (of_change("gap × feature"), "shuffled,summary", {"learnt": True, "order": "yes", "summary": "less"}),
    # A network shares directions between the classes, which pays where some are rare: less is true as well.
    "five classes": (of_change("five classes"), "shuffled,summary",
                     {"learnt": True, "order": UNCLAIMED, "summary": ("equal", "undecided", "less")}),
    "null": (null, "summary,shuffled,blank,clock",
             {"learnt": False, "order": None, "features": None, "pixels": None, "summary": None}),
}

# Topic: the words that a sentence begins with, and what they say.
SENTENCES = {
    "order": [("The order of frames carries", "yes"), ("The order of frames (does not|plays no part)", "no"),
              ("Whether the order of frames", "undecided")],
    "features": [("The features carry", "yes"), ("The features do not", "no"), ("Whether the features", "undecided")],
    "pixels": [(".+ knows more than", "yes"), ("The pixels are not", "no"), ("Whether .+ knows", "undecided")],
    "mean": [("The mean of the frames gives less", "less"), ("The mean of the frames gives more", "more"),
             ("The mean of the frames does as well", "equal"), ("Whether the mean", "undecided")],
    "summary": [("A linear model on summaries of the frames gives less", "less"),
                ("A linear model on summaries of the frames does better", "more"),
                ("A linear model on summaries of the frames does as well", "equal"),
                ("auto is a linear model on summaries of the frames", "equal"),
                ("Whether a linear model", "undecided")],
    "single": [(r"The \w+ frame gives less", "less"), (r"The \w+ frame gives more", "more"),
               (r"The \w+ frame does as well", "equal"), (r"Whether the \w+ frame", "undecided")],
}


def read_verdict(lines):
    """{topic: what is said of it, or None where nothing is}, whether anything was learnt, and whether less than that."""
    said = {topic: next((meaning for start, meaning in sentences for line in lines if re.match(start, line)), None)
            for topic, sentences in SENTENCES.items()}
    of_model = next(line for line in lines if not line.startswith("A linear model on summaries"))
    doubts = ["nothing shows", "nothing can be said", "too weak", "worse than chance"]
    said["learnt"] = not any(doubt in of_model for doubt in doubts)
    said["worse"] = "worse than chance" in of_model
    return said


def labels_of(name, count, random):
    """Both classes in turn, or the shares of the benchmark `change` at random."""
    shares = change_cohorts.COHORTS.get(name, (None, [0.5, 0.5]))[1]
    if shares == [0.5, 0.5]:
        return [number % 2 for number in range(count)]
    return random.permutation(np.repeat(np.arange(len(shares)), np.round(np.array(shares) * count).astype(int)))


def visits_of(values, times, count):
    """The frames of each visit, and whether it is the last one, which has the label."""
    return [(part, times, at == count - 1) for at, part in enumerate(np.split(values, count))]


def cohort_cache(folder, name, count, seed):
    random = np.random.default_rng([seed, sum(map(ord, name))])
    exams, features = [], []
    for number, label in enumerate(labels_of(name, count, random)):
        values, times, *more = COHORTS[name][0](random, label)
        more = dict(*more)
        for day, (part, seconds, labelled) in enumerate(visits_of(values, times, more.pop("visits", 1))):
            entry = exam(len(exams), len(part), str(label) if labelled else "", patient=f"patient-{number}",
                         time_s=[float(t) for t in seconds], present=[1] * len(part), **more)
            entry["columns"]["day"] = str(100 * day)
            exams.append(entry)
            features.append(part)
    return make_cache(folder, exams, features, name=f"{name.replace(' ', '-')}-{seed}.cache")


def verdict_of(folder, name, count=240, seed=0, controls=None, epochs=40, fits=1):
    """What train says of the cohort: read_verdict() and the lines."""
    cache = cohort_cache(folder, name, count, seed)
    words = ["--visits", "day"] if name == "trend" else ["--task", "multiclass"] if name == "five classes" else []
    done = succeed("train", "--cache", cache, "--target", "label", "--out", folder / f"{cache.stem}-run", "--json",
                   "--quiet", "--folds", 3, "--epochs", epochs, "--patience", 10, "--hidden", 24, "--lr", 0.005,
                   "--bootstrap", 10, "--seed", seed, "--seeds", fits, "--compare", controls or COHORTS[name][1], *words)
    lines = json.loads(done.stdout)["verdict"]
    return read_verdict(lines), lines
