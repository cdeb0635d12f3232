"""Tuning does what PyTorch does, and learns what frozen features do not show."""
import json

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import timm
import torch
from PIL import Image
from torch.nn.functional import cross_entropy
from training_support import succeed
from tuning_support import BLOCKS, CUT, PIXELS, SIDE, cut_cache, extract, made_exams, tiny_vit, train

from coldframe.models import TemporalModel


class Twin(torch.nn.Module):
    """The same fit in PyTorch: timm's ViT and the temporal model that the run went on from."""

    def __init__(self, weights, model):
        super().__init__()
        self.vit = timm.create_model("vit_tiny_patch16_224", img_size=SIDE, num_classes=0, depth=BLOCKS)
        self.vit.load_state_dict(safetensors.torch.load_file(weights))
        self.head = TemporalModel.load(model)
        self.tuned = [p for part in [*self.vit.blocks[CUT:], self.vit.norm] for p in part.parameters()]

    def forward(self, images):  # [B, T, 3, S, S]
        features = self.vit(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        return self.head(features)


def images_of(folder, exam, frames=2):
    pixels = [np.asarray(Image.open(folder / f"{exam.removeprefix('exam-')}-{t}.png")) for t in range(frames)]
    return torch.tensor(np.stack(pixels)).permute(0, 3, 1, 2).float() / 127.5 - 1


def test_tuning_equals_pytorch(tmp_path):
    """Whole-batch steps without dropout and noise: the losses of every epoch, predictions, and weights."""
    exams = made_exams(tmp_path / "exams", 48)
    weights = tiny_vit(tmp_path / "tiny.safetensors")
    cache = cut_cache(exams, weights, tmp_path / "made.cache")
    same = ["--batch", 48, "--dropout", 0, "--noise", 0, "--schedule", "constant", "--patience", 0]
    train(cache, tmp_path / "frozen", *same, "--epochs", 4)
    train(cache, tmp_path / "run", *same, "--epochs", 3, "--tune", weights, "--tune-lr", 1e-4, "--from", tmp_path / "frozen")
    splits = pd.read_csv(tmp_path / "run" / "splits.csv")
    label = {f"exam-{number}": number % 2 for number in range(48)}
    parts = {part: list(rows["exam"]) for part, rows in splits.groupby("part")}
    images = {part: torch.stack([images_of(exams.parent, exam) for exam in names]) for part, names in parts.items()}
    target = {part: torch.tensor([label[exam] for exam in names]) for part, names in parts.items()}
    torch.manual_seed(0)
    twin = Twin(weights, tmp_path / "frozen" / "models" / "fold-0-seed-0.safetensors")
    twin.head.train()
    groups = [{"params": [p for p in params if (p.dim() > 1) == decays], "lr": lr, "weight_decay": 0.01 * decays}
              for params, lr in ((list(twin.head.parameters()), 0.0005), (twin.tuned, 1e-4)) for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups)
    every = [p for group in groups for p in group["params"]]
    validation = next(name for name in parts if name.startswith("val"))
    epochs = pd.read_csv(tmp_path / "run" / "metrics.csv")
    kept = int(epochs["best"].argmax())
    for epoch in range(4):
        if epoch > 0:
            loss = cross_entropy(twin(images["train"]), target["train"])
            assert loss.item() == pytest.approx(epochs["train_loss"][epoch], abs=1e-5)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(every, 1.0)
            optimizer.step()
        with torch.no_grad():
            loss = cross_entropy(twin(images[validation]), target[validation])
        assert loss.item() == pytest.approx(epochs["validation_loss"][epoch], abs=1e-5)
        if epoch == kept:
            found = {}
            for shard in (tmp_path / "run" / "models" / "fold-0-seed-0").glob("*.safetensors"):
                found |= safetensors.torch.load_file(shard)
            width = twin.vit.embed_dim
            for name, tensor in twin.vit.state_dict().items():
                # The bias of keys has no gradient but rounding, which Adam makes a step of; so have single weights (one in
                # 50 000 here), which move by a step of 1e-4 at most.
                rows = [slice(0, width), slice(2 * width, None)] if name.endswith("qkv.bias") else [slice(None)]
                for some in rows:
                    off = (found[name][some] - tensor[some]).abs()
                    assert (off > 1e-5).float().mean() < 1e-4 and off.max() < 1e-4, name


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    random = ["--random-weights", 3, "--architecture", "vit_tiny_patch16_224"]
    return extract(made_exams(folder / "exams", 240), folder / "made.cache", *random, *PIXELS, "--cut", 10)


def tuned_and_frozen(cache, out, target, epochs):
    """Both AUROCs, and whether tuning is said to have paid."""
    done = succeed("train", "--cache", cache, "--target", target, "--out", out, "--folds", 2, "--epochs", epochs,
                   "--bootstrap", 50, "--compare", "frozen", "--tune", "random", "--tune-lr", 1e-3)
    models = json.loads((out / "summary.json").read_text())["models"]
    return *(model["metrics"]["auroc"]["mean_over_folds"]["value"] for model in models), "Tuning the ViT paid" in done.stdout


def test_tuning_learns_what_frozen_features_do_not_show(cohort, tmp_path):
    tuned, frozen, paid = tuned_and_frozen(cohort, tmp_path / "run", "label", 16)
    assert paid and tuned - frozen > 0.1, (tuned, frozen)


def test_tuning_learns_nothing_of_a_coin(cohort, tmp_path):
    tuned, _, paid = tuned_and_frozen(cohort, tmp_path / "run", "coin", 6)
    # An AUROC of n exams, half of them positive, that nothing tells has the variance (n + 1) / 3n² (Mann and Whitney
    # 1947); where in it this lies depends on the processor's rounding.
    assert not paid and abs(tuned - 0.5) <= 3 * ((240 + 1) / 3) ** 0.5 / 240, tuned
