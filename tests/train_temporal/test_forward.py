"""predict equals a PyTorch module that loads the same model.safetensors."""
import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from temporal_module import TemporalModel
from training_support import coldframe, make_cache, quick, ramp_exams

VARIANTS = {
    "mean": ["--temporal-pool", "mean"],
    "last": ["--temporal-pool", "last", "--layers", 2],
    "attention-time": ["--temporal-pool", "attention", "--time", "on"],
    "both-ways-last-time": ["--temporal-pool", "last", "--bidirectional", "--time", "on"],
    "bigru": ["--model", "bigru"],
    "decay": ["--time", "on", "--time-encoding", "decay", "--layers", 2],
    "time2vec": ["--time", "on", "--time-encoding", "time2vec", "--temporal-pool", "last"],
    "lstm-time": ["--model", "lstm", "--layers", 2, "--time", "on"],
    "lstm-both-ways-last": ["--model", "lstm", "--bidirectional", "--temporal-pool", "last"],
    "attention-alone": ["--model", "attention"],
    "mean-alone": ["--model", "mean"],
}


def uneven(exams, seed):
    random = np.random.default_rng(seed)
    for number, entry in enumerate(exams):
        steps = random.uniform(0.05, 2.0, len(entry["present"]))
        entry["time_s"] = list(np.cumsum(steps) - steps[0])
        if number % 4 == 0:
            entry["present"][2] = 0
        if number % 5 == 0:
            entry["time_s"] = [None] * len(steps)
        if number % 5 == 1:
            entry["time_s"][0] = None
    return exams


def time_inputs(times):
    """[T, 4]: log interval, seconds since the first frame, interval known, both of the latter known."""
    rows = np.zeros((len(times), 4), np.float32)
    for t, time in enumerate(times):
        if np.isnan(time):
            continue
        if not np.isnan(times[0]):
            rows[t, 3] = 1
            rows[t, 1] = time - times[0]
        if t > 0 and not np.isnan(times[t - 1]):
            rows[t, 0] = np.log(max(time - times[t - 1], 1e-4))
            rows[t, 2] = 1
    return rows


def reference_probabilities(run, exams, features):
    """Average over the run's models, on exams padded with NaN-free rubbish."""
    present = [np.array(e["present"], bool) for e in exams]
    rows = [f.astype(np.float16).astype(np.float32)[p] for f, p in zip(features, present)]
    times = [np.array([np.nan if t is None else t for t in e["time_s"]])[p]
             for e, p in zip(exams, present)]
    lengths = torch.tensor([len(r) for r in rows])
    padded = torch.full((len(rows), int(lengths.max()), rows[0].shape[1]), 7.0)
    time = torch.zeros(*padded.shape[:2], 4)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.from_numpy(row)
        time[i, : len(row)] = torch.from_numpy(time_inputs(times[i]))
    total, files = 0, sorted((run / "models").glob("*.safetensors"))
    for path in files:
        with safe_open(path, "pt") as file:
            card = json.loads(file.metadata()["card"])
            weights = {name: file.get_tensor(name) for name in file.keys()}
        model = TemporalModel(card["model"]).eval()
        model.load_state_dict(weights)
        with torch.no_grad():
            logits = model(padded, lengths, time if card["model"]["time"] else None)
        total = total + (logits.double() / card["temperature"]).softmax(1)
    return (total / len(files)).numpy()


@pytest.mark.parametrize("variant", VARIANTS)
def test_predict_equals_pytorch(tmp_path, variant):
    exams, features = ramp_exams(40, ragged=True)
    exams = uneven(exams, 1)
    for entry, values in zip(exams, features):
        values[~np.array(entry["present"], bool)] = np.nan
    cache = make_cache(tmp_path, exams, features)
    run = tmp_path / "run"
    trained = coldframe("train", "--cache", cache, "--target", "label", "--out", run,
                        *quick("--folds", 2, "--seeds", 2, *VARIANTS[variant]))
    assert trained.returncode == 0, trained.stderr
    predicted = coldframe("predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv")
    assert predicted.returncode == 0, predicted.stderr
    ours = pd.read_csv(tmp_path / "p.csv")
    theirs = reference_probabilities(run, exams, features)
    assert list(ours.exam) == [e["id"] for e in exams]
    np.testing.assert_allclose(ours[["p_0", "p_1"]], theirs, rtol=0, atol=1e-5)
    assert theirs.std() > 0.01, "the models must tell exams apart for this to mean anything"
