"""Names that would be markup, in every place where a page of a run shows one, stay text in a browser."""
import numpy as np
import pytest

from browser import Browser
from training_support import exam, make_cache, quick, succeed

EVIL = "<img src=x onerror=\"document.title='run'\"><script><b>'&amp;\u202e"


def named(place):
    """A name of its own for each place, so that one that is missing is told by itself."""
    return f"{EVIL} {place}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("hostile"), np.random.default_rng(3)
    exams, features = [], []
    for number in range(48):
        columns = {named("target"): named("no") if number % 2 else named("yes"), named("column"): named("value" if number % 3 else "other"),
                   named("covariate"): named("kind" if number % 5 else "rare")}
        exams.append(exam(number, 4, "", named(f"patient {number}"), columns=columns, id=named(f"exam {number}")))
        features.append(random.normal(size=(4, 5)) + number % 2)
    cache = make_cache(folder, exams, features)
    train = ["train", "--cache", cache, "--target", named("target"), "--subgroups", named("column"), "--characteristics", named("column"),
             "--covariates", named("covariate"), *quick("--folds", 2, "--epochs", 2)]
    succeed(*train, "--out", folder / named("run"))
    succeed(*train, "--out", folder / "second", "--model", "mean", "--against", folder / named("run"))
    succeed("evaluate", "--run", folder / "second", "--cache", cache, "--out", folder / named("evaluated"), "--subgroups", named("column"))
    return folder


@pytest.mark.parametrize("page, places", [
    (f"{named('run')}/report.html", ["target", "yes", "no", "column", "value", "covariate", "exam 1"]),
    ("second/against.html", ["target"]),
    (f"{named('evaluated')}/report.html", ["target", "yes", "no", "column", "value", "exam 1"]),
])
def test_names_stay_text(folder, page, places):
    with Browser() as browser:
        browser.open(folder / page)
        assert browser.complaints() == ([], set()) and browser.run("document.title") != "run"
        assert browser.run("document.querySelectorAll('img[onerror], main b').length") == 0
        seen = browser.run("document.body.textContent")
        for place in places:
            assert named(place).replace("\u202e", "") in seen.replace("\u202e", "").replace("\\u202e", ""), place
