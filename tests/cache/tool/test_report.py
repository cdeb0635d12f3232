"""report: its numbers against numpy, and its page against a parser. What a browser makes of it: test_report_browser.py."""
import base64
import re

import numpy as np
import pytest
from PIL import Image

from report_page import Page, report
from tool_support import driver, refusal, tool, tool_json

EXAMS, FRAMES, DIMENSION = 24, 6, 16
EVIL = "<script>alert(1)</script>\"><img src=http://example.invalid/x onerror='x'>"


def make_cache(folder, ids=None, labels=None, step=0.5, column="label", patient="p"):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(EXAMS, 1, DIMENSION)) * 3 + rng.normal(size=(EXAMS, FRAMES, DIMENSION)) + 2
    values = values.astype(np.float32)
    np.save(folder / "f.npy", values.reshape(-1, DIMENSION))
    ids = ids or [f"e{i}" for i in range(EXAMS)]
    labels = labels or ["ab"[i % 2] for i in range(EXAMS)]
    quoted = lambda text: '"{}"'.format(text.replace('"', '""'))
    lines = [f"exam,patient,time,{quoted(column)}"]
    for i in range(EXAMS):
        lines += [f"{quoted(ids[i])},{quoted(f'{patient}{i // 2}')},{t * t * step},{quoted(labels[i])}" for t in range(FRAMES)]
    (folder / "f.csv").write_text("\n".join(lines) + "\n")
    result = tool("import", folder / "x.h5", folder / "f.npy", folder / "f.csv", "--describe", "made up",
                  "--store", "float32")
    assert result.returncode == 0, result.stderr
    return folder / "x.h5", values.astype(float)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path, values = make_cache(tmp_path_factory.mktemp("report"))
    return path, values, report(path, "--exam", "e7", "--exam", "e0")


def centred_means(values):
    means = values.mean(1)
    return means - means.mean(0)


def test_the_map_is_the_principal_components(made):
    _, values, page = made
    points = {name: (float(x), float(y)) for label, name, x, y in
              re.findall(r"<title>(\w+): (e\d+) \(\w+\): (\S+), (\S+)</title>", page)}
    assert len(points) == EXAMS and "Colour: label" in page
    # It shrinks with a narrow window; a chart that scrolls would look as if it were cut off.
    assert "<div class=\"scroll\"><svg" not in page and "svg.chart { min-width" not in page
    left, singular, _ = np.linalg.svd(centred_means(values), full_matrices=False)
    expected = left[:, :2] * singular[:2]
    actual = np.array([points[f"e{i}"] for i in range(EXAMS)])
    signs = np.sign((actual * expected).sum(0))
    np.testing.assert_allclose(actual, expected * signs, rtol=2e-3, atol=2e-3)
    shares = 100 * singular**2 / (singular**2).sum()
    assert f"component 1 ({shares[0]:.1f} % of the variance)" in page
    assert f"component 2 ({shares[1]:.1f} % of the variance)" in page


