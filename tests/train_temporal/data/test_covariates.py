"""--covariates: the encoding equals scikit-learn's, models equal PyTorch's, and what they learn is what is there."""
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from sklearn.impute import MissingIndicator
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from training_support import PROGRAM, REPO, coldframe, exam, make_cache, quick, succeed

import fitted

sys.path.append(str(REPO / "tests" / "train_temporal"))
from covariate_cohorts import columns_of, made_cache, made_exams  # noqa: E402


def train(cache, out, *words, expect=0):
    folds = [] if "--folds" in words else ["--folds", 3]
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", out, *quick(*folds, *words))
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def summary_of(run):
    return json.loads((run / "summary.json").read_text())


def auroc_of(run, model=0):
    return summary_of(run)["models"][model]["metrics"]["auroc"]["mean_over_folds"]["value"]


def by_scikit(values, train):
    """The columns age and sex of a table as scikit-learn encodes them, learnt from its rows `train`."""
    age = pd.to_numeric(values.age, errors="coerce").to_numpy()[:, None]
    sex = values.sex.replace({"nan": "", "": ""}).to_numpy()[:, None]
    missing = np.array([["x"] if entry == "" else ["known"] for entry in sex[:, 0]], object)
    scaled = StandardScaler().fit(age[train]).transform(age)
    known = [entry for entry in train if sex[entry, 0] != ""]
    parts = [np.nan_to_num(scaled)]
    parts.append(MissingIndicator(features="missing-only", error_on_new=False).fit(age[train]).transform(age))
    parts.append(OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(sex[known]).transform(sex))
    indicator = MissingIndicator(features="missing-only", missing_values="x", error_on_new=False).fit(missing[train])
    parts.append(indicator.transform(missing))
    return np.concatenate(parts, 1).astype(np.float32)


MODELS = {
    "head": ["--covariates", "age,sex"],
    "frames": ["--covariates", "age,sex", "--covariates-at", "frames", "--mixup", 0.2],
    "lstm": ["--covariates", "age,sex", "--model", "lstm"],
    "mean-frames": ["--covariates", "age,sex", "--model", "mean", "--covariates-at", "frames"],
    "attention": ["--covariates", "age,sex", "--model", "attention", "--mixup", 0.2],
    "covariates": ["--covariates", "age,sex", "--model", "covariates"],
}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    exams, features = made_exams(60)
    return make_cache(tmp_path_factory.mktemp("cohort"), exams, features), exams, features


@pytest.mark.parametrize("name", MODELS)
def test_held_out_predictions_equal_pytorch_on_what_scikit_learn_encodes(cohort, tmp_path, name):
    cache, exams, features = cohort
    train(cache, tmp_path / "run", *MODELS[name])
    values = pd.DataFrame(columns_of(exams)).T.reset_index(drop=True)
    place = {entry["id"]: number for number, entry in enumerate(exams)}
    splits, ours = pd.read_csv(tmp_path / "run" / "splits.csv"), pd.read_csv(tmp_path / "run" / "predictions.csv")
    models = fitted.models_of(tmp_path / "run")
    for fold, rows in ours.groupby("fold"):
        part = splits[(splits.fold == fold) & (splits.part == "train")].exam.map(place).to_numpy()
        encoded = by_scikit(values, part)
        model = models[fold]
        for _, row in rows.iterrows():
            number = place[row.exam]
            own = model.encode_covariates([{**columns_of(exams)[row.exam], **dict(sex=values.sex[number].replace("nan", ""))}])[0]
            np.testing.assert_allclose(own, encoded[number], rtol=0, atol=1e-6)
            x = torch.from_numpy(features[number].astype(np.float16).astype(np.float32))[None]
            with torch.no_grad():
                outputs = model(x, covariates=torch.from_numpy(encoded[number])[None])
            assert model.predictions(outputs.double())["label"][0, 1].item() == pytest.approx(row.p_1, abs=1e-5)
    assert ours.p_1.std() > 0.01


