"""Coldframe: features of medical image sequences from a frozen ViT, cached, and temporal models on them.

    import coldframe

    cache = coldframe.extract("exams.csv", "exams.cache", preset="dino-vits16", weights="vit.safetensors")
    run = coldframe.train(cache, "runs/first", target="label", folds=5)
    run.metrics, run.predictions                        # DataFrames
    coldframe.open("exams.cache").features("E0000")     # float32 [T, D]
    run.model(fold=0)                                   # torch.nn.Module
    coldframe.Bundle("first.bundle").predict(["a.dcm", "b.mp4"])

The programs do the work (`coldframe COMMAND --help`); this package starts them and reads what they write. It reads
caches, runs and bundles without them, too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coldframe import exchange
    from coldframe.bundle import Bundle
    from coldframe.cache import Cache, open
    from coldframe.commands import evaluate, extract, import_features, make_exams, train
    from coldframe.errors import ColdframeError, JobError, Stopped, UsageError
    from coldframe.models import TemporalModel, drop_missing
    from coldframe.run import Run
    from coldframe.torch_data import ExamDataset, collate
    from coldframe.version import __version__

# The command `coldframe` starts with this package: nothing of pandas, h5py or torch is imported before it is asked for.
_MODULES = {
    "bundle": ["Bundle"],
    "cache": ["Cache", "open"],
    "commands": ["evaluate", "extract", "import_features", "make_exams", "train"],
    "errors": ["ColdframeError", "JobError", "Stopped", "UsageError"],
    "exchange": [],
    "models": ["TemporalModel", "drop_missing"],
    "run": ["Run"],
    "torch_data": ["ExamDataset", "collate"],
    "version": ["__version__"],
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Bundle",
    "Cache",
    "ColdframeError",
    "ExamDataset",
    "JobError",
    "Run",
    "Stopped",
    "TemporalModel",
    "UsageError",
    "__version__",
    "collate",
    "drop_missing",
    "evaluate",
    "exchange",
    "extract",
    "import_features",
    "make_exams",
    "open",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"coldframe.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"coldframe.{name}")
    raise AttributeError(f"module 'coldframe' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
