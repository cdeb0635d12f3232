"""Names that would be markup, in every place where a page of a run shows one, stay text in a browser and in LaTeX."""
import html
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from pylatexenc.latex2text import LatexNodes2Text

from browser import Browser
from training_support import coldframe, exam, make_cache, quick, succeed

EVIL = "<img src=x onerror=\"document.title='run'\"><script><b>'&amp;\u202e\\input{x} 5% $a_b^c$ #1 ~"
STREAMS = ["left_1", "right+2"]


def named(place):
    """A name of its own for each place, so that one that is missing is told by itself."""
    return f"{EVIL} </script> {place}"


def folder_named(place):
    return f"{EVIL} {place}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("hostile"), np.random.default_rng(3)
    exams, features = [], []
    for number in range(48):
        columns = {named("target"): named("no") if number % 2 else named("yes"), named("column"): named("value" if number % 3 else "other"),
                   named("covariate"): named("kind" if number % 5 else "rare")}
        frames = {named("stream"): [STREAMS[frame // 2] for frame in range(4)]}
        exams.append(exam(number, 4, "", named(f"patient {number}"), columns=columns, frame_columns=frames, time_s=[0, 1, 0, 1],
                          id=named(f"exam {number}")))
        features.append(random.normal(size=(4, 5)) + number % 2)
    cache = make_cache(folder, exams, features, name=folder_named("cache"))
    def target(*words):
        return ["train", "--cache", cache, "--target", named("target"), *quick("--folds", 2, "--epochs", 2, *words)]

    asked = ["--subgroups", named("column"), "--characteristics", named("column"), "--covariates", named("covariate")]
    succeed(*target(), *asked, "--figures", "--out", folder / folder_named("run"))
    succeed(*target("--model", "mean"), *asked, "--out", folder / "second", "--against", folder / folder_named("run"))
    succeed(*target(), "--out", folder / "streams", "--streams", named("stream"), "--compare", ",".join(f"only-{name}" for name in STREAMS))
    succeed("evaluate", "--run", folder / "second", "--cache", cache, "--out", folder / folder_named("evaluated"),
            "--subgroups", named("column"))
    return folder


@pytest.mark.parametrize("page, shown", [
    (f"{folder_named('run')}/report.html", [folder_named("run"), *map(named, ["target", "yes", "no", "column", "value", "covariate", "exam 1"])]),
    ("second/against.html", [folder_named("run"), named("target")]),
    ("streams/report.html", [named("target"), named("stream"), "only-left_1", "only-right+2", "The stream left_1 alone"]),
    (f"{folder_named('evaluated')}/report.html",
     [folder_named("evaluated"), *map(named, ["target", "yes", "no", "column", "value", "exam 1"])]),
])
def test_names_stay_text(folder, page, shown):
    with Browser() as browser:
        browser.open(folder / page)
        assert browser.complaints() == ([], set()) and browser.run("document.title") != "run"
        assert browser.run("document.querySelectorAll('img[onerror], main b').length") == 0
        seen = browser.run("document.body.textContent").replace("\u202e", "").replace("\\u202e", "")
        for name in shown:
            assert name.replace("\u202e", "") in seen, name


def test_files_for_a_paper_read_as_the_page(folder):
    figures = folder / folder_named("run") / "figures"
    latex = (figures / "tables.tex").read_text()
    captions = re.findall(r"\\caption\{(.*)\}\n", latex)
    read = LatexNodes2Text(math_mode="text", strict_latex_spaces=True).latex_to_text
    letters = lambda text: re.sub("[<>^ˆ'\"”\u202e]", "", text)  # without those that pylatexenc leaves out or sets
    assert letters(f"By {named('column')}") in [letters(read(caption)) for caption in captions]
    assert "\\input" not in latex and "<script" not in latex
    names = html.unescape("".join(path.read_text() for path in figures.glob("*.svg")))
    assert named("yes")[:20] in names and "<b>" not in "".join(path.read_text() for path in figures.glob("*.svg"))
    for path in figures.glob("*.svg"):
        ElementTree.parse(path)


def test_streams_are_named_by_letters(folder, tmp_path):
    cache = folder / folder_named("cache")
    done = coldframe("train", "--cache", f"{EVIL}={cache},b=b", "--target", named("target"), "--out", tmp_path / "run")
    assert done.returncode in (2, 3) and not (tmp_path / "run").exists()
    random = np.random.default_rng(4)
    exams = [exam(number, 2, str(number % 2), frame_columns={"stream": [named("left"), "right"]}) for number in range(12)]
    several = make_cache(tmp_path, exams, [random.normal(size=(2, 3)) for _ in exams])
    done = coldframe("train", "--cache", several, "--target", "label", "--streams", "stream", "--compare", "--out", tmp_path / "run",
                     *quick("--folds", 2, "--epochs", 1))
    assert done.returncode == 2 and "expected letters, digits" in done.stderr and not (tmp_path / "run").exists()
