"""MedNet's ViT + GRU, as benchmark.py starts it: trains and predicts, in the folder where the frames lie.

    peer.py '{"split": …, "weights": …, "blocks": 2, "classes": 2, "batch": 4, "epochs": 3, "lr": 1e-5, "device": "cpu", "from": …, "out": …}'

Writes `out`: seconds of each epoch with its validation, and of the test part's exams names and probabilities; beside it
the model, for a later `from`: what trained blocks start with, since a new GRU would bend the features first.
"""
import json
import pathlib
import sys
import time

import lightning.pytorch
import torch
from mednet.config.temporal.models.vitgru import build_vitgru_model
from mednet.data.temporal.seq_angioreport import DataModule
from mednet.engine.trainer import setup_datamodule
from safetensors.torch import load_file


def made_model(weights, blocks, classes):
    """MedNet's own model of RETFound-Green's shape, with the backbone's weights of a file."""
    torch.manual_seed(0)
    model = build_vitgru_model(blocks)
    model.num_classes = classes
    model.val_auc.num_classes = classes
    if weights:
        model.backbone.load_state_dict(load_file(weights))
    return model


def datamodule_of(split, classes, model, batch):
    data = DataModule(pathlib.Path(split), classes, "multiclass", max_frames=None)
    setup_datamodule(data, model, batch, False, False, -1)
    return data


@torch.no_grad()
def test_outputs(model, data, device):
    """Logits of the test part by the exams' names."""
    data.setup("test")
    (loader,) = data.test_dataloader().values()
    model = model.to(device).eval()
    found = {}
    for batch in loader:
        outputs = model(batch["image"].to(device), batch["lengths"], batch["phase_id"].to(device))
        found.update(zip(batch["name"], outputs.cpu().double()))
    return found


class Epochs(lightning.pytorch.Callback):
    """Times epochs, and keeps the weights of the best one by the validation loss."""

    def __init__(self):
        self.seconds, self.best, self.weights = [], float("inf"), None

    def on_train_epoch_start(self, trainer, model):
        self.start, self.loss = time.perf_counter(), 0.0

    def on_validation_batch_end(self, trainer, model, loss, batch, *_):
        self.loss += float(loss) * len(batch["target"])

    def on_train_epoch_end(self, trainer, model):  # validation lies before it
        self.seconds.append(time.perf_counter() - self.start)
        if self.loss < self.best:
            self.best, self.weights = self.loss, {k: v.clone() for k, v in model.state_dict().items()}


def main():
    task = json.loads(sys.argv[1])
    model = made_model(task["weights"], task["blocks"], task["classes"])
    model._optimizer_arguments["lr"] = task["lr"]
    if task["from"]:
        model.load_state_dict(torch.load(task["from"]))
    data = datamodule_of(task["split"], task["classes"], model, task["batch"])
    epochs = Epochs()
    trainer = lightning.pytorch.Trainer(
        accelerator="gpu" if task["device"] == "cuda" else "cpu", devices=1, max_epochs=task["epochs"], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        callbacks=[epochs])
    trainer.fit(model, data)
    model.load_state_dict(epochs.weights)
    found = test_outputs(model, data, task["device"])
    torch.save(epochs.weights, pathlib.Path(task["out"]).with_suffix(".pt"))
    pathlib.Path(task["out"]).write_text(json.dumps(
        {"seconds": epochs.seconds, "probabilities": {name: x.softmax(0).tolist() for name, x in found.items()}}))


if __name__ == "__main__":
    main()
