"""ls and show: filters, and figures against numpy."""
import numpy as np
import pytest

from tool_support import driver, dump, features, refusal, run, tool, tool_json


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    path = tmp_path_factory.mktemp("inspection") / "x.h5"
    driver("write", path, 0, 9)
    return path, dump(path)


@pytest.mark.parametrize("conditions, expected", [
    (["label=yes"], "1357"),
    (["label!=yes"], "02468"),
    (["label=yes", "age>43"], "57"),
    (["age<=41"], "01"),
    (["age>=48"], "8"),
    (["age=41.0"], "1"),
    (["größe/cm="], "036"),
    (["größe/cm<152"], "1"),
    (["patient=P1"], "23"),
    (["missing>0", "frames<6"], "238"),
    (["span>1.4"], "5"),
    (["kind=images", "exam != 4"], "01235678"),
    (["label=none"], ""),
])
def test_where(cache, conditions, expected):
    path, _ = cache
    words = [word for condition in conditions for word in ("--where", condition)]
    assert "".join(exam["id"] for exam in tool_json("ls", path, *words)) == expected
    lines = tool("ls", path, *words).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(expected)


@pytest.mark.parametrize("condition, words", [
    ("label", "is not a condition"),
    ("=yes", "is not a condition"),
    ("label!yes", "is not a condition"),
    ("lable=yes", "did you mean 'label'"),
    ("age<old", "not a number"),
    ("age>nan", "not a number"),
    ("age>", "not a number"),
])
def test_conditions_that_mean_nothing(cache, condition, words):
    assert words in refusal("ls", cache[0], "--where", condition)


def test_show_against_numpy(cache):
    path, dumped = cache
    shown = tool_json("show", path, "5")
    rows = features(dumped[5]).astype(float)
    present = np.array(dumped[5]["present"], bool)
    assert [frame["present"] for frame in shown["frames"]] == present.tolist()
    assert [frame["time_s"] for frame in shown["frames"]] == dumped[5]["time_s"]
    assert [frame["source"] for frame in shown["frames"]] == dumped[5]["frame_source"]
    norms = [frame["norm"] for frame in shown["frames"]]
    np.testing.assert_allclose([norms[t] for t in np.flatnonzero(present)], np.linalg.norm(rows[present], axis=1))
    assert norms[3] is None
    unit = rows[present] / np.linalg.norm(rows[present], axis=1, keepdims=True)
    cosines = [frame["cosine_to_previous"] for frame in shown["frames"]]
    assert cosines[0] is None and cosines[3] is None
    np.testing.assert_allclose([c for c in cosines if c is not None], (unit[1:] * unit[:-1]).sum(1), rtol=1e-9)
    text = tool("show", path, "5").stdout
    assert "missing" in text and text.splitlines()[-3].count("▁") >= 1


def test_show_names_what_is_near_or_failed(cache):
    assert "no exam '55'" in refusal("show", cache[0], "55")
    assert "cannot be decoded" in refusal("show", cache[0], "broken")
    assert "no view 'x'" in refusal("show", cache[0], "5", "--view", "x")
    assert "2 were expected" in refusal("show", cache[0])


def test_names_cannot_steer_a_terminal(tmp_path):
    """Control characters and marks of direction are shown as escapes, which JSON reads as the characters themselves."""
    name = "\x1b[2J\u009b31m\u202egnp.x"
    for number, cache in enumerate(["a", "b"]):
        np.save(tmp_path / "f.npy", np.eye(4, dtype=np.float32)[number : number + 2])
        (tmp_path / "f.csv").write_text(f"exam\n{name}\n{name}{cache}\n")
        run("import", tmp_path / f"{cache}.h5", tmp_path / "f.npy", tmp_path / "f.csv", "--describe", name)
    both = [tmp_path / "a.h5", tmp_path / "b.h5"]
    texts = [tool("diff", *both).stdout, tool("info", both[0]).stdout, tool("ls", both[0]).stdout, refusal("show", both[0], name + "?")]
    for text in texts:
        assert r"\u001b[2J\u009b31m\u202egnp.x" in text and not set("\x1b\u009b\u202e") & set(text), text
    assert tool_json("ls", both[0])[0]["id"] == name
    assert tool_json("diff", *both)["different"][0]["exam"] == name