def test_predict_applies_each_fold_s_encoding(cohort, tmp_path):
    cache, exams, features = cohort
    train(cache, tmp_path / "run", "--covariates", "age,sex", "--epochs", 3)
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv")
    assert done.returncode == 0 and "'age': 6 exams without a value" in done.stderr, done.stderr
    ours = pd.read_csv(tmp_path / "p.csv")
    for i in range(0, 60, 9):
        known = {name: value.replace("nan", "") for name, value in exams[i]["columns"].items()}
        one = fitted.predict(tmp_path / "run", features[i].astype(np.float16), covariates=known)
        np.testing.assert_allclose(ours.loc[i, ["p_0", "p_1"]].astype(float), list(one.values()), rtol=0, atol=1e-5)
    other = [exam(0, 3, "1", columns={"label": "1", "age": "51", "sex": "D"}), exam(1, 3, "0", columns={"label": "0"})]
    frames = [np.zeros((3, 8)), np.ones((3, 8))]
    foreign = make_cache(tmp_path, other, frames, name="foreign.cache")
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", foreign, "--out", tmp_path / "f.csv")
    assert done.returncode == 0 and "'sex': 1 exam with a category that the training did not have" in done.stderr
    told = tmp_path / "told.csv"
    told.write_text("exam,age,sex\nexam-0,51,D\nexam-1,,\n")
    bare = [exam(n, 3, str(n), columns={"label": str(n), "sex": "F"}) for n in range(2)]
    bare = make_cache(tmp_path, bare, frames, name="bare.cache")
    succeed("predict", "--run", tmp_path / "run", "--cache", bare, "--labels", told, "--out", tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == (tmp_path / "f.csv").read_text()
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", bare, "--out", tmp_path / "c.csv")
    assert done.returncode == 2 and "the cache has no column 'age'" in done.stderr, done.stderr
    told.write_text("exam,age,sex\nexam-0,old,D\n")
    done = coldframe("evaluate", "--run", tmp_path / "run", "--cache", bare, "--target", "label", "--labels", told)
    assert done.returncode in (2, 3), done.stderr
    told.write_text("exam,label,age,sex\nexam-0,0,old,D\nexam-1,1,50,F\n")
    done = coldframe("evaluate", "--run", tmp_path / "run", "--cache", bare, "--labels", told)
    assert done.returncode == 3 and "'age' is 'old', expected a number" in done.stderr, done.stderr


def test_categories_are_known_however_the_others_are_spelt(tmp_path):
    """pandas writes a column of whole numbers with a gap as 1.0, and another exam may say 'unknown'."""
    exams, features = made_exams(30)
    train(make_cache(tmp_path, exams, features), tmp_path / "run", "--covariates", "grade:category", "--epochs", 2)
    for name, odd in [("floats", []), ("mixed", [0]), ("all", range(30))]:
        other = [{**e, "columns": {"grade": "unknown" if n in odd else f"{e['columns']['grade']}.0"}} for n, e in enumerate(exams)]
        cache = make_cache(tmp_path, other, features, name=f"{name}.cache")
        done = coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / f"{name}.csv")
        said = f"warning: covariate 'grade': {len(odd)} exam"
        assert done.returncode == 0 and (said in done.stderr) == (len(odd) > 0), done.stderr
    floats, mixed = (pd.read_csv(tmp_path / f"{name}.csv").p_1 for name in ["floats", "mixed"])
    np.testing.assert_array_equal(floats[1:], mixed[1:])


def test_a_text_among_numbers_matters_in_exams_that_are_used_alone(tmp_path):
    exams, features = made_exams(30)
    exams[0]["columns"] |= {"label": "", "age": "unknown"}
    train(make_cache(tmp_path, exams, features), tmp_path / "run", "--covariates", "age", "--epochs", 1)


@pytest.mark.parametrize("where", ["head", "frames"])
def test_only_what_carries_the_label_finds_it(tmp_path, where):
    words = ["--covariates", "age,sex", "--covariates-at", where, "--compare", "covariates", "--epochs", 40, "--patience", 10]
    found = {}
    for label_in in ["covariates", "pixels", "nothing"]:
        cache = made_cache(tmp_path, f"{label_in}.cache", count=240, label_in=label_in, gaps=False)
        train(cache, tmp_path / label_in, *words)
        found[label_in] = [auroc_of(tmp_path / label_in, model) for model in (0, 1)]
    assert found["covariates"][0] >= 0.95 and found["covariates"][1] >= 0.95, found
    assert found["pixels"][0] >= 0.95 and 0.4 <= found["pixels"][1] <= 0.6, found
    assert all(0.4 <= figure <= 0.6 for figure in found["nothing"]), found
    verdicts = {name: " ".join(summary_of(tmp_path / name)["verdict"]) for name in found}
    assert "The pixels do not add to the covariates: age and sex alone" in verdicts["covariates"], verdicts
    assert "The pixels add to the covariates" in verdicts["pixels"], verdicts


