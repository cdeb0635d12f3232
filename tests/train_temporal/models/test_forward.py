"""predict equals examples/temporal_model.py, a PyTorch module that loads the same files."""
import numpy as np
import pandas as pd
import pytest
import torch
from training_support import make_cache, quick, ramp_exams, succeed

import temporal_model

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
    "transformer": ["--model", "transformer"],
    "transformer-time": ["--model", "transformer", "--time", "on", "--temporal-pool", "last", "--hidden", 32],
    "transformer-time2vec": ["--model", "transformer", "--time", "on", "--time-encoding", "time2vec", "--layers", 1],
    "elapsed": ["--layers", 2],
    "elapsed-time2vec": ["--time-encoding", "time2vec"],
    "elapsed-decay": ["--time-encoding", "decay"],
    "elapsed-transformer": ["--model", "transformer"],
    "elapsed-tcn": ["--model", "tcn"],
    "tcn": ["--model", "tcn", "--temporal-pool", "mean"],
    "tcn-time-last": ["--model", "tcn", "--time", "on", "--temporal-pool", "last", "--layers", 2],
    "attention-alone": ["--model", "attention"],
    "mean-alone": ["--model", "mean"],
    "single": ["--model", "single"],
    "single-last": ["--model", "single", "--single-frame", "last"],
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


def present_frames(exams, features):
    """Returns what the cache holds of each exam's present frames, and their times."""
    present = [np.array(e["present"], bool) for e in exams]
    rows = [f.astype(np.float16).astype(np.float32)[p] for f, p in zip(features, present)]
    times = [np.array([np.nan if t is None else t for t in e["time_s"]])[p]
             for e, p in zip(exams, present)]
    return rows, times


def reference_probabilities(run, rows, times, starts):
    """Average over the run's models, on one batch of exams padded with NaN-free rubbish."""
    lengths = torch.tensor([len(r) for r in rows])
    padded = torch.full((len(rows), int(lengths.max()), rows[0].shape[1]), 7.0)
    total, files = 0, sorted((run / "models").glob("*.safetensors"))
    for path in files:
        model, card = temporal_model.load(path)
        inputs = [temporal_model.time_inputs(of_exam, start) for of_exam, start in zip(times, starts)]
        time = torch.zeros(*padded.shape[:2], inputs[0].shape[1])
        for i, row in enumerate(rows):
            padded[i, : len(row)] = torch.from_numpy(row)
            time[i, : len(row)] = inputs[i]
        with torch.no_grad():
            logits = model(padded, lengths, time if card["model"]["time"] else None)
        total = total + (logits.double() / card["targets"][0]["temperature"]).softmax(1)
    return (total / len(files)).numpy()


def trained(folder, *words, elapsed=False):
    """Exams with gaps and unknown times, and a run on them."""
    exams, features = ramp_exams(40, ragged=True)
    exams = uneven(exams, 1)
    for number, entry in enumerate(exams if elapsed else []):
        entry["elapsed_start"] = 8.0 + 7 * number
    for entry, values in zip(exams, features):
        values[~np.array(entry["present"], bool)] = np.nan
    cache, run = make_cache(folder, exams, features), folder / "run"
    succeed("train", "--cache", cache, "--target", "label", "--out", run,
            *quick("--folds", 2, "--seeds", 2, *words))
    return cache, run, exams, features


@pytest.mark.parametrize("variant", VARIANTS)
def test_predict_equals_pytorch(tmp_path, variant):
    cache, run, exams, features = trained(tmp_path, *VARIANTS[variant], elapsed=variant.startswith("elapsed"))
    succeed("predict", "--run", run, "--cache", cache, "--out", tmp_path / "p.csv")
    ours = pd.read_csv(tmp_path / "p.csv")
    assert list(ours.exam) == [e["id"] for e in exams]
    ours = ours[["p_0", "p_1"]].to_numpy()
    rows, times = present_frames(exams, features)
    starts = [entry.get("elapsed_start") for entry in exams]
    if not variant.startswith("single"):  # which is left to predict() to pick the frame for
        np.testing.assert_allclose(ours, reference_probabilities(run, rows, times, starts), rtol=0, atol=1e-5)
    for i in range(0, len(exams), 7):
        one = temporal_model.predict(run, rows[i], times[i], start=starts[i])
        assert list(one) == ["0", "1"]
        np.testing.assert_allclose(ours[i], list(one.values()), rtol=0, atol=1e-5)
    spread = 0.001 if variant.startswith("single") else 0.01
    assert ours[:, 1].std() > spread, "the models must tell exams apart for this to mean anything"


def test_without_times_the_transformer_is_pytorchs():
    """Where all frames stand in one place rotary positions turn nothing."""
    torch.manual_seed(0)
    config = {"architecture": "transformer", "temporal_pool": "none", "time": False, "time_encoding": "log", "hidden": 48,
              "layers": 3, "bidirectional": False, "dimension": 5, "classes": 2, "dropout": 0.0}
    model = temporal_model.TemporalModel(config).eval()
    x, beyond = torch.randn(4, 9, 48), torch.arange(9)[None] >= torch.tensor([9, 4, 1, 7])[:, None]
    with torch.no_grad():
        ours = model.attend(x, torch.zeros(4, 9, dtype=torch.float64), beyond)
        theirs = model.transformer(x, src_key_padding_mask=beyond).masked_fill(beyond[..., None], 0)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_places_turn_queries_and_keys_as_in_gpt_neox():
    from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb

    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 3, 7, 16).unbind()
    place = torch.rand(2, 7).cumsum(1)
    angle = place[..., None] * 10000 ** (-torch.arange(0, 16, 2) / 16)
    angle = torch.cat([angle, angle], -1)
    theirs = apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    for part, expected in zip((q, k), theirs):
        torch.testing.assert_close(temporal_model.turned(part, place.double()), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("control", ["clock", "shuffled"])
def test_controls_are_refused_by_name(tmp_path, control):
    _, run, _, features = trained(tmp_path, "--model", control)
    with pytest.raises(ValueError, match=control):
        temporal_model.predict(run, features[0])
