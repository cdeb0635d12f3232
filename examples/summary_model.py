"""The model `summary` in PyTorch, which temporal_model.py loads where a fit took it."""
import torch
from torch import nn


class SummaryModel(nn.Module):
    """The model `summary`, which takes the same: a linear model of one number of each feature over the frames."""

    def __init__(self, config):
        super().__init__()
        shape = config["classes"], config["dimension"]
        for name, size in {"feature_mean": shape[1:], "feature_std": shape[1:], "family": shape[:1], "per_second": (1,),
                           "summary_mean": shape, "summary_std": shape}.items():
            self.register_buffer(name, torch.ones(size))
        self.head = nn.Linear(config["dimension"], config["classes"])
        if config.get("covariates"):
            self.covariate_head = nn.Linear(config["covariates"], config["classes"], bias=False)
        self.streams, self.only = config.get("streams", []), config.get("only_stream")

    def forward(self, features, lengths, time=None, covariates=None):
        outputs = torch.stack([self.of_exam(x[:length], None if time is None else time[b, :length])
                               for b, (x, length) in enumerate(zip(features, lengths))])
        return outputs if covariates is None else outputs + self.covariate_head(covariates)

    def of_exam(self, x, time):
        if self.only is not None:
            width = x.shape[1] // len(self.streams) - 1
            hidden = torch.ones(x.shape[1], dtype=torch.bool)
            hidden[self.only * width:(self.only + 1) * width] = False
            x = x.masked_fill(hidden, torch.nan)
        place = torch.arange(len(x), dtype=x.dtype)
        if self.per_second and time is not None:
            place = time[:, 1].where(time[:, time.shape[1] // 2 + 1] > 0, torch.nan)
        table = torch.stack([summary_of(int(family), x, place) for family in self.family])
        table = ((table - self.summary_mean) / self.summary_std).nan_to_num(0.0)
        return (table * self.head.weight).sum(1) + self.head.bias


def summary_of(family, x, place):
    """x [T, D], NaN where a frame has no value; place [T] of frames, or seconds → [D], NaN where no frame has one."""
    known = ~x.isnan()
    if family < 4:
        high = [x.nan_to_num(-torch.inf).amax(0), -(-x).nan_to_num(-torch.inf).amax(0)]
        spread = ((x - x.nanmean(0)) ** 2).nanmean(0).clamp(min=1e-12).sqrt()
        return [x.nanmean(0), *high, spread][family].where(known.any(0), torch.nan)
    if family < 7:
        first = x.gather(0, known.int().argmax(0)[None])[0]
        last = x.flip(0).gather(0, known.flip(0).int().argmax(0)[None])[0]
        return [first, last, last - first][family - 4]
    if family == 7:
        x = x.where(~place.isnan()[:, None], torch.nan)
        from_mean = place[:, None].where(~x.isnan(), torch.nan)
        from_mean = from_mean - from_mean.nanmean(0)
        spread = (from_mean ** 2).nansum(0)
        return ((from_mean * x).nansum(0) / spread.where(spread > 0, 1)).where((~x.isnan()).any(0), torch.nan)
    raise ValueError("the model takes the difference between visits, which this module does not know")
