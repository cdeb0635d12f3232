"""The temporal models of a run or a bundle as torch.nn.Module, with the outputs of `coldframe predict`.

    model = coldframe.Run("runs/first").model(fold=0)
    logits = model(features, times, lengths)        # [B, T, D], seconds [B, T], frames of each exam [B] → [B, C]
    model.predictions(logits)["label"]              # probabilities of the classes [B, classes]

A file of models/ has the tensors under PyTorch's own names; its card says what they are a model of. Each kind of model is
a class here, in the order of the arithmetic: what becomes of the inputs, layers over frames, what reads no frames, outputs.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from coldframe.programs import Place

FORMAT = "coldframe.temporal.1"
NAN = float("nan")


class Exams(NamedTuple):
    """What is known of B exams of at most T frames besides their features; V is 2, or 3 with the shared zero."""

    lengths: Tensor  # [B] frames of each
    beyond: Tensor  # [B, T] True behind an exam's last frame
    time: Tensor  # [B, T, V] as time_inputs() has it
    known: Tensor  # [B, T, V] 1 where it is, else 0
    covariates: Tensor | None  # [B, K]
    visits: Tensor | None  # [B, 2]
    clock: Tensor | None  # [B, F]

    def of_frames(self, of_exams: Tensor) -> Tensor:
        """[B, W] → [B, T, W]"""
        return of_exams[:, None].expand(-1, self.beyond.shape[1], -1)


class TemporalModel(nn.Module):
    """One fit. `card` is what its file says: the model's configuration, targets and how to read them, covariates.

    forward() takes:

    - features: float [B, T, D] of the frames that are there, in order, as the run's cache has them; what follows an exam's
      last frame counts for nothing, NaN too. Those of streams lie side by side, NaN where a stream has no frame at that
      instant, and behind them for each stream 1 where it has one, else 0. Features that a run tuned are those of the fit's
      own backbone, models/STEM beside models/STEM.safetensors. A model that sees no frames looks at the shape alone.
    - times: seconds since the exam's first frame, [B, T] (float64 keeps all digits), NaN where unknown; None: all are.
    - lengths: frames of each exam, int64 [B], 1 or more; None: T of all.
    - covariates: [B, K], from encode_covariates(), of a run with --covariates.
    - starts: seconds of the exams' first frames since the zero that all exams share, [B], NaN where unknown, as
      cache.exams["elapsed_start"]; only of a run that was shown them (card["model"]["elapsed"]).
    - visits: of exams that --visits joined, the frames of the first visit and of the exam's own, int64 [B, 2].
    - clock: [B, F], from clock_inputs(), of the control `clock`.

    All are computed in the type of `features`, which is the model's: model.double() takes float64.

    Returns the head's outputs [B, C], for targets per frame [B, T, C] with 0 behind an exam's last frame. `single` picks its
    frame itself. `shuffled` sees features in the order in which they are given, and times in theirs: shuffle the former.
    """

    sees_frames = True

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__()
        self.card = dict(card)
        config = self.card["model"]
        self.inputs: str = config.get("inputs", "level")
        self.frame: str = config.get("frame_order", "in_order")  # or the one that is seen: first, middle, last
        self.per_frame: bool = config["temporal_pool"] == "none"
        self.dimension: int = config["dimension"]  # D as the model has it, from changes and covariates, too
        self.outputs: int = config["classes"]  # C
        self.covariates: int = config.get("covariates", 0)  # K
        self.covariates_at_frames: bool = config.get("covariates_at") == "frames"
        of_frames = self.dimension - (self.covariates if self.covariates_at_frames else 0)
        self.features: int = of_frames // {"level": 1, "change": 2, "both": 3}[self.inputs]  # D that forward() takes
        self.streams: int = len(config.get("streams", ()))
        self.stream_width: int = self.features // max(self.streams, 1) - 1
        self.only: int | None = config.get("only_stream")
        self.values: int = 3 if config.get("elapsed") else 2  # V
        self.dropout = nn.Dropout(config["dropout"])
        at_head = self.covariates > 0 and not self.covariates_at_frames and self.sees_frames
        self.covariate_head = nn.Linear(self.covariates, self.outputs, bias=False) if at_head else None

    @staticmethod
    def build(card: Mapping[str, Any]) -> TemporalModel:
        """The module that a card describes, with weights that are drawn."""
        return _KINDS[card["model"]["architecture"]](card)

    @staticmethod
    def load(path: Place) -> TemporalModel:
        """The model of a .safetensors file, ready to predict. ValueError: it is no model of `coldframe train`."""
        return read_model(Path(path).read_bytes(), str(path))

    def forward(
        self,
        features: Tensor,
        times: Tensor | None = None,
        lengths: Tensor | None = None,
        covariates: Tensor | None = None,
        *,
        starts: Tensor | None = None,
        visits: Tensor | None = None,
        clock: Tensor | None = None,
    ) -> Tensor:
        """The head's outputs, [B, C] or [B, T, C]. ValueError where an input is missing, or has another width."""
        self._require_inputs(features, covariates, clock)
        batch, frames = features.shape[:2]
        if lengths is None:
            lengths = torch.full((batch,), frames, device=features.device)
        if times is None:
            times = torch.full((batch, frames), NAN, device=features.device)
        one = {"first": torch.zeros_like(lengths), "middle": lengths // 2, "last": lengths - 1}.get(self.frame)
        if one is not None:
            features, times = frame_at(features, one), frame_at(times[..., None], one)[..., 0]
            lengths, frames = torch.ones_like(lengths), 1
        beyond = torch.arange(frames, device=features.device) >= lengths[:, None]
        time, known = time_inputs(times, starts, self.values)
        covariates, clock = (None if x is None else x.to(features.dtype) for x in (covariates, clock))
        exams = Exams(lengths, beyond, time.to(features.dtype), known.to(features.dtype), covariates, visits, clock)
        if self.sees_frames:
            features = with_changes(features.masked_fill(beyond[..., None], 0), self.inputs)
            if self.covariates_at_frames and covariates is not None:
                features = torch.cat([features, exams.of_frames(covariates)], -1)
        outputs = self.outputs_of(features, exams)
        if self.covariate_head is not None and covariates is not None:
            outputs = outputs + self.covariate_head(exams.of_frames(covariates) if self.per_frame else covariates)
        return outputs.masked_fill(beyond[..., None], 0) if self.per_frame else outputs

    def outputs_of(self, features: Tensor, exams: Exams) -> Tensor:
        """The outputs without the term of covariates beside the head, [B, C] or [B, T, C]."""
        raise NotImplementedError

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """What `predict` makes of outputs [..., C], by target; it takes their mean over the models of a run.

        Probabilities of the classes [..., classes]; numbers [...] in the unit of the column; of times to an event the risk
        and the probabilities of no event up to each of the target's horizons [..., 1 + horizons]. The program computes
        this in float64.
        """
        targets = self.card["targets"]
        parts = outputs.split_with_sizes([_output_count(target) for target in targets], -1)
        return {target["name"]: _read(target, part) for target, part in zip(targets, parts, strict=True)}

    def encode_covariates(self, exams: Iterable[Mapping[str, Any]]) -> Tensor:
        """[B, K] from {"age": 61, "sex": "F"} of each exam; None, "" and NaN are missing, and so is a category that the
        training part did not have. Categories are compared without case and white space. KeyError: a column is missing."""
        rows = [[number for column in self.card["covariates"] for number in _encoded(column, exam)] for exam in exams]
        return torch.tensor(rows, dtype=torch.float32)

    def clock_inputs(
        self,
        times: Tensor,
        *,
        missing: int = 0,
        width: int = 0,
        height: int = 0,
        kind: str = "",
        start: float = NAN,
    ) -> Tensor:
        """What `clock` is told of one exam, [F]: the times of its frames [T], how many are missing, the size of a frame in
        pixels, the kind of its source as the cache has it (exams/source_kind), and the start since the shared zero."""
        steps = times.double().diff()
        steps = steps[steps.isfinite()]
        mean = steps.mean().item() if len(steps) else 0.0
        uneven = steps.std(correction=0).item() / mean if mean > 0 else 0.0
        logs = [len(times), missing], [max(steps.sum().item(), 0.0), width, height]
        counts, sizes = [[math.log1p(value) for value in part] for part in logs]
        told = [*counts, math.log(mean) if mean > 0 else 0.0, uneven, *sizes, float(len(steps) == 0)]
        told += [float(kind == known) for known in self.card["source_kinds"]]
        told.append(0.0 if math.isnan(start) else math.copysign(math.log1p(abs(start)), start))
        return torch.tensor(told[: self.card["model"]["clock_width"]], dtype=torch.float32)

    def is_of(self, stream: int, place: Tensor) -> Tensor:
        """Which features are this stream's, of their places."""
        return (place >= stream * self.stream_width) & (place < (stream + 1) * self.stream_width)

    def _require_inputs(self, features: Tensor, covariates: Tensor | None, clock: Tensor | None) -> None:
        if features.dim() != 3 or (self.sees_frames and features.shape[-1] != self.features):
            raise ValueError(f"features are {list(features.shape)}; expected [B, T, {self.features}]")
        found = None if covariates is None else covariates.shape[-1]
        if self.covariates and found != self.covariates:
            raise ValueError(f"covariates are {found} numbers; expected {self.covariates}: take encode_covariates()")
        if isinstance(self, Clock) and clock is None:
            raise ValueError("`clock` needs clock=clock_inputs(...) of each exam")


def frame_at(x: Tensor, place: Tensor) -> Tensor:
    """The frame at `place` [B] of each exam: [B, T, W] → [B, 1, W]"""
    return x.gather(1, place[:, None, None].expand(-1, 1, x.shape[-1]))


def time_inputs(times: Tensor, starts: Tensor | None = None, values: int = 2) -> tuple[Tensor, Tensor]:
    """Seconds [B, T] → the log of the interval before each frame, the seconds since the first, and of 3 `values` the log of
    the seconds since the shared zero, 0 where unknown; and whether each is known. Both are [B, T, values], float64."""
    times = times.double()
    before = torch.cat([torch.full_like(times[:, :1], NAN), times[:, :-1]], 1)
    told = [(times - before).clamp(min=1e-4).log(), times - times[:, :1]]
    if values == 3:
        since = (torch.full_like(times[:, 0], NAN) if starts is None else starts.double())[:, None] + times
        told.append(since.sign() * since.abs().log1p())
    time = torch.stack(told, -1)
    return time.where(~time.isnan(), 0), (~time.isnan()).double()


def with_changes(x: Tensor, inputs: str) -> Tensor:
    """--inputs: features [B, T, D], or in their place or beside them the differences from the first frame and the frame
    before, [B, T, 2 D] or [B, T, 3 D]."""
    if inputs == "level":
        return x
    changes = [x - x[:, :1], x - torch.cat([x[:, :1], x[:, :-1]], 1)]
    return torch.cat(changes if inputs == "change" else [x, *changes], -1)


class FrameNetwork(TemporalModel):
    """standardise → project, or weigh streams → times beside it → layers over frames → pool → head"""

    ordered = True  # sees times, and is pooled as the configuration says
    feature_mean: Tensor
    feature_std: Tensor
    time_mean: Tensor
    time_std: Tensor

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        config = self.card["model"]
        self.hidden_size: int = config["hidden"]  # H
        self.layers: int = config["layers"]
        self.both_ways: bool = config["bidirectional"] and config["architecture"] in ("gru", "lstm")
        self.encoding: str = config["time_encoding"]
        self.sees_times: bool = self.ordered and config["time"]
        self.pool: str = config["temporal_pool"] if self.ordered or self.per_frame else config["architecture"]
        self.register_buffer("feature_mean", torch.zeros(self.dimension))
        self.register_buffer("feature_std", torch.ones(self.dimension))
        self.fusion: nn.ModuleList | None = None
        if config.get("fusion") == "gated":
            gates = (nn.Linear(self.stream_width, 2 * self.hidden_size) for _ in range(self.streams))
            self.fusion = nn.ModuleList(gates)
        else:
            self.project = nn.Linear(self.dimension, self.hidden_size)
        self.times_size = 0  # numbers beside the projected features
        if self.sees_times:
            self.register_buffer("time_mean", torch.zeros(self.values))
            self.register_buffer("time_std", torch.ones(self.values))
            self.times_size = self.values + 1
            if self.encoding == "time2vec":
                self.time2vec = nn.Linear(1, 8)
                self.times_size += 8
        width = self.hidden_size * (2 if self.both_ways else 1)
        if self.pool == "attention":
            self.attention = nn.Linear(width, 1)
        self.head = nn.Linear(width, self.outputs)

    def outputs_of(self, features: Tensor, exams: Exams) -> Tensor:
        """[B, T, D] → [B, C] or [B, T, C]"""
        x = (features - self.feature_mean) / self.feature_std
        if self.streams:
            x = self.without_missing(x)
        x = self.dropout(self.project(x) if self.fusion is None else self.weighed(x, self.fusion))
        if self.sees_times:
            x = torch.cat([x, *self.times_of(exams)], -1)
        x = self.over_frames(x, exams)
        outputs: Tensor = self.head(self.dropout(x if self.per_frame else self.pooled(x, exams)))
        return outputs

    def over_frames(self, x: Tensor, exams: Exams) -> Tensor:
        """[B, T, H + times] → [B, T, W]"""
        raise NotImplementedError

    def without_missing(self, x: Tensor) -> Tensor:
        """A stream that has no frame counts as its mean; the control only-STREAM has no other."""
        x = x.where(~x.isnan(), 0)
        if self.only is None:
            return x
        place = torch.arange(self.dimension, device=x.device)
        flag = self.streams * self.stream_width + self.only
        return x * (self.is_of(self.only, place) | (place == flag) | (place >= self.features))

    def weighed(self, x: Tensor, fusion: nn.ModuleList) -> Tensor:
        """Gated multimodal units (Arevalo et al. 2017), with a softmax over the streams that are there; 0 without any."""
        *streams, there = x.split_with_sizes([self.stream_width] * self.streams + [self.streams], -1)
        both = torch.stack([gate(stream) for gate, stream in zip(fusion, streams, strict=True)], -2)  # [B, T, S, 2 H]
        value, score = both.chunk(2, -1)
        weight = there[..., None] * (score - score.detach().amax(-2, keepdim=True)).exp()
        return (weight * value.tanh()).sum(-2).div(weight.sum(-2).clamp(min=1e-12))

    def times_of(self, exams: Exams) -> list[Tensor]:
        """Standardised, and whether the frame's time is unknown; with Time2Vec (Kazemi et al. 2019) also a line and
        sinusoids of the seconds since the first frame."""
        time = (exams.time - self.time_mean) / self.time_std * exams.known
        told, known = [time, 1 - exams.known[..., 1:2]], exams.known[..., 1:2]
        if self.encoding == "time2vec":
            phase = self.time2vec(time[..., 1:2])
            told.append(torch.cat([phase[..., :1], phase[..., 1:].sin()], -1) * known)
        return told

    def pooled(self, x: Tensor, exams: Exams) -> Tensor:
        """[B, T, W] → [B, W]: the last frame (read backwards: the first), the mean, or the mean weighted by attention."""
        if self.pool == "last":
            last = frame_at(x, exams.lengths - 1)[:, 0]
            return torch.cat([last[:, : self.hidden_size], x[:, 0, self.hidden_size :]], -1) if self.both_ways else last
        x = x.masked_fill(exams.beyond[..., None], 0)
        if self.pool == "mean":
            return x.sum(1) / exams.lengths[:, None]
        score = self.attention(x).masked_fill(exams.beyond[..., None], -torch.inf)
        weighted: Tensor = score.softmax(1) * x
        return weighted.sum(1)


class Pooled(FrameNetwork):
    """`mean`, `attention` and `single`: a hidden layer on each frame by itself."""

    ordered = False

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        self.hidden = nn.Linear(self.hidden_size, self.hidden_size)

    def over_frames(self, x: Tensor, exams: Exams) -> Tensor:
        """[B, T, H] → [B, T, H]"""
        return gelu(self.hidden(x))


class Gates(nn.Module):
    """The parameters of torch.nn.GRU (3 gates) or torch.nn.LSTM (4), which torch.compile does not enter by itself."""

    def __init__(self, gates: int, inputs: int, hidden: int, layers: int, both_ways: bool) -> None:
        super().__init__()
        self.directions = ["", "_reverse"] if both_ways else [""]
        self.names = [f"_l{layer}{direction}" for layer in range(layers) for direction in self.directions]
        for number, name in enumerate(self.names):
            width = inputs if number < len(self.directions) else hidden * len(self.directions)
            shapes = [(gates * hidden, width), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)]
            for part, shape in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), shapes, strict=True):
                bound = hidden**-0.5
                self.register_parameter(part + name, nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    def of(self, layer: int, direction: int) -> list[Tensor]:
        """weight_ih, weight_hh, bias_ih, bias_hh"""
        name = self.names[layer * len(self.directions) + direction]
        return [getattr(self, part + name) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


class Recurrent(FrameNetwork):
    """`gru`, `bigru` and `lstm`: torch.nn.GRU and LSTM, read backwards from each exam's own last frame. With
    --time-encoding decay a GRU's state fades between frames by exp(−max(0, w · interval + b)), as GRU-D's (Che 2018)."""

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        self.kind: str = self.card["model"]["architecture"]
        gates, width = {"gru": 3, "lstm": 4}[self.kind], self.hidden_size + self.times_size
        self.add_module(self.kind, Gates(gates, width, self.hidden_size, self.layers, self.both_ways))
        self.decays = self.sees_times and self.encoding == "decay"
        for layer in range(self.layers if self.decays else 0):
            self.add_module(f"decay_l{layer}", nn.Linear(1, self.hidden_size))

    def over_frames(self, x: Tensor, exams: Exams) -> Tensor:
        """[B, T, H + times] → [B, T, H], read both ways [B, T, 2 H]"""
        place = torch.arange(x.shape[1], device=x.device)
        turned = (exams.lengths[:, None] - 1 - place).where(~exams.beyond, place)[..., None]  # [B, T, 1]

        def backwards(x: Tensor) -> Tensor:
            return x.gather(1, turned.expand_as(x))

        for layer in range(self.layers):
            x = self.dropout(x) if layer > 0 else x
            if self.decays:
                x = self.decaying(x, exams, layer)
            elif self.both_ways:
                x = torch.cat([self.read(x, layer, 0), backwards(self.read(backwards(x), layer, 1))], -1)
            else:
                x = self.read(x, layer, 0)
        return x

    def read(self, x: Tensor, layer: int, direction: int) -> Tensor:
        """One layer, from the first frame to the last."""
        weights, start = getattr(self, self.kind).of(layer, direction), x.new_zeros(1, x.shape[0], self.hidden_size)
        if self.kind == "lstm":
            states, _, _ = torch.lstm(x, [start, start], weights, True, 1, 0.0, False, False, True)
        else:
            states, _ = torch.gru(x, start, weights, True, 1, 0.0, False, False, True)
        return states

    def decaying(self, x: Tensor, exams: Exams, layer: int) -> Tensor:
        """One layer of a GRU whose state fades; intervals count in the geometric mean interval of the training part."""
        weights = getattr(self, self.kind).of(layer, 0)
        interval = (exams.time[..., :1] - self.time_mean[0]).exp() * exams.known[..., :1]
        kept = (-getattr(self, f"decay_l{layer}")(interval).relu()).exp()
        states = [x.new_zeros(x.shape[0], self.hidden_size)]
        for t in range(x.shape[1]):
            states.append(torch.gru_cell(x[:, t], states[-1] * kept[:, t], *weights))
        return torch.stack(states[1:], 1)


class Transformer(FrameNetwork):
    """torch.nn.TransformerEncoder, norms first, whose queries and keys each frame's place turns: rotary positions (Su et
    al. 2021). A place counts geometric mean intervals from the first frame, or frames where times are unknown or hidden."""

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        width = self.hidden_size
        if self.times_size:
            self.time = nn.Linear(self.times_size, width)
        self.heads = next((heads for heads in range(width // 16, 1, -1) if width % (2 * heads) == 0), 1)
        layer = nn.TransformerEncoderLayer(width, self.heads, 2 * width, 0.0, gelu, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, self.layers, nn.LayerNorm(width), enable_nested_tensor=False)

    def over_frames(self, x: Tensor, exams: Exams) -> Tensor:
        """[B, T, H + times] → [B, T, H]"""
        if self.times_size:
            x = x[..., : self.hidden_size] + self.time(x[..., self.hidden_size :])
        return self.attend(x, self.places(exams), exams.beyond)

    def places(self, exams: Exams) -> Tensor:
        """[B, T] float64"""
        steps = torch.ones_like(exams.time[..., 0], dtype=torch.float64)
        if self.sees_times:
            intervals = (exams.time[..., 0].double() - self.time_mean[0]).exp()
            steps = intervals.where(exams.known[..., 0] > 0, steps)
        return torch.cat([torch.zeros_like(steps[:, :1]), steps[:, 1:]], 1).cumsum(1)

    def attend(self, x: Tensor, place: Tensor, beyond: Tensor) -> Tensor:
        """The encoder's layers, [B, T, H]."""
        layer: Any
        for layer in self.transformer.layers:
            own = layer.self_attn
            qkv = linear(layer.norm1(x), own.in_proj_weight, own.in_proj_bias)
            q, k, v = qkv.view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # [B, heads, T, d] each
            seen = scaled_dot_product_attention(turned(q, place), turned(k, place), v, ~beyond[:, None, None])
            x = x + self.dropout(own.out_proj(seen.transpose(1, 2).flatten(2)))
            x = x + self.dropout(layer.linear2(gelu(layer.linear1(layer.norm2(x)))))
        norm: Any = self.transformer.norm
        normed: Tensor = norm(x)
        return normed


def turned(x: Tensor, place: Tensor) -> Tensor:
    """[B, heads, T, d] → the same: a place turns values i and i + d / 2 as a pair, by place / 10000^(2 i / d)."""
    speed = 10000 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64, device=x.device) / x.shape[-1])
    angle = place[:, None, :, None] * speed  # [B, 1, T, d / 2]
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


class Convolutional(FrameNetwork):
    """`tcn`: residual blocks of two convolutions over three frames, 1, 2, 4, … apart, that see none to come (Bai 2018)."""

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        first = self.hidden_size + self.times_size
        self.tcn = nn.ModuleList(
            Block(self.hidden_size if layer else first, self.hidden_size, 2**layer, self.dropout)
            for layer in range(self.layers)
        )

    def over_frames(self, x: Tensor, exams: Exams) -> Tensor:
        """[B, T, H + times] → [B, T, H]"""
        x = x.transpose(1, 2)
        for block in self.tcn:
            x = block(x)
        return x.transpose(1, 2)


class Block(nn.Module):
    """[B, W, T] → [B, H, T]"""

    def __init__(self, inputs: int, hidden: int, apart: int, dropout: nn.Dropout) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, hidden, 3, dilation=apart)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, dilation=apart)
        self.downsample = nn.Conv1d(inputs, hidden, 1) if inputs != hidden else nn.Identity()
        self.before, self.dropout = nn.ConstantPad1d((2 * apart, 0), 0.0), dropout

    def forward(self, x: Tensor) -> Tensor:
        """gelu(x + two convolutions of it)"""
        y = x
        for convolution in (self.conv1, self.conv2):
            y = self.dropout(gelu(convolution(self.before(y))))
        return gelu(self.downsample(x) + y)


class Summary(TemporalModel):
    """`summary`: of each output a linear model of one number of every feature over the frames, its family's. A number that
    no frame has counts as its mean."""

    family: Tensor
    per_second: Tensor
    summary_mean: Tensor
    summary_std: Tensor

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        table = self.outputs, self.dimension
        self.register_buffer("feature_mean", torch.zeros(self.dimension))  # to explain outputs by
        self.register_buffer("feature_std", torch.ones(self.dimension))
        self.register_buffer("family", torch.zeros(self.outputs))  # a number in families()
        self.register_buffer("per_second", torch.zeros(1))  # 1: slopes are, else per frame
        self.register_buffer("summary_mean", torch.zeros(table))
        self.register_buffer("summary_std", torch.ones(table))
        self.head = nn.Linear(self.dimension, self.outputs)

    def outputs_of(self, features: Tensor, exams: Exams) -> Tensor:
        """[B, T, D] → [B, C]"""
        seen = ~(features.isnan() | exams.beyond[..., None])
        if self.only is not None:
            seen = seen & self.is_of(self.only, torch.arange(self.dimension, device=features.device))
        known = self.families(features.where(seen, 0), seen.to(features.dtype), exams)
        x = (known[self.family.long()] - self.summary_mean[:, None]) / self.summary_std[:, None]  # [C, B, D]
        return (x.where(~x.isnan(), 0) * self.head.weight[:, None]).sum(-1).T + self.head.bias

    def families(self, x: Tensor, seen: Tensor, exams: Exams) -> Tensor:
        """All nine of x [B, T, D], which is 0 where `seen` is; [9, B, D], NaN where no frame has the feature."""

        def mean(seen: Tensor) -> Tensor:
            return (x * seen).sum(1) / seen.sum(1).clamp(min=1)

        def at(place: Tensor) -> Tensor:
            return x.gather(1, (seen * place).argmax(1, keepdim=True))[:, 0]

        place = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]  # [T, 1]
        deviation = (((x - mean(seen)[:, None]) * seen) ** 2).sum(1) / seen.sum(1).clamp(min=1)
        first, last = at(place.flip(0)), at(place)
        maximum, minimum = (sign * (sign * x).masked_fill(seen == 0, -torch.inf).amax(1) for sign in (1, -1))
        of_all = [mean(seen), maximum, minimum, deviation.clamp(min=1e-12).sqrt(), first, last, last - first]
        of_some = [self.slope(x, seen, exams, place), self.between_visits(seen, exams, mean)]
        return torch.stack(of_all + of_some).masked_fill(seen.sum(1) == 0, NAN)

    def slope(self, x: Tensor, seen: Tensor, exams: Exams, place: Tensor) -> Tensor:
        """Of a line by least squares; 0 where there is one instant. Per second it leaves out frames at unknown times."""
        seen = torch.where(self.per_second > 0, seen * exams.known[..., 1:2], seen)
        time = torch.where(self.per_second > 0, exams.time[..., 1:2], place.to(x.dtype))  # [B, T, 1]
        count = seen.sum(1, keepdim=True)
        from_mean = (time - (time * seen).sum(1, keepdim=True) / count.clamp(min=1)) * seen
        spread = (from_mean**2).sum(1)
        rise = (from_mean * x).sum(1) / spread.masked_fill(spread == 0, 1)
        return rise.masked_fill(count[:, 0] == 0, NAN)

    def between_visits(self, seen: Tensor, exams: Exams, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """The mean of this visit's frames less that of the first visit's; 0 of exams that stand alone."""
        if exams.visits is None:
            return torch.zeros_like(seen[:, 0])
        lengths, (first, own) = exams.lengths, exams.visits.unbind(1)
        place = torch.arange(seen.shape[1], device=seen.device)
        is_own = place >= torch.where(own > 0, lengths - own, 0)[:, None]
        is_first = place < torch.where(first > 0, first, lengths)[:, None]
        parts = [seen * part[..., None] for part in (is_own, is_first)]
        there = torch.stack([part.sum(1) > 0 for part in parts]).all(0)
        return (mean(parts[0]) - mean(parts[1])).masked_fill(~there, NAN)


class Clock(TemporalModel):
    """The control `clock`: an MLP on clock_inputs(); of a frame also on its place and time."""

    sees_frames = False
    clock_mean: Tensor
    clock_std: Tensor
    time_mean: Tensor
    time_std: Tensor

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        width: int = self.card["model"]["clock_width"]  # F
        self.register_buffer("clock_mean", torch.zeros(width))
        self.register_buffer("clock_std", torch.ones(width))
        if self.per_frame:
            self.register_buffer("time_mean", torch.zeros(self.values))
            self.register_buffer("time_std", torch.ones(self.values))
        self.project = nn.Linear(width + (3 if self.per_frame else 0), 32)
        self.head = nn.Linear(32, self.outputs)

    def outputs_of(self, features: Tensor, exams: Exams) -> Tensor:
        """[B, F] → [B, C] or [B, T, C]"""
        assert exams.clock is not None
        x = (exams.clock - self.clock_mean) / self.clock_std
        if self.per_frame:
            place = torch.arange(exams.beyond.shape[1], device=x.device) / (exams.lengths[:, None] - 1).clamp(min=1)
            known = exams.known[..., 1]
            since = (exams.time[..., 1] - self.time_mean[1]) / self.time_std[1] * known
            x = torch.cat([exams.of_frames(x), torch.stack([place.to(x.dtype), since, 1 - known], -1)], -1)
        outputs: Tensor = self.head(self.dropout(self.project(x).relu()))
        return outputs


class Covariates(TemporalModel):
    """The control `covariates`: an MLP on them alone."""

    sees_frames = False

    def __init__(self, card: Mapping[str, Any]) -> None:
        super().__init__(card)
        self.project = nn.Linear(self.covariates, self.card["model"]["hidden"])
        self.head = nn.Linear(self.card["model"]["hidden"], self.outputs)

    def outputs_of(self, features: Tensor, exams: Exams) -> Tensor:
        """[B, K] → [B, C] or [B, T, C]"""
        assert exams.covariates is not None
        outputs: Tensor = self.head(self.dropout(self.project(exams.covariates).relu()))
        return exams.of_frames(outputs) if self.per_frame else outputs


_KINDS: dict[str, type[TemporalModel]] = {
    "gru": Recurrent,
    "lstm": Recurrent,
    "transformer": Transformer,
    "tcn": Convolutional,
    "mean": Pooled,
    "attention": Pooled,
    "summary": Summary,
    "clock": Clock,
    "covariates": Covariates,
}


def _output_count(target: Mapping[str, Any]) -> int:
    classes = len(target["classes"])
    counts = {"regression": 1, "cox": 1, "ordinal": classes - 1}
    return int(counts.get(target["task"], classes))


def _read(target: Mapping[str, Any], outputs: Tensor) -> Tensor:
    if target["task"] == "regression":
        return outputs[..., 0].mul(target["deviation"]).add(target["mean"])
    if target["task"] == "cox":
        return _read_survival(target, outputs)
    if target["task"] != "ordinal":
        return outputs.div(target["temperature"]).softmax(-1)
    exceeded = outputs.sigmoid().cumprod(-1)  # P(class > k)
    one = torch.ones_like(exceeded[..., :1])
    return torch.cat([one, exceeded], -1) - torch.cat([exceeded, torch.zeros_like(one)], -1)


def _read_survival(target: Mapping[str, Any], outputs: Tensor) -> Tensor:
    """The risk, then the probability of no event up to each horizon."""
    horizons, times, hazards = (outputs.new_tensor(target[name]) for name in ("horizons", "times", "hazards"))
    none = torch.zeros_like(outputs[..., :1]).flatten()[:1]
    risk = target["mean"] + target["deviation"] * outputs
    # The baseline's cumulative hazard is a step function; logarithms add up.
    baseline = torch.cat([none, hazards])[torch.searchsorted(times, horizons, right=True)]
    return torch.cat([risk, (-(baseline.log() + risk).exp()).exp()], -1)


def _encoded(column: Mapping[str, Any], exam: Mapping[str, Any]) -> list[float]:
    value = exam[column["name"]]
    missing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
    if "categories" in column:
        place = None if missing else _place_of(column["categories"], value)
        numbers, missing = [float(place == i) for i in range(len(column["categories"]))], place is None
    else:
        tells = not missing and column["deviation"] > 0
        numbers = [(float(value) - column["mean"]) / column["deviation"] if tells else 0.0]
    return numbers + [float(missing)] * column["missing"]


def _place_of(categories: list[str], value: object) -> int | None:
    """Its own spelling, or else the only one that is spelt alike."""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if text in categories:
        return categories.index(text)
    alike = [place for place, known in enumerate(categories) if _plain(known) == _plain(text)]
    return alike[0] if len(alike) == 1 else None


def _plain(text: str) -> str:
    """Without case, forms of letters, and white space but between digits."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)


def read_model(data: bytes, name: str) -> TemporalModel:
    """The model of a file's content (github.com/huggingface/safetensors, "Format"). ValueError, which says `name`."""
    try:
        start = 8 + int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:start])
        facts = entries.pop("__metadata__", {})
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{name} is no safetensors file: {error}") from error
    if facts.get("format") != FORMAT:
        raise ValueError(f"{name} is of the format {facts.get('format')}; expected {FORMAT}, of `coldframe train`")
    tensors = {}
    for key, entry in entries.items():
        first, last = entry["data_offsets"]
        values = torch.frombuffer(bytearray(data[start + first : start + last]), dtype=torch.float32)
        tensors[key] = values.reshape(entry["shape"])
    model = TemporalModel.build(json.loads(facts["card"]))
    model.load_state_dict(tensors)
    return model.eval()


def read_models(folder: Path, files: Mapping[str, bytes]) -> list[TemporalModel]:
    """The models of a folder's files, by repeat, fold and seed. FileNotFoundError where there are none."""
    if not files:
        raise FileNotFoundError(f"no model at {folder}; expected those of a run of `coldframe train`, or of a bundle")
    models = [read_model(data, str(folder / name)) for name, data in files.items()]
    return sorted(models, key=lambda model: (model.card["repeat"], model.card["fold"], model.card["seed"]))


def drop_missing(features: Tensor, times: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features [B, T, D], times and present [B, T], as collate() has them → features, times and lengths without the frames
    that are missing, as a model takes them."""
    order = present.int().argsort(dim=1, descending=True, stable=True)
    return features.gather(1, order[..., None].expand_as(features)), times.gather(1, order), present.sum(1)
