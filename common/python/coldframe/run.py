"""What `coldframe train` and `coldframe evaluate` write, as DataFrames."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from coldframe.programs import Place
from coldframe.tables import read_csv

if TYPE_CHECKING:
    from coldframe.models import TemporalModel


class Run:
    """A finished run folder, or the folder of an evaluation, which has no folds and no epochs (FileNotFoundError)."""

    def __init__(self, path: Place) -> None:
        """FileNotFoundError where there is no finished run."""
        self.path = Path(path)
        if not (self.path / "summary.json").is_file():
            unfinished = Path(f"{self.path}.unfinished").is_dir()
            hint = (
                f"{self.path}.unfinished was stopped: train with resume=True"
                if unfinished
                else "train one with coldframe.train"
            )
            raise FileNotFoundError(f"no finished run at {self.path}; {hint}")

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.summary.get('target')}>"

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All figures of the run, as summary.json has them."""
        return dict(json.loads((self.path / "summary.json").read_text()))

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings, as config.json has them; {} of an evaluation."""
        path = self.path / "config.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    @property
    def report(self) -> Path:
        """The page for a browser."""
        return self.path / "report.html"

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Held-out exams: repeat, fold, exam, patient, label, a probability p_CLASS for each class, predicted."""
        return read_csv(self.path / "predictions.csv")

    def control(self, name: str) -> pd.DataFrame:
        """The predictions of a control, such as "shuffled". FileNotFoundError for one that was not fitted."""
        return read_csv(self.path / f"predictions-{name}.csv")

    def model(self, fold: int, seed: int = 0, repeat: int = 0, control: str | None = None) -> TemporalModel:
        """One fit as a torch.nn.Module, of the main model or of a control; of `auto` a GRU or a summary, as its card says.
        FileNotFoundError: the run kept none such."""
        for model in self.models(control):
            if (model.card["fold"], model.card["seed"], model.card["repeat"]) == (fold, seed, repeat):
                return model
        raise FileNotFoundError(f"{self.path} has no fit of fold {fold}, seed {seed}, repeat {repeat}")

    def models(self, control: str | None = None) -> list[TemporalModel]:
        """All fits of the main model, or of a control, by repeat, fold and seed. FileNotFoundError: the run kept none."""
        from coldframe.models import read_models

        folder = self.path / ("models" if control is None else f"controls/{control}")
        return read_models(folder, {file.name: file.read_bytes() for file in folder.glob("*.safetensors")})

    @cached_property
    def folds(self) -> pd.DataFrame:
        """Which part each exam has: repeat, fold, exam, patient, part (train, validation or test)."""
        return read_csv(self.path / "splits.csv")

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """Every epoch of every fit: model, repeat, fold, seed, epoch, train_loss, validation_loss, validation_figure, …"""
        return read_csv(self.path / "metrics.csv")

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row for each target, model and metric: value with its interval low … high, over folds and pooled.

        Columns: target, model, metric, value, low, high, pooled, pooled_low, pooled_high. `value` is what the run
        reports: the mean over folds where there are several, else the pooled figure.
        """
        rows = []
        for target in self.summary.get("targets") or [self.summary]:
            for model in target.get("models", []):
                for metric, told in model["metrics"].items():
                    rows.append(
                        {
                            "target": target.get("target", target.get("name")),
                            "model": model["name"],
                            "metric": metric,
                            **_interval("", told.get(told.get("primary", "pooled"))),
                            **_interval("pooled", told.get("pooled")),
                        }
                    )
        return pd.DataFrame(
            rows, columns=["target", "model", "metric", "value", "low", "high", "pooled", "pooled_low", "pooled_high"]
        )


def _interval(prefix: str, told: dict[str, Any] | None) -> dict[str, float | None]:
    told = told or {}
    before = f"{prefix}_" if prefix else ""
    return {prefix or "value": told.get("value"), f"{before}low": told.get("low"), f"{before}high": told.get("high")}
