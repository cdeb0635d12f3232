"""The training report in a browser: its threshold moves, its held-out exams sort and show their frames."""
import csv
import json
import subprocess

import numpy as np
import pytest
from PIL import Image

from browser import Browser
from training_support import BUILD, quick, succeed

EXAMS, FRAMES = 60, 6


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictured")
    for t in range(FRAMES):
        Image.new("RGB", (96, 64), (40 * t, 80, 160)).save(folder / f"{t}.jpg")
    words = ["pictured", folder / "x.h5", EXAMS, *(folder / f"{t}.jpg" for t in range(FRAMES))]
    subprocess.run([BUILD / "tests" / "cache_driver", *map(str, words)], check=True)
    succeed("train", "--cache", folder / "x.h5", "--target", "label", "--out", folder / "run",
            *quick("--folds", 3, "--epochs", 4))
    return folder / "run"


@pytest.fixture(scope="module")
def predictions(run):
    with open(run / "predictions.csv", newline="") as file:
        return {row["exam"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def page(run):
    with Browser() as browser:
        browser.size(1100, 900)
        browser.open(run / "report.html")
        assert browser.complaints() == ([], set())
        yield browser


def expected(predictions, threshold):
    """The shares, and [[true negatives, false positives], [false negatives, true positives]]."""
    scores = np.array([float(row["p_yes"]) for row in predictions.values()]).astype(np.float32)
    positive = np.array([row["label"] == "yes" for row in predictions.values()])
    decided = scores >= np.float32(threshold)
    counts = [[int((decided == d)[positive == t].sum()) for d in (False, True)] for t in (False, True)]
    (tn, fp), (fn, tp) = counts
    shares = [(tp, tp + fn), (tn, tn + fp), (tp, tp + fp), (tn, tn + fn), (tp + tn, EXAMS)]
    return ["–" if of == 0 else f"{part / of:.3f}" for part, of in shares], sum(counts, [])


@pytest.mark.parametrize("threshold", [0.5, 0.48, 0.001, 0.999])
def test_the_threshold_moves(page, predictions, threshold):
    page.type(".threshold input[type=number]", str(threshold))
    shares, counts = expected(predictions, threshold)
    assert page.texts(".threshold .shares td") == shares
    assert [int(text) for text in page.texts(".threshold .counts td")] == counts
    assert float(page.run("document.querySelector('.threshold input[type=range]').value")) == threshold


def test_it_begins_where_the_folds_decide(run, page):
    chosen = np.mean([fold["threshold"] for fold in json.loads((run / "summary.json").read_text())["folds"]])
    page.open(run / "report.html")
    assert float(page.run("document.querySelector('.threshold input[type=number]').value")) == pytest.approx(chosen, abs=6e-4)


def test_the_slider_moves_the_number(page, predictions):
    page.run("{ const slider = document.querySelector('.threshold input[type=range]'); slider.value = 0.52;"
             "slider.dispatchEvent(new Event('input')); }")
    assert page.run("document.querySelector('.threshold input[type=number]').value") == "0.52"
    assert page.texts(".threshold .shares td") == expected(predictions, 0.52)[0]


def test_held_out_exams_stand_by_their_error(page, predictions):
    error = {exam: 1 - float(row["p_yes"]) if row["label"] == "yes" else float(row["p_yes"]) for exam, row in predictions.items()}
    shown = page.texts("#heldout tbody td:first-child a")
    assert [error[exam] for exam in shown] == pytest.approx(sorted(error.values(), reverse=True)[:len(shown)], abs=1e-6)
    place = page.texts("#heldout .rows th button").index("result") + 1
    page.type(f"#heldout .rows thead td:nth-child({place}) input", "=wrong")
    wrong = sum((row["label"] != row["predicted"]) for row in predictions.values())
    assert page.texts("#heldout .found") == [f"{wrong} of {EXAMS}"]
    page.type(f"#heldout .rows thead td:nth-child({place}) input", "")


def test_an_exam_shows_its_frames(page, predictions):
    worst = page.texts("#heldout tbody td:first-child a")[0]
    page.click("#heldout tbody td:first-child a")
    assert page.texts(".card strong") == [worst]
    values = dict(zip(page.texts(".card dt"), page.texts(".card dd")))
    assert values["truth"] == predictions[worst]["label"] and values["P(yes)"] == f"{float(predictions[worst]['p_yes']):.3f}"
    captions = page.texts(".sheet figcaption")
    assert captions == [f"frame {t}, {t / 4:.2f} s" for t in range(FRAMES) if t % 4 != 3], "those that are there"


def test_examples_have_their_frames_above(run, page):
    strips = page.run("[...document.querySelectorAll('.framed')].map((each) => [each.querySelectorAll('img').length,"
                      "each.querySelectorAll('svg.chart circle.dot').length])")
    assert strips and all(strip == [5, 6] for strip in strips), "a picture for each point; one point is the legend's"


def test_tables_survive_a_narrow_window(page):
    page.size(420, 900)
    assert page.run("document.documentElement.scrollWidth") <= 420
    cut = page.run("[...document.querySelectorAll('.stacked')].filter((each) => each.scrollWidth > each.parentElement.clientWidth).length")
    assert cut == 0 and page.run("document.querySelectorAll('.stacked').length") > 1
    page.size(1100, 900)


def test_pictures_can_stay_out(run):
    out = run.parent / "without"
    succeed("train", "--cache", run.parent / "x.h5", "--target", "label", "--out", out, "--without-thumbnails",
            *quick("--folds", 2, "--epochs", 1))
    assert "jpeg" in (run / "report.html").read_text() and "image/jpeg;base64,/9j" not in (out / "report.html").read_text()
    assert '"pictures":{}' in (out / "report.html").read_text()
