"""What a reviewer asks of a study: subgroups, given thresholds, averaged exams, and who the exams are."""
import json
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk
from study_cohort import column_of, made_exams, made_run, predictions_of, summary_of
from training_support import coldframe, make_cache, quick, succeed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("made"))


def evaluated(made, *more, out=None):
    words = ["--out", out] if out else []
    done = succeed("evaluate", "--run", made[1], "--cache", made[0], "--bootstrap", 50, "--json", *words, *more)
    return json.loads(done.stdout)


def expected_figures(label, score, decided):
    return {"auroc": sk.roc_auc_score(label, score), "auprc": sk.average_precision_score(label, score),
            "sensitivity": sk.recall_score(label, decided), "specificity": sk.recall_score(label, decided, pos_label=0),
            "balanced_accuracy": sk.balanced_accuracy_score(label, decided), "f1": sk.f1_score(label, decided),
            "accuracy": sk.accuracy_score(label, decided), "kappa": sk.cohen_kappa_score(label, decided),
            "brier": sk.brier_score_loss(label, score), "log_loss": sk.log_loss(label, score)}


def groups_of(summary, column):
    return {group["value"]: group for group in summary["subgroups"][column]["groups"]}


def test_subgroups_of_an_evaluation_equal_scikit_learn_per_group(made, tmp_path):
    summary = evaluated(made, "--subgroups", "sex,site", out=tmp_path / "out")
    frame = predictions_of(tmp_path / "out")
    for column, count in [("sex", 2), ("site", 3)]:
        groups = groups_of(summary, column)
        assert len(groups) == count
        for value, group in groups.items():
            part = frame[column_of(frame, column) == value]
            assert group["exams"] == len(part) and group["exams_per_class"] == [(part.label == 0).sum(), (part.label == 1).sum()]
            for name, figure in expected_figures(part.label, part.p_1, part.predicted).items():
                ours = group["metrics"][name]["pooled"]
                assert ours["value"] == pytest.approx(figure, abs=1e-9), (column, value, name)
                assert ours.get("no_interval") or ours["low"] <= figure <= ours["high"]
            others = frame[(column_of(frame, column) != value)]
            ahead = sk.roc_auc_score(part.label, part.p_1) - sk.roc_auc_score(others.label, others.p_1)
            assert group["minus_others"]["auroc"]["value"] == pytest.approx(ahead, abs=1e-9)


def test_subgroups_of_a_training_are_means_over_folds(made):
    frame = predictions_of(made[1])
    for value, group in groups_of(summary_of(made[1]), "sex").items():
        part = frame[column_of(frame, "sex") == value]
        mean = part.groupby("fold").apply(lambda fold: sk.roc_auc_score(fold.label, fold.p_1)).mean()
        assert group["metrics"]["auroc"]["mean_over_folds"]["value"] == pytest.approx(mean, abs=1e-9)
    page = (made[1] / "report.html").read_text()
    assert "By sex" in page and "By site" in page and "Decision curve" in page


