"""import: what numpy and other programs saved, what export wrote, and what cannot be."""

import h5py
import numpy as np
import pandas as pd
import pytest

import coldframe
from tool_support import driver, dump, refusal, run, tool, tool_json


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("exchange") / "x.h5"
    driver("write", path, 0, 9)
    return path


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_import_reads_back_what_numpy_saved(tmp_path, dtype):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(12, 5)).astype(np.float16).astype(dtype)
    values[4] = np.nan
    np.save(tmp_path / "f.npy", values)
    names = ["b", "a", "b", "c", "a", "a", "b", "c", "c", "c", "c", "c"]  # exams need not be in one piece
    table = pd.DataFrame({"exam": names, "time": [str(3 + 0.5 * i) for i in range(12)], "patient": names,
                          "label": [n + "!" for n in names], "phase": [f"p{i}" for i in range(12)]})
    table.to_csv(tmp_path / "f.csv", index=False)
    run("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "test", "--frame-columns", "phase")
    reader = coldframe.open(tmp_path / "x.h5")
    assert reader.exams["exam"].tolist() == ["b", "a", "c"]
    assert reader.recipe["features"]["imported"] == "test"
    for exam in "abc":
        rows = [i for i, name in enumerate(names) if name == exam]
        np.testing.assert_array_equal(reader.features(exam), values[rows].astype(np.float32))
        frames = reader.frames(exam)
        assert frames["phase"].tolist() == [f"p{i}" for i in rows]
        np.testing.assert_allclose(frames["time_s"], [0.5 * (i - rows[0]) for i in rows])
        assert frames["present"].tolist() == [i != 4 for i in rows]
    assert tool("verify", tmp_path / "x.h5").returncode == 0
    assert "does not say with which options it was extracted" in refusal("info", tmp_path / "x.h5", "--options")


CSV = "exam,label\na,1\na,1\n"


@pytest.mark.parametrize("array, table, words", [
    (np.zeros((3, 4), np.float32), CSV, "2 rows and the features have 3"),
    (np.zeros((2, 4), np.int64), CSV, "'<i8'"),
    (np.zeros((2, 4), ">f4"), CSV, "'>f4'"),
    (np.zeros((2, 4, 2), np.float32), CSV, "(2, 4, 2)"),
    (np.zeros(2, np.float32), CSV, "(frames, dimension)"),
    (np.asfortranarray(np.zeros((2, 4), np.float32)), CSV, "Fortran"),
    (np.array([[1, np.nan], [1, 1]], np.float32), CSV, "1 of 2 features are NaN"),
    (np.array([[1, np.inf], [1, 1]], np.float32), CSV, "is inf"),
    (np.array([[1, 1e6], [1, 1]], np.float32), CSV, "--store float32"),
    (np.zeros((2, 4), np.float32), "exam,label\na,1\na,2\n", "--frame-columns"),
    (np.zeros((2, 4), np.float32), "exam,time\na,1\na,later\n", "expected seconds"),
    (np.zeros((2, 4), np.float32), "exam,frame\na,1\na,-2\n", "counted from 0"),
    (np.zeros((2, 4), np.float32), "exam\na\n\"\"\n", "is empty"),
    (np.zeros((2, 4), np.float32), "case\na\na\n", "'exam'"),
])
def test_import_refuses(tmp_path, array, table, words):
    np.save(tmp_path / "f.npy", array)
    (tmp_path / "f.csv").write_text(table)
    assert words in refusal("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["f.csv", "f.npy"]


def test_times_that_fall_within_an_exam_are_refused(tmp_path):
    np.save(tmp_path / "f.npy", np.arange(10, dtype=np.float32).reshape(5, 2))
    (tmp_path / "f.csv").write_text("exam,time\na,5\nb,9\na,\na,4.5\nb,9\n")
    words = [tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t"]
    told = refusal("import", tmp_path / "x.h5", *words)
    assert "f.csv, line 5: exam 'a': frame 2 has time -0.5 s before frame 0 at 0.0 s" in told and "--allow-unordered" in told
    assert not (tmp_path / "x.h5").exists()
    run("import", tmp_path / "x.h5", *words, "--allow-unordered")
    np.testing.assert_array_equal(coldframe.open(tmp_path / "x.h5").frames("a")["time_s"], [0, np.nan, -0.5])
    # A table that export wrote is judged alike.
    run("export", tmp_path / "e.npy", tmp_path / "x.h5")
    back = [tmp_path / "e.npy", tmp_path / "e.frames.csv", tmp_path / "e.exams.csv", "--recipe", tmp_path / "e.recipe.json"]
    assert "exam 'a': frame 2" in refusal("import", tmp_path / "y.h5", *back)
    run("import", tmp_path / "y.h5", *back, "--allow-unordered")


def test_damaged_npy_files_end_in_one_error(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros((2, 4), np.float32))
    (tmp_path / "f.csv").write_text(CSV)
    content = (tmp_path / "f.npy").read_bytes()
    cases = [content[:n] for n in (0, 5, 9, 11, 40, 127, 128, 159)] + [content + b"x"]
    cases += [content.replace(b"(2, 4)", shape) for shape in (b"(2,-4)", b"(-2,4)", b"(9e9,)", b"(2, 0)")]
    cases += [b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + content[10:], content.replace(b"(2, 4)", b"(4611686018427387904, 4)")]
    cases += [content.replace(b"(2, 4)", b"(2,,4)"), content.replace(b"False", b"Xrue ")]
    for damaged in cases:
        (tmp_path / "f.npy").write_bytes(damaged)
        refusal("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t")
    assert not (tmp_path / "x.h5").exists()


def test_import_takes_what_export_wrote(tmp_path):
    """Missing frames, unknown times, columns with the names of ours, frame columns, a failure."""
    driver("write", tmp_path / "bare.h5", 0, 9)
    run("pack", tmp_path / "x.h5", tmp_path / "bare.h5", "--without-thumbnails", "--without-cut")
    run("export", tmp_path / "x.npy", tmp_path / "x.h5")
    tables = [tmp_path / "x.exams.csv", tmp_path / "x.frames.csv"]
    for order in (1, -1):
        run("import", tmp_path / f"back{order}.h5", tmp_path / "x.npy", *tables[::order],
            "--recipe", tmp_path / "x.recipe.json")
        result = tool_json("diff", tmp_path / "x.h5", tmp_path / f"back{order}.h5")
        # One view alone is exported.
        assert result.pop("recipe") == ["views: A has clean, flip/1, B clean"] and result["different"] == []
        assert result["common"] == 9 and result["only_in_a"] == result["only_in_b"] == []
        before, after = dump(tmp_path / "x.h5"), dump(tmp_path / f"back{order}.h5")
        for a, b in zip(before, after):
            del a["views"]["flip/1"]
            assert a == b
        infos = [tool_json("info", tmp_path / name) for name in ("x.h5", f"back{order}.h5")]
        for key in ("feature_digest", "cache_digest", "storage", "precision", "source_kinds", "time"):
            assert infos[0][key] == infos[1][key], key
        assert tool("verify", tmp_path / f"back{order}.h5").returncode == 0


@pytest.mark.parametrize("order", [sorted, lambda names: list(names)[::-1], lambda names: [*list(names)[3:], *list(names)[:3]]],
                         ids=["sorted", "reversed", "turned"])
def test_import_knows_exported_tables_by_the_names_of_their_columns(tmp_path, order):
    """pandas writes columns in another order."""
    driver("write", tmp_path / "bare.h5", 0, 9)
    run("pack", tmp_path / "x.h5", tmp_path / "bare.h5", "--without-thumbnails", "--without-cut")
    run("export", tmp_path / "x.npy", tmp_path / "x.h5")
    tables = [tmp_path / "x.exams.csv", tmp_path / "x.frames.csv"]
    for table in tables:
        read = pd.read_csv(table, dtype=str, keep_default_na=False)
        read[order(read.columns)].to_csv(table, index=False)
    for turned in (1, -1):
        run("import", tmp_path / f"back{turned}.h5", tmp_path / "x.npy", *tables[::turned], "--recipe", tmp_path / "x.recipe.json")
        for a, b in zip(dump(tmp_path / "x.h5"), dump(tmp_path / f"back{turned}.h5"), strict=True):
            del a["views"]["flip/1"]
            assert a == b
    for table, column in zip(tables, ("start_time", "source")):
        read = pd.read_csv(table, dtype=str, keep_default_na=False)
        read.drop(columns=column).to_csv(tmp_path / "less.csv", index=False)
        others = [tmp_path / "less.csv" if name == table else name for name in tables]
        refused = refusal("import", tmp_path / "y.h5", tmp_path / "x.npy", *others, "--recipe", tmp_path / "x.recipe.json")
        assert f"of a table that `coldframe cache export` wrote, and not '{column}'" in refused


def test_import_and_export_keep_columns_that_are_named_like_ours(tmp_path):
    np.save(tmp_path / "f.npy", np.eye(3, 4, dtype=np.float32))
    (tmp_path / "f.csv").write_text("exam,frames,width,slot,thumbnail\na,7,8,x,1\na,7,8,y,2\nb,9,9,z,3\n")
    run("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t", "--frame-columns", "slot,thumbnail")
    run("export", tmp_path / "x.npy", tmp_path / "x.h5")
    run("import", tmp_path / "y.h5", tmp_path / "x.npy", tmp_path / "x.frames.csv", tmp_path / "x.exams.csv", "--recipe", tmp_path / "x.recipe.json")
    assert dump(tmp_path / "y.h5") == dump(tmp_path / "x.h5")
    assert tool("diff", tmp_path / "x.h5", tmp_path / "y.h5").stdout == "the same: 2 exams\n"


def test_import_refuses_tables_that_do_not_fit(cache, tmp_path):
    run("export", tmp_path / "x.npy", cache)
    run("export", tmp_path / "flip.npy", cache, "--view", "flip/1")
    exams, frames, recipe = (tmp_path / f"x.{name}" for name in ("exams.csv", "frames.csv", "recipe.json"))

    def message(*words, recipe=("--recipe", recipe)):
        return refusal("import", tmp_path / "y.h5", tmp_path / "x.npy", *words, *recipe)

    assert "name that of the frames too" in message(exams)
    assert f"say --recipe {recipe}" in message(frames, exams, recipe=())
    assert "give one" in message(frames, exams, recipe=("--recipe", recipe, "--describe", "t"))
    assert "leave --store out" in message(frames, exams, "--store", "float32")
    assert "3 tables" in message(frames, exams, exams)
    assert "of the view 'flip/1'" in message(frames, exams, recipe=("--recipe", tmp_path / "flip.recipe.json"))
    lines = exams.read_text().splitlines()
    exams.write_text("\n".join(lines[:-1]) + "\n")
    assert "exam '8' is missing, which" in message(frames, exams)
    exams.write_text("\n".join(lines + [lines[-1]]) + "\n")
    assert "exam '8' has two rows" in message(frames, exams)
    exams.write_text("\n".join(lines + [lines[-1].replace("8,", "z,", 1)]) + "\n")
    assert "exam 'z' has no frame" in message(frames, exams)
    exams.write_text("\n".join(lines) + "\n")
    frames.write_text(frames.read_text().replace(",1,", ",0,", 1))
    assert "the features say that the frame is there" in message(frames, exams)
    assert not (tmp_path / "y.h5").exists()


def test_other_formats_are_refused(tmp_path):
    np.savez(tmp_path / "f.npz", features=np.zeros((2, 4), np.float32))
    (tmp_path / "f.csv").write_text(CSV)
    assert "numpy.save writes it" in refusal("import", tmp_path / "x.h5", tmp_path / "f.npz", tmp_path / "f.csv", "--describe", "t")
    assert not (tmp_path / "x.h5").exists()


def test_a_folder_of_other_things_and_an_old_cache_are_left_alone(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros((1, 2), np.float32))
    pd.DataFrame({"exam": ["a"]}).to_csv(tmp_path / "f.csv", index=False)
    words = [tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "test"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/diary.txt").write_text("dear diary")
    assert "holds other things" in refusal("import", tmp_path / "notes", *words)
    run("import", tmp_path / "x.h5", *words)
    assert "is there already" in refusal("import", tmp_path / "x.h5", *words)


def test_times_may_be_dates(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros((5, 2), np.float32))
    table = pd.DataFrame({"exam": ["a", "a", "a", "b", "b"],
                          "time": ["2024-03-01T12:30:00", "2024-03-01 12:30:02.5", "20240302T123000", "3", "4.5"]})
    table.to_csv(tmp_path / "f.csv", index=False)
    run("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "test")
    with h5py.File(tmp_path / "x.h5") as file:
        assert list(file["frames/time_s"]) == [0, 2.5, 86400, 0, 1.5]
        assert file["exams/start_time"][0] == pd.Timestamp("2024-03-01T12:30").timestamp()
        assert np.isnan(file["exams/start_time"][1])
    for value, said in [("4", "mixes seconds with dates"), ("noon", "expected seconds such as 12.5 or a date")]:
        table["time"] = ["2024-03-01", value, "2024-03-02", "1", "2"]
        table.to_csv(tmp_path / "f.csv", index=False)
        assert said in refusal("import", tmp_path / "y.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "test")
