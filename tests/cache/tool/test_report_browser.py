"""The page of `report` in a browser: it asks for nothing, and its table sorts, filters, searches and shows exams."""
import base64

import numpy as np
import pytest
from PIL import Image

from browser import Browser
from report_page import report
from tool_support import driver, run

EXAMS, FRAMES, DIMENSION = 600, 4, 8
EVIL = "<img src=http://127.0.0.1:9/x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("browsed"), np.random.default_rng(5)
    features = 4 + rng.normal(size=(EXAMS, FRAMES, DIMENSION))
    features[17] *= 30
    np.save(folder / "f.npy", features.reshape(-1, DIMENSION).astype(np.float32))
    names = [f"e{i}" for i in range(EXAMS)]
    names[5] = EVIL
    lines = ["exam,patient,label,age,mass"]
    for i, name in enumerate(names):
        quoted = name.replace('"', '""')
        lines += [f'"{quoted}",p{i // 2},{"ab"[i % 2]},{i % 100},{100036 + i / 1e4:.4f}'] * FRAMES
    (folder / "f.csv").write_text("\n".join(lines) + "\n")
    run("import", folder / "x.h5", folder / "f.npy", folder / "f.csv", "--describe", "made up")
    report(folder / "x.h5")
    return folder / "x.html"


@pytest.fixture
def opened(browser, page):
    browser.size(1100, 900)
    browser.open(page)
    return browser


def shown(browser):
    """The rows in sight: exams by name."""
    return browser.texts(".rows tbody td:first-child a")


def filters(browser, column, words):
    place = browser.texts(".rows th button").index(column) + 1
    browser.type(f".rows thead td:nth-child({place}) input", words)


def test_the_page_asks_for_nothing_and_says_nothing(browser, page, tmp_path):
    control = tmp_path / "control.html"
    control.write_text("<body><img src='http://127.0.0.1:9/x.png'><script>console.log('here')</script></body>")
    browser.open(control)
    said, asked = browser.complaints()
    assert said and asked == {"http://127.0.0.1:9/x.png"}, "the check itself does not work"
    browser.open(page)
    assert browser.complaints() == ([], set())
    assert browser.run("document.title") == "Cache x.h5"


def test_the_table_sorts(opened):
    assert shown(opened)[0] == "e17" and opened.texts(".found") == [f"all {EXAMS}"]
    opened.click(".rows th:nth-child(1) button")
    names = shown(opened)
    assert names[:4] == [EVIL, "e0", "e1", "e2"] and "e10" in names and names.index("e10") > names.index("e9")
    assert len(names) < 60, "rows that cannot be seen are not in the page"
    opened.click(".rows th:nth-child(1) button")
    assert shown(opened)[0] == f"e{EXAMS - 1}"
    opened.run("document.querySelector('.rows').scrollTop = 1e9")
    opened.settle()
    assert shown(opened)[-1] == EVIL


def test_the_table_filters_and_searches(opened):
    filters(opened, "age", "> 97")
    assert opened.texts(".found") == [f"12 of {EXAMS}"]
    filters(opened, "label", "=b")
    assert opened.texts(".found") == [f"6 of {EXAMS}"] and shown(opened) == [f"e{i}" for i in range(99, EXAMS, 100)]
    filters(opened, "age", "3 to 4")
    filters(opened, "label", "")
    assert opened.texts(".found") == [f"12 of {EXAMS}"]
    filters(opened, "age", "many")
    assert opened.run("document.querySelectorAll('[aria-invalid=true]').length") == 1
    assert opened.texts(".found") == [f"all {EXAMS}"]
    filters(opened, "age", "")
    opened.type("input[type=search]", "norm usually")
    assert shown(opened) == ["e17"]
    opened.type("input[type=search]", "nobody's")
    assert opened.texts(".found") == [f"0 of {EXAMS}"] and shown(opened) == []


def test_a_point_of_the_map_leads_to_its_exam(opened):
    point = "svg a[href='#exams-17'] circle.ring"
    opened.click(point)
    assert opened.texts(".card strong") == ["e17"]
    values = dict(zip(opened.texts(".card dt"), opened.texts(".card dd")))
    assert values["label"] == "b" and values["patient"] == "9" and values["why"].startswith("norm ")
    assert opened.run("document.querySelectorAll('svg a.here').length") == 1
    opened.type("input[type=search]", "e23")
    assert "e17" not in shown(opened)
    opened.click(".card button")
    assert "e17" in shown(opened), "the filter gives way"
    opened.click(".card dd a")
    assert opened.texts(".card strong") != ["e17"], "the nearest exam has its card"
    opened.click(".card button[aria-label=close]")
    assert opened.run("document.querySelector('.card').hidden")


def test_numbers_are_those_of_the_input(opened):
    column = opened.texts(".rows th button").index("mass") + 1
    opened.click(f".rows th:nth-child({column}) button")
    assert opened.texts(f".rows tbody td:nth-child({column})")[0] == "100036.0599", "float32 has 100036.0625"


def test_the_keyboard_passes_the_map(opened):
    assert opened.run("[...document.querySelectorAll('svg a')].every((each) => each.tabIndex < 0)")


def test_an_exam_far_down_is_shown_in_the_table(opened):
    opened.run("location.hash = '#exams-250'")
    opened.settle()
    assert "e250" not in shown(opened)
    opened.click(".card button")
    opened.settle()
    assert "e250" in shown(opened)


def test_names_of_others_stay_text(opened):
    opened.run("location.hash = '#exams-5'")
    opened.settle()
    assert opened.texts(".card strong") == [EVIL] and opened.run("document.title") == "Cache x.h5"
    assert opened.complaints() == ([], set())
    # The page's policy would stop a script that got in all the same.
    opened.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')")
    opened.settle()
    assert opened.run("document.title") == "Cache x.h5" and opened.complaints()[0]


def test_a_narrow_window_is_enough(opened):
    opened.size(420, 900)
    assert opened.run("document.documentElement.scrollWidth") <= 420


def test_print_has_the_first_rows(opened):
    opened.size(1100, 900, media="print")
    seen = opened.run("[...document.querySelectorAll('.data > .scroll, .live')].map((each) => each.offsetHeight > 0)")
    assert seen == [True, False]


def test_an_exam_has_its_contact_sheet(browser, tmp_path):
    for t in range(4):
        Image.new("RGB", (96, 64), (60 * t, 80, 160)).save(tmp_path / f"{t}.jpg")
    driver("pictured", tmp_path / "x.h5", 3, *(tmp_path / f"{t}.jpg" for t in range(4)))
    report(tmp_path / "x.h5")
    browser.size(1100, 900)
    browser.open(tmp_path / "x.html")
    browser.click(".rows tbody td a[href='#exams-1']")
    browser.run("Promise.all([...document.querySelectorAll('.sheet img')].map((each) => each.decode()))")
    assert browser.texts(".sheet figcaption") == [f"frame {t}, {t / 4:.2f} s" for t in range(4)]
    sources = browser.run("[...document.querySelectorAll('.sheet img')].map((each) => each.src)")
    files = [base64.b64decode(source.split(",")[1]) for source in sources]
    assert files == [(tmp_path / f"{t}.jpg").read_bytes() for t in range(3)], "the fourth frame is missing"
    assert browser.complaints() == ([], set())