def test_groups_that_are_too_small_are_named_and_missing_values_counted(made, tmp_path):
    rows = [f"{entry['id']},{entry['columns']['label']},{'' if n < 5 else 'rare' if n < 8 else 'usual'}"
            for n, entry in enumerate(made_exams()[0])]
    labels = tmp_path / "labels.csv"
    labels.write_text("exam,label,device\n" + "\n".join(rows) + "\n")
    summary = evaluated(made, "--subgroups", "device", "--labels", labels, out=tmp_path / "out")
    assert summary["subgroups"]["device"]["without_value"] == 5
    assert "too small" in groups_of(summary, "device")["rare"]["metrics"]["auroc"]["pooled"]["no_interval"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Too few to say anything of the AUROC: &#39;rare&#39; (3 exams of 3 patients)" in page.replace("'", "&#39;")


def test_the_table_of_characteristics_equals_pandas(made, tmp_path):
    random = np.random.default_rng(2)
    frame = pd.DataFrame([{"exam": entry["id"], "label": entry["columns"]["label"], "age": random.integers(20, 90),
                           "grade": random.choice(["I", "II"])} for entry in made_exams()[0]]).astype({"age": float})
    frame.loc[:3, "age"] = np.nan
    frame.loc[2:8, "grade"] = None
    frame.to_csv(tmp_path / "labels.csv", index=False)
    summary = evaluated(made, "--labels", tmp_path / "labels.csv", "--characteristics", "age,grade", out=tmp_path / "out")
    rows = {(row["column"], row["row"]): row["cells"] for row in summary["characteristics"]}
    groups = [frame[frame.label == "0"], frame[frame.label == "1"], frame]
    short = lambda value: f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
    assert rows["exams", ""] == rows["patients", ""] == [str(len(group)) for group in groups]
    assert rows["age", "mean (SD)"] == [f"{short(g.age.mean())} ({short(g.age.std())})" for g in groups]
    quartiles = [[short(g.age.quantile(q)) for q in (0.5, 0.25, 0.75)] for g in groups]
    assert rows["age", "median [quartiles]"] == [f"{m} [{low}, {high}]" for m, low, high in quartiles]
    assert rows["age", "missing"] == [str(g.age.isna().sum()) for g in groups]
    for grade in ("I", "II"):
        counts = [((g.grade == grade).sum(), g.grade.notna().sum()) for g in groups]
        assert rows["grade", grade] == [f"{n} ({100 * n / of:.1f} %)" for n, of in counts]
    assert "Characteristics by class" in (tmp_path / "out" / "report.html").read_text()


def test_every_exam_of_the_flow_is_counted_once(tmp_path):
    exams, features = made_exams()
    exams[0]["present"] = [0] * 4
    for entry in exams[1:4]:
        entry["columns"]["label"] = ""
    cache, splits = make_cache(tmp_path, exams, features), tmp_path / "splits.csv"
    parts = ["train", "train", "train", "val", "test"]
    splits.write_text("exam,part\n" + "".join(f"exam-{i},{parts[i % 5]}\n" for i in range(4, 80)))
    succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--splits", splits,
            *quick("--epochs", 1))
    assert summary_of(tmp_path / "run")["flow"] == {"found": 96, "failed": 0, "without_frame": 1, "without_label": 3,
                                                    "in_no_part": 16, "used": 76}
    page = (tmp_path / "run" / "report.html").read_text()
    drawing = re.search(r'<svg[^>]*aria-label="Flow of exams".*?</svg>', page, re.DOTALL)[0]
    texts = [element.text for element in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["Flow of exams", "96 exams found", "20 exams left out", "0 could not be read", "1 without a readable frame",
                     "3 without a label", "16 in no part of the split", "76 exams used", "of 76 patients", "training",
                     "45 exams", "of 45 patients", "validation", "15 exams", "of 15 patients", "held out", "16 exams", "of 16 patients"]


@pytest.mark.parametrize("words, said", [
    (["--subgroups", "colour"], "no such column of exams; the cache has"),
    (["--subgroups", "empty"], "0 different values"), (["--subgroups", "age"], "expected 2 to 50"),
    (["--subgroups", "sex,,site"], "expected names"), (["--characteristics", "colour"], "no such column"), (["--aggregate", "colour"], "no such column"),
    (["--subgroups", "sex,sex"], "each column once"),
    (["--characteristics", "exam_name"], "at most 50 categories"), (["--prevalence", "1e-320"], "1e-09 to 0.999999999"), (["--threshold", "1.5"], "more than 0 and less than 1"), (["--prevalence", "0"], "expected 1e-09 to"),
    (["--aggregate", "site", "--subgroups", "study"], "have 'study' = 's0' and 's1'"),
])
def test_questions_without_an_answer_are_refused_by_name(tmp_path, made, words, said):
    exams, features = made_exams(count=120, of_patient=2)
    for entry in exams:
        entry["columns"]["exam_name"] = f"x{entry['id']}"
    cache = make_cache(tmp_path, exams, features, name="visits.cache")
    done = coldframe("evaluate", "--run", made[1], "--cache", cache, *words)
    assert done.returncode in (2, 3) and said in done.stderr, done.stderr


def test_a_threshold_of_ones_own_decides(made, tmp_path):
    for threshold in (0.3, 0.6):
        out = tmp_path / str(threshold)
        summary = evaluated(made, "--threshold", threshold, "--at-specificity", 0.8, "--prevalence", 0.1, out=out)
        frame = predictions_of(out)
        assert ((frame.p_1 >= threshold) == frame.predicted).all()
        figures, points = summary["models"][0]["metrics"], summary["operating_points"]
        se, sp = figures["sensitivity"]["pooled"]["value"], figures["specificity"]["pooled"]["value"]
        assert se == pytest.approx(sk.recall_score(frame.label, frame.p_1 >= threshold), abs=1e-9)
        assert points["ppv"]["value"] == pytest.approx(se * 0.1 / (se * 0.1 + (1 - sp) * 0.9), abs=1e-9)
        fpr, tpr, _ = sk.roc_curve(frame.label, frame.p_1, drop_intermediate=False)
        assert points["sensitivity_at_specificity"]["value"] == pytest.approx(tpr[1 - fpr >= 0.8].max(), abs=1e-9)
        assert f"threshold {threshold} that was given" in (out / "report.html").read_text()
    run = tmp_path / "run"
    succeed("train", "--cache", made[0], "--target", "label", "--out", run, "--threshold", 0.4,
            *quick("--folds", 2, "--epochs", 2))
    frame = predictions_of(run)
    assert ((frame.p_1 >= 0.4) == frame.predicted).all()
    assert {fold["threshold"] for fold in summary_of(run)["folds"]} == {0.4}


def test_a_run_does_as_well_as_itself(made, tmp_path):
    cache = make_cache(tmp_path, *made_exams(count=60, seed=9), name="other.cache")
    summary = evaluated((cache, made[1]), "--against", made[1], out=tmp_path / "out")
    against = summary["models"][-1]
    assert against["name"] == "run run" and against["first_model_minus_this"]["auroc"]["mean_over_folds"]["value"] == 0
    assert any("does as well as run run" in line for line in summary["verdict"])


def test_exams_of_a_patient_are_averaged(made, tmp_path):
    exams, features = made_exams(count=120, seed=4, of_patient=3)
    cache = make_cache(tmp_path, exams, features, name="visits.cache")
    plain = evaluated((cache, made[1]), out=tmp_path / "plain")
    frame = predictions_of(tmp_path / "plain")
    for what, by in [("patient", ["patient"]), ("study", ["patient", "study"])]:
        frame["study"] = frame["exam"].map({entry["id"]: entry["columns"]["study"] for entry in exams})
        mean = frame.groupby(by).agg({"label": "first", "p_1": "mean"})
        summary = evaluated((cache, made[1]), "--aggregate", what, "--threshold", 0.5)
        figures = {name: figure["pooled"]["value"] for name, figure in summary["models"][0]["metrics"].items()}
        for name, value in expected_figures(mean.label, mean.p_1, mean.p_1 >= 0.5).items():
            assert figures[name] == pytest.approx(value, abs=1e-9), (what, name)
    assert plain["models"][0]["metrics"]["auroc"]["pooled"]["value"] == pytest.approx(sk.roc_auc_score(frame.label, frame.p_1))
    exams[1]["columns"]["label"] = "1"  # of P0, whose other exams have 0
    cache = make_cache(tmp_path, exams, features, name="contradicts.cache")
    for words in [("train", "--target", "label", "--out", tmp_path / "never"), ("evaluate", "--run", made[1])]:
        done = coldframe(*words, "--cache", cache, "--aggregate", "patient")
        assert done.returncode == 3 and "'exam-0' and 'exam-1' of P0 have 'label' = '0' and '1'" in done.stderr, done.stderr
    assert not (tmp_path / "never").exists()


def test_a_column_without_a_table_is_refused_before_training(made, tmp_path):
    exams, features = made_exams()
    for entry in exams:
        entry["columns"]["code"] = f"x{entry['id']}"
    done = coldframe("train", "--cache", make_cache(tmp_path, exams, features), "--target", "label", "--out",
                     tmp_path / "run", "--characteristics", "code", *quick("--folds", 2, "--epochs", 1))
    assert done.returncode == 2 and "at most 50 categories" in done.stderr
    assert not list(tmp_path.glob("run*"))


def test_missing_values_are_counted_once_and_taken_from_the_unit(made, tmp_path):
    exams, features = made_exams(of_patient=2)
    for number in (0, 4, 8, 9):  # the first exams of P0 and P2, both of P4
        exams[number]["columns"]["sex"] = ""
    words = ["train", "--cache", make_cache(tmp_path, exams, features), "--target", "label", "--subgroups", "sex",
             *quick("--folds", 2, "--repeats", 2, "--epochs", 1)]
    for name, more, missing, patients in [("exams", [], 4, 47), ("patients", ["--aggregate", "patient"], 1, 47)]:
        succeed(*words, "--out", tmp_path / name, *more)
        column = summary_of(tmp_path / name)["subgroups"]["sex"]
        assert column["without_value"] == missing
        assert sum(group["patients"] for group in column["groups"]) == patients


def test_groups_that_share_patients_have_no_interval_of_their_difference(made, tmp_path):
    cache = make_cache(tmp_path, *made_exams(count=120, of_patient=2), name="visits.cache")
    for group in groups_of(evaluated((cache, made[1]), "--subgroups", "study"), "study").values():
        assert group["minus_others"]["auroc"]["no_interval"] == "60 patients have exams in both"
        assert group["metrics"]["auroc"]["pooled"]["low"] is not None


def test_a_finished_run_says_who_answers_other_questions(made, tmp_path):
    words = ["train", "--cache", made[0], "--target", "label", "--out", made[1], "--resume", "--subgroups", "sex,site",
             *quick("--folds", 3, "--epochs", 6, "--compare", "mean")]
    for more in ([], ["--level", 95]):
        done = coldframe(*words, *more)
        assert done.returncode == 0 and "nothing to resume" in done.stderr, done.stderr
    for more, said in [(["--prevalence", 0.3], "does not answer 'prevalence'"), (["--characteristics", "age"], "'characteristics'"),
                       (["--level", 99], "does not answer 'level'"), (["--level", 80], "90 to 99"),
                       (["--figures"], "finished without --figures"), (["--threshold", 0.4], "started otherwise")]:
        done = coldframe(*words, *more)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    succeed("evaluate", "--run", made[1], "--against", made[1], "--prevalence", 0.3, "--at-specificity", 0.8,
            "--level", 90, "--figures", "--out", tmp_path / "out")
    wide, narrow = ({**run, **run["models"][0]["metrics"]["auroc"]["mean_over_folds"]} for run in map(summary_of, [made[1], tmp_path / "out"]))
    assert (wide["interval"]["level"], narrow["interval"]["level"], narrow["asked"]["level"]) == (0.95, 0.9, 90)
    assert wide["low"] < narrow["low"] < narrow["value"] < narrow["high"] < wide["high"]
    assert set(summary_of(tmp_path / "out")["operating_points"]) == {"ppv", "npv", "sensitivity_at_specificity"}
    table = pd.read_csv(tmp_path / "out" / "figures" / "figures.csv")
    assert "threshold" in set(table.figure)
