"""What predicts the labels without images is found, at the stated rate; exams of other kinds and falling times are told."""
import html
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from training_support import exam, make_cache, quick, succeed

FOLDS = 5


def cohort(folder, labels, columns, patients=None, name="made.cache", **more):
    """A cache of exams with these columns, whose features are noise. `more`: of every exam, by number."""
    random = np.random.default_rng(5)
    exams = []
    for number, label in enumerate(labels):
        patient = f"patient-{number if patients is None else patients[number]}"
        exams.append(exam(number, 3, str(label), patient, **{key: of(number) for key, of in more.items()}))
        exams[-1]["columns"] |= {key: str(values[number]) for key, values in columns.items()}
    return make_cache(folder, exams, [random.normal(size=(3, 4)) for _ in exams], name=name)


def trained(folder, cache, *words, run="run", target="label"):
    done = succeed("train", "--cache", cache, "--target", target, "--out", folder / run,
                   *quick("--folds", 2, "--epochs", 1, *words, model="summary"))
    return json.loads((folder / run / "summary.json").read_text()), done


def found(summary):
    return {one["name"]: one for one in summary["confounds"]["found"]}


def dealt(patients, of_patient):
    """The fold of each exam: patients in the order of their class or number, in turn."""
    first = {patient: place for place, patient in reversed(list(enumerate(patients)))}
    order = sorted(first, key=lambda patient: (of_patient[patient], first[patient]))
    fold = {patient: place % FOLDS for place, patient in enumerate(order)}
    return np.array([fold[patient] for patient in patients])


def rates(group, truth, patients, fold):
    """Held-out predictions [N, C]: a group's rates among the other folds' patients, each of whom counts once, with one
    patient of average rates added."""
    weight = 1 / pd.Series(patients).groupby(patients).transform("size").to_numpy()
    predicted = np.empty(truth.shape)
    for f in range(FOLDS):
        train = fold != f
        average = np.average(truth[train], axis=0, weights=weight[train])
        for i in np.flatnonzero(~train):
            same = train & (group == group[i])
            predicted[i] = (weight[same] @ truth[same] + average) / (weight[same].sum() + 1)
    return predicted


def mean_auroc(predicted, truth, fold):
    return np.mean([np.mean([roc_auc_score(truth[fold == f, c], predicted[fold == f, c]) for c in range(truth.shape[1])])
                    for f in range(FOLDS)])


@pytest.mark.parametrize("classes", [2, 3])
def test_columns_that_predict_the_class_have_the_auroc_of_scikit_learn(tmp_path, classes):
    random = np.random.default_rng(3)
    count = 240
    patients = np.sort(random.integers(0, 150, count))
    of_patient = random.integers(0, classes, 150)
    labels = of_patient[patients]
    source = np.where(random.uniform(size=count) < 0.6, labels, random.integers(0, 6, count))
    age = labels * 9 + random.normal(0, 8, count) + 50
    names = np.array([f"site {value}" for value in source])
    summary, done = trained(tmp_path, cohort(tmp_path, labels, {"the source": names, "age": age, "noise": random.integers(0, 4, count)}, patients))
    fold, truth = dealt(patients, of_patient), np.eye(classes)[labels]

    fifth = np.searchsorted(np.quantile(age, [0.2, 0.4, 0.6, 0.8]), age, side="right")
    expected = {"the source": mean_auroc(rates(source, truth, patients, fold), truth, fold),
                "age": mean_auroc(rates(fifth, truth, patients, fold), truth, fold)}
    assert set(found(summary)) == {"the source", "age"}
    assert list(found(summary)) == sorted(expected, key=expected.get, reverse=True)
    for name, one in found(summary).items():
        assert one["figure"]["value"] == pytest.approx(expected[name], abs=1e-9)
        assert 0.5 < one["figure"]["low"] < one["figure"]["value"] < one["figure"]["high"] and not one["tells_class"]
    assert "`the source` alone reaches AUROC " in done.stdout and "(--folds groups --group 'the source')" in done.stdout
    assert "`age` alone reaches AUROC " in done.stdout and "(--covariates age)" in done.stdout
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What predicts the label without images" in page and "3 columns and " in page
    given, _ = trained(tmp_path, tmp_path / "made.cache", "--covariates", "age", run="given")
    assert set(found(given)) == {"the source"}


def test_numbers_are_ranked_as_by_scipy(tmp_path):
    random = np.random.default_rng(4)
    site = random.integers(0, 3, 150)
    size = site * 1.5 + random.normal(size=150)
    patients = np.arange(150)
    summary, _ = trained(tmp_path, cohort(tmp_path, size, {"site": [f"s{value}" for value in site]}))
    fold, truth = dealt(patients, size), size[:, None]
    predicted = rates(site, truth, patients, fold)
    assert found(summary)["site"]["figure"]["value"] == pytest.approx(spearmanr(predicted[:, 0], size).statistic, abs=1e-9)


