"""The temporal model in PyTorch, for readers of model.safetensors."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TemporalModel(nn.Module):
    """features [B, T, D], lengths [B], and with time inputs [B, T, 4] (see batcher.h) → logits."""

    def __init__(self, config):
        super().__init__()
        hidden, time = config["hidden"], 3 if config["time"] else 0
        self.pool, width = config["temporal_pool"], hidden
        self.kind, self.encoding = config["architecture"], config["time_encoding"]
        for name in ["feature_mean", "feature_std"]:
            self.register_buffer(name, torch.zeros(config["dimension"]))
        if time:
            self.register_buffer("time_mean", torch.zeros(2))
            self.register_buffer("time_std", torch.ones(2))
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
        else:
            self.pool = self.kind
        if self.pool == "attention":
            self.attention = nn.Linear(width, 1)
        self.head = nn.Linear(width, config["classes"])
        self.dropout = nn.Dropout(config["dropout"])

    def forward(self, features, lengths, time=None):
        x = self.dropout(self.project((features - self.feature_mean) / self.feature_std))
        if time is not None:
            value = (time[..., :2] - self.time_mean) / self.time_std
            value = value * time[..., 2:]
            parts = [x, value, 1 - time[..., 3:]]
            if self.encoding == "time2vec":
                phase = self.time2vec(value[..., 1:])
                parts.append(torch.cat([phase[..., :1], phase[..., 1:].sin()], -1) * time[..., 3:])
            x = torch.cat(parts, -1)
        beyond = torch.arange(x.shape[1])[None] >= lengths[:, None]
        frames = x.masked_fill(beyond[..., None], 0)
        if time is not None and self.encoding == "decay":
            frames, last, layers = *self.decaying(x, lengths, time), self.gru
        elif self.kind in ("gru", "lstm"):
            layers = getattr(self, self.kind)
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            frames, last = layers(packed)
            frames, _ = pad_packed_sequence(frames, batch_first=True)
            last = last[0] if self.kind == "lstm" else last
        if self.pool == "last":
            pooled = torch.cat([last[-2], last[-1]], 1) if layers.bidirectional else last[-1]
        elif self.pool == "mean":
            pooled = frames.sum(1) / lengths[:, None]
        else:
            score = self.attention(frames)[..., 0].masked_fill(beyond, -torch.inf)
            pooled = (score.softmax(1)[..., None] * frames).sum(1)
        return self.head(self.dropout(pooled))

    def decaying(self, x, lengths, time):
        interval = (time[..., :1] - self.time_mean[0]).exp() * time[..., 2:3]
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
