"""A cohort with columns, and a run of it with subgroups."""
import json

import numpy as np
import pandas as pd
from training_support import exam, make_cache, quick, succeed

SITES = ["north", "south", "west"]


def made_exams(count=96, seed=0, of_patient=1):
    """The label shifts the features a little; sites differ in how much."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        patient = number // of_patient
        label, site = patient % 2, SITES[patient % 3]
        columns = {"label": str(label), "sex": "FM"[patient // 2 % 2], "site": site, "study": f"s{number % 2}",
                   "empty": "", "age": str(20 + patient)}
        exams.append(exam(number, 4, str(label), f"P{patient}", columns=columns))
        values = random.normal(size=(4, 5))
        values[:, 0] += label * (0.5 + 0.5 * (patient % 3))
        features.append(values)
    return exams, features


def made_run(folder):
    cache, run = make_cache(folder, *made_exams()), folder / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run, "--subgroups", "sex,site", "--prevalence", 0.2,
            *quick("--folds", 3, "--epochs", 6, "--compare", "mean"))
    return cache, run


def summary_of(run):
    return json.loads((run / "summary.json").read_text())


def predictions_of(run, name="predictions.csv"):
    return pd.read_csv(run / name)


def column_of(frame, name):
    columns = {entry["id"]: entry["columns"][name] for entry in made_exams()[0]}
    return frame["exam"].map(columns)
