"""What `coldframe bundle` makes, and what others' readers make of it."""
import csv
import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors.torch
import torch
from bundle_support import bundle, coldframe, extract, files_of, made, study  # noqa: F401 (made is a fixture)
from huggingface_hub import ModelCard
from PIL import Image
from training_support import PROGRAM, held_at, quick
from tuning_support import PIXELS, frame, tiny_vit

import bundle_probability
from coldframe import open as open_cache
import fitted


def test_the_same_run_makes_the_same_bytes(made):
    bundle(made, "again.bundle", "--weights", made.weights, "--license", "apache-2.0", "--name", "model")
    first, again = ({path.relative_to(folder): path.read_bytes() for path in files_of(folder)}
                    for folder in (made.bundle, made.folder / "again.bundle"))
    assert first == again
    assert coldframe("bundle", "diff", made.bundle, made.folder / "again.bundle").stdout == ""


def test_predictions_are_those_of_extract_and_predict(made, tmp_path):
    coldframe("predict", "--run", made.run, "--cache", made.cache, "--out", tmp_path / "two.csv", "--explain", tmp_path / "two-why.csv",
              "--sets", 0.8)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    said = coldframe("predict", "--bundle", made.bundle, "--input", made.exams, "--device", "cpu", "--out", tmp_path / "one.csv",
                     "--explain", tmp_path / "one-why.csv", "--sets", 0.8, "--json", TMPDIR=str(temporary))
    assert json.loads(said.stdout)["failures"] == []
    for end in [".csv", "-why.csv"]:
        assert (tmp_path / ("one" + end)).read_bytes() == (tmp_path / ("two" + end)).read_bytes()
    with open(tmp_path / "one.csv") as table:
        assert {"set_0", "set_1"} <= set(next(csv.reader(table)))
    assert not list(temporary.iterdir())


