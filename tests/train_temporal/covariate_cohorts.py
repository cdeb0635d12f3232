"""Made cohorts in which covariates, or pixels, or both carry the label."""
import numpy as np
from training_support import exam, make_cache

FRAMES, DIMENSION = 5, 8


def made_exams(count=120, seed=0, label_in="covariates", gaps=True):
    """`label_in`: covariates (age and sex together), pixels, both (half of the exams each), or nothing."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(count):
        label = number % 2
        told = {"covariates": "c", "pixels": "p", "both": "cp"[number // 2 % 2], "nothing": ""}[label_in]
        side = (1 if label else -1) if told == "c" else random.choice([-1, 1])
        age = 60 + 12 * side + random.uniform(-8, 8)
        sex = ("M" if side > 0 else "F") if random.random() < 0.8 else "FM"[number // 2 % 2]
        columns = {"label": str(label), "age": f"{age:.1f}", "sex": sex, "site": ["a", "b", "c"][number % 3],
                   "grade": str(1 + number % 4)}
        if gaps and number % 11 == 3:
            columns["age"] = ""
        if gaps and number % 13 == 5:
            columns["sex"] = "nan"
        exams.append(exam(number, FRAMES - number // 2 % 2, str(label), columns=columns))
        values = random.normal(size=(FRAMES - number // 2 % 2, DIMENSION))
        if told == "p":
            values[:, 0] += 4 * label - 2
        features.append(values)
    return exams, features


def made_cache(folder, name="made.cache", **options):
    return make_cache(folder, *made_exams(**options), name=name)


def columns_of(exams):
    return {entry["id"]: entry["columns"] for entry in exams}
