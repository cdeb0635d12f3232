"""A cache as Python sees it: h5py and pandas through the snippets of FORMAT.md, numpy's float16, the
tool's JSON, killed writers."""
import json
import random
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from tool_support import DRIVER, ROOT, TOOL, driver, tool


def snippets(path):
    text = (ROOT / "cache" / "FORMAT.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 3
    assert len([line for line in blocks[0].splitlines() if not line.startswith("import")]) == 2
    names = {}
    exec("".join(blocks).replace("x.h5", str(path)), names)
    return names


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("cache") / "x.h5"
    driver("write", path, 0, 9)
    return path, json.loads(driver("dump", path))


def test_h5py_reads_what_cpp_wrote(cache):
    path, dumped = cache
    names = snippets(path)
    f, offset = names["f"], names["offset"]
    assert len(dumped) == 9 and f.attrs["format"] == b"coldframe-cache"
    for i, exam in enumerate(dumped):
        rows = slice(offset[i], offset[i + 1])
        for view in exam["views"]:
            stored = f["features"][view.replace("/", "%2F")][rows]
            assert stored.dtype == np.float16
            expected = np.array([np.nan if v is None else v for v in exam["views"][view]], np.float32)
            np.testing.assert_array_equal(stored.astype(np.float32).ravel(), expected)
            kept = (names["cut"] if view == "clean" else f["cut"][view.replace("/", "%2F")])[rows]
            assert kept.dtype == np.float16 and kept.shape[1:] == (3, 5)
            expected = np.array([np.nan if v is None else v for v in exam["cut"][view]], np.float32)
            np.testing.assert_array_equal(kept.astype(np.float32).ravel(), expected)
            np.testing.assert_array_equal(np.isnan(expected.reshape(len(kept), -1)).all(1), np.array(exam["present"]) == 0)
        np.testing.assert_array_equal(f["frames/time_s"][rows], exam["time_s"])
        np.testing.assert_array_equal(f["frames/present"][rows], exam["present"])
        np.testing.assert_array_equal(f["frames/index"][rows], exam["frame_index"])
        assert list(f["frames/source"].asstr()[rows]) == exam["frame_source"]
        assert list(f["frames/columns/phase"].asstr()[rows]) == exam["frame_columns"]["phase"]
        files = [f["thumbnails/data"][slice(*f["thumbnails/offset"][row:row + 2])].tobytes().hex()
                 for row in range(offset[i], offset[i + 1])]
        assert files == exam["thumbnails"] and [bool(file) for file in files] == [bool(p) for p in exam["present"]]
    assert f["failures/reason"].asstr()[:].tolist() == ["cannot be decoded"]
    assert json.loads(f.attrs["recipe"])["features"]["preprocessing"]["image_size"] == 224


def test_pandas_reads_the_exams(cache):
    path, dumped = cache
    exams = snippets(path)["exams"]
    assert exams["id"].tolist() == [exam["id"] for exam in dumped]
    assert exams["patient"].tolist() == [exam["patient"] for exam in dumped]
    assert exams["frames"].tolist() == [len(exam["present"]) for exam in dumped]
    for name in ("label", "age", "größe/cm"):
        assert exams[name].tolist() == [exam["columns"][name] for exam in dumped]


def test_a_folder_has_the_same_content(cache, tmp_path):
    folder = tmp_path / "x.cache"
    driver("write", folder, 0, 9)
    assert json.loads(driver("dump", folder)) == cache[1]
    assert len(list(folder.glob("shard-*.h5"))) == 10  # one exam each, and the failure
    for shard in folder.glob("shard-*.h5"):
        snippets(shard)


def test_float16_equals_numpy(tmp_path):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 2_000_000, dtype=np.uint32)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    values = np.concatenate([bits.view(np.float32), rng.normal(0, 1e-5, 500_000).astype(np.float32),
                             rng.normal(0, 30, 500_000).astype(np.float32), halves])
    ours = np.frombuffer(driver("halves", input=values.tobytes()), np.uint16)
    with np.errstate(over="ignore"):
        theirs = values.astype(np.float16)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(ours[known], theirs.view(np.uint16)[known])
    assert (ours[~known] == 0x7E00).all()


