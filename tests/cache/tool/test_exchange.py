"""export, import, merge, pack, diff: outputs against numpy, pandas, safetensors and the example reader, bit for bit."""
import importlib.util
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy

from tool_support import ROOT, driver, dump, refusal, tool, tool_json

spec = importlib.util.spec_from_file_location("read_cache", ROOT / "examples" / "read_cache.py")
read_cache = importlib.util.module_from_spec(spec)
spec.loader.exec_module(read_cache)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("exchange") / "x.h5"
    driver("write", path, 0, 9)
    return path, read_cache.Cache(path)


def halves(array):
    """Bits, so that NaN equals NaN."""
    assert array.dtype == np.float16
    return array.view(np.uint16)


def stored(reader, exams, view="clean"):
    return np.concatenate([reader.features(exam, view) for exam in exams]).astype(np.float16)


def run(*words):
    result = tool(*words)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize("where, view", [((), "clean"), (("--where", "label=yes"), "flip/1")])
@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "csv"])
def test_export_equals_the_cache_bit_for_bit(cache, tmp_path, ending, where, view):
    path, reader = cache
    out = tmp_path / f"x.{ending}"
    run("export", path, out, "--view", view, *where)
    exams = pd.read_csv(tmp_path / "x.exams.csv", dtype=str, keep_default_na=False)
    frames = pd.read_csv(tmp_path / "x.frames.csv", keep_default_na=False, na_values={"time_s": [""]})
    chosen = [exam for exam in reader.exams["id"] if not where or reader.exams.set_index("id")["label"][exam] == "yes"]
    assert exams["exam"].tolist() == chosen
    expected = stored(reader, chosen, view)
    tables = pd.concat([reader.frames(exam) for exam in chosen])
    if ending == "npy":
        np.testing.assert_array_equal(halves(np.load(out)), halves(expected))
    elif ending == "csv":
        table = pd.read_csv(out, dtype={f"f{d}": np.float32 for d in range(40)})
        np.testing.assert_array_equal(halves(table.filter(regex=r"^f\d").to_numpy().astype(np.float16)), halves(expected))
        assert table["exam"].astype(str).tolist() == frames["exam"].astype(str).tolist()
    else:
        arrays = dict(np.load(out)) if ending == "npz" else safetensors.numpy.load_file(out)
        assert set(arrays) == {"features", "offset", "time_s", "index", "present"}
        np.testing.assert_array_equal(halves(arrays["features"]), halves(expected))
        np.testing.assert_array_equal(arrays["offset"], np.cumsum([0, *exams["frames"].astype(int)]))
        for name in ("time_s", "index", "present"):
            np.testing.assert_array_equal(arrays[name], tables[name].to_numpy().astype(arrays[name].dtype))
    assert exams["offset"].astype(int).tolist() == np.cumsum([0, *exams["frames"].astype(int)])[:-1].tolist()
    assert exams["größe/cm"].tolist() == [dump_column(path, exam) for exam in chosen]
    assert frames["phase"].tolist() == ["é"] * len(frames)
    np.testing.assert_array_equal(frames["time_s"], tables["time_s"])
    assert frames["source"].tolist() == tables["source"].tolist()


def dump_column(path, exam):
    return next(each["columns"]["größe/cm"] for each in dump(path) if each["id"] == exam)


@pytest.mark.parametrize("view", ["clean", "flip/1"])
def test_parquet_through_the_example_reader(cache, tmp_path, view):
    path, reader = cache
    reader.table(view).to_parquet(tmp_path / "x.parquet")
    table = pd.read_parquet(tmp_path / "x.parquet")
    exams = dump(path)
    features = table.filter(regex=r"^f\d+$").to_numpy()
    assert features.dtype == np.float32 and features.shape == (len(table), reader.dimension)
    np.testing.assert_array_equal(halves(features.astype(np.float16)), halves(stored(reader, reader.exams["id"], view)))
    assert table["exam"].tolist() == [exam["id"] for exam in exams for _ in exam["present"]]
    assert table["label"].tolist() == [exam["columns"]["label"] for exam in exams for _ in exam["present"]]
    assert table["age"].tolist() == [int(exam["columns"]["age"]) for exam in exams for _ in exam["present"]]
    assert table["present"].tolist() == [bool(present) for exam in exams for present in exam["present"]]
    np.testing.assert_array_equal(table["time_s"], [time for exam in exams for time in exam["time_s"]])


