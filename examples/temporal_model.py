#!/usr/bin/env python3
"""Loads the models of a run into PyTorch; it needs torch, numpy, safetensors and summary_model.py beside it.

    from temporal_model import load, predict
    predict("runs/first", features, times)      # of one exam: [T, D], [T] seconds → {class: probability};
                                                # a regression: the number; several targets: {name: either}
    predict("runs/first", features, times, {"age": 61, "sex": "F"})         # of a run with --covariates
    model, card = load("runs/first/models/fold-0-seed-0.safetensors")       # one torch.nn.Module

`features` are the frames that are present, in order, as the run's cache holds them (recipe: the file's
metadata), of a run with --streams the features of all streams side by side, NaN where one has no frame, and
behind them 1 or 0 for whether it has; `times` are seconds since the exam's first, NaN where unknown, and `start`
is when that was, in seconds since a zero that exams share, of a run that saw the time since one
(config["elapsed"]). After `train --tune` features come from the fold's own backbone, the folder models/STEM beside models/STEM.safetensors (coldframe extract --config
models/STEM/extract.ini --weights models/STEM): load() each model and give it its own; predict() gives all
models the same. Not here: `clock`, which sees no features, and `shuffled`, a control whose random order is
Coldframe's own. Models with targets per frame predict rows of frames: [T, classes] instead of
{class: probability}, [T] instead of a number.
"""
import json
import pathlib

import numpy as np
import torch
from safetensors import safe_open
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from summary_model import SummaryModel