@pytest.mark.parametrize("where", ["head", "frames"])
def test_covariates_are_found_among_many_features_of_noise(tmp_path, where):
    """As they are among 384 features of 100 exams, which a GRU learns by heart."""
    exams, features = made_exams(100, seed=3, gaps=False)
    random = np.random.default_rng(4)
    cache = make_cache(tmp_path, exams, [random.normal(size=(len(values), 384)) for values in features])
    train(cache, tmp_path / "run", "--covariates", "age,sex", "--covariates-at", where, "--lr", 0.002, "--hidden", 64, "--epochs", 40)
    assert auroc_of(tmp_path / "run") >= 0.95


def content(run):
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.suffix in (".csv", ".safetensors")}


def test_jobs_and_resume_give_the_same_bytes(cohort, tmp_path):
    words = ["train", "--cache", cohort[0], "--target", "label", *quick("--folds", 3, "--epochs", 400, "--patience", 0),
             "--covariates", "age,sex", "--compare", "covariates", "--threads", 2]
    succeed(*words, "--out", tmp_path / "whole", "--jobs", 1)
    state = tmp_path / "cut.unfinished" / "state"
    for _ in range(8):  # a signal that fell between fits is sent once more
        process = subprocess.Popen([PROGRAM, *map(str, words), "--out", tmp_path / "cut", "--jobs", "2"], stderr=subprocess.DEVNULL)
        while not any(state.glob("*.record")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 75
        if list(state.glob("*.checkpoint")):
            break
        shutil.rmtree(tmp_path / "cut.unfinished")
    succeed(*words, "--out", tmp_path / "cut", "--resume", "--jobs", 3)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_a_fold_learns_from_its_training_part_alone(cohort, tmp_path):
    """Site 'c' is held out: its fold knows a and b, counts it as missing, and says so."""
    cache, exams, _ = cohort
    done = train(cache, tmp_path / "run", "--covariates", "age,site", "--epochs", 2, "--group", "site", "--folds", "groups")
    assert "'site': 60 exams with a category that the training part of their fold has not" in done.stderr
    splits = pd.read_csv(tmp_path / "run" / "splits.csv")
    for fold in range(3):
        with safe_open(tmp_path / "run" / "models" / f"fold-{fold}-seed-0.safetensors", "np") as file:
            age, site = json.loads(file.metadata()["card"])["covariates"]
        part = splits[(splits.fold == fold) & (splits.part == "train")].exam
        values = pd.Series({name: columns["site"] for name, columns in columns_of(exams).items()})
        assert site["categories"] == sorted(values[part].unique()) and len(site["categories"]) == 2
        ages = pd.to_numeric(pd.Series({n: c["age"] for n, c in columns_of(exams).items()})[part])
        assert age["mean"] == pytest.approx(ages.mean()) and age["deviation"] == pytest.approx(ages.std(ddof=0))


def test_no_exam_s_covariates_get_into_a_model(cohort, tmp_path):
    cache, exams, _ = cohort
    train(cache, tmp_path / "run", "--covariates", "age,sex", "--epochs", 2)
    ages = [entry["columns"]["age"].encode() for entry in exams if entry["columns"]["age"]]
    for path in (tmp_path / "run" / "models").iterdir():
        found = path.read_bytes()
        assert not [age for age in ages if b'"' + age + b'"' in found] and b"exam-" not in found and b"patient-" not in found
        with safe_open(path, "np") as file:
            assert {file.get_tensor(name).shape[0] for name in file.keys()}.isdisjoint({60, len(exams)})


@pytest.mark.parametrize("words, said", [
    (["--covariates", "label"], "that is what is learnt"), (["--covariates", "patient"], "names exams, patients"),
    (["--covariates", "colour"], "no such column"), (["--covariates", "age,age"], "named twice"),
    (["--covariates", "age,"], "expected names of columns"), (["--covariates-at", "head"], "is for --covariates A,B"),
    (["--compare", "covariates"], "add --covariates"), (["--covariates", "age", "--model", "clock"], "takes none"),
    (["--covariates", "sex:number"], "expected a number"),
    (["--covariates", "age", "--covariates-at", "top"], "covariates-at"),
])
def test_what_cannot_be_learnt_is_refused(cohort, tmp_path, words, said):
    done = coldframe("train", "--cache", cohort[0], "--target", "label", "--out", tmp_path / "run", *words)
    assert done.returncode in (2, 3) and said in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_columns_that_tell_nothing_or_the_answer_are_named(tmp_path):
    exams, features = made_exams(120)
    for number, entry in enumerate(exams):
        entry["columns"] |= {"one": "x", "none": "", "who": f"w{number}", "many": f"m{number // 2}", "diagnosis": "ill" if number % 2 else "well",
                             "marker": str(number % 2 * 100 + number / 1000 if number != 1 else -1), "huge": "1e30" if number == 5 else str(number)}
    cache = make_cache(tmp_path, exams, features)
    for name, said in [("one", "all labelled exams have 'x'"), ("none", "no labelled exam has a value"),
                       ("who", "at most 50"), ("many", "at most 50")]:
        done = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--covariates", name)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", tmp_path / "run", "--covariates", "huge")
    assert done.returncode == 3 and "exam 'exam-5': the covariate 'huge' is '1e30', expected a number of at most 1e+18" in done.stderr
    few = make_cache(tmp_path, exams[:40], features[:40], name="few.cache")
    done = coldframe("train", "--cache", few, "--target", "label", "--out", tmp_path / "run", "--covariates", "who")
    assert done.returncode == 2 and "every patient has a value of their own" in done.stderr, done.stderr
    done = train(cache, tmp_path / "run", "--covariates", "diagnosis,marker,site", "--epochs", 1)
    assert "is it another way to spell the answer?" in done.stderr
    assert "covariate 'marker': it alone reaches an AUROC of 0.983 for '1' of 'label'" in done.stderr
    assert "covariate 'site': it" not in done.stderr
    told = tmp_path / "told.csv"
    rows = [f"{entry['id']},{entry['columns']['label']},{'early' if number % 3 else 'late'}" for number, entry in enumerate(exams)]
    told.write_text("\n".join(["exam,label,stage", *rows, "exam-1,1,Early", "exam-1,1,late\n"]))
    done = coldframe("train", "--cache", cache, "--target", "label", "--labels", told, "--covariates", "stage", "--out", tmp_path / "no")
    assert done.returncode == 3 and "line 123: exam 'exam-1' has 'stage' = 'late', but 'early' on line 3" in done.stderr, done.stderr


