"""Coldframe: features of medical image sequences from a frozen ViT, cached, and temporal models on them.

    import coldframe

    cache = coldframe.extract("exams.csv", "exams.cache", preset="dino-vits16", weights="vit.safetensors")
    run = coldframe.train(cache, "runs/first", target="label", folds=5)
    run.metrics, run.predictions                        # DataFrames
    coldframe.open("exams.cache").features("E0000")     # float32 [T, D]
    coldframe.Bundle("first.bundle").predict(["a.dcm", "b.mp4"])

The programs do the work (`coldframe COMMAND --help`); this package starts them and reads what they write. It reads
caches, runs and bundles without them, too.
"""

from typing import TYPE_CHECKING, Any

from coldframe.bundle import Bundle
from coldframe.cache import Cache, open
from coldframe.commands import evaluate, extract, import_features, make_exams, train
from coldframe.errors import ColdframeError, JobError, Stopped, UsageError
from coldframe.run import Run
from coldframe.version import __version__

if TYPE_CHECKING:
    from coldframe.torch_data import ExamDataset, collate

__all__ = [
    "Bundle",
    "Cache",
    "ColdframeError",
    "ExamDataset",
    "JobError",
    "Run",
    "Stopped",
    "UsageError",
    "__version__",
    "collate",
    "evaluate",
    "extract",
    "import_features",
    "make_exams",
    "open",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports torch, which takes seconds, when ExamDataset or collate is first asked for."""
    if name in ("ExamDataset", "collate"):
        from coldframe import torch_data

        return getattr(torch_data, name)
    raise AttributeError(f"module 'coldframe' has no attribute '{name}'")
