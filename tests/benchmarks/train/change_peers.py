"""The peers of a fold: scikit-learn's usual pipelines on summaries of the frames, and a GRU in PyTorch with settings of its
own search. An exam is (number, patient, label, features [T, D], seconds [T]), as change_cohorts.joined() has it."""
import math
import pathlib
import sys

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "defaults"))
import twin  # noqa: E402
from reference_data import Exam, clock_values  # noqa: E402
from reference_training import fit_one  # noqa: E402

PENALTIES = [1e-3, 1e-2, 0.1, 1]  # scikit-learn's C
WIDE = 1000  # columns from which on boosting takes as many principal components as below: it takes minutes of all
COMPONENTS = 64
# Enough for 200 exams: its best epoch is hardly ever later.
STEPS = {"epochs": 30, "patience": 8, "batch": 32}


def summaries(values, seconds):
    """[T, D], [T] → [families, D + 1]: the intervals between frames are one more feature."""
    x = np.column_stack([values, np.nan_to_num(np.diff(seconds, prepend=seconds[0]))])
    place = np.arange(len(x)) - (len(x) - 1) / 2
    slope = place @ x / max((place**2).sum(), 1e-9)
    return np.stack([x.mean(0), x.max(0), x.min(0), x.std(0), x[0], x[-1], x[-1] - x[0], slope])


def parts_of(groups, label, count):
    return StratifiedGroupKFold(count, shuffle=True, random_state=0).split(label, label, groups)


def on_axes(train, test):
    """Standardised, and where there are more columns than rows on the rows' principal axes: ridge fits stay the same."""
    steps = make_pipeline(StandardScaler(), *[PCA()] * (train.shape[1] > len(train)))
    return steps.fit_transform(train), steps.transform(test)


def linear(x, label, groups, test):
    """Logistic regression on the family of summaries, and with the penalty, of the best cross-validation."""
    def fits(family, train, rows, penalties):
        seen, held_out = on_axes(x[train, family], rows[:, family])
        for penalty in penalties:
            yield LogisticRegression(C=penalty, max_iter=500).fit(seen, label[train]).predict_proba(held_out)

    losses = np.zeros((x.shape[1], len(PENALTIES)))
    for family in range(x.shape[1]):
        for train, held_out in parts_of(groups, label, 3):
            for c, shown in enumerate(fits(family, train, x[held_out], PENALTIES)):
                losses[family, c] += log_loss(label[held_out], shown, labels=np.unique(label[train]))
    family, c = np.unravel_index(losses.argmin(), losses.shape)
    return next(fits(family, np.arange(len(label)), test, [PENALTIES[c]]))


def forest(x, label, groups, test):
    model = RandomForestClassifier(random_state=0)
    return model.fit(x.reshape(len(x), -1), label).predict_proba(test.reshape(len(test), -1))


def boosting(x, label, groups, test):
    flat, flat_test = x.reshape(len(x), -1), test.reshape(len(test), -1)
    steps = [StandardScaler(), PCA(COMPONENTS, random_state=0)] * (flat.shape[1] > WIDE)
    model = make_pipeline(*steps, HistGradientBoostingClassifier(max_iter=50, random_state=0))
    return model.fit(flat, label).predict_proba(flat_test)


PIPELINES = {"linear": linear, "forest": forest, "boosting": boosting}


def as_cache(exams):
    """As reference_data.read_cache() has them, and their labels."""
    table = {str(number): Exam(torch.from_numpy(values.astype(np.float32)), seconds,
                               clock_values(seconds, 0, 0, 0), "made") for number, _, _, values, seconds in exams}
    return table, {str(number): label for number, _, label, *_ in exams}


def twin_fit(config, exams, parts, seed):
    table, label = as_cache(exams)
    settings = config["model"] | {"classes": 1 + max(label.values()), "time": bool(np.isfinite(exams[0][4]).all())}
    return fit_one("gru", settings, config, table, label, parts, seed)


def twin_search(config, exams, count):
    """The best of `count` settings by the loss over two parts of a cohort that is measured nowhere else."""
    torch.set_num_threads(1)
    numbers = np.array([str(exam[0]) for exam in exams])
    label, groups = (np.array([exam[i] for exam in exams]) for i in (2, 1))
    drawn = [twin.configured(config, setting, len(exams)) for setting in twin.settings_of(count, np.random.default_rng(1))]
    best, least = None, math.inf
    for one in drawn:
        one["fit"].update(STEPS)
        loss = 0
        for train, held_out in parts_of(groups, label, 2):
            parts = {"train": list(numbers[train]), "validation": list(numbers[held_out]), "test": list(numbers[held_out])}
            loss += twin_fit(one, exams, parts, 0)[0]
        if loss < least:
            best, least = one, loss
    return best
