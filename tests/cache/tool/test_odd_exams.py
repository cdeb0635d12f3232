"""report names the exams that are not like the others, and why: a made cohort in which each oddity is planted once."""
import csv
import re

import numpy as np
import pytest

from report_page import Page, report
from tool_support import run, tool_json

EXAMS, FRAMES, DIMENSION = 300, 8, 32
HOME = 1.75e9  # seconds: when the exams of the cohort begin


class Cohort:
    """Exams of two labels, two for each patient, whose features lie together."""

    def __init__(self):
        rng = np.random.default_rng(7)
        self.labels = ["regular", "covid"]
        centres, patients = 4 * rng.normal(size=(2, DIMENSION)), 2 * rng.normal(size=(EXAMS // 2, DIMENSION))
        self.exams = []
        for i in range(EXAMS):
            label = i // 2 % 2
            features = 10 + centres[label] + patients[i // 2] + .3 * rng.normal(size=DIMENSION) + rng.normal(size=(FRAMES, DIMENSION))
            self.exams.append({"exam": f"e{i}", "patient": f"p{i // 2}", "features": features, "present": np.ones(FRAMES, int),
                               "time_s": .1 * np.arange(FRAMES) + rng.uniform(0, .01, FRAMES), "start_time": HOME + rng.uniform(0, 1e7),
                               "source_kind": "video", "width": 640, "height": 480, "label": self.labels[label],
                               "age": str(rng.integers(20, 90)), "site": "ABC"[i % 3]})

    def keep(self, exam, frames):
        for key in ["features", "present", "time_s"]:
            exam[key] = exam[key][:frames]

    def write(self, folder):
        np.save(folder / "f.npy", np.concatenate([exam["features"] for exam in self.exams]).astype(np.float32))
        with open(folder / "f.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["exam", "slot", "time_s", "present", "index", "source"])
            for exam in self.exams:
                for t in range(len(exam["present"])):
                    time = exam["time_s"][t]
                    rows.writerow([exam["exam"], t, "" if np.isnan(time) else time, exam["present"][t], t, ""])
        with open(folder / "e.csv", "w", newline="") as file:
            names = ["exam", "patient", "offset", "frames", "start_time", "source_kind", "width", "height", "elapsed_start", "label", "age", "site"]
            rows = csv.DictWriter(file, names, extrasaction="ignore")
            rows.writeheader()
            offset = 0
            for exam in self.exams:
                rows.writerow(exam | {"offset": offset, "frames": len(exam["present"])})
                offset += len(exam["present"])
        run("import", folder / "x.h5", folder / "f.npy", folder / "f.csv", folder / "e.csv", "--describe", "made up", "--store", "float32", "--allow-unordered")
        return folder / "x.h5"


def loud(exam, _):
    exam["features"] *= 30


def quiet(exam, _):
    exam["features"] /= 30


def elsewhere(exam, _):
    exam["features"] += 60 * np.array([1, -1] * (DIMENSION // 2))


def loud_frame(exam, _):
    exam["features"][3] *= 8


def strange_frame(exam, _):
    exam["features"][5] *= -1


def zero_frame(exam, _):
    exam["features"][2] = 0


def repeated_frames(exam, _):
    exam["features"][[3, 4]] = exam["features"][1]


def still(exam, _):
    exam["features"][:] = exam["features"][0]


def single_frame(exam, cohort):
    cohort.keep(exam, 1)


def few_frames(exam, cohort):
    cohort.keep(exam, 2)


def missing_frames(exam, _):
    exam["present"][[1, 6]] = 0
    exam["features"][[1, 6]] = np.nan


def equal_times(exam, _):
    exam["time_s"][4] = exam["time_s"][3]


def falling_times(exam, _):
    exam["time_s"][4] = exam["time_s"][3] - .02


def unknown_times(exam, _):
    exam["time_s"][:] = np.nan


def long_gap(exam, _):
    exam["time_s"][5:] += 3


def slow(exam, _):
    exam["time_s"] *= 100


def long_ago(exam, _):
    exam["start_time"] -= 40 * 365.25 * 86400


def no_patient(exam, _):
    exam["patient"] = ""


def no_label(exam, _):
    exam["label"] = ""


def misspelt(exam, _):
    exam["label"] = "covdi"


def rare_site(exam, _):
    exam["site"] = "Q"


def too_old(exam, _):
    exam["age"] = "999"


def negative_age(exam, _):
    exam["age"] = "-1"


def age_in_words(exam, _):
    exam["age"] = "old"


def other_source(exam, _):
    exam["source_kind"] = "dicom"


def other_size(exam, _):
    exam["width"] = 64


def copied(exam, cohort):
    exam["features"] = cohort.exams[0]["features"].copy()


def nearly_copied(exam, cohort):
    exam["features"] = cohort.exams[4]["features"] + 1e-3


def mislabelled(exam, cohort):
    exam["label"] = cohort.labels[1 - cohort.labels.index(exam["label"])]


def swapped(exam, cohort):
    exam["patient"] = "p11"


PLANTED = {
    loud: "norm ", quiet: "norm ", elsewhere: "distance from the nearest exams", loud_frame: "norm of frame 3 differs",
    strange_frame: "frame 5 unlike the others", zero_frame: "frame 2 with only zeros",
    repeated_frames: "frames 3 and 4 repeated from before",
    still: "all 8 frames are the same", single_frame: "a single frame", few_frames: "number of frames 2, usually 8",
    missing_frames: "2 of 8 frames missing", equal_times: "frame 4 at the time of the one before",
    falling_times: "frame 4 earlier than the one before", unknown_times: "times unknown",
    long_gap: "times as long as the typical one", slow: "typical interval between frames", long_ago: "begins 40",
    no_patient: "no patient", no_label: "no label", misspelt: "label 'covdi' of no other exam; 'covid' is frequent",
    rare_site: "site 'Q' of no other exam", too_old: "age 999, usually", negative_age: "age -1 is negative",
    age_in_words: "age 'old' is no number", other_source: "kind of source 'dicom' of no other exam",
    other_size: "frame size '64×480' of no other exam", copied: "exactly the features of e0", nearly_copied: "nearly the features of e4",
    mislabelled: "nearest exams has its label", swapped: "nearest exams is of its patient"}
PLACES = {plant: 20 + 8 * k for k, plant in enumerate(PLANTED)}
# Others that these plants make odd as well: those that were copied, and the other exam of a patient who lost one.
TOUCHED = {0, 4, PLACES[swapped] + 1, PLACES[copied] + 1, PLACES[nearly_copied] + 1}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    folder, cohort = tmp_path_factory.mktemp("odd"), Cohort()
    for plant, place in PLACES.items():
        plant(cohort.exams[place], cohort)
    page = Page(report(cohort.write(folder)))
    return page, page.table()[0]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_each_oddity_is_named(odd, plant):
    page, columns = odd
    why = columns["why"][PLACES[plant]]
    assert PLANTED[plant] in why
    assert why in page.words, "in the static table too"


def test_no_other_exam_is_odd(odd):
    _, columns = odd
    found = {i for i in range(EXAMS) if columns["why"][i]}
    assert found <= set(PLACES.values()) | TOUCHED, {i: columns["why"][i] for i in found - set(PLACES.values()) - TOUCHED}
    assert all((columns["oddness"][i] > 0) == bool(columns["why"][i]) for i in range(EXAMS))


def test_the_oddest_come_first_and_the_map_has_every_outlier(odd):
    page, columns = odd
    odd_exams = page.text[page.text.index(">Odd exams</h2>"):page.text.index(">Map</h2>")]
    places = [int(row) for row in re.findall(r'<a href="#exams-(\d+)">', odd_exams)]
    oddness = [columns["oddness"][place] for place in places]
    assert len(places) == sum(value > 0 for value in columns["oddness"]) and oddness == sorted(oddness, reverse=True)
    rings = {int(row) for row in re.findall(r'<a href="#exams-(\d+)"><circle class="dot ring"', page.text)}
    assert {PLACES[loud], PLACES[elsewhere]} <= rings
    assert re.search(r">Norms of the features, without \d+ above", page.text), "outliers leave room for the others"


def test_many_zeros_make_no_other_number_odd(tmp_path):
    """Most exams have 0, as of a dose that few get; the others are judged among themselves."""
    cohort, rng = Cohort(), np.random.default_rng(1)
    for exam in cohort.exams:
        exam["age"] = "0" if rng.random() < .7 else f"{rng.uniform(1, 100):.1f}"
    cohort.exams[7]["age"] = "9000"
    columns = Page(report(cohort.write(tmp_path))).table()[0]
    assert {i for i in range(EXAMS) if "age" in columns["why"][i]} == {7}
    assert "where it is not 0" in columns["why"][7]


def test_an_enormous_exam_does_not_make_others_alike(tmp_path):
    cohort = Cohort()
    cohort.exams[7]["features"] *= 200
    columns = Page(report(cohort.write(tmp_path))).table()[0]
    assert {i for i in range(EXAMS) if columns["why"][i]} == {7}


def test_what_all_exams_share_makes_none_odd(tmp_path):
    cohort = Cohort()
    cohort.exams = cohort.exams[:3]
    for exam in cohort.exams:
        cohort.keep(exam, 1)
    assert "No exam is unlike the others." in Page(report(cohort.write(tmp_path))).text


def test_what_many_exams_have_makes_no_outlier(tmp_path):
    cohort = Cohort()
    for exam in cohort.exams[::5]:
        exam["features"] *= 30
    page = Page(report(cohort.write(tmp_path)))
    assert "norm: 60 of 300 exams" in page.text and "dot ring" not in page.text