def test_targets_of_frames_and_several_targets_take_them(tmp_path):
    exams, features = made_exams(36)
    for entry, values in zip(exams, features):
        entry["frame_columns"] = {"phase": [str((t + int(entry["columns"]["label"])) % 2) for t in range(len(values))]}
    cache = make_cache(tmp_path, exams, features)
    for where in ["head", "frames"]:
        done = succeed("train", "--cache", cache, "--target", "phase", "--out", tmp_path / where, "--covariates", "age,sex",
                       "--covariates-at", where, *quick("--folds", 2, "--epochs", 2, "--compare", "covariates,single,blank,lstm"))
    succeed("train", "--cache", cache, "--target", "label,grade:ordinal,age:regression", "--out", tmp_path / "several",
            "--covariates", "sex,site", *quick("--folds", 2, "--epochs", 2, "--compare"))
    assert "covariates" in [model["name"] for model in summary_of(tmp_path / "several")["targets"][0]["models"]]


def test_blank_keeps_the_covariates(tmp_path):
    cache = made_cache(tmp_path, count=160, gaps=False)
    train(cache, tmp_path / "run", "--covariates", "age,sex", "--covariates-at", "frames", "--compare", "blank", "--epochs", 40)
    assert auroc_of(tmp_path / "run", 1) >= 0.95
    page = (tmp_path / "run" / "report.html").read_text()
    assert "features blanked; it sees times, and covariates" in page
    assert "times, length and covariates alone" in " ".join(summary_of(tmp_path / "run")["verdict"])


@pytest.mark.parametrize("where", ["head", "frames"])
def test_contributions_of_frames_add_up_beside_covariates(cohort, tmp_path, where):
    cache = cohort[0]
    train(cache, tmp_path / "run", "--covariates", "age,sex", "--covariates-at", where)
    succeed("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv", "--explain", tmp_path / "e.csv")
    rows = pd.read_csv(tmp_path / "e.csv").groupby("exam")
    gap = rows.contribution.sum() - (rows.output.first() - rows.baseline.first())
    assert gap.abs().max() < 1e-4
    predicted = pd.read_csv(tmp_path / "p.csv").set_index("exam").p_1
    np.testing.assert_allclose(rows.output.first(), predicted[rows.output.first().index], atol=1e-5)
    assert rows.baseline.first().std() > 1e-3, "the baseline has the exam's own covariates"
