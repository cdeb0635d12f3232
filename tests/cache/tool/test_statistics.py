"""stats against numpy."""
import numpy as np
import pytest

from tool_support import tool, tool_json


@pytest.fixture(scope="module")
def features_of_rank(tmp_path_factory):
    """npy + CSV of features with a known spectrum, two exams nearly alike; imported."""
    folder = tmp_path_factory.mktemp("rank")
    rng = np.random.default_rng(3)
    values = rng.normal(size=(240, 10)) @ rng.normal(size=(10, 32)) + 5
    values[230:240] = values[20:30] + 1e-3
    values[:, 7] = 0.25
    np.save(folder / "f.npy", values.astype(np.float32))
    lines = ["exam,patient,label"] + [f"e{i // 10},p{i // 20},{'ab'[i // 120]}" for i in range(240)]
    (folder / "f.csv").write_text("\n".join(lines) + "\n")
    result = tool("import", folder / "x.h5", folder / "f.npy", folder / "f.csv", "--describe", "made up",
                  "--store", "float32")
    assert result.returncode == 0, result.stderr
    return folder / "x.h5", values.astype(np.float32).astype(float)


def test_stats_against_numpy(features_of_rank):
    path, values = features_of_rank
    view = tool_json("stats", path)["views"]["clean"]
    singular = np.linalg.svd(values - values.mean(0), compute_uv=False)
    share = singular / singular.sum()
    share = share[share > 0]
    assert view["effective_rank"] == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-3)
    assert view["dead_dimensions"] == 1 and view["first_dead_dimensions"] == [7]
    assert view["values"]["mean"] == pytest.approx(values.mean())
    assert view["values"]["deviation"] == pytest.approx(values.std())
    assert view["values"]["deviation_of_dimensions"]["max"] == pytest.approx(values.std(0).max())
    means = values.reshape(24, 10, 32).mean(1)
    means -= means.mean(0)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = means @ means.T
    near = view["near_duplicates"]
    expected = [(f"e{a}", f"e{b}") for a in range(24) for b in range(a) if cosines[a, b] >= 0.999 and a // 2 != b // 2]
    assert near["pairs"] == len(expected) == 1
    assert near["closest"][0]["exams"] == ["e2", "e23"]
    assert near["closest"][0]["cosine"] == pytest.approx(cosines[2, 23], abs=1e-6)
    assert view["identical_exams"] == []


def test_stats_of_some_exams(features_of_rank):
    path, values = features_of_rank
    stats = tool_json("stats", path, "--where", "label=b")
    assert stats["exams"] == 12 and stats["views"]["clean"]["rows"] == 120
    norms = np.linalg.norm(values[120:], axis=1)
    assert stats["views"]["clean"]["norm"]["median"] == pytest.approx(np.median(norms))
    nothing = tool_json("stats", path, "--where", "label=c")["views"]["clean"]
    assert nothing["rows"] == 0 and nothing["norm"] is None and nothing["effective_rank"] == 0
