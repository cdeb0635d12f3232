"""export, pack, diff: outputs against numpy, pandas and the example reader, bit for bit."""

import numpy as np
import pandas as pd
import pytest

import coldframe
from tool_support import driver, dump, refusal, run, tool, tool_json


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("exchange") / "x.h5"
    driver("write", path, 0, 9)
    return path, coldframe.open(path)


def halves(array):
    """Bits, so that NaN equals NaN."""
    assert array.dtype == np.float16
    return array.view(np.uint16)


def stored(reader, exams, view="clean"):
    return np.concatenate([reader.features(exam, view) for exam in exams]).astype(np.float16)


@pytest.mark.parametrize("where, view", [((), "clean"), (("--where", "label=yes"), "flip/1")])
def test_export_equals_the_cache_bit_for_bit(cache, tmp_path, where, view):
    path, reader = cache
    out = tmp_path / "x.npy"
    run("export", out, path, "--view", view, *where)
    exams = pd.read_csv(tmp_path / "x.exams.csv", dtype=str, keep_default_na=False)
    frames = pd.read_csv(tmp_path / "x.frames.csv", keep_default_na=False, na_values={"time_s": [""]})
    chosen = [exam for exam in reader.exams["exam"] if not where or reader.exams.set_index("exam")["label"][exam] == "yes"]
    assert exams["exam"].tolist() == chosen
    expected = stored(reader, chosen, view)
    tables = pd.concat([reader.frames(exam) for exam in chosen])
    np.testing.assert_array_equal(halves(np.load(out)), halves(expected))
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
    np.testing.assert_array_equal(halves(features.astype(np.float16)), halves(stored(reader, reader.exams["exam"], view)))
    assert table["exam"].tolist() == [exam["id"] for exam in exams for _ in exam["present"]]
    assert table["label"].tolist() == [exam["columns"]["label"] for exam in exams for _ in exam["present"]]
    assert table["age"].tolist() == [int(exam["columns"]["age"]) for exam in exams for _ in exam["present"]]
    assert table["present"].tolist() == [bool(present) for exam in exams for present in exam["present"]]
    np.testing.assert_array_equal(table["time_s"], [time for exam in exams for time in exam["time_s"]])


def test_the_readers_table_keeps_columns_of_one_name_apart(tmp_path):
    np.save(tmp_path / "f.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    (tmp_path / "f.csv").write_text("exam,f1,index,phase\na,7,8,x\na,7,8,y\nb,9,9,z\n")
    run("import", tmp_path / "x.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "t", "--frame-columns", "phase")
    table = coldframe.open(tmp_path / "x.h5").table()
    assert table.columns.is_unique and table["f1"].tolist() == [1, 3, 5]
    assert table["column f1"].tolist() == [7, 7, 9] and table["index"].tolist() == [8, 8, 9]
    assert table["frame index"].tolist() == [0, 1, 0] and table["phase"].tolist() == list("xyz")


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


def test_damage_is_neither_the_same_nor_half_an_export(tmp_path):
    values = np.random.default_rng(5).normal(size=(6, 8)).astype(np.float32)
    np.save(tmp_path / "f.npy", values)
    pd.DataFrame({"exam": list("aabbcc")}).to_csv(tmp_path / "f.csv", index=False)
    whole = tmp_path / "whole.h5"
    run("import", whole, tmp_path / "f.npy", tmp_path / "f.csv", "--describe", "one", "--store", "float32")
    content = bytearray(whole.read_bytes())
    content[content.index(values[2].tobytes()) + 5] ^= 1
    (tmp_path / "damaged.h5").write_bytes(content)
    assert "exam 'b'" in refusal("diff", whole, tmp_path / "damaged.h5")
    before = sorted(tmp_path.iterdir())
    assert "exam 'b'" in refusal("export", tmp_path / "ex.npy", tmp_path / "damaged.h5")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["x", "x.npz", "x.parquet"])
def test_export_says_which_format_there_is(cache, tmp_path, name):
    message = refusal("export", tmp_path / name, cache[0])
    assert "are exported to .npy" in message and "coldframe.open" in message
    assert not list(tmp_path.iterdir())


def test_export_replaces_only_when_told(cache, tmp_path):
    (tmp_path / "x.frames.csv").write_text("mine")
    assert "--overwrite" in refusal("export", tmp_path / "x.npy", cache[0])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.frames.csv"]
    run("export", tmp_path / "x.npy", cache[0], "--overwrite")
    assert (tmp_path / "x.frames.csv").read_text().startswith("exam,slot,")