def test_the_readers_table_keeps_columns_of_one_name_apart(tmp_path):
    np.save(tmp_path / "f.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    (tmp_path / "f.csv").write_text("exam,f1,index,phase\na,7,8,x\na,7,8,y\nb,9,9,z\n")
    run("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t", "--frame-columns", "phase")
    table = read_cache.Cache(tmp_path / "x.h5").table()
    assert table.columns.is_unique and table["f1"].tolist() == [1, 3, 5]
    assert table["column f1"].tolist() == [7, 7, 9] and table["index"].tolist() == [8, 8, 9]
    assert table["frame index"].tolist() == [0, 1, 0] and table["phase"].tolist() == list("xyz")


def test_npz_is_a_sound_archive_and_safetensors_tell_the_recipe(cache, tmp_path):
    run("export", cache[0], tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None
    run("export", cache[0], tmp_path / "y.safetensors")
    with safetensors.safe_open(tmp_path / "y.safetensors", "np") as file:
        assert json.loads(file.metadata()["recipe"]) == cache[1].recipe


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
    reader = read_cache.Cache(tmp_path / "x.h5")
    assert reader.exams["id"].tolist() == ["b", "a", "c"]
    assert reader.recipe["features"]["imported"] == "test"
    for exam in "abc":
        rows = [i for i, name in enumerate(names) if name == exam]
        np.testing.assert_array_equal(reader.features(exam), values[rows].astype(np.float32))
        frames = reader.frames(exam)
        assert frames["phase"].tolist() == [f"p{i}" for i in rows]
        np.testing.assert_allclose(frames["time_s"], [0.5 * (i - rows[0]) for i in rows])
        assert frames["present"].tolist() == [i != 4 for i in rows]
    assert tool("verify", tmp_path / "x.h5").returncode == 0


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


def test_damaged_npy_files_end_in_one_error(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros((2, 4), np.float32))
    (tmp_path / "f.csv").write_text(CSV)
    content = (tmp_path / "f.npy").read_bytes()
    cases = [content[:n] for n in (0, 5, 9, 11, 40, 127, 128, 159)] + [content + b"x"]
    cases += [content.replace(b"(2, 4)", shape) for shape in (b"(2,-4)", b"(-2,4)", b"(9e9,)", b"(2, 0)")]
    cases += [b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + content[10:], content.replace(b"(2, 4)", b"(4611686018427387904, 4)")]
    for damaged in cases:
        (tmp_path / "f.npy").write_bytes(damaged)
        refusal("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t")
    assert not (tmp_path / "x.h5").exists()


def test_merge_of_an_array_jobs_parts_is_the_whole(cache, tmp_path):
    path, _ = cache
    driver("write", tmp_path / "a.cache", 0, 4)
    driver("write", tmp_path / "b.h5", 4, 9)
    merged = tool_json("merge", tmp_path / "all.h5", tmp_path / "a.cache", tmp_path / "b.h5")
    # Exam 4 of b took the place at which a's failure stands: places collide only between exams.
    assert merged["exams"] == 9 and merged["duplicates"] == 0 and not merged["renumbered"]
    assert dump(tmp_path / "all.h5") == dump(path)
    assert tool("verify", tmp_path / "all.h5").returncode == 0
    assert tool("diff", path, tmp_path / "all.h5").returncode == 0


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
    assert "imported" in refusal("merge", tmp_path / "o.h5", tmp_path / "a.h5", tmp_path / "c.h5")
    np.save(tmp_path / "e.npy", 2 * np.eye(2, 3, dtype=np.float32))
    run("import", tmp_path / "e.h5", tmp_path / "e.npy", tmp_path / "c.csv", "--describe", "t")
    assert "exam 'p' in" in refusal("merge", tmp_path / "o.h5", tmp_path / "c.h5", tmp_path / "e.h5")
    assert "is there already" in refusal("merge", tmp_path / "c.h5", tmp_path / "c.h5", tmp_path / "d.h5")
    assert "must end in .h5" in refusal("merge", tmp_path / "o.cache", tmp_path / "c.h5", tmp_path / "d.h5")
    assert not (tmp_path / "o.h5").exists()


ENDINGS = ["npy", "npz", "safetensors", "csv"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_import_takes_what_export_wrote(tmp_path, ending):
    """Missing frames, unknown times, columns with the names of ours, frame columns, a failure."""
    driver("write", tmp_path / "bare.h5", 0, 9)
    run("pack", tmp_path / "x.h5", tmp_path / "bare.h5", "--without-thumbnails")
    run("export", tmp_path / "x.h5", tmp_path / f"x.{ending}")
    tables = [tmp_path / "x.exams.csv", tmp_path / "x.frames.csv"]
    for order in (1, -1):
        run("import", tmp_path / f"back{order}.h5", tmp_path / f"x.{ending}", *tables[::order],
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


def test_import_and_export_keep_columns_that_are_named_like_ours(tmp_path):
    np.save(tmp_path / "f.npy", np.eye(3, 4, dtype=np.float32))
    (tmp_path / "f.csv").write_text("exam,frames,width,slot,thumbnail\na,7,8,x,1\na,7,8,y,2\nb,9,9,z,3\n")
    run("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t", "--frame-columns", "slot,thumbnail")
    run("export", tmp_path / "x.h5", tmp_path / "x.npy")
    run("import", tmp_path / "y.h5", tmp_path / "x.npy", tmp_path / "x.frames.csv", tmp_path / "x.exams.csv", "--recipe", tmp_path / "x.recipe.json")
    assert dump(tmp_path / "y.h5") == dump(tmp_path / "x.h5")
    assert tool("diff", tmp_path / "x.h5", tmp_path / "y.h5").stdout == "the same: 2 exams\n"


def test_import_refuses_tables_that_do_not_fit(cache, tmp_path):
    run("export", cache[0], tmp_path / "x.npy")
    run("export", cache[0], tmp_path / "flip.npy", "--view", "flip/1")
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


def test_damaged_feature_files_end_in_one_error(tmp_path):
    table = tmp_path / "f.csv"
    table.write_text(CSV)
    np.savez(tmp_path / "f.npz", features=np.zeros((2, 4), np.float32), other=np.zeros(3))
    safetensors.numpy.save_file({"features": np.zeros((2, 4), np.float32)}, tmp_path / "f.safetensors")
    (tmp_path / "g.csv").write_text("exam,slot,f0,f1\na,0,1,2\na,1,,\n")
    for name in ("f.npz", "f.safetensors", "g.csv"):
        run("import", tmp_path / f"{name}.h5", tmp_path / name, table, "--describe", "t")
    for name in ("f.npz", "f.safetensors"):
        content = (tmp_path / name).read_bytes()
        cases = [content[:n] for n in (0, 7, 8, 20, 60, len(content) - 9)]
        cases += [content.replace(b"[2,4]", shape) for shape in (b"[3,4]", b"[2]", b"[2,-4]")] if name == "f.safetensors" else []
        for damaged in cases:
            (tmp_path / f"d{name}").write_bytes(damaged)
            refusal("import", tmp_path / "x.h5", tmp_path / f"d{name}", table, "--describe", "t")
    np.savez_compressed(tmp_path / "c.npz", features=np.zeros((2, 4), np.float32))
    assert "numpy.savez" in refusal("import", tmp_path / "x.h5", tmp_path / "c.npz", table, "--describe", "t")
    np.savez(tmp_path / "n.npz", a=np.zeros((2, 4), np.float32), b=np.zeros(3))
    assert "no array `features`" in refusal("import", tmp_path / "x.h5", tmp_path / "n.npz", table, "--describe", "t")
    (tmp_path / "h.csv").write_text("exam,f0\na,1\na,two\n")
    assert "line 3: 'two' is not a number" in refusal("import", tmp_path / "x.h5", tmp_path / "h.csv", table, "--describe", "t")
    assert not (tmp_path / "x.h5").exists()


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
    for newer, older in ((a, b), (b, a)):
        os.utime(older, (1e9, 1e9))
        os.utime(newer, (1.5e9, 1.5e9))
        result = tool("merge", tmp_path / "newest.h5", a, b, "--prefer", "newest", "--json")
        assert result.returncode == 0 and "column label" in result.stderr
        report = json.loads(result.stdout)
        assert report["conflicts"] == [{"exam": "E1", "kept": str(newer), "other": str(older),
                                        "differences": [f"column label '{int(newer == b)}' -> '{int(newer == a)}'"]}]
        assert labels(tmp_path / "newest.h5") == {"E1": str(int(newer == b)), "E2": "0", "E3": "1"}
        (tmp_path / "newest.h5").unlink()
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


def test_pack_makes_one_file_of_a_folder(cache, tmp_path):
    driver("write", tmp_path / "x.cache", 0, 9)
    run("pack", tmp_path / "x.h5", tmp_path / "x.cache")
    assert dump(tmp_path / "x.h5") == dump(cache[0])
    assert (tmp_path / "x.h5").read_bytes() == cache[0].read_bytes()


def test_a_cache_is_packed_without_thumbnails(cache, tmp_path):
    path, reader = cache
    run("pack", tmp_path / "bare.h5", path, "--without-thumbnails")
    assert tool_json("info", tmp_path / "bare.h5")["thumbnail_bytes"] is None
    assert dump(tmp_path / "bare.h5") == [{**exam, "thumbnails": []} for exam in dump(path)]
    assert tool("verify", tmp_path / "bare.h5").returncode == 0
    before, after = (tool_json("info", file) for file in (path, tmp_path / "bare.h5"))
    assert before["feature_digest"] == after["feature_digest"] and before["cache_digest"] != after["cache_digest"]
    secret = bytes.fromhex(max(dump(path)[5]["thumbnails"], key=len))
    assert secret in path.read_bytes() and secret not in (tmp_path / "bare.h5").read_bytes()
    assert "thumbnails: cache has nothing, now 96" in refusal("merge", tmp_path / "m.h5", tmp_path / "bare.h5", path)
    merged = tool_json("merge", tmp_path / "m.h5", tmp_path / "bare.h5", path, "--without-thumbnails")
    assert merged["exams"] == merged["duplicates"] == 9


def test_thumbnails_are_exported_as_files(cache, tmp_path):
    path, reader = cache
    run("export", path, tmp_path / "x.npy", "--thumbnails", "--where", "label=yes")
    frames = pd.read_csv(tmp_path / "x.frames.csv", dtype=str, keep_default_na=False)
    named = 0
    for exam, slot, present, thumbnail in frames[["exam", "slot", "present", "thumbnail"]].values:
        expected = reader.thumbnail(exam, int(slot))
        assert (thumbnail != "") == (present == "1") == (expected != b"")
        if thumbnail:
            assert (tmp_path / thumbnail).read_bytes() == expected
            named += 1
    assert len(list(tmp_path.rglob("*.jpg"))) == named > 5
    assert "is there already" in refusal("export", path, tmp_path / "x.npz", "--thumbnails")
    made = ["x.exams.csv", "x.frames.csv", "x.npy", "x.recipe.json", "x.thumbnails"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == made
    (tmp_path / "x.thumbnails" / "old.jpg").write_text("old")
    run("export", path, tmp_path / "x.npy", "--thumbnails", "--where", "label=yes", "--overwrite")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == made
    assert len(list(tmp_path.rglob("*.jpg"))) == named
    np.save(tmp_path / "f.npy", np.ones((1, 2), np.float32))
    (tmp_path / "f.csv").write_text("exam\na\n")
    run("import", tmp_path / "none.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t")
    assert "the cache has none" in refusal("export", tmp_path / "none.h5", tmp_path / "y.npy", "--thumbnails")
    assert not list(tmp_path.glob("y*")) and not list(tmp_path.glob("coldframe*"))


def test_diff_tells_what_differs(tmp_path):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(6, 8)).astype(np.float32)
    table = pd.DataFrame({"exam": list("aabbcc"), "patient": list("ppqqrr"), "label": list("xxyyzz")})

    def make(name, array, rows, *options):
        np.save(tmp_path / "f.npy", array)
        rows.to_csv(tmp_path / "f.csv", index=False)
        run("import", tmp_path / name, tmp_path / "f.npy", tmp_path / "f.csv", *options)
        return tmp_path / name

    a = make("a.h5", values, table, "--describe", "one", "--store", "float32")
    other = values.copy()
    other[1, 3] += 0.25
    changed = table.replace({"exam": {"c": "d"}, "label": {"x": "w"}})
    b = make("b.h5", other, changed, "--describe", "two", "--store", "float32")
    result = tool_json("diff", a, b)
    assert result["recipe"] == ['imported: A has "one", B "two"']
    assert result["only_in_a"] == ["c"] and result["only_in_b"] == ["d"] and result["common"] == 2
    assert [entry["exam"] for entry in result["different"]] == ["a"]
    entry = result["different"][0]
    assert entry["metadata"] == ["column label 'x' -> 'w'"]
    cosines = [np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y)
               for x, y in zip(values[:2].astype(float), other[:2].astype(float))]
    assert entry["features"]["clean"]["min_cosine"] == pytest.approx(min(cosines))
    assert entry["features"]["clean"]["mean_cosine"] == pytest.approx(np.mean(cosines))
    assert entry["features"]["clean"]["max_difference"] == pytest.approx(0.25, abs=1e-6)
    text = tool("diff", a, b)
    assert text.returncode == 1 and "only in B (1): d" in text.stdout
    same = tool("diff", a, a)
    assert same.returncode == 0 and same.stdout == "the same: 3 exams\n"


@pytest.mark.parametrize("name", ["x", "x.txt", "x.parquet"])
def test_export_says_which_formats_there_are(cache, tmp_path, name):
    assert "safetensors" in refusal("export", cache[0], tmp_path / name)


def test_export_replaces_only_when_told(cache, tmp_path):
    (tmp_path / "x.frames.csv").write_text("mine")
    assert "--overwrite" in refusal("export", cache[0], tmp_path / "x.npy")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.frames.csv"]
    run("export", cache[0], tmp_path / "x.npy", "--overwrite")
    assert (tmp_path / "x.frames.csv").read_text().startswith("exam,slot,")
