"""predict --maps equals captum's integrated gradients on timm's ViT and coldframe.models, adds up to --explain,
and finds the patch that carries the label."""
import base64
import io
import json
import os
import pathlib
import re
import sys

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from captum.attr import IntegratedGradients
from PIL import Image

sys.path += [str(pathlib.Path(__file__).resolve().parents[1])]
import safetensors.torch  # noqa: E402
from training_support import BUILD, coldframe, quick  # noqa: E402
from tuning_support import BLOCKS, PATCH, SIDE, cut_cache, extract, tiny_vit, train  # noqa: E402

import fitted  # noqa: E402
import summary_reference  # noqa: E402
from browser import Browser  # noqa: E402

torch.set_num_threads(1)
GRID, FRAMES, LATE = SIDE // PATCH, 3, BLOCKS * 2 // 3
PIXELS = ["--image-size", SIDE, "--mean", 0.5, "--std", 0.5, "--pool", "mean"]


def marked_exams(folder, count=48, seed=0):
    """Grey frames with a bright patch anywhere; where the label is 1, one patch of one frame is checked. Returns the
    manifest and that patch of each exam: (frame, row, column)."""
    random, rows, marks = np.random.default_rng(seed), ["exam,path,patient,label,half"], {}
    checks = np.kron([[1, -1] * 4, [-1, 1] * 4] * 4, np.ones((2, 2)))
    folder.mkdir()
    for number in range(count):
        pixels = 120 + random.normal(0, 6, (FRAMES, SIDE, SIDE))
        places = random.permutation(GRID * GRID)[:2]
        slot = random.integers(FRAMES)
        for place, patch in zip(places, [np.full((PATCH, PATCH), 60), 90 * checks]):
            y, x = PATCH * (place // GRID), PATCH * (place % GRID)
            if place == places[0] or number % 2:
                pixels[slot, y:y + PATCH, x:x + PATCH] += patch
        marks[f"exam-{number}"] = (slot, places[1] // GRID, places[1] % GRID)
        for t in range(FRAMES):
            Image.fromarray(np.repeat(pixels[t].clip(0, 255).astype(np.uint8)[..., None], 3, -1)).save(folder / f"{number}-{t}.png")
            rows.append(f"exam-{number},{number}-{t}.png,patient-{number},{number % 2},{number // 2 % 2}")
    (folder / "exams.csv").write_text("\n".join(rows) + "\n")
    return folder / "exams.csv", marks


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A run of two fits on a cache of pixels, its maps, and its contributions."""
    folder = tmp_path_factory.mktemp("maps")
    exams, marks = marked_exams(folder / "exams")
    weights = tiny_vit(folder / "vit.safetensors")
    cache = extract(exams, folder / "pixels.cache", "--weights", weights, *PIXELS, "--cut", 0, "--store", "float32", "--precision", "fp32")
    done = coldframe("train", "--cache", cache, "--target", "label", "--out", folder / "run", *quick("--folds", 2, "--epochs", 60))
    assert done.returncode == 0, done.stderr
    done = coldframe("predict", "--run", folder / "run", "--cache", cache, "--weights", weights, "--out", folder / "p.csv",
                     "--explain", folder / "frames.csv", "--maps", f"{folder}/maps/", "--json")
    assert done.returncode == 0, done.stderr
    return {"folder": folder, "weights": weights, "cache": cache, "marks": marks, "said": json.loads(done.stdout)["maps"],
            "frames": pd.read_csv(folder / "frames.csv"), "predictions": pd.read_csv(folder / "p.csv").set_index("exam")}


def table(study, number, maps="maps"):
    [folder] = (study["folder"] / maps).glob(f"*-exam-{number}")
    return pd.read_csv(folder / "patches.csv"), folder


def test_maps_add_up_to_the_frames_contributions(study):
    assert study["said"]["block"] == LATE and study["said"]["largest_gap"] <= study["said"]["tolerance"]
    for number in range(0, 48, 5):
        patches, _ = table(study, number)
        assert len(patches) == FRAMES * (GRID * GRID + 1)
        frames = study["frames"][study["frames"].exam == f"exam-{number}"]
        np.testing.assert_allclose(patches.groupby("frame").contribution.sum(), frames.contribution, atol=1e-9)


class Twin:
    """What the run computes, in other people's code: timm's ViT, and the run's own files read by a PyTorch module."""

    def __init__(self, study):
        self.vit = timm.create_model("vit_tiny_patch16_224", img_size=SIDE, num_classes=0, depth=BLOCKS).eval()
        self.vit.load_state_dict(safetensors.torch.load_file(study["weights"]))
        self.models = fitted.models_of(study["folder"] / "run")

    def entering(self, images):
        tokens = self.vit.norm_pre(self.vit._pos_embed(self.vit.patch_embed(images)))
        return self.vit.blocks[:LATE](tokens)

    def features(self, tokens):
        return self.vit.norm(self.vit.blocks[LATE:](tokens))[:, 1:].mean(1)

    def seen(self, study, number):
        """The tokens that enter the late blocks of an exam's frames, and their features."""
        pixels = np.stack([np.asarray(Image.open(study["folder"] / "exams" / f"{number}-{t}.png")) for t in range(FRAMES)])
        with torch.no_grad():
            tokens = self.entering(torch.tensor(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1)
            return tokens, self.features(tokens)

    def check_patches(self, patches, tokens, gradients):
        """Against captum; returns the least of the frames' strongest contributions."""
        base, strongest = tokens.clone(), []
        base[:, 1:] = tokens[:, 1:].mean(1, keepdim=True)
        for t in range(FRAMES):
            added = IntegratedGradients(lambda x: self.features(x) @ gradients[t]).attribute(
                tokens[t:t + 1], base[t:t + 1], n_steps=64, method="gausslegendre")[0].sum(1).detach()
            ours = patches[(patches.frame == t) & patches.row.notna()].contribution.to_numpy()
            np.testing.assert_allclose(ours, added[1:], rtol=0, atol=2e-4)
            strongest.append(abs(ours).max())
        return min(strongest)

    def gradients(self, features):
        """Mean gradient of P(1) on the way from the training's mean feature, averaged over the models."""
        total = 0
        places, weights = np.polynomial.legendre.leggauss(64)
        for model in self.models:
            base = model.feature_mean.expand_as(features)
            for place, weight in zip((places + 1) / 2, weights / 2):
                way = (base + place * (features - base)).detach()[None].requires_grad_()
                probability = model.predictions(model(way))["label"][0, 1]
                total = total + weight * torch.autograd.grad(probability, way)[0][0] / len(self.models)
        return total.float()


def test_maps_equal_captums(study):
    twin = Twin(study)
    for number in (1, 4, 9):
        patches, _ = table(study, number)
        tokens, features = twin.seen(study, number)
        assert twin.check_patches(patches, tokens, twin.gradients(features)) > 1e-4, "contributions must be there for this to mean anything"


def test_maps_of_linear_models_of_summaries_equal_captums(study, tmp_path):
    words = ["--cache", study["cache"], "--out"]
    done = coldframe("train", "--target", "label", *words, tmp_path / "run", *quick("--folds", 2, model="summary"))
    assert done.returncode == 0, done.stderr
    done = coldframe("predict", "--run", tmp_path / "run", *words, tmp_path / "p.csv", "--weights", study["weights"],
                     "--explain", tmp_path / "frames.csv", "--maps", tmp_path / "maps")
    assert done.returncode == 0, done.stderr
    frames, twin = pd.read_csv(tmp_path / "frames.csv"), Twin(study)
    models = [summary_reference.read(path) for path in sorted((tmp_path / "run").rglob("fold-*.safetensors"))]
    for number in (1, 8):
        patches, _ = table({"folder": tmp_path}, number)
        own = frames[frames.exam == f"exam-{number}"].contribution
        np.testing.assert_allclose(patches.groupby("frame").contribution.sum(), own, atol=1e-9)
        tokens, features = twin.seen(study, number)
        found = []
        for tensors, metadata in models:
            families = [summary_reference.FAMILIES[int(family)] for family in tensors["family"]]
            tensors = {name: tensor.astype(float) for name, tensor in tensors.items()}
            found.append(summary_reference.explained(families, tensors, summary_reference.temperature_of(metadata), features.numpy().astype(float)))
        np.testing.assert_allclose(own, np.mean([one[0] for one in found], 0), atol=2e-4)
        gradients = torch.tensor(np.mean([one[1] for one in found], 0)).float()
        assert twin.check_patches(patches, tokens, gradients) > 1e-4, "contributions must be there for this to mean anything"


def test_the_marked_patch_stands_out(study):
    """The pointing game (Zhang et al. 2016) where the exam is rightly called 1."""
    right, hits = 0, 0
    for number in range(1, 48, 2):
        if study["predictions"].p_1[f"exam-{number}"] <= 0.5:
            continue
        patches, _ = table(study, number)
        top = patches[patches.row.notna()].nlargest(1, "contribution").iloc[0]
        right, hits = right + 1, hits + ((top.frame, top.row, top.column) == study["marks"][f"exam-{number}"])
    assert right >= 20 and hits >= 0.95 * right


def test_pictures_are_the_frames_and_what_stands_out(study):
    patches, folder = table(study, 1)
    slot, row, column = study["marks"]["exam-1"]
    drawn = np.asarray(Image.open(folder / f"{slot:03}.png")).astype(int)
    assert drawn.shape == (SIDE, SIDE, 3)
    part = drawn[PATCH * row:PATCH * (row + 1), PATCH * column:PATCH * (column + 1)]
    assert (part[..., 0] - part[..., 2]).mean() > 40, "what adds is red"
    value = patches[patches.row.notna() & (patches.frame == slot)].contribution.to_numpy().reshape(GRID, GRID)
    quiet_row, quiet_column = np.unravel_index(abs(value).argmin(), value.shape)
    y, x = PATCH * quiet_row + PATCH // 2, PATCH * quiet_column + PATCH // 2
    source = np.asarray(Image.open(study["folder"] / "exams" / f"1-{slot}.png")).astype(int)
    assert abs(drawn[y, x] - source[y, x]).max() < 60


def test_the_page_shows_every_map_in_order(study, tmp_path):
    names = ["<b>bold</b>", "a & \"b\"", "../'up'"]
    lines = [f'"{name.replace(chr(34), 2 * chr(34))}",{study["folder"]}/exams/{number}-{t}.png,secret-{number}'
             for number, name in enumerate(names) for t in range(FRAMES)]
    (tmp_path / "exams.csv").write_text("\n".join(["exam,path,patient", *lines]) + "\n")
    cache = extract(tmp_path / "exams.csv", tmp_path / "pixels.cache", "--weights", study["weights"], *PIXELS, "--cut", 0,
                    "--store", "float32", "--precision", "fp32")
    done = coldframe("predict", "--run", study["folder"] / "run", "--cache", cache, "--weights", study["weights"],
                     "--out", tmp_path / "p.csv", "--explain", tmp_path / "frames.csv", "--maps", tmp_path / "maps")
    assert done.returncode == 0, done.stderr
    frames, page = pd.read_csv(tmp_path / "frames.csv"), tmp_path / "maps" / "index.html"
    with Browser() as browser:
        browser.size(1100, 900)
        browser.open(page)
        assert browser.run("Promise.all([...document.images].map((each) => { each.loading = 'eager'; return each.decode(); }))"
                           f".then(() => [...document.images].every((each) => each.naturalWidth === {SIDE}))")
        assert browser.complaints() == ([], set())
        assert browser.texts("h2") == list(frames.exam.unique()) and set(frames.exam) == set(names)
        shown = browser.run("[...document.images].map((each) => each.getAttribute('src'))")
        assert shown == browser.run("[...document.querySelectorAll('figure a')].map((each) => each.getAttribute('href'))")
        assert shown == sorted(str(path.relative_to(page.parent)) for path in page.parent.rglob("*.png")) and len(shown) == 9
        added = [float(text.split(": ")[1]) for text in browser.texts("figcaption")]
        np.testing.assert_allclose(added, frames.contribution, rtol=0, atol=5.1e-5)
    assert "secret-" not in page.read_text() and str(tmp_path) not in page.read_text()


def test_a_bundle_maps_raw_frames_alike(study):
    done = coldframe("bundle", "make", study["folder"] / "run", "--weights", study["weights"], "--out", study["folder"] / "model.bundle")
    assert done.returncode == 0, done.stderr
    done = coldframe("predict", "--bundle", study["folder"] / "model.bundle", "--input", study["folder"] / "exams" / "exams.csv",
                     "--out", study["folder"] / "q.csv", "--maps", study["folder"] / "raw", "--device", "cpu", "--precision", "fp32")
    assert done.returncode == 0, done.stderr
    assert "map: 144/144 frames" in done.stderr and len(re.findall(r"^map: 144 frames, about \d", done.stderr, re.M)) == 1
    for number in (1, 6):
        one, _ = table(study, number)
        other, folder = table(study, number, "raw")
        np.testing.assert_allclose(one.contribution, other.contribution, atol=1e-3)
        assert (folder / "000.png").exists()


def test_tuned_models_map_through_their_own_vits(study, tmp_path):
    cache = cut_cache(study["folder"] / "exams" / "exams.csv", study["weights"], tmp_path / "cut.cache", LATE)
    train(cache, tmp_path / "run", "--tune", study["weights"], "--folds", 2)
    done = coldframe("predict", "--run", tmp_path / "run", "--cache", cache, "--out", tmp_path / "p.csv",
                     "--explain", tmp_path / "frames.csv", "--maps", tmp_path / "maps")
    assert done.returncode == 0, done.stderr
    frames = pd.read_csv(tmp_path / "frames.csv")
    patches, folder = table({"folder": tmp_path}, 3)
    np.testing.assert_allclose(patches.groupby("frame").contribution.sum(), frames[frames.exam == "exam-3"].contribution, atol=1e-9)
    assert Image.open(folder / "002.png").size == (SIDE, SIDE)  # over white: the cut holds tokens


def test_targets_have_maps_of_their_own(study, tmp_path):
    words = ["--cache", study["cache"], "--out"]
    done = coldframe("train", "--target", "label,half", *words, tmp_path / "run", *quick("--folds", 1, "--epochs", 10))
    assert done.returncode == 0, done.stderr
    done = coldframe("predict", "--run", tmp_path / "run", *words, tmp_path / "p.csv", "--weights", study["weights"],
                     "--explain", tmp_path / "frames.csv", "--maps", tmp_path / "maps")
    assert done.returncode == 0, done.stderr
    frames = pd.read_csv(tmp_path / "frames.csv")
    patches, folder = table({"folder": tmp_path}, 5)
    sums = [patches[patches.target == name].groupby("frame").contribution.sum() for name in ("label", "half")]
    for name, sum_of_patches in zip(("label", "half"), sums):
        said = frames[(frames.exam == "exam-5") & (frames.target == name)].contribution
        np.testing.assert_allclose(sum_of_patches, said, atol=1e-9)
    assert abs(sums[0] - sums[1]).max() > 1e-4
    assert (folder / "001.png").read_bytes() != (folder / "001-2.png").read_bytes()


@pytest.mark.parametrize("over", ["white", "frames"])
def test_a_report_maps_its_examples(study, tmp_path, over):
    """The only model of a run maps an exam in the report as `predict --maps` does."""
    exams, run, own = study["folder"] / "exams" / "exams.csv", tmp_path / "run", ["--weights", study["weights"]]
    if over == "white":  # a tuned ViT, from tokens
        cache = cut_cache(exams, study["weights"], tmp_path / "x.cache", LATE)
        train(cache, run, "--tune", study["weights"], "--maps")
    else:
        cache = extract(exams, tmp_path / "x.cache", *own, *PIXELS, "--cut", 0, "--thumbnails", SIDE)
        train(cache, run, "--maps", *own)
    done = coldframe("predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv", "--maps", tmp_path / "maps",
                     *(own if over == "frames" else []))
    assert done.returncode == 0, done.stderr
    report = (run / "report.html").read_text()
    assert f"enter its block {LATE}" in report
    drawn = re.findall(r'<p class="title">[^<]*exam-(\d+)</p>(.*?)<svg', report, re.S)
    assert drawn
    page = (run / "maps" / "index.html").read_text()
    assert re.findall("<h2[^>]*>exam-(\\d+)</h2>", page) == [number for number, _ in drawn]
    assert sorted(set(re.findall('[^"]*/\\d+[.]png', page))) == sorted(str(path.relative_to(run / "maps")) for path in run.rglob("*.png"))
    for number, _ in drawn:
        (ours, here), (theirs, there) = table({"folder": run}, number), table({"folder": tmp_path}, number)
        np.testing.assert_allclose(ours.contribution, theirs.contribution, rtol=0, atol=1e-6)
        assert np.abs(np.asarray(Image.open(here / "001.png")).astype(int) - np.asarray(Image.open(there / "001.png"))).max() <= 1
    for number, strip in drawn:
        pictures = [np.asarray(Image.open(io.BytesIO(base64.b64decode(png)))).astype(int)
                    for png in re.findall(r"data:image/png;base64,([^\"]+)", strip)]
        assert len(pictures) == FRAMES
        patches, _ = table({"folder": tmp_path}, number)
        patches = patches[patches.row.notna()]
        place = patches.contribution.abs().idxmax()
        top = patches.loc[place]
        side = len(pictures[0]) // GRID
        y, x = (int(side * (at + .5)) for at in (top.row, top.column))
        red, _, blue = pictures[int(top.frame)][y, x]
        assert (red - blue) * np.sign(top.contribution) > 40
    assert (max(each.min(-1).max() for each in pictures) > 240) == (over == "white")
    again = train(cache, run, "--maps", *(["--tune", study["weights"]] if over == "white" else own), "--resume")
    assert "nothing to resume" in again.stderr
    if over == "frames":
        train(cache, run, "--maps", *own, "--without-thumbnails", "--overwrite")
        assert np.asarray(Image.open(next((run / "maps").rglob("001.png")))).min(-1).max() > 240, "frames stay out where thumbnails do"


def test_a_finished_run_says_that_it_has_no_maps(study):
    done = coldframe("train", "--cache", study["cache"], "--target", "label", "--out", study["folder"] / "run",
                     *quick("--folds", 2, "--epochs", 60), "--maps", "--weights", study["weights"], "--resume")
    assert done.returncode == 2 and "does not answer 'maps'" in done.stderr and "coldframe predict" in done.stderr


@pytest.mark.parametrize("budget", ["2MiB", "10MiB"])
def test_a_lack_of_memory_costs_the_maps_alone(study, tmp_path, budget):
    done = coldframe("train", "--cache", study["cache"], "--target", "label", "--out", tmp_path / "run", *quick("--folds", 2, "--epochs", 1),
                     "--maps", "--weights", study["weights"], "--memory-budget", budget)
    assert f"do not fit a limit of {budget[:-3]}.0 MiB, of which" in done.stderr and "raise --memory-budget" in done.stderr
    if budget == "2MiB":  # less than the ViT takes
        assert done.returncode == 3 and "leave out --maps" in done.stderr and not list(tmp_path.glob("run*"))
        return
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "maps").exists()
    report = (tmp_path / "run" / "report.html").read_text()
    assert "There are no maps, for lack of memory" in report and "what patches of frame" not in report
    assert re.search(r'class="title">\d, [^<]*: exam-\d+</text>', report), "contributions stay"


def test_the_frozen_vit_is_read_as_often_whatever_the_folds(study, tmp_path):
    """Once before anything is trained, and once for all maps."""
    read = []
    for folds in (1, 4):
        trace = tmp_path / f"{folds}.trace"
        done = coldframe("train", "--cache", study["cache"], "--target", "label", "--out", tmp_path / f"{folds}", "--maps",
                         "--weights", study["weights"], *quick("--folds", folds, "--epochs", 1),
                         env=os.environ | dict(LD_PRELOAD=str(BUILD / "tests" / "failing_files.so"), COLDFRAME_TEST_FAULTS_UNDER="vit.safetensors",
                                               COLDFRAME_TEST_FAULTS_EVERY="0", COLDFRAME_TEST_FAULTS_TRACE=str(trace)))
        assert done.returncode == 0, done.stderr
        assert "enter its block" in (tmp_path / f"{folds}" / "report.html").read_text()
        read.append(len(trace.read_text().splitlines()))
    assert read[0] == read[1] > 0


@pytest.mark.parametrize("words, said", [
    (["--maps"], "needs the weights"),
    (["--weights", "w"], "is for --maps"),
    (["--maps", "--weights", "OTHER"], "SHA-256"),
    (["--maps", "--weights", "VIT", "--model", "clock"], "see no frames"),
])
def test_a_report_without_maps_is_refused_before_it_is_trained(study, tmp_path, words, said):
    other = tiny_vit(tmp_path / "other.safetensors", seed=2)
    words = [w.replace("OTHER", str(other)).replace("VIT", str(study["weights"])) for w in words]
    done = coldframe("train", "--cache", study["cache"], "--target", "label", "--out", tmp_path / "run", *quick("--folds", 2, *words))
    assert done.returncode in (2, 3) and said in done.stderr and "training" not in done.stderr
    assert not list(tmp_path.glob("run*"))


def test_exams_are_not_extracted_where_nothing_can_be_mapped(study, tmp_path):
    done = coldframe("train", "--cache", study["cache"], "--target", "label", "--out", tmp_path / "run",
                     *quick("--model", "clock", "--folds", 2))
    assert done.returncode == 0, done.stderr
    done = coldframe("bundle", "make", tmp_path / "run", "--weights", study["weights"], "--out", tmp_path / "model.bundle")
    assert done.returncode == 0, done.stderr
    (tmp_path / "empty").mkdir()
    words = ["predict", "--bundle", tmp_path / "model.bundle", "--input", tmp_path / "empty", "--out", tmp_path / "p.csv"]
    done = coldframe(*words, "--maps", tmp_path / "maps")
    assert done.returncode == 2 and "see no frames" in done.stderr
    done = coldframe(*words)
    assert done.returncode != 0 and "see no frames" not in done.stderr, "the input itself is refused, later"


@pytest.mark.parametrize("words, said", [
    (["--maps", "OUT/m"], "needs the weights"),
    (["--weights", "w"], "is for --maps"),
    (["--maps", "OUT/taken", "--weights", "VIT"], "taken"),
])
def test_refusals(study, tmp_path, words, said):
    (tmp_path / "taken").mkdir()
    words = [w.replace("OUT", str(tmp_path)).replace("VIT", str(study["weights"])) for w in words]
    done = coldframe("predict", "--run", study["folder"] / "run", "--cache", study["cache"], "--out", tmp_path / "p.csv", *words)
    assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "p.csv").exists()


def test_overwrite_keeps_what_is_no_map(study, tmp_path):
    words = ["predict", "--run", study["folder"] / "run", "--cache", study["cache"], "--out", tmp_path / "p.csv", "--weights", study["weights"],
             "--maps", tmp_path / "maps", "--overwrite"]
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "notes.txt").write_text("mine")
    done = coldframe(*words)
    assert done.returncode == 2 and "notes.txt" in done.stderr
    (tmp_path / "maps" / "notes.txt").unlink()
    for _ in range(2):
        assert coldframe(*words).returncode == 0 and len(list((tmp_path / "maps").iterdir())) == 48 + 1  # and the page


def test_a_cache_without_a_cut_is_refused(study, tmp_path):
    cache = extract(study["folder"] / "exams" / "exams.csv", tmp_path / "plain.cache", "--weights", study["weights"], *PIXELS,
                    "--store", "float32", "--precision", "fp32")
    done = coldframe("predict", "--run", study["folder"] / "run", "--cache", cache, "--out", tmp_path / "p.csv",
                     "--maps", tmp_path / "maps", "--weights", study["weights"])
    assert done.returncode == 2 and "--cut 0" in done.stderr