def test_columns_of_noise_are_seldom_found(tmp_path):
    wrong = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        patients = np.sort(random.integers(0, 50, 80))
        columns = {f"category {c}": [f"c{v}" for v in random.integers(0, 2 + c, 80)] for c in range(10)}
        columns |= {f"number {c}": random.normal(size=80) for c in range(10)}
        summary, _ = trained(tmp_path, cohort(tmp_path, random.integers(0, 2, 50)[patients], columns, patients, f"{seed}.cache"),
                             run=str(seed))
        confounds = summary["confounds"]
        assert confounds["columns"] == 20
        assert confounds["p_limit"] == pytest.approx(0.05 / (20 + confounds["properties_of_files"]))
        assert all(one["p"] <= confounds["p_limit"] for one in confounds["found"])
        wrong += len(confounds["found"]) > 0
    assert wrong <= 2  # of 5 % of cohorts at most; three of twelve would be 1 in 50


def test_the_label_in_other_words_and_values_of_one_class_are_told(tmp_path):
    random = np.random.default_rng(6)
    labels = np.arange(100) % 2
    words = np.where(labels == 1, np.where(np.arange(100) % 4 == 1, "viral", "bacterial"), "none")
    source = np.where((labels == 0) & (random.uniform(size=100) < 0.5), "A", np.where(random.uniform(size=100) < 0.5, "B", "C"))
    unique = [f"id {number}" for number in range(100)]
    summary, done = trained(tmp_path, cohort(tmp_path, labels, {"finding": words, "source": source, "name": unique}))
    assert summary["confounds"]["columns"] == 2  # not the names, which no two patients share
    assert found(summary)["finding"]["tells_class"]
    only = int((source == "A").sum())
    assert f"{only} of the 50 exams of class '0' have `source` 'A', which no exam of another class has" in done.stdout
    assert "`finding` tells 'label' of every exam" in done.stdout and "`finding` alone" not in done.stdout


def test_a_site_is_told_before_a_grade_of_the_outcome_in_terminal_report_and_methods(tmp_path):
    random = np.random.default_rng(8)
    labels = np.arange(120) % 2
    site = np.where(random.uniform(size=120) < 0.25, 1 - labels, labels)
    columns = {"grade": np.where(labels == 1, 1 + np.arange(120) % 3, 0), "noise": random.integers(0, 3, 120),
               "site": [f"s{value}" for value in site]}
    columns["grade"][:3] = 1  # two patients more than one class has
    summary, done = trained(tmp_path, cohort(tmp_path, labels, columns))
    assert {name: one["may_be_label"] for name, one in found(summary).items()} == {"grade": True, "site": False}
    assert "noise" in summary["confounds"]["not_found"]
    assert done.stdout.index("`site` alone reaches") < done.stdout.index("`grade` alone reaches")
    assert "it may be the outcome in other words, so leave it out of --covariates." in done.stdout
    assert "--group grade" not in done.stdout and "Looked at and not found: `noise`" in done.stdout
    said = summary["confounds"]["said"]
    figure = found(summary)["site"]["figure"]
    assert said.startswith(f"Without any image `site` alone reaches AUROC {figure['value']:.3f} [{figure['low']:.3f}, ")
    assert "(--folds groups --group site)" in said and said.endswith("2 predict it.")
    assert f"\n{said}\n" in (tmp_path / "run" / "METHODS.md").read_text()
    page = html.unescape((tmp_path / "run" / "report.html").read_text())
    assert page.index(said) < page.index("SD over folds")  # above the table of Result
    assert page.count("(--folds groups --group site)") == 2  # under Result, and in its own section


def test_a_trait_of_one_class_of_three_is_found_beside_a_class_of_few_patients(tmp_path):
    labels = np.r_[np.arange(80) % 2, [2, 2, 2]]
    device = np.where(labels == 1, "A", "B")
    summary, done = trained(tmp_path, cohort(tmp_path, labels, {"device": device}))
    one = found(summary)["device"]
    assert one["p"] <= summary["confounds"]["p_limit"] and one["one_class"].startswith("40 of the 40 exams of class '1'")
    assert "`device` alone reaches AUROC " in done.stdout
    page = (tmp_path / "run" / "report.html").read_text()
    assert "better than other patients" in page and "excludes chance" not in page


def test_columns_of_frames_in_a_file_of_labels_are_left_out(tmp_path):
    labels = np.arange(40) % 2
    rows = [{"exam": f"exam-{number}", "label": label, "path": f"{number}/{frame}.png", "site": f"s{label}"}
            for number, label in enumerate(labels) for frame in range(3)]
    pd.DataFrame(rows).to_csv(tmp_path / "labels.csv", index=False)
    summary, done = trained(tmp_path, cohort(tmp_path, labels, {}), "--labels", tmp_path / "labels.csv")
    assert summary["confounds"]["columns"] == 1 and set(found(summary)) == {"site"}
    assert "not looked at" not in done.stderr


