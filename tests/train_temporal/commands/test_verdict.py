"""What the verdict says of made cohorts whose truth is known."""
import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from sklearn.metrics import average_precision_score, roc_auc_score
from training_support import coldframe, exam, make_cache, quick, succeed
from verdict_cohorts import COHORTS, verdict_of


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
    done = succeed("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label", "--folds", 3, "--epochs", 40,
                   "--hidden", 32, "--lr", 0.005, "--bootstrap", 400, "--compare", "blank,clock")
    assert "auto knows more than sequence length, timing" in done.stdout  # true: clock sees summaries only
    assert "The features do not carry what auto found" in done.stdout, done.stdout
    assert "The features carry part" not in done.stdout


def test_exams_of_one_patient_are_not_taken_for_patients(tmp_path):
    random = np.random.default_rng(0)
    exams = [exam(number, 4, str(number // 5 % 2), f"P{number // 5}") for number in range(60)]
    cache = make_cache(tmp_path, exams, [random.standard_normal((4, 6)) for _ in exams])
    done = coldframe("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label", "--exam-is-patient")
    assert done.returncode == 2 and "12 have several exams" in done.stderr, done.stderr
    assert not list(tmp_path.glob("run*"))


# Two of tests/soak/verdicts' cohorts, one seed each.
@pytest.mark.parametrize("name", ["xor", "order"])
def test_baselines_lose_for_want_of_the_order_alone(tmp_path, name):
    said, lines = verdict_of(tmp_path, name)
    assert {topic: said[topic] for topic in COHORTS[name][2]} == COHORTS[name][2], lines


def test_nothing_is_claimed_of_noise(tmp_path):
    said, lines = verdict_of(tmp_path, "null", count=60, epochs=6)
    assert not said["learnt"] and said["order"] is said["features"] is said["pixels"] is None, lines


def first_frame_exams(count=80):
    """The first frame alone tells the label."""
    random = np.random.default_rng(3)
    exams, features = [], []
    for number in range(count):
        values = random.normal(size=(5, 4))
        values[0, 0] = 3 if number % 2 else -3
        exams.append(exam(number, 5, str(number % 2)))
        features.append(values)
    return exams, features


def test_the_single_frame_is_named_and_can_be_chosen_by_validation(tmp_path):
    cache = make_cache(tmp_path, *first_frame_exams())
    figures = {}
    for frame in ["middle", "first", "best"]:
        run = tmp_path / frame
        done = succeed("train", "--cache", cache, "--out", run, "--target", "label",
                       *quick("--folds", 2, "--compare", "single", "--single-frame", frame))
        summary = json.loads((run / "summary.json").read_text())
        single = summary["models"][1]
        assert single["frame"] == frame and json.loads((run / "config.json").read_text())["single_frame"] == frame
        assert f"single, {frame} frame" in done.stdout and f"single, {frame} frame" in (run / "report.html").read_text()
        figures[frame] = single["metrics"]["auroc"]["mean_over_folds"]["value"]
        what = "The best of the first, middle and last frame" if frame == "best" else f"The {frame} frame"
        assert any(what.lower() in line.lower() for line in summary["verdict"]), summary["verdict"]
    assert figures["first"] > 0.95 and figures["best"] == figures["first"] and figures["middle"] < 0.75
    orders = {card_of(path)["model"]["frame_order"] for path in (tmp_path / "best/controls/single").iterdir()}
    assert orders == {"first"}
    listed = coldframe("train", "--list", tmp_path / "best", "--json")
    assert json.loads(listed.stdout)[0]["fits"] == {"done": 8, "all": 8}  # 2 of the gru, 3 × 2 of single


def card_of(path):
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["card"])


@pytest.mark.parametrize("words, says", [
    (["--single-frame", "first"], "which is not among auto"),
    (["--single-frame", "third", "--compare", "single"], "first, middle, last, best"),
])
def test_a_single_frame_that_nobody_sees_is_refused(tmp_path, words, says):
    cache = make_cache(tmp_path, *first_frame_exams(12))
    done = coldframe("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label", *words)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_few_patients_are_told_on_the_terminal_too(tmp_path):
    random = np.random.default_rng(0)
    exams = [exam(number, 4, str(number % 2)) for number in range(8)]
    features = [random.normal(0, 0.1, (4, 3)) + 4 * (number % 2) for number in range(8)]
    cache = make_cache(tmp_path, exams, features)
    done = succeed("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label",
                   *quick("--folds", 2, "--epochs", 40))
    summary, report = json.loads((tmp_path / "run/summary.json").read_text()), (tmp_path / "run/report.html").read_text()
    for says in ["few patients: 8", "too small a sample to bound"]:
        assert says in done.stderr and says in str(summary["warnings"]) and says in report, says
    auroc = summary["models"][0]["metrics"]["auroc"]["mean_over_folds"]
    assert auroc["value"] == 1 and 0.5 < auroc["low"] < 0.6 and auroc["high"] == 1  # by chance 1 of 70 orders ranks as well
    assert summary["models"][0]["metrics"]["ece"]["pooled"]["no_interval"] == "binning biases it upwards"


def test_each_patient_can_be_held_out_once(tmp_path):
    exams, features = first_frame_exams(14)
    for number, entry in enumerate(exams):
        entry["patient"] = f"P{number // 2 if number < 4 else number}"
    cache = make_cache(tmp_path, exams, features)
    done = succeed("train", "--cache", cache, "--out", tmp_path / "run", "--target", "label",
                   *quick("--folds", "patients", "--epochs", 4))
    table = pd.read_csv(tmp_path / "run/predictions.csv")
    assert len(table) == 14 and table.groupby("fold").patient.nunique().tolist() == [1] * 12
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    for metric, of_all in [("auroc", roc_auc_score), ("auprc", average_precision_score)]:
        figure = summary["models"][0]["metrics"][metric]
        assert figure["primary"] == "pooled"
        assert figure["pooled"]["value"] == pytest.approx(of_all(table.label, table.p_1))
    assert "pulls the figure below chance" in done.stderr and "pulls the figure below chance" in str(summary["warnings"])
    assert "worse than chance" not in summary["verdict"][0]
    for words, says in [(["--folds", "patient"], "a whole number, or patients"),
                        (["--folds", "patients", "--repeats", 2], "leave --repeats out")]:
        done = coldframe("train", "--cache", cache, "--out", tmp_path / "no", "--target", "label", *words)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def test_numbers_as_classes_hint_at_grades(tmp_path):
    exams, features = first_frame_exams(24)
    for number, entry in enumerate(exams):
        entry["columns"]["grade"] = f"{number % 4}.0"
    cache = make_cache(tmp_path, exams, features)
    words = ["train", "--cache", cache, *quick("--folds", 2, "--epochs", 1)]
    done = coldframe(*words, "--target", "grade", "--out", tmp_path / "classes")
    assert done.returncode == 0 and "--target grade:ordinal learns them as such" in done.stderr, done.stderr
    metrics = json.loads((tmp_path / "classes/summary.json").read_text())["models"][0]["metrics"]
    assert "kappa" in metrics and "quadratic_kappa" not in metrics
    done = coldframe(*words, "--target", "grade:ordinal", "--out", tmp_path / "grades")
    assert done.returncode == 0 and "learns them as such" not in done.stderr
    assert "quadratic_kappa" in json.loads((tmp_path / "grades/summary.json").read_text())["models"][0]["metrics"]