def test_a_killed_process_s_files_are_swept(made, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = {kind: f"coldframe-scratch-{host}-{process}-{kind}" for kind, host, process in [
        ("killed", socket.gethostname(), ended.pid), ("living", socket.gethostname(), os.getpid()),
        ("distan", "another-host", ended.pid), ("recent", socket.gethostname(), ended.pid)]}
    for kind, name in names.items():
        (tmp_path / name / "features.cache").mkdir(parents=True)
        if kind != "recent":
            os.utime(tmp_path / name, (1, 1))
    coldframe("predict", "--bundle", made.bundle, "--input", made.exams, "--out", made.folder / "p.csv", TMPDIR=str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(name for kind, name in names.items() if kind != "killed")


def test_what_appears_while_a_bundle_is_made_is_kept(made, tmp_path):
    out, hold, trace = tmp_path / "new.bundle", tmp_path / "hold", tmp_path / "trace"
    words = [PROGRAM, "bundle", "make", made.run, "--weights", made.weights, "--out", out]
    process = subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                               env=held_at(".SHA256SUMS", hold, trace))
    while not trace.exists() and process.poll() is None:
        time.sleep(0.005)
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    hold.unlink()
    said = process.communicate()[1]
    assert process.returncode == 3 and "new.bundle' appeared while this program ran" in said, said
    assert (out / "thesis.txt").read_text() == "mine" and len(list(out.iterdir())) == 1
    refused = coldframe("bundle", "make", made.run, "--weights", made.weights, "--out", made.run, "--overwrite", expect=2)
    assert "is RUN" in refused.stderr


def test_a_bad_exam_is_listed_and_stops_nothing(made, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    rows = made.exams.read_text().splitlines()
    named = [line.replace(",", f",{made.exams.parent}/", 1) for line in rows[1:5]]
    (tmp_path / "exams.csv").write_text("\n".join([rows[0], *named, "bad,bad.png,,,"]))
    said = coldframe("predict", "--bundle", made.bundle, "--input", tmp_path / "exams.csv", "--out", tmp_path / "p.csv", "--json",
                     expect=1)
    failures = json.loads(said.stdout)["failures"]
    assert [failure["exam"] for failure in failures] == ["bad"] and "no known kind" in failures[0]["reason"]
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert [row["exam"] for row in rows] == ["exam-0", "exam-1", "bad"]
    assert list(rows[0])[-3:] == ["frames", "frames_missing", "failures"]
    for row in rows[:2]:
        assert row["p_1"] and row["failures"] == "" and int(row["frames"]) > 0 and row["frames_missing"] == "0"
    assert rows[2]["p_1"] == rows[2]["predicted"] == "" and rows[2]["frames"] == "0"
    assert "bad.png" in rows[2]["failures"] and "no known kind" in rows[2]["failures"]
    assert "/" not in rows[2]["failures"]  # folders may name patients


def test_frames_that_cannot_be_read_are_told_beside_the_prediction(made, tmp_path):
    header, *lines = made.exams.read_text().splitlines()
    named = [line.replace(",", f",{made.exams.parent}/", 1) for line in lines]
    (tmp_path / "cut.png").write_bytes(b"no image")
    place = header.split(",").index("path")
    first = named[0].split(",")
    broken = ",".join([*first[:place], str(tmp_path / "cut.png"), *first[place + 1:]])
    (tmp_path / "exams.csv").write_text("\n".join([header, *named, broken]) + "\n")
    coldframe("predict", "--bundle", made.bundle, "--input", tmp_path / "exams.csv", "--out", tmp_path / "p.csv", expect=1)
    row, *others = csv.DictReader((tmp_path / "p.csv").open())
    assert row["exam"] == "exam-0" and row["p_1"] and row["frames_missing"] == "1" and "cut.png" in row["failures"]
    assert {(other["frames_missing"], other["failures"]) for other in others} == {("0", "")}


def test_evaluation_is_that_of_a_cache(made, tmp_path):
    coldframe("evaluate", "--run", made.run, "--cache", made.cache, "--out", tmp_path / "run")
    coldframe("evaluate", "--bundle", made.bundle, "--input", made.exams, "--device", "cpu", "--out", tmp_path / "bundle")
    assert (tmp_path / "run/predictions.csv").read_bytes() == (tmp_path / "bundle/predictions.csv").read_bytes()
    models = [json.loads((tmp_path / kind / "summary.json").read_text())["models"] for kind in ["run", "bundle"]]
    assert models[0] == models[1] and [model["name"] for model in models[0]] == ["gru", "mean"]
    assert "it is not known whether" in (tmp_path / "bundle/report.html").read_text()


def test_evaluation_tells_what_cannot_be_read(made, tmp_path):
    for image in made.exams.parent.glob("*.png"):
        (tmp_path / image.name).symlink_to(image)
    header, *rows = made.exams.read_text().splitlines()
    path = dict(zip(header.split(","), rows[0].split(",")))["path"]
    (tmp_path / "broken.png").write_bytes(b"no image")
    broken = ",".join("broken.png" if name == "path" else "more" if name == "exam" else value
                      for name, value in zip(header.split(","), rows[0].split(",")))
    assert path.endswith(".png")
    (tmp_path / "exams.csv").write_text("\n".join([header, *rows, broken]) + "\n")
    done = coldframe("evaluate", "--bundle", made.bundle, "--input", tmp_path / "exams.csv", "--device", "cpu", "--out",
                     tmp_path / "out", "--json", expect=1)
    summary = json.loads(done.stdout)
    assert [failure["exam"] for failure in summary["failures"]] == ["more"]
    assert json.loads((tmp_path / "out/summary.json").read_text()) == summary
    assert any("could not be read" in warning and "more" in warning for warning in summary["warnings"])
    assert "could not be read" in (tmp_path / "out/report.html").read_text()
    assert summary["flow"]["failed"] == 1 and summary["flow"]["found"] == summary["flow"]["used"] + 1


def test_what_does_not_belong_to_the_run_is_refused(made, tmp_path):
    other = tmp_path / "other.safetensors"
    safetensors.torch.save_file({"cls_token": torch.zeros(1)}, other)
    refused = bundle(made, "x", "--weights", other, expect=3).stderr
    assert "their SHA-256 is" in refused and "expected" in refused and not (made.folder / "x").exists()
    assert "--weights is missing" in bundle(made, "x", expect=2).stderr
    nowhere = coldframe("bundle", "make", "runs/nowhere", "--out", tmp_path / "x", expect=2).stderr
    assert "the run 'runs/nowhere' does not exist" in nowhere and "safetensors" not in nowhere
    assert "there is no 'nowhere.bundle'" in coldframe("bundle", "show", "nowhere.bundle", expect=2).stderr
    assert "leave out --mask" in bundle(made, "x", "--weights", made.weights, "--mask", other, expect=2).stderr
    assert "--overwrite" in bundle(made, "model.bundle", "--weights", made.weights, expect=2).stderr
    assert "needs --bundle" in coldframe("predict", "--run", made.run, "--input", made.exams, "--out", "p.csv", expect=2).stderr
    assert not [path for path in made.folder.iterdir() if "scratch" in path.name]


def test_the_options_reproduce_the_recipe_by_hand(made, tmp_path):
    options = ["--config", made.bundle / "extract.ini", "--weights", made.bundle / "backbone"]
    cache = extract(made.exams, tmp_path / "hand.cache", *options, "--device", "cpu")
    coldframe("predict", "--bundle", made.bundle, "--cache", cache, "--out", tmp_path / "p.csv")


def test_the_training_is_repeated_from_the_bundle(made, tmp_path):
    text = (made.bundle / "train.ini").read_text()
    assert "with --cache\n" in text and str(made.cache) not in text
    coldframe("train", "--config", made.bundle / "train.ini", "--cache", made.cache, "--out", tmp_path / "again")
    for name in ("config.json", "predictions.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (made.run / name).read_bytes(), name


def test_frames_are_chosen_as_the_recipe_says(tmp_path):
    made = study(tmp_path, "--random-weights", 3, "--architecture", "vit_tiny_patch16_224",
                 pixels=[*PIXELS[:-2], "--pool", "mean", "--frames", 1, "--store", "float32", "--resize", "pad"])
    bundle(made)
    coldframe("predict", "--run", made.run, "--cache", made.cache, "--out", tmp_path / "two.csv")
    coldframe("predict", "--bundle", tmp_path / "model.bundle", "--input", made.exams, "--device", "cpu", "--out", tmp_path / "one.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_compiled_module_and_a_mask_are_bundled(tmp_path):
    class Means(torch.nn.Module):
        def forward(self, images):
            return torch.cat([images.mean([2, 3]), images.std([2, 3])], 1)
    torch.jit.script(Means()).save(str(tmp_path / "means.pt"))
    Image.fromarray(np.repeat(np.arange(64) > 9, 64).reshape(64, 64).astype(np.uint8) * 255).save(tmp_path / "mask.png")
    mask = ["--mask", tmp_path / "mask.png"]
    made = study(tmp_path, "--backbone", tmp_path / "means.pt", *mask, pixels=PIXELS[:-2])
    assert "--mask" in bundle(made, "x", "--weights", tmp_path / "means.pt", expect=2).stderr
    bundle(made, "model.bundle", "--weights", tmp_path / "means.pt", *mask)
    coldframe("predict", "--run", made.run, "--cache", made.cache, "--out", tmp_path / "two.csv")
    coldframe("predict", "--bundle", tmp_path / "model.bundle", "--input", made.exams, "--device", "cpu", "--out", tmp_path / "one.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_the_licence_of_the_weights_is_told(made):
    assert json.loads((made.run / "config.json").read_text())["weights_license"] == "cc-by-nc-4.0"
    assert "(licence: cc-by-nc-4.0)" in (made.run / "METHODS.md").read_text()
    assert "weights_license" in (made.run / "report.html").read_text()
    assert json.loads((made.bundle / "bundle.json").read_text())["backbone"]["license"] == "cc-by-nc-4.0"
    assert "under a licence of their own: cc-by-nc-4.0." in (made.bundle / "README.md").read_text()
    assert "…, licence cc-by-nc-4.0\n" in coldframe("bundle", "show", made.bundle).stdout


def test_the_hub_reads_the_card(made, tmp_path):
    text = "---\nlicense: cc-by-4.0\nlanguage: en\n---\n\n## Limits\n\nOnly adults.\n\n## Contact\n\nUs.\n"
    (tmp_path / "card.md").write_text(text, newline="\r\n")
    words = ["--weights", made.weights, "--card", tmp_path / "card.md"]
    assert "contradicts --card" in bundle(made, "card.bundle", *words, "--license", "mit", expect=2).stderr
    bundle(made, "card.bundle", *words, "--name", "<script>it()</script> ![x](y) `")
    assert "# &#60;script&#62;it()&#60;/script&#62; ![x&#93;(y) &#96;\n" in (made.folder / "card.bundle/README.md").read_text()
    for name, licence in [("model.bundle", "apache-2.0"), ("card.bundle", "cc-by-4.0")]:
        card = ModelCard.load(made.folder / name / "README.md")
        assert licence in json.loads((made.folder / name / "configs/metadata.json").read_text())["copyright"]
        assert json.loads((made.folder / name / "bundle.json").read_text())["license"] == licence
        assert card.data.license == licence and card.data.library_name == "coldframe"
        summary = json.loads((made.run / "summary.json").read_text())["models"][0]["metrics"]["accuracy"]["pooled"]
        assert f"\n| Accuracy | {summary['value']:.3f} [{summary['low']:.3f}, {summary['high']:.3f}] |\n" in card.text
    assert card.data.language == "en" and "Only adults." in card.text and "## Contact" in card.text
    assert "Nothing is known of other scanners" not in card.text
    (tmp_path / "card.md").write_text("## Use\n\n<SCRIPT>it()</SCRIPT>\n")
    assert "holds <script>" in bundle(made, "other.bundle", *words, expect=2).stderr


# Keys that MONAI's specification of bundles makes mandatory (docs.monai.io, "MONAI Bundle Specification").
FORMAT = ["type", "format", "num_channels", "spatial_shape", "dtype", "value_range", "is_patch_data", "channel_def"]
TENSORS = {"type": "object", "minProperties": 1, "additionalProperties": {
    "type": "object", "required": FORMAT,
    "properties": {"type": {"enum": ["image", "series", "tuples", "probabilities"]}, "num_channels": {"type": "integer"},
                   "spatial_shape": {"type": "array"}, "value_range": {"type": "array"},
                   "is_patch_data": {"type": "boolean"}, "channel_def": {"type": "object"}}}}
SCHEMA = {"type": "object", "required": ["version", "monai_version", "pytorch_version", "numpy_version", "optional_packages_version",
                                         "task", "description", "authors", "copyright", "network_data_format"],
          "properties": {"network_data_format": {"type": "object", "required": ["inputs", "outputs"],
                                                 "properties": {"inputs": TENSORS, "outputs": TENSORS}}}}


def test_monai_accepts_the_metadata(made, tmp_path):
    from monai.bundle import verify_metadata
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))  # found there, it is not looked for on the net
    metadata = made.bundle / "configs/metadata.json"
    verify_metadata(meta_file=str(metadata), filepath=str(tmp_path / "schema.json"))
    broken = json.loads(metadata.read_text())
    del broken["network_data_format"]["inputs"]["features"]["dtype"]
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    with pytest.raises(ValueError):
        verify_metadata(meta_file=str(tmp_path / "broken.json"), filepath=str(tmp_path / "schema.json"))


def test_python_gives_the_bundle_s_probabilities(made, tmp_path):
    coldframe("predict", "--bundle", made.bundle, "--cache", made.cache, "--out", tmp_path / "p.csv")
    told = np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1, usecols=(2, 3))
    cache = open_cache(made.cache)
    assert len(cache) == len(told)
    for exam, expected in zip(cache.exams["exam"], told):
        features = cache.features(exam)
        assert np.abs(bundle_probability.predict(made.bundle, features) - expected).max() < 1e-6
        by_torch = fitted.predict(made.bundle, features)
        assert np.abs(np.array(list(by_torch.values())) - expected).max() < 1e-6


@pytest.mark.parametrize("part, key, value", [("model", "layers", 2), ("model", "temporal_pool", "mean"), ("model", "time", True),
                                              ("target", "task", "regression"), ("target", "task", "ordinal"),
                                              ("target", "per_frame", True), ("targets", None, None)])
def test_python_refuses_what_it_does_not_know(made, tmp_path, part, key, value):
    path = next((made.bundle / "models").glob("*.safetensors"))
    with safetensors.safe_open(path, "pt") as file:
        card, tensors = json.loads(file.metadata()["card"]), {name: file.get_tensor(name) for name in file.keys()}
    if part == "targets":
        card["targets"] *= 2
    else:
        (card["model"] if part == "model" else card["targets"][0])[key] = value
    (tmp_path / "models").mkdir()
    safetensors.torch.save_file(tensors, tmp_path / "models/fold.safetensors", {"card": json.dumps(card)})
    np.save(tmp_path / "x.npy", np.zeros((2, card["model"]["dimension"])))
    script = [sys.executable, bundle_probability.__file__, tmp_path, tmp_path / "x.npy"]
    said = subprocess.run(script, capture_output=True, text=True)
    assert said.returncode == 1 and said.stdout == "" and "take coldframe.Bundle(path).models()" in said.stderr


def test_a_time_to_an_event_is_bundled(made, tmp_path):
    """`label` as a time of 0 and 1, `coin` as its event."""
    run, path = tmp_path / "run", tmp_path / "model.bundle"
    coldframe("train", "--cache", made.cache, "--target", "label:coin:cox", "--out", run, *quick("--folds", 2, "--epochs", 2))
    coldframe("bundle", "make", run, "--weights", made.weights, "--out", path)
    assert "the time to the event `coin`" in (path / "README.md").read_text()
    coldframe("predict", "--run", run, "--cache", made.cache, "--out", tmp_path / "a.csv", "--horizons", "0.2,0.7")
    coldframe("predict", "--bundle", path, "--cache", made.cache, "--out", tmp_path / "b.csv", "--horizons", "0.2,0.7")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert "risk,survival_0.2,survival_0.7" in (tmp_path / "a.csv").read_text()


def test_the_card_says_which_figures_are_macro(made, tmp_path):
    (tmp_path / "grades.csv").write_text("exam,grade\n" + "".join(f"exam-{n},{'abc'[n % 3]}\n" for n in range(12)))
    coldframe("train", "--cache", made.cache, "--labels", tmp_path / "grades.csv", "--target", "grade", "--out", tmp_path / "run",
              *quick("--folds", 2, "--epochs", 1))
    coldframe("bundle", "make", tmp_path / "run", "--weights", made.weights, "--out", tmp_path / "model.bundle")
    cards = [(folder / "README.md").read_text() for folder in (tmp_path / "model.bundle", made.bundle)]
    assert "\n| macro AUROC | " in cards[0] and "\n| macro AUPRC | " in cards[0] and "\n| Balanced accuracy | " in cards[0]
    assert "\n| AUROC | " in cards[1] and "macro" not in cards[1]


def two_streams(folder, patients, start=0):
    """A manifest of patients with two visits each, of frames of FA and ICGA at the same times."""
    random = np.random.default_rng(start)
    folder.mkdir()
    with open(folder / "exams.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["exam", "path", "patient", "label", "day", "age", "sex", "stream", "time"])
        for p in range(start, start + patients):
            for visit, time, stream in [(v, t, s) for v in range(2) for t in range(2) for s in ["FA", "ICGA"][p % 4 == 3:]]:
                name = f"{p}-{visit}-{time}-{stream}.png"
                frame(random, bool(p % 2)).save(folder / name)
                rows.writerow([f"e{p}-{visit}", name, f"p{p}", p % 2, 30 * visit, 50 + p, "MF"[p % 3 == 0], stream, time])
    return folder / "exams.csv"


def test_a_bundle_says_and_reads_what_its_exams_bring(tmp_path):
    weights, caches = tiny_vit(tmp_path / "vit.safetensors"), {}
    exams = {"a": two_streams(tmp_path / "a", 10), "b": two_streams(tmp_path / "b", 4, start=100)}
    for name, manifest in exams.items():
        caches[name] = extract(manifest, tmp_path / f"{name}.cache", "--weights", weights, *PIXELS, "--device", "cpu",
                               "--frame-columns", "stream", "--allow-unordered",
                               *["--keep-patient-id"] * (name == "a"))  # splits that no machine's salt changes
    coldframe("train", "--cache", caches["a"], "--target", "label", "--out", tmp_path / "run", "--streams", "stream", "--visits", "day",
              "--covariates", "age,sex", *quick("--folds", 2, "--epochs", 2))
    made = tmp_path / "m.bundle"
    shown = coldframe("bundle", "make", tmp_path / "run", "--out", made, "--weights", weights).stdout
    for line in ["streams    FA, ICGA", "visits     day", "covariates age, sex"]:
        assert line in shown, shown
    facts, card = json.loads((made / "bundle.json").read_text()), (made / "README.md").read_text()
    assert facts["dimension"] == 192 and facts["stream_column"] == "stream"
    for said in ["streams `FA`, `ICGA`", "in the order of `day`", "of each exam: `age`, `sex`", "every category"]:
        assert said in card, card
    inputs = json.loads((made / "configs" / "metadata.json").read_text())["network_data_format"]["inputs"]
    assert inputs["features"]["num_channels"] == 2 * 192 + 2
    assert inputs["covariates"]["channel_def"] == {"0": "age", "1": "sex = F", "2": "sex = M"}
    coldframe("predict", "--bundle", made, "--input", exams["b"], "--device", "cpu", "--allow-unordered", "--out", tmp_path / "one.csv")
    coldframe("predict", "--run", tmp_path / "run", "--cache", caches["b"], "--out", tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