def test_properties_of_files_and_a_group_that_is_held_out_are_told(tmp_path):
    random = np.random.default_rng(7)
    labels = np.arange(120) % 2
    wide = np.where(random.uniform(size=120) < 0.8, labels, 1 - labels)
    site = np.where(random.uniform(size=120) < 0.9, labels, 1 - labels) + 2 * (np.arange(120) // 2 % 2)
    cache = cohort(tmp_path, labels, {"site": [f"s{value}" for value in site]}, width=lambda number: 640 + int(wide[number]), height=lambda number: 480)
    done = succeed("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--group", "site",
                   *quick("--folds", "groups", "--epochs", 1, model="summary"))
    assert "the frame size alone reaches AUROC " in done.stdout
    assert "each of its groups is held out here" in done.stdout


def test_a_patient_with_exams_of_several_classes_is_named_in_the_log_only(tmp_path):
    patients = [number // 2 for number in range(40)]
    labels = [number // 2 % 2 for number in range(40)]
    labels[9] = 1 - labels[9]
    _, done = trained(tmp_path, cohort(tmp_path, labels, {}, patients))
    assert f"1 patient has exams of several classes of 'label': 'patient-4' ('exam-8' {labels[8]}, 'exam-9' {labels[9]})" in done.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "patients with exams of several classes" in page and "patient-4" not in page


def test_exams_of_different_patients_that_are_nearly_the_same_are_named(tmp_path):
    random = np.random.default_rng(8)
    exams = [exam(number, 5, str(number % 2)) for number in range(40)]
    frames = [random.normal(size=(1, 24)) + 0.5 * random.normal(size=(5, 24)) for _ in exams]
    _, done = trained(tmp_path, make_cache(tmp_path, exams, frames, name="a.cache"), run="a")
    assert "nearly the same" not in done.stderr
    frames[31] = frames[3] + 0.05 * random.normal(size=(5, 24))
    summary, done = trained(tmp_path, make_cache(tmp_path, exams, frames, name="b.cache"), run="b")
    told = "1 pair of exams of different patients with nearly the same features: 'exam-3' and 'exam-31'"
    assert told in done.stderr and any(told in warning for warning in summary["warnings"])
    assert "with nearly the same features" in (tmp_path / "b" / "report.html").read_text()


def test_falling_times_are_warned_of(tmp_path):
    labels = np.arange(40) % 2
    cache = cohort(tmp_path, labels, {}, time_s=lambda number: [0, 2, 1] if number in (3, 8) else [0, 1, 1])
    summary, done = trained(tmp_path, cache)
    told = "the times of frames fall within 2 exams, such as 'exam-3', frame 2"
    assert told in done.stderr and any(told in warning for warning in summary["warnings"])


def test_other_kinds_of_source_and_modalities_are_flagged(tmp_path):
    labels = np.arange(60) % 2
    modality = {"modality": ["US"] * 60}
    trained(tmp_path, cohort(tmp_path, labels, modality, kind=lambda number: "dicom"))
    kinds = ["dicom", "dicom", "nifti", "imported"]
    new = cohort(tmp_path, [0, 1, 0, 1], {"modality": ["US", "MR", "", ""]}, name="new.cache", kind=kinds.__getitem__)
    told = "2 exams of another kind than the training's (1 MR; 1 nifti; trained on dicom: US)"
    done = succeed("predict", "--run", tmp_path / "run", "--cache", new, "--out", tmp_path / "p.csv", "--other-patients")
    assert told in done.stderr
    ranks = pd.read_csv(tmp_path / "p.csv").unlike_rank
    assert list(ranks == 0) == [False, True, True, False]
    done = succeed("evaluate", "--run", tmp_path / "run", "--cache", new, "--out", tmp_path / "e", "--other-patients")
    assert told in done.stderr
    done = succeed("predict", "--run", tmp_path / "run", "--cache", tmp_path / "made.cache", "--out", tmp_path / "q.csv", "--other-patients")
    assert "another kind" not in done.stderr


def test_times_do_not_fall_where_a_visit_begins(tmp_path):
    day = 86400
    patients = [number // 2 for number in range(40)]
    labels = [number // 2 % 2 for number in range(40)]
    visits = {"day": [number % 2 for number in range(40)]}
    long = [0, 2 * day, 3 * day]  # ends after the next visit's start

    def told(name, time_s):
        cache = cohort(tmp_path, labels, visits, patients, name=f"{name}.cache", time_s=time_s)
        return trained(tmp_path, cache, "--visits", "day", run=name)[1].stderr

    assert "times of frames fall" not in told("rising", lambda number: long)
    falling = told("falling", lambda number: [5, 4, 6] if number == 8 else long)
    assert "the times of frames fall within 1 exam, such as 'exam-8', frame 1" in falling
