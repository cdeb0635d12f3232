"""merge: parts of one job, sites with equal names, exams that differ."""
import json
import os

import numpy as np
import pandas as pd
import pytest

from tool_support import driver, dump, refusal, run, tool, tool_json


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("exchange") / "x.h5"
    driver("write", path, 0, 9)
    return path


def test_merge_of_an_array_jobs_parts_is_the_whole(cache, tmp_path):
    driver("write", tmp_path / "a.cache", 0, 4)
    driver("write", tmp_path / "b.h5", 4, 9)
    merged = tool_json("merge", tmp_path / "all.h5", tmp_path / "a.cache", tmp_path / "b.h5")
    # Exam 4 of b took the place at which a's failure stands: places collide only between exams.
    assert merged["exams"] == 9 and merged["duplicates"] == 0 and not merged["renumbered"]
    assert dump(tmp_path / "all.h5") == dump(cache)
    assert tool("verify", tmp_path / "all.h5").returncode == 0
    assert tool("diff", cache, tmp_path / "all.h5").returncode == 0


def test_merge_settles_revisions_and_places(tmp_path):
    driver("write", tmp_path / "a.h5", 0, 3)
    driver("write", tmp_path / "b.h5", 2, 5)
    merged = tool_json("merge", tmp_path / "m.h5", tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "a.h5")
    assert merged["exams"] == 5 and merged["duplicates"] == 4
    names = ["exam", "label"]
    for name, ids in (("c", "pq"), ("d", "rs")):
        np.save(tmp_path / f"{name}.npy", np.eye(2, 3, dtype=np.float32))
        pd.DataFrame([[i, "l"] for i in ids], columns=names).to_csv(tmp_path / f"{name}.csv", index=False)
        run("import", tmp_path / f"{name}.h5", tmp_path / f"{name}.npy", tmp_path / f"{name}.csv", "--describe", "t")
    merged = tool_json("merge", tmp_path / "n.h5", tmp_path / "d.h5", tmp_path / "c.h5")
    assert merged["renumbered"]
    assert [exam["id"] for exam in tool_json("ls", tmp_path / "n.h5")] == list("rspq")
    assert [exam["ordinal"] for exam in tool_json("ls", tmp_path / "n.h5")] == [0, 1, 2, 3]
    message = refusal("merge", tmp_path / "o.h5", tmp_path / "a.h5", tmp_path / "c.h5")
    assert "imported" in message and "--out" not in message
    np.save(tmp_path / "e.npy", 2 * np.eye(2, 3, dtype=np.float32))
    run("import", tmp_path / "e.h5", tmp_path / "e.npy", tmp_path / "c.csv", "--describe", "t")
    assert "exam 'p' in" in refusal("merge", tmp_path / "o.h5", tmp_path / "c.h5", tmp_path / "e.h5")
    assert "is there already" in refusal("merge", tmp_path / "c.h5", tmp_path / "c.h5", tmp_path / "d.h5")
    assert "must end in .h5" in refusal("merge", tmp_path / "o.cache", tmp_path / "c.h5", tmp_path / "d.h5")
    assert not (tmp_path / "o.h5").exists()


def site(folder, name, rows, scale=1, columns="exam,patient,label,time"):
    """An imported cache of one frame an exam; rows: "E1,P1,0,0"."""
    np.save(folder / f"{name}.npy", scale * np.eye(len(rows), 8, dtype=np.float32))
    (folder / f"{name}.csv").write_text("\n".join([columns, *rows]) + "\n")
    run("import", folder / f"{name}.h5", folder / f"{name}.npy", folder / f"{name}.csv", "--describe", "t")
    return folder / f"{name}.h5"


