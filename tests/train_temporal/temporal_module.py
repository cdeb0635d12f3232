"""The temporal model in PyTorch, for readers of model.safetensors."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TemporalModel(nn.Module):
    """features [B, T, D], lengths [B], and with time inputs [B, T, 4] (see batcher.h) → logits."""

    def __init__(self, config):
        super().__init__()
        hidden, time = config["hidden"], 3 if config["time"] else 0
        self.pool, width = config["temporal_pool"], hidden * (2 if config["bidirectional"] else 1)
        for name in ["feature_mean", "feature_std"]:
            self.register_buffer(name, torch.zeros(config["dimension"]))
        if time:
            self.register_buffer("time_mean", torch.zeros(2))
            self.register_buffer("time_std", torch.ones(2))
        self.project = nn.Linear(config["dimension"], hidden)
        self.gru = nn.GRU(hidden + time, hidden, config["layers"], batch_first=True,
                          bidirectional=config["bidirectional"])
        if self.pool == "attention":
            self.attention = nn.Linear(width, 1)
        self.head = nn.Linear(width, config["classes"])
        self.dropout = nn.Dropout(config["dropout"])

    def forward(self, features, lengths, time=None):
        x = self.dropout(self.project((features - self.feature_mean) / self.feature_std))
        if time is not None:
            value = (time[..., :2] - self.time_mean) / self.time_std
            x = torch.cat([x, value * time[..., 2:], 1 - time[..., 3:]], -1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        frames, last = self.gru(packed)
        frames, _ = pad_packed_sequence(frames, batch_first=True)
        if self.pool == "last":
            pooled = torch.cat([last[-2], last[-1]], 1) if self.gru.bidirectional else last[-1]
        elif self.pool == "mean":
            pooled = frames.sum(1) / lengths[:, None]
        else:
            beyond = torch.arange(frames.shape[1])[None] >= lengths[:, None]
            score = self.attention(frames)[..., 0].masked_fill(beyond, -torch.inf)
            pooled = (score.softmax(1)[..., None] * frames).sum(1)
        return self.head(self.dropout(pooled))
