#!/usr/bin/env python3
"""A bundle's probability of one exam, from its safetensors files alone: numpy and safetensors, no PyTorch.

    bundle_probability.py model.bundle features.npy       # [T, D]: the frames that are present, in order

It knows what `coldframe train --model gru` makes of frames at even times: a GRU with attention over its
outputs. `coldframe.Bundle("model.bundle").models()` of the Python package has all models, in PyTorch.
"""
import json
import pathlib
import sys

import numpy as np
from safetensors import safe_open


MODEL = {"architecture": "gru", "frame_order": "in_order", "layers": 1, "bidirectional": False, "temporal_pool": "attention",
         "time": False}


def require_known(file, card):
    """ValueError for a model or a target that probability() would compute wrongly."""
    found = [f"{key} {card['model'].get(key)}" for key, known in MODEL.items() if card["model"].get(key) != known]
    found += [f"the covariate {column['name']}" for column in card.get("covariates", [])]
    targets = card["targets"]
    if len(targets) != 1:
        found.append(f"{len(targets)} targets")
    found += [f"a target of {target['task']}" for target in targets if target["task"] not in ("binary", "multiclass")]
    found += ["a target of each frame" for target in targets if target["per_frame"]]
    if found:
        raise ValueError(f"{file} has {', '.join(found)}; expected one target with classes and the default model: "
                         "take coldframe.Bundle(path).models()")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def probability(file, x):
    with safe_open(file, "numpy") as model:
        w, card = {name: model.get_tensor(name).astype(np.float64) for name in model.keys()}, json.loads(model.metadata()["card"])
    require_known(file, card)
    x = (x - w["feature_mean"]) / w["feature_std"] @ w["project.weight"].T + w["project.bias"]
    state, outputs = np.zeros(card["model"]["hidden"]), []
    for frame in x @ w["gru.weight_ih_l0"].T + w["gru.bias_ih_l0"]:  # gates: reset, update, new
        (r, z, n), (hr, hz, hn) = np.split(frame, 3), np.split(w["gru.weight_hh_l0"] @ state + w["gru.bias_hh_l0"], 3)
        z = sigmoid(z + hz)
        state = (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * state
        outputs.append(state)
    pooled = softmax(np.array(outputs) @ w["attention.weight"][0]) @ np.array(outputs)
    return softmax((w["head.weight"] @ pooled + w["head.bias"]) / card["targets"][0]["temperature"])


def predict(bundle, features):
    """[classes], the mean over the bundle's models."""
    files = sorted(pathlib.Path(bundle, "models").glob("*.safetensors"))
    if not files:
        raise ValueError(f"'{bundle}' holds no models/*.safetensors; expected the folder of a bundle")
    return np.mean([probability(file, np.asarray(features, np.float64)) for file in files], 0)


if __name__ == "__main__":
    try:
        print(*predict(sys.argv[1], np.load(sys.argv[2])))
    except ValueError as error:
        sys.exit(f"error: {error}")
