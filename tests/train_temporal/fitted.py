"""What a run's models predict of one exam, in PyTorch (coldframe.models)."""
import pathlib

import numpy as np
import torch

from coldframe.models import TemporalModel


def models_of(folder):
    """The models of a run's or a bundle's folder, without the package's tables."""
    return [TemporalModel.load(path) for path in sorted((pathlib.Path(folder) / "models").glob("*.safetensors"))]


@torch.no_grad()
def outputs_of(model, features, times=None, covariates=None, start=np.nan):
    """Of one exam, features [T, D], seconds [T], covariates by name: [C] or [T, C], float64."""
    seconds = None if times is None else torch.as_tensor(np.asarray(times, np.float64))[None]
    known = model.encode_covariates([covariates]) if "covariates" in model.card else None
    starts = torch.tensor([np.nan if start is None else start], dtype=torch.float64)
    return model(torch.as_tensor(features, dtype=torch.float32)[None], seconds, None, known, starts=starts)[0].double()


def predict(folder, features, times=None, covariates=None, start=np.nan):
    """{class: probability}, or a number; of several targets either by name; of targets per frame rows of these."""
    models = models_of(folder)
    read = [model.predictions(outputs_of(model, features, times, covariates, start)) for model in models]
    result = {}
    for target in models[0].card["targets"]:
        mean = sum(one[target["name"]] for one in read) / len(read)
        of_exam = not target["per_frame"]
        result[target["name"]] = dict(zip(target["classes"], mean.tolist())) if of_exam and target["classes"] else (
            mean.item() if of_exam else mean.numpy())
    return result if len(result) > 1 else next(iter(result.values()))
