"""predict --explain of linear models of summaries: from the training's mean summary, by numpy from the model files' tensors."""
import numpy as np
import pandas as pd
import pytest
from training_support import exam, make_cache, quick, succeed

from summary_reference import FAMILIES, explained, read, temperature_of

DIMENSION = 4


def marked(family, length, label, random):
    """Feature 0 of an exam's frames: this summary alone, or it best, tells the label."""
    values, level = random.normal(0, 0.2, length), random.normal(0, 10)
    place = random.integers(length)
    if family == "mean":
        return values + 3 * label
    if family in ("maximum", "minimum"):
        others = abs(random.normal(0, 6, length))  # on the other side of the frame that tells
        others[place] = values[place] - 3 * label
        return others if family == "minimum" else -others
    if family == "standard deviation":
        return level + values * (1 + 9 * label)
    values[1:-1] += random.normal(0, 6, max(length - 2, 0))
    values[-1] += 3 * label
    return level + values


@pytest.mark.parametrize("family", ["mean", "maximum", "minimum", "standard deviation", "last − first"])
def test_contributions_are_as_defined(tmp_path, family):
    random = np.random.default_rng(3)
    exams, features = [], []
    for number in range(80):
        label, length = number // 2 % 2, 1 if number % 20 == 0 else 5 + number % 4
        x = random.normal(0, 0.3, (length, DIMENSION))
        x[:, 0] = marked(family, length, label, random)
        exams.append(exam(number, length, str(label)))
        features.append(x.astype(np.float16).astype(float))
    cache, run = make_cache(tmp_path, exams, features), tmp_path / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run, *quick("--folds", 2, model="summary"))
    models = []
    for path in sorted(run.rglob("fold-*.safetensors")):
        tensors, metadata = read(path)
        models.append(({name: tensor.astype(float) for name, tensor in tensors.items()}, temperature_of(metadata)))
        assert [FAMILIES[int(each)] for each in tensors["family"]] == [family] * 2
    assert len(models) == 2
    done = succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv", "--explain", tmp_path / "frames.csv")
    assert "from the training's mean summary" in done.stdout and "mean images" not in done.stdout
    rows = pd.read_csv(tmp_path / "frames.csv")
    largest = 0
    for entry, x in zip(exams, features):
        own = rows[rows.exam == entry["id"]]
        frames, _, output, baseline = (np.mean(each, 0) for each in zip(*(explained([family] * 2, *model, x) for model in models)))
        np.testing.assert_allclose(own.contribution, frames, rtol=2e-4, atol=1e-4)  # the quadrature's
        assert own.output.iloc[0] == pytest.approx(output, abs=1e-4)
        assert own.baseline.iloc[0] == pytest.approx(baseline, abs=1e-4)
        assert own.contribution.sum() == pytest.approx(output - baseline, abs=1e-4)
        largest = max(largest, abs(frames).max())
    assert largest > 0.02, "contributions must be there for this to mean anything"
    page = (run / "report.html").read_text()
    assert "integrated gradients from the training&#39;s mean summary" in page
    assert ", of the training&#39;s mean summary 0." in page and "mean images" not in page