def test_json_of_every_verb(cache):
    path, dumped = cache
    info = json.loads(tool("info", path, "--json").stdout)
    assert info["exams"] == 9 and info["dimension"] == 40 and info["storage"] == "float16"
    assert info["frames"] == sum(len(exam["present"]) for exam in dumped)
    assert info["exams_without_patient"] == 2 and info["bytes"] == path.stat().st_size
    assert info["failures"][0]["reason"] == "cannot be decoded"
    files = [file for exam in dumped for file in exam["thumbnails"] if file]
    assert info["thumbnail_bytes"] == sum(len(file) // 2 for file in files)
    assert info["cut"] == {"block": 2, "shape": [3, 5], "storage": "float16", "bytes": info["frames"] * 2 * 3 * 5 * 2}
    assert 0 < info["bytes_read"] < 3 * info["bytes"]
    columns = {column["name"]: column for column in info["columns"]}
    assert columns["label"]["type"] == "text" and columns["age"]["type"] == "integer"
    assert columns["größe/cm"]["missing"] == 3 and columns["größe/cm"]["min"] == 151
    listed = json.loads(tool("ls", path, "--json").stdout)
    assert [exam["id"] for exam in listed] == [exam["id"] for exam in dumped]
    assert [exam["frames"] for exam in listed] == [len(exam["present"]) for exam in dumped]
    view = json.loads(tool("stats", path, "--json").stdout)["views"]["clean"]
    rows = np.concatenate([np.array(exam["views"]["clean"], float).reshape(-1, 40) for exam in dumped])
    rows = rows[~np.isnan(rows).any(1)]
    norms = np.linalg.norm(rows, axis=1)
    assert view["norm"]["median"] == pytest.approx(np.median(norms))
    assert view["norm"]["p99"] == pytest.approx(np.quantile(norms, 0.99))
    assert view["duplicate_rows"] == len(rows) - len(np.unique(rows, axis=0))
    assert view["dead_dimensions"] == int((rows.min(0) == rows.max(0)).sum())
    verified = tool("verify", path, "--json")
    assert verified.returncode == 0 and json.loads(verified.stdout)["findings"] == []
    assert json.loads(verified.stdout)["thumbnails"] == len(files)
    for verb in ("info", "ls", "stats", "verify"):
        assert tool(verb, path).returncode == 0


def test_verify_ends_with_1_and_names_the_file(cache, tmp_path):
    damaged = tmp_path / "damaged.h5"
    content = bytearray(cache[0].read_bytes())
    content[content.index(b"cannot be decoded")] ^= 1  # of the metadata, which info reads
    damaged.write_bytes(content)
    result = tool("verify", damaged, "--json")
    findings = json.loads(result.stdout)["findings"]
    assert result.returncode == 1 and findings[0]["file"] == str(damaged)
    assert tool("info", damaged).returncode == 3


@pytest.mark.parametrize("name, words", [("nothing", "no such cache"), ("", "without shards")])
def test_errors_say_what_is_there(tmp_path, name, words):
    for verb in ("info", "ls", "stats", "verify"):
        result = tool(verb, tmp_path / name)
        assert result.returncode == 3 and words in result.stderr and result.stdout == ""


def test_the_tool_loads_no_libtorch_and_no_opencv():
    libraries = subprocess.run(["ldd", TOOL], capture_output=True, text=True).stdout
    assert "hdf5" in libraries and "torch" not in libraries and "opencv" not in libraries


@pytest.mark.parametrize("name", ["x.h5", "x.cache"])
def test_a_killed_writer_loses_nothing_acknowledged(tmp_path, name):
    path, rng = tmp_path / name, random.Random(name)
    acknowledged = []
    for _ in range(4):
        first = len(acknowledged)
        with open(tmp_path / "log", "wb") as log:
            writer = subprocess.Popen([DRIVER, "write", path, str(first), str(first + 12)], stdout=log)
            exams = rng.randrange(12)  # that it has acknowledged, at least, when it is killed
            while len((tmp_path / "log").read_text().split()) < exams and writer.poll() is None:
                time.sleep(0.001)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        acknowledged += (tmp_path / "log").read_text().split()
        if not acknowledged:
            continue
        cached = [exam["id"] for exam in json.loads(driver("dump", path))]
        assert set(acknowledged) <= set(cached)
        # An exam may be on disk although its line was not printed any more.
        acknowledged = [str(i) for i in range(len(cached))]
        assert cached == acknowledged
    driver("write", path, len(acknowledged), len(acknowledged) + 2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([name, "log"])
    assert tool("verify", path).returncode == 0


def test_a_cache_has_more_shards_than_a_process_may_have_files(tmp_path):
    folder = tmp_path / "x.cache"
    driver("write", folder, 0, 60)
    assert len(list(folder.glob("shard-*.h5"))) > 40
    limited = ["bash", "-c", 'ulimit -n 24; exec "$@"', "-", TOOL, "stats", folder]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode in (0, 1) and "Too many open files" not in done.stderr, done.stderr
    assert done.stdout == subprocess.run(limited[4:], capture_output=True, text=True).stdout


def test_several_caches_together_have_more_shards_than_a_process_may_have_files(tmp_path):
    caches = [tmp_path / f"{number}.cache" for number in range(5)]
    for number, cache in enumerate(caches):
        driver("write", cache, 12 * number, 12 * number + 12)
        assert len(list(cache.glob("shard-*.h5"))) > 6
    limited = ["bash", "-c", 'ulimit -n 24; exec "$@"', "-", TOOL, "merge", tmp_path / "all.h5", *caches]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    driver("write", tmp_path / "whole.cache", 0, 60)
    assert tool("diff", tmp_path / "whole.cache", tmp_path / "all.h5").returncode == 0


@pytest.mark.parametrize("name", ["x.h5", "x.cache"])
def test_what_h5py_cut_off_is_repaired(tmp_path, name):
    """Mode r+ was h5py's default for long, and HDFView's is: opening and closing a file cuts its trailer off."""
    path = tmp_path / name
    driver("write", path, 0, 5)
    files = sorted(path.glob("shard-*.h5")) or [path]
    before = {file: file.read_bytes() for file in files}
    for file in files:
        with h5py.File(file, "r+") as opened:
            opened["exams/id"][:]
        assert file.read_bytes() == before[file][:-32]
    for verb in ("info", "ls", "verify"):
        refused = tool(verb, path)
        assert refused.returncode != 0 and "cache verify --repair" in refused.stdout + refused.stderr
    assert sum(file.read_bytes() == before[file] for file in files) == 0
    with h5py.File(files[0], "r+") as opened:
        writing = tool("verify", path, "--repair")
        assert writing.returncode == 1 and "being written by another program" in writing.stdout
    repaired = tool("verify", path, "--repair", "--json")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert json.loads(repaired.stdout)["repaired"] == [str(files[0])]
    assert {file: file.read_bytes() for file in files} == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [name]

    with h5py.File(files[0], "r+") as opened:
        rows = opened["features/clean"]
        rows[0, 0] = np.float16(float(rows[0, 0]) + 1)
    changed = files[0].read_bytes()
    refused = tool("verify", path, "--repair")
    assert refused.returncode == 1 and "do not match their checksum" in refused.stdout
    assert files[0].read_bytes() == changed
