"""Mixed precision (--amp): close to float32, and really another arithmetic."""
import numpy as np
import pandas as pd
import pytest
from training_support import coldframe, quick, ramp_cache, succeed


def losses(folder, cache, name, *more):
    words = ["--target", "label", "--folds", 1, "--epochs", 8, "--patience", 0, "--clip", 0.5, *more]
    succeed("train", "--cache", cache, "--out", folder / name, *quick(*words))
    return pd.read_csv(folder / name / "metrics.csv")[["train_loss", "validation_loss"]].to_numpy()


@pytest.mark.parametrize("model", ["gru", "lstm", "transformer", "tcn", "attention"])
@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_half_precision_stays_near_float32(tmp_path, model, kind):
    cache = ramp_cache(tmp_path, 60, frames=6)
    full = losses(tmp_path, cache, "fp32", "--model", model)
    half = losses(tmp_path, cache, kind, "--model", model, "--amp", kind)
    assert np.abs(half - full).max() > 1e-7
    np.testing.assert_allclose(half, full, rtol=0.02 if kind == "bf16" else 0.005)


def test_another_word_is_refused(tmp_path):
    result = coldframe("train", "--cache", "x.cache", "--target", "label", "--out", tmp_path / "run", "--amp", "int8")
    assert result.returncode == 2 and "bf16" in result.stderr
