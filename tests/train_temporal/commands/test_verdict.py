"""What the verdict says of made cohorts whose truth is known."""

import numpy as np
import pytest

from training_support import coldframe, exam, make_cache


def noise_exams(seed, label_of_times):
    """Features of noise; the label goes by the times alone, whose sum and spread are the same in both classes."""
    random = np.random.default_rng(seed)
    exams, features = [], []
    for number in range(160):
        label = number % 2
        times = label_of_times(random, label)
        exams.append(exam(number, len(times), str(label), time_s=list(map(float, times))))
        features.append(random.standard_normal((len(times), 6)))
    return exams, features


def rhythm(random, label):
    """Long and short intervals in turn, the long one first or the short one."""
    intervals = np.tile([1.0, 4.0] if label else [4.0, 1.0], 4) * random.uniform(0.98, 1.02, 8)
    return np.concatenate([[0], np.cumsum(intervals)])


def test_a_rhythm_of_times_is_not_taken_for_pixels(tmp_path):
    cache = make_cache(tmp_path, *noise_exams(0, rhythm))
    done = coldframe("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label", "--folds", 3, "--epochs", 40,
                     "--hidden", 32, "--lr", 0.005, "--bootstrap", 400, "--compare", "blank,clock")
    assert done.returncode == 0, done.stderr
    assert "gru knows more than sequence length, timing" in done.stdout  # true: clock sees summaries only
    assert "The features do not carry the result" in done.stdout, done.stdout
    assert "The features carry part" not in done.stdout


def test_exams_of_one_patient_are_not_taken_for_patients(tmp_path):
    random = np.random.default_rng(0)
    exams = [exam(number, 4, str(number // 5 % 2), f"P{number // 5}") for number in range(60)]
    cache = make_cache(tmp_path, exams, [random.standard_normal((4, 6)) for _ in exams])
    done = coldframe("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label", "--exam-is-patient")
    assert done.returncode == 2 and "12 have several exams" in done.stderr, done.stderr
    assert not list(tmp_path.glob("run*"))