def test_the_exams_frames_and_neighbours(made):
    _, values, page = made
    assert page.index("<h3>e7</h3>") < page.index("<h3>e0</h3>")
    of_exam = page[page.index("<h3>e7</h3>"):page.index("<h3>e0</h3>")]
    rows = values[7] / np.linalg.norm(values[7], axis=1, keepdims=True)
    assert f"Cosine of 6 frames: {(rows @ rows.T).min():.3f} to 1" in of_exam
    assert of_exam.count("<path class=\"cell\"") <= 16
    drawn = sum(path.count("z") for path in re.findall(r"class=\"cell\"[^>]* d=\"([^\"]*)\"", of_exam))
    assert drawn == FRAMES * FRAMES + 16, "and the bar that says what colours mean"
    means = centred_means(values)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = means @ means[7]
    cosines[7] = -2
    nearest = np.argsort(-cosines)[:5]
    listed = re.findall(r"<tr><td><a href=\"#exams-\d+\">(e\d+)</a></td><td class=\"num\"[^>]*>(\S+?)</td><td[^>]*>([a-z ]+)</td>", of_exam)
    assert [name for name, _, _ in listed] == [f"e{i}" for i in nearest]
    assert [float(cosine) for _, cosine, _ in listed] == pytest.approx(cosines[nearest], abs=6e-5)
    assert [patient == "the same" for _, _, patient in listed] == [i // 2 == 7 // 2 for i in nearest]


def test_the_table_of_exams(made):
    path, values, page = made
    columns, _ = Page(page).table()
    assert columns["exam"] == [f"e{i}" for i in range(EXAMS)] and set(columns["oddness"]) == {0}
    assert columns["patient"] == [str(i // 2 + 1) for i in range(EXAMS)], "numbers in place of names"
    assert columns["frames"] == [FRAMES] * EXAMS and columns["span, seconds"] == [12.5] * EXAMS
    assert columns["label"] == ["ab"[i % 2] for i in range(EXAMS)]
    assert columns["norm"] == pytest.approx(np.median(np.linalg.norm(values, axis=2), axis=1), rel=1e-5)
    means = centred_means(values)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    nearest = np.argsort(-(unit @ unit.T) + 2 * np.eye(EXAMS), axis=1)[:, :5]
    assert columns["nearest exam"] == nearest[:, 0].tolist()
    apart = np.linalg.norm(means[:, None] - means[nearest], axis=2).mean(1)
    assert columns["distance"] == pytest.approx(apart, rel=1e-4)
    named, _ = Page(report(path, "--patients")).table()
    assert named["patient"] == [f"p{i // 2}" for i in range(EXAMS)]


def test_the_recipe_is_indented_as_it_is_nested(tmp_path):
    driver("write", tmp_path / "x.h5", 0, 2)
    keys = re.findall(r"<tr><td>(\u2003*)(\w+)</td>", report(tmp_path / "x.h5"))
    depth = {name: len(spaces) for spaces, name in keys}
    assert (depth["features"], depth["preprocessing"], depth["interpolation"], depth["frames"]) == (0, 1, 2, 1)


def test_histograms_count_everything(made):
    _, values, page = made
    norms = page[page.index("Norms of the features"):]
    norms = norms[:norms.index("</svg>")]
    bars = re.findall(r"<title>(\S+) to (\S+): (\d+) frames</title>", norms)
    counts = [int(count) for _, _, count in bars]
    assert sum(counts) == EXAMS * FRAMES
    expected, edges = np.histogram(np.linalg.norm(values.reshape(-1, DIMENSION), axis=1), bins=30)
    assert counts == expected[expected > 0].tolist()
    assert float(bars[0][0]) == pytest.approx(edges[0], rel=1e-3)
    assert f"Frames per exam: {FRAMES} frames, in all {EXAMS} exams." in page
    steps = re.findall(r": (\d+) intervals</title>", page)
    assert sum(map(int, steps)) == EXAMS * (FRAMES - 1)


@pytest.mark.parametrize("step, unit, span", [(43200, "days", "12.5 days"), (0.3 * 365.25 * 86400, "years", "7.5 years")])
def test_long_intervals_are_days_and_years(tmp_path, step, unit, span):
    path, _ = make_cache(tmp_path, step=step)
    text = tool("info", path).stdout
    assert span in text and " s," not in text.split("interval")[1].splitlines()[0], text
    assert f"Time from first to last frame: {span}, in all {EXAMS} exams." in report(path)


def test_names_of_others_stay_text(tmp_path, made):
    Page(made[2])
    ids, place = [f"{EVIL} {i}" for i in range(EXAMS)], "<script>'\"&amp;<b>.h5"
    path, _ = make_cache(tmp_path, ids, ["a", EVIL] * (EXAMS // 2), column=f"{EVIL} column", patient=f"{EVIL} patient")
    path.rename(tmp_path / place)
    page = report(tmp_path / place, "--patients", "--exam", ids[3])
    seen = Page(page)
    columns, _ = seen.table()
    assert EVIL in seen.words and columns["exam"] == ids and columns[f"{EVIL} column"][1] == EVIL
    assert columns["patient"][3] == f"{EVIL} patient1" and f"Cache {place}" in seen.words and f"Colour: {EVIL} column." in seen.words
    assert page.count("<script") == 2 and "<img" not in page and EVIL not in page and "<b>" not in page


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictured")
    for t in range(6):
        Image.new("RGB", (96, 64), (40 * t, 80, 160)).save(folder / f"{t}.jpg")
    (folder / "5.jpg").write_bytes(b"GIF89a, not what a browser is told")
    files = [(folder / f"{t}.jpg").read_bytes() for t in range(6)]
    driver("pictured", folder / "x.h5", 3, *(folder / f"{t}.jpg" for t in range(6)))
    return folder / "x.h5", files


def test_frames_stand_above_their_columns(pictured):
    path, files = pictured
    page = Page(report(path))
    # The fourth of six frames is missing and the last is no JPEG.
    of_exam = [(files[t], f"frame {t}, {t / 4:.2f} s") for t in (0, 1, 2, 4)]
    assert page.pictures == of_exam * 3
    _, sheets = page.table()
    places = [f"frame {t}, {t / 4:.2f} s" for t in range(6)]
    assert [[alt for alt, _ in sheets[str(exam)]] for exam in range(3)] == [places] * 3
    assert [base64.b64decode(jpeg) for _, jpeg in sheets["1"]] == [*files[:3], b"", files[4], b""]
    total = 2 * 3 * sum(len(file) for file, _ in of_exam)
    assert f"{total / 1024:.1f} KiB in all" in page.words and "whoever gets it sees them" in page.words
    text = report(path)
    for strip in re.findall(r'<div class="strip".*?</div>', text, re.S):
        widths = [float(width) for width in re.findall(r"width:([\d.]+)%", strip)]
        assert len(widths) == 6 and sum(widths) == pytest.approx(100, abs=0.01)
        left, right = (float(margin) for margin in re.search(r"margin:0 ([\d.]+)% 0 ([\d.]+)%", strip).groups()[::-1])
        assert (100 - left - right) / 6 == pytest.approx(100 * 88 / 626, abs=0.01), "as wide as a column of the matrix"
    without = report(path, "--without-thumbnails")
    assert Page(without).pictures == [] and "whoever gets it" not in without


def test_pictures_have_a_bound(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (600, 600, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "0.jpg", quality=100)
    size = (tmp_path / "0.jpg").stat().st_size
    count = 2 * 2**20 // size
    driver("pictured", tmp_path / "x.h5", 4, *[tmp_path / "0.jpg"] * min(count, 3))
    exams = (4 << 20) // (min(count, 3) * size)
    assert exams < 4, "the test wants larger pictures"
    page = Page(report(tmp_path / "x.h5"))
    assert len(page.pictures) == min(count, 3) * exams and page.table()[1] == {}
    assert "Some exams are shown without: at most 4.0 MiB" in page.words
    page = Page(report(tmp_path / "x.h5", "--most-pictures", "64MiB"))
    assert len(page.pictures) == min(count, 3) * 4 and len(page.table()[1]) == 4
    assert "shown without" not in page.words


def test_small_caches(tmp_path, made):
    np.save(tmp_path / "f.npy", np.ones((1, 3), np.float32))
    (tmp_path / "f.csv").write_text("exam\nonly\n")
    assert tool("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "x").returncode == 0
    words = Page(report(tmp_path / "x.h5")).words
    assert "Too few exams for a map" in words and "1 exam without a patient" in words
    driver("write", tmp_path / "y.h5", 0, 9)  # missing frames, several views, a failure
    words = Page(report(tmp_path / "y.h5")).words
    assert "1 failure while extracting" in words and "cannot be decoded" in words
    assert "frames are missing" in words


def test_refusals(tmp_path, made):
    path = made[0]
    assert "no exam 'e99'" in refusal("report", tmp_path / "r.html", path, "--exam", "e99")
    assert "it has label" in refusal("report", tmp_path / "r.html", path, "--colour", "sex")
    assert "did you mean 'label'?" in refusal("report", tmp_path / "r.html", path, "--colour", "lable")
    assert "ends in .html" in refusal("report", tmp_path / "r.h5", path)
    assert "there is no such cache" in refusal("report", tmp_path / "r.html", tmp_path / "x.h5")
    assert list(tmp_path.iterdir()) == []
    summary = tool_json("report", tmp_path / "r.html", path)
    assert summary["bytes"] == (tmp_path / "r.html").stat().st_size and summary["findings"] == []
    (tmp_path / "r.html").write_text("mine")
    assert "--overwrite" in refusal("report", tmp_path / "r.html", path)
    assert (tmp_path / "r.html").read_text() == "mine"
    tool_json("report", tmp_path / "r.html", path, "--overwrite", "--exam", "e7,e0")
    assert (tmp_path / "r.html").read_text() == made[2]