def test_merge_refuses_exams_that_differ_and_lists_all_that_does(tmp_path):
    a = site(tmp_path, "a", ["E1,P1,0,0", "E2,P2,0,0", "E3,P3,0,0"])
    b = site(tmp_path, "b", ["E1,P1,1,0", "E2,P9,1,0", "E3,P3,0,0"])
    message = refusal("merge", tmp_path / "m.h5", a, b)
    assert f"exam 'E1' in {a} and in {b}: column label '0' -> '1'\n" in message
    assert f"exam 'E2' in {a} and in {b}: patient 'P2' -> 'P9', column label '0' -> '1'\n" in message
    assert "E3" not in message and "--prefer" in message and "--prefix" in message
    assert not (tmp_path / "m.h5").exists()
    other = site(tmp_path, "c", ["E1,P1,0,0", "E2,P2,0,", "E3,P3,0,0"], scale=2)
    message = refusal("merge", tmp_path / "m.h5", a, other)
    assert "exam 'E1' in" in message and "features of view clean" in message
    assert "times, features of view clean" in message


def test_merge_lists_many_conflicts_by_their_columns(tmp_path):
    a = site(tmp_path, "a", [f"E{i},P{i},0,0" for i in range(30)])
    b = site(tmp_path, "b", [f"E{i},P{i + (i == 29)},1,0" for i in range(30)])
    message = refusal("merge", tmp_path / "m.h5", a, b)
    assert message.count("exam 'E") == 20 and "… and 10 more; in all: column label ×30, patient ×1" in message


def labels(path):
    return {exam["id"]: exam["columns"]["label"] for exam in tool_json("ls", path)}


def test_merge_keeps_what_prefer_says(tmp_path):
    a, b = site(tmp_path, "a", ["E1,P1,0,0", "E2,P2,0,0"]), site(tmp_path, "b", ["E1,P1,1,0", "E3,P3,1,0"])
    for newer, older in ((a, b), (b, a)):  # files' times tell nothing: copies lose them, and hosts' clocks differ
        os.utime(older, (1e9, 1e9))
        os.utime(newer, (1.5e9, 1.5e9))
        message = refusal("merge", tmp_path / "newest.h5", a, b, "--prefer", "newest")
        assert "one revision, so that none is the newest" in message and "column label '0' -> '1'" in message
        assert not (tmp_path / "newest.h5").exists()
    run("merge", tmp_path / "first.h5", b, a, "--prefer", "first")
    assert labels(tmp_path / "first.h5")["E1"] == "1"
    assert "newest" in refusal("merge", tmp_path / "o.h5", a, b, "--prefer", "latest")


def test_merge_prefixes_the_exams_of_two_sites(tmp_path):
    a = site(tmp_path, "a", ["E1,P1,0,0", "E2,,0,0"])
    b = site(tmp_path, "b", ["E1,P1,1,0", "E2,,1,0"], scale=2)
    run("merge", tmp_path / "m.h5", a, b, "--prefix", "north-,south-")
    exams = tool_json("ls", tmp_path / "m.h5")
    assert [(exam["id"], exam["patient"]) for exam in exams] == [
        ("north-E1", "north-P1"), ("north-E2", ""), ("south-E1", "south-P1"), ("south-E2", "")]
    assert labels(tmp_path / "m.h5")["south-E1"] == "1"
    assert dump(tmp_path / "m.h5")[2]["views"] == dump(b)[0]["views"]
    assert tool("verify", tmp_path / "m.h5").returncode == 0
    assert "1 part for 2 caches" in refusal("merge", tmp_path / "n.h5", a, b, "--prefix", "x-")
    run("merge", tmp_path / "half.h5", a, b, "--prefix", ",b-")
    assert list(labels(tmp_path / "half.h5")) == ["E1", "E2", "b-E1", "b-E2"]
    driver("write", tmp_path / "c.cache", 0, 2)
    driver("write", tmp_path / "d.cache", 0, 2)
    run("merge", tmp_path / "failed.h5", tmp_path / "c.cache", tmp_path / "d.cache", "--prefix", "x-,y-")
    assert [failure["exam"] for failure in tool_json("info", tmp_path / "failed.h5")["failures"]] == ["x-broken", "y-broken"]