class TemporalModel(nn.Module):
    """features [B, T, D], lengths [B], with config["time"] also time_inputs() [B, T, 2 V], with covariates also
    covariate_inputs() [B, K] → outputs [B, C], of frames [B, T, C]."""

    def __init__(self, config):
        super().__init__()
        self.values = 3 if config.get("elapsed") else 2  # V
        hidden, time = config["hidden"], self.values + 1 if config["time"] else 0
        self.pool, width = config["temporal_pool"], hidden
        self.kind, self.encoding = config["architecture"], config["time_encoding"]
        self.covariates_at = config.get("covariates_at")
        if self.kind == "covariates":
            self.project, self.head = nn.Linear(config["covariates"], hidden), nn.Linear(hidden, config["classes"])
            return
        if self.covariates_at == "head":
            self.covariate_head = nn.Linear(config["covariates"], config["classes"], bias=False)
        for name in ["feature_mean", "feature_std"]:
            self.register_buffer(name, torch.zeros(config["dimension"]))
        if time:
            self.register_buffer("time_mean", torch.zeros(self.values))
            self.register_buffer("time_std", torch.ones(self.values))
        self.streams, self.only = config.get("streams", []), config.get("only_stream")
        self.features = config["dimension"] - (config["covariates"] if self.covariates_at == "frames" else 0)
        self.gated = config.get("fusion") == "gated"
        if self.gated:
            each = config["dimension"] // len(self.streams) - 1
            self.fusion = nn.ModuleList(nn.Linear(each, 2 * hidden) for _ in self.streams)
        else:
            self.project = nn.Linear(config["dimension"], hidden)
        if time and self.encoding == "time2vec":
            self.time2vec, time = nn.Linear(1, 8), time + 8
        if time and self.encoding == "decay":
            for layer in range(config["layers"]):
                setattr(self, f"decay_l{layer}", nn.Linear(1, hidden))
        if self.kind in ("gru", "lstm"):
            layers = getattr(nn, self.kind.upper())(
                hidden + time, hidden, config["layers"], batch_first=True,
                bidirectional=config["bidirectional"])
            setattr(self, self.kind, layers)
            width = hidden * (2 if config["bidirectional"] else 1)
        elif self.kind == "transformer":
            if time:
                self.time = nn.Linear(time, hidden)
            heads = next((h for h in range(hidden // 16, 1, -1) if hidden % (2 * h) == 0), 1)
            layer = nn.TransformerEncoderLayer(hidden, heads, 2 * hidden, activation="gelu", batch_first=True,
                                               norm_first=True)
            self.transformer = nn.TransformerEncoder(layer, config["layers"], nn.LayerNorm(hidden),
                                                     enable_nested_tensor=False)
        elif self.kind == "tcn":
            self.tcn = nn.ModuleList(TcnBlock(hidden if layer else hidden + time, hidden, 2 ** layer, config["dropout"])
                                     for layer in range(config["layers"]))
        else:
            if not config.get("linear", True):
                self.hidden = nn.Linear(hidden, hidden)
            if self.pool != "none":
                self.pool = self.kind
        if self.pool == "attention":
            self.attention = nn.Linear(width, 1)
        self.head = nn.Linear(width, config["classes"])
        self.dropout = nn.Dropout(config["dropout"])

    def forward(self, features, lengths, time=None, covariates=None):
        every_frame = None if covariates is None else covariates[:, None].expand(-1, features.shape[1], -1)
        if self.kind == "covariates":
            return self.head(self.project(every_frame if self.pool == "none" else covariates).relu())
        if self.covariates_at == "frames":
            features = torch.cat([features, every_frame], -1)
        x = (features - self.feature_mean) / self.feature_std
        if self.streams:
            x = self.without_missing(x)
        x = self.dropout(self.weighed(x) if self.gated else self.project(x))
        if hasattr(self, "hidden"):
            x = nn.functional.gelu(self.hidden(x))
        if time is not None:
            value, known = time[..., :self.values], time[..., self.values:]
            value = (value - self.time_mean) / self.time_std * known
            parts = [x, value, 1 - known[..., 1:2]]
            if self.encoding == "time2vec":
                phase = self.time2vec(value[..., 1:2])
                parts.append(torch.cat([phase[..., :1], phase[..., 1:].sin()], -1) * known[..., 1:2])
            x = torch.cat(parts, -1)
        beyond = torch.arange(x.shape[1])[None] >= lengths[:, None]
        frames = x.masked_fill(beyond[..., None], 0)
        if self.kind == "transformer":
            frames = self.attend(x, places(time, getattr(self, "time_mean", None), x.shape[:2]), beyond)
        elif self.kind == "tcn":
            frames = x.transpose(1, 2)
            for block in self.tcn:
                frames = block(frames)
            frames = frames.transpose(1, 2).masked_fill(beyond[..., None], 0)
        elif time is not None and self.encoding == "decay":
            frames, last, layers = *self.decaying(x, lengths, time), self.gru
        elif self.kind in ("gru", "lstm"):
            layers = getattr(self, self.kind)
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            frames, last = layers(packed)
            frames, _ = pad_packed_sequence(frames, batch_first=True)
            last = last[0] if self.kind == "lstm" else last
        if self.pool == "last" and self.kind in ("transformer", "tcn"):
            pooled = frames[torch.arange(len(frames)), lengths - 1]
        elif self.pool == "last":
            pooled = torch.cat([last[-2], last[-1]], 1) if layers.bidirectional else last[-1]
        elif self.pool == "mean":
            pooled = frames.sum(1) / lengths[:, None]
        elif self.pool == "none":
            pooled = frames
        else:
            score = self.attention(frames)[..., 0].masked_fill(beyond, -torch.inf)
            pooled = (score.softmax(1)[..., None] * frames).sum(1)
        outputs = self.head(self.dropout(pooled))
        if self.covariates_at == "head":
            outputs = outputs + self.covariate_head(every_frame if self.pool == "none" else covariates)
        return outputs

    def without_missing(self, x):
        """NaN, of a stream that has no frame there, is the mean; `only-NAME` sees one stream."""
        x = x.nan_to_num(0.0)
        if self.only is None:
            return x
        count = len(self.streams)
        each = self.features // count - 1
        seen = torch.ones(x.shape[-1])
        seen[:count * (each + 1)] = 0
        seen[self.only * each:(self.only + 1) * each] = seen[count * each + self.only] = 1
        return x * seen

    def weighed(self, x):
        """Gated multimodal units (Arevalo et al. 2017) with a softmax over the streams that are there."""
        count = len(self.streams)
        each = x.shape[-1] // count - 1
        values, scores = zip(*(fusion(x[..., s * each:(s + 1) * each]).chunk(2, -1) for s, fusion in enumerate(self.fusion)))
        there = x[..., count * each:].unsqueeze(-2)
        scores = torch.stack(scores, -1).masked_fill(there == 0, -torch.inf).softmax(-1).nan_to_num(0.0)
        return (scores * torch.stack(values, -1).tanh()).sum(-1)

    def attend(self, x, place, beyond):
        """torch.nn.TransformerEncoder, whose queries and keys each frame's place turns: rotary positions (Su et al. 2021,
        arXiv:2104.09864)."""
        hidden = self.transformer.norm.weight.numel()
        if hasattr(self, "time"):
            x = x[..., :hidden] + self.time(x[..., hidden:])
        heads = self.transformer.layers[0].self_attn.num_heads
        for layer in self.transformer.layers:
            own = layer.self_attn
            qkv = nn.functional.linear(layer.norm1(x), own.in_proj_weight, own.in_proj_bias)
            q, k, v = qkv.unflatten(-1, (3, heads, hidden // heads)).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(turned(q, place), turned(k, place), v,
                                                              ~beyond[:, None, None])
            x = x + self.dropout(own.out_proj(seen.transpose(1, 2).flatten(2)))
            x = x + self.dropout(layer.linear2(nn.functional.gelu(layer.linear1(layer.norm2(x)))))
        return self.transformer.norm(x).masked_fill(beyond[..., None], 0)

    def decaying(self, x, lengths, time):
        """GRU-D's decay of the state (Che et al. 2018): h ∘ exp(−max(0, w · interval + b))."""
        interval = (time[..., :1] - self.time_mean[0]).exp() * time[..., self.values:self.values + 1]
        for layer in range(self.gru.num_layers):
            rate, weights = getattr(self, f"decay_l{layer}"), self.gru.all_weights[layer]
            gamma = (-torch.relu(rate(interval))).exp()
            state, states = torch.zeros(len(x), self.gru.hidden_size), []
            for t in range(x.shape[1]):
                after = torch.gru_cell(x[:, t], state * gamma[:, t], *weights)
                state = torch.where((t < lengths)[:, None], after, state)
                states.append(torch.where((t < lengths)[:, None], after, 0))
            x = torch.stack(states, 1)
            if layer + 1 < self.gru.num_layers:
                x = self.dropout(x)
        return x, state[None]


class TcnBlock(nn.Module):
    """[B, C, T] → [B, H, T]: two convolutions over frames `dilation` apart that see none to come (Bai et al. 2018)."""

    def __init__(self, inputs, hidden, dilation, dropout):
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, hidden, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, dilation=dilation)
        self.downsample = nn.Conv1d(inputs, hidden, 1) if inputs != hidden else nn.Identity()
        self.before, self.dropout = nn.ConstantPad1d((2 * dilation, 0), 0.0), nn.Dropout(dropout)

    def forward(self, x):
        y = x
        for convolution in (self.conv1, self.conv2):
            y = self.dropout(nn.functional.gelu(convolution(self.before(y))))
        return nn.functional.gelu(self.downsample(x) + y)


def turned(x, place):
    """[B, h, T, d] → the same: a place turns the pair of value i and value i + d / 2 by place / 10000^(2 i / d)."""
    speed = 10000 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angle = place[:, None, :, None] * speed  # [B, 1, T, d / 2]
    cosine, sine = angle.cos().float(), angle.sin().float()
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


def places(time, time_mean, shape):
    """A transformer's: how far each frame is from the first, in intervals of geometric mean length; [B, T] float64.
    One that is unknown counts as one."""
    steps = torch.ones(shape, dtype=torch.float64)
    if time is not None:
        steps = torch.where(time[..., time.shape[-1] // 2] > 0, (time[..., 0].double() - time_mean[0]).exp(), steps)
    steps[:, 0] = 0
    return steps.cumsum(1)


def time_inputs(times, start=None):
    """Of one exam, [T] → [T, 2 V]: log interval, seconds since the first frame, with `start` (NaN: unknown) the
    log of `start` + times, then whether each is known."""
    times = np.asarray(times, np.float64)
    before = np.concatenate([[np.nan], times[:-1]])
    values = [np.log(np.maximum(times - before, 1e-4)), times - times[0]]
    if start is not None:
        values.append(np.copysign(np.log1p(np.abs(start + times)), start + times))
    known = ~np.isnan(values)
    return torch.from_numpy(np.concatenate([np.where(known, values, 0), known]).T.astype(np.float32))


def covariate_inputs(card, values):
    """Of one exam, {"age": 61, "sex": "F"} → [K]; None, "" or NaN is missing, a category that is not known, too."""
    numbers = []
    for column in card.get("covariates", []):
        value = values[column["name"]]
        known = value is not None and value == value and value != ""
        if "categories" in column:
            known = known and str(value) in column["categories"]
            numbers += [float(known and str(value) == category) for category in column["categories"]]
        else:
            scale = 1 / column["deviation"] if column["deviation"] else 0
            numbers.append((float(value) - column["mean"]) * scale if known else 0.0)
        numbers += [float(not known)] if column["missing"] else []
    return torch.tensor(numbers)


def load(path):
    """The module, ready to predict, and its card: configuration, targets (task, classes, threshold …), …"""
    with safe_open(path, "pt") as file:
        card = json.loads(file.metadata()["card"])
        weights = {name: file.get_tensor(name) for name in file.keys()}
    config = card["model"]
    if config["architecture"] == "clock" or config["frame_order"] == "shuffled":
        raise ValueError(f"{path} is a control (clock or shuffled), which this module does not know")
    kind = SummaryModel if config["architecture"] == "summary" else TemporalModel
    model = kind(config).eval()
    model.load_state_dict(weights)
    return model, card


def read_survival(target, outputs):
    """[..., 1 + horizons]: the risk, then the probability of no event up to each of the target's horizons."""
    horizons, times = torch.tensor(target["horizons"]), torch.tensor(target["times"], dtype=torch.float64)
    hazards = torch.tensor(target["hazards"], dtype=torch.float64)
    if target["task"] == "cox":  # the baseline's cumulative hazard is a step function
        risk = target["mean"] + outputs
        baseline = torch.cat([torch.zeros(1), hazards])[torch.searchsorted(times, horizons.to(times), right=True)]
        return torch.cat([risk, (-(baseline.log() + risk).exp()).exp()], -1)  # exact where the baseline is 0
    each = torch.nn.functional.softplus(outputs + hazards)  # of the interval (start, end]
    starts = torch.cat([torch.zeros(1).to(times), times[:-1]])
    shares = torch.stack([torch.where(h >= times, 1.0, ((h - starts) / (times - starts)).clamp(min=0)) for h in horizons], -1)
    return torch.cat([each.cumsum(-1).mean(-1, keepdim=True), (-(each @ shares.to(each))).exp()], -1)


def read_outputs(target, outputs):
    """Of one target, [..., outputs] → probabilities of its classes [..., C], numbers [...], or read_survival()."""
    if target["task"] == "regression":
        return target["mean"] + target["deviation"] * outputs[..., 0]
    if target["task"] in ("cox", "hazards"):
        return read_survival(target, outputs)
    if target["task"] != "ordinal":
        return (outputs / target["temperature"]).softmax(-1)
    exceeding = torch.cat([torch.ones_like(outputs[..., :1]), outputs.sigmoid().cumprod(-1),
                           torch.zeros_like(outputs[..., :1])], -1)  # P(class ≥ c)
    return exceeding[..., :-1] - exceeding[..., 1:]


def output_count(target):
    return {"regression": 1, "cox": 1, "hazards": target.get("intervals"),
            "ordinal": len(target["classes"]) - 1}.get(target["task"], len(target["classes"]))


@torch.no_grad()
def predict(run, features, times=None, covariates=None, start=np.nan):
    """Of one exam: what read_outputs() makes of each target, averaged over the run's models."""
    files = sorted((pathlib.Path(run) / "models").glob("*.safetensors"))
    x = torch.as_tensor(features, dtype=torch.float32)
    times = np.full(len(x), np.nan) if times is None else np.asarray(times, np.float64)
    total = {}
    for model, card in map(load, files):
        one = {"first": 0, "middle": len(x) // 2, "last": len(x) - 1}.get(card["model"]["frame_order"])
        frames = slice(None) if one is None else slice(one, one + 1)
        sees_times = card["model"]["time"] or isinstance(model, SummaryModel)
        since = start if card["model"].get("elapsed") else None
        time = time_inputs(times[frames], since)[None] if sees_times else None
        known = covariate_inputs(card, covariates)[None] if card.get("covariates") else None
        outputs = model(x[None, frames], torch.tensor([len(x[frames])]), time, known)[0].double()
        parts = outputs.split([output_count(target) for target in card["targets"]], -1)
        for target, part in zip(card["targets"], parts):
            total[target["name"]] = total.get(target["name"], 0) + read_outputs(target, part) / len(files)
    result = {}
    for target in card["targets"]:
        mean = total[target["name"]]
        whole = mean.dim() > (target["task"] != "regression")  # rows of frames
        names = target["classes"] or (["risk", *target["horizons"]] if "horizons" in target else [])
        result[target["name"]] = dict(zip(names, mean.tolist())) if not whole and names else (
            mean.numpy() if whole else mean.item())
    return result if len(result) > 1 else next(iter(result.values()))
