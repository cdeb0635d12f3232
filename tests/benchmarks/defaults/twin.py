"""The peer: the same model in plain PyTorch, with a search of its own on every fold's validation part."""
import copy

import numpy as np
import torch
from reference_training import fit_one

EPOCHS, PATIENCE = 60, 20


def settings_of(count, random):
    """As an experienced user would draw them: none is Coldframe's default but by chance."""
    return [{"hidden": int(random.choice([32, 64, 128])),
             "temporal_pool": str(random.choice(["mean", "attention", "last"])),
             "bidirectional": bool(random.random() < 0.3),
             "dropout": float(random.choice([0, 0.2, 0.4, 0.6])),
             "noise": float(random.choice([0, 0.3, 0.6, 1.0])),
             "learning_rate": float(np.exp(random.uniform(np.log(5e-4), np.log(5e-3)))),
             "weight_decay": float(random.choice([0.001, 0.01, 0.1]))} for _ in range(count)]


def configured(config, setting, exams):
    config = copy.deepcopy(config)
    config["fit"].update(epochs=EPOCHS, patience=PATIENCE, batch=16 if exams < 1000 else 64, label_smoothing=0,
                         train_frames=0, schedule="cosine")
    for key, value in setting.items():
        (config["model"] if key in config["model"] else config["fit"])[key] = value
    return config


def predict(config, exams, label, parts, count, seed):
    """Probabilities for the test part by the setting of the lowest validation loss among `count`, and that setting."""
    torch.set_num_threads(1)
    settings = settings_of(count, np.random.default_rng(seed))
    ways = [configured(config, setting, len(exams)) for setting in settings]
    tried = [fit_one("gru", way["model"], way, exams, label, parts, seed) for way in ways]
    best = min(range(count), key=lambda i: tried[i][0])
    return tried[best][1][:, 1], settings[best]
