"""Encoders of clips with random weights: transformers' own, and the authors' (MCG-NJU/VideoMAE, OpenGVLab/VideoMAEv2,
facebookresearch/vjepa2), whose code may not be copied, as a model in our own words.

What the authors compute (modeling_finetune.py of VideoMAE; src/models and app/vjepa_2_1/models of vjepa2): a convolution
whose stride is its kernel cuts tubelets of 2 × 16 × 16; blocks add attention and MLP of the normalised tokens; heads are
equal parts of a token. VideoMAE adds sinusoids of the number that a token has among all of the clip, has biases for
queries and values but not for keys, and ends in a norm of the tokens (pre-trained) or of their mean (fine-tuned).
V-JEPA 2 turns queries and keys by step, row and column, each a third of a head's numbers; see `turned`. V-JEPA 2.1 also
adds a vector to all tokens of clips, has a norm for each of four blocks' outputs, the last for its features, and layers
for images that clips never meet."""

import math

import torch
import transformers
from torch import nn

from timm_models import train_like


def clips_of(frames, height, width=None, batch=2, seed=1):
    """Smooth in space and time, with some noise: [B, T, 3, H, W]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, 3, max(2, frames // 2), 5, 5, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(frames, height, width or height), mode="trilinear")
    return (smooth + 0.2 * torch.randn(smooth.shape, generator=generator)).transpose(1, 2).contiguous()


def turned(x, places, layout):
    """x [B, heads, tokens, d]; places: three of [tokens]. Number i of a third of n numbers meets its neighbour (0 with 1,
    2 with 3, …) and turns by its place times 10000^(-2j/n), where j is i modulo n/2 in V-JEPA 2 ("tiled": two neighbours
    turn by different angles) and i halved in V-JEPA 2.1 ("pairs"). "halves" is what most other libraries mean by rotary
    positions: i meets i + n/2."""
    n = x.shape[-1] // 3 // 2 * 2
    parts = []
    for axis, place in enumerate(places):
        part = x[..., axis * n:(axis + 1) * n]
        numbers = torch.arange(n)
        exponent = numbers // 2 if layout == "pairs" else numbers % (n // 2)
        angles = place.float()[:, None] * 10000.0 ** (-2 * exponent / n)
        if layout == "halves":
            other = torch.cat([-part[..., n // 2:], part[..., :n // 2]], -1)
        else:
            other = torch.empty_like(part)
            other[..., 0::2], other[..., 1::2] = -part[..., 1::2], part[..., 0::2]
        parts.append(part * angles.cos() + other * angles.sin())
    return torch.cat([*parts, x[..., 3 * n:]], -1)


class Block(nn.Module):
    def __init__(self, width, heads, hidden, key_bias):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.Module()
        self.attn.qkv = nn.Linear(width, 3 * width, bias=key_bias)
        if not key_bias:
            self.attn.q_bias, self.attn.v_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.attn.proj = nn.Linear(width, width)
        self.mlp = nn.Module()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x, turn):
        queries, keys, values = self.attn.qkv(self.norm1(x)).chunk(3, -1)
        if self.attn.qkv.bias is None:
            queries, values = queries + self.attn.q_bias, values + self.attn.v_bias
        queries, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (queries, keys, values))
        queries, keys = turn(queries), turn(keys)
        weights = torch.softmax(queries @ keys.mT / math.sqrt(queries.shape[-1]), -1)
        x = x + self.attn.proj((weights @ values).transpose(1, 2).flatten(2))
        return x + self.mlp.fc2(nn.functional.gelu(self.mlp.fc1(self.norm2(x))))


class Authors(nn.Module):
    """`family`: videomae (fine-tuned), videomae_pretrained, videomae_learned, vjepa2 or vjepa2_1. Its state has the authors' names."""

    def __init__(self, family, width=64, depth=2, heads=4, hidden=None, patch=16, frames=16, side=224):
        super().__init__()
        self.family, self.layout = family, {"vjepa2": "tiled", "vjepa2_1": "pairs"}.get(family)
        self.patch, self.width = patch, width
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv3d(3, width, (2, patch, patch), (2, patch, patch))
        hidden = hidden or 4 * width
        self.blocks = nn.ModuleList([Block(width, heads, hidden, not family.startswith("videomae")) for _ in range(depth)])
        if family == "vjepa2_1":
            self.patch_embed_img = nn.Module()
            self.patch_embed_img.proj = nn.Conv3d(3, width, (1, patch, patch), (1, patch, patch))
            self.img_mod_embed, self.video_mod_embed = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 1, width))
            self.norms_block = nn.ModuleList([nn.LayerNorm(width, eps=1e-6) for _ in range(4)])
        elif family in ("videomae", "videomae_learned"):
            self.fc_norm = nn.LayerNorm(width, eps=1e-6)
        else:
            self.norm = nn.LayerNorm(width, eps=1e-6)
        if family == "videomae_learned":
            self.pos_embed = nn.Parameter(torch.zeros(1, frames // 2 * (side // patch) ** 2, width))

    def places(self, steps, rows, columns):
        return [place.flatten().float() for place in
                torch.meshgrid(torch.arange(steps), torch.arange(rows), torch.arange(columns), indexing="ij")]

    def positions(self, tokens):
        if self.family == "videomae_learned":
            return self.pos_embed
        pair = torch.arange(self.width, dtype=torch.float64) // 2
        angles = torch.arange(tokens)[:, None] / 10000 ** (2 * pair / self.width)
        angles[:, 0::2], angles[:, 1::2] = angles[:, 0::2].sin(), angles[:, 1::2].cos()
        return angles.float()

    def tokens(self, clips):
        """[B, T, 3, H, W] -> what enters the last norm."""
        steps, rows, columns = clips.shape[1] // 2, clips.shape[3] // self.patch, clips.shape[4] // self.patch
        x = self.patch_embed.proj(clips.transpose(1, 2)).flatten(2).mT
        places = self.places(steps, rows, columns)
        if self.family.startswith("videomae"):
            x = x + self.positions(x.shape[1])
        if self.family == "vjepa2_1":
            x = x + self.video_mod_embed
            grid = 256 // self.patch
            places = [places[0], places[1] * (grid - 1) / (rows - 1), places[2] * (grid - 1) / (columns - 1)]
        for block in self.blocks:
            x = block(x, (lambda part: turned(part, places, self.layout)) if self.layout else (lambda part: part))
        return x

    def last_norm(self, x):
        return self.norms_block[-1](x) if self.family == "vjepa2_1" else self.norm(x)

    @torch.inference_mode()
    def features(self, clips):
        """By --pool."""
        x, steps = self.tokens(clips), clips.shape[1] // 2
        if not hasattr(self, "fc_norm"):
            x = self.last_norm(x)
        found = {"mean": x.mean(1), "time": x.unflatten(1, (steps, -1)).mean(2)}
        if hasattr(self, "fc_norm"):
            found = {pool: self.fc_norm(features) for pool, features in found.items()}
        return {"mean": found["mean"], "time": found["time"].flatten(1)}


def authors(family, seed=0, **shape):
    return train_like(Authors(family, **shape), seed)


VIDEOMAE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 160, "image_size": 48,
            "num_frames": 8}
VJEPA2 = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_ratio": 2.5, "crop_size": 48,
          "frames_per_clip": 8, "pred_hidden_size": 48, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 2,
          "num_pooler_layers": 2}


def videomae(kind="ForVideoClassification", **config):
    """transformers' VideoMAE… with random weights."""
    pretrained = kind == "ForPreTraining"
    config = transformers.VideoMAEConfig(**{**VIDEOMAE, "use_mean_pooling": not pretrained, **config})
    return train_like(getattr(transformers, "VideoMAE" + kind)(config), 0)


def vjepa2(kind="Model", **config):
    return train_like(getattr(transformers, "VJEPA2" + kind)(transformers.VJEPA2Config(**{**VJEPA2, **config})), 0)


@torch.inference_mode()
def transformers_features(model, clips):
    """By --pool: what transformers' encoder gives, averaged; behind VideoMAE's average its classifier's norm."""
    encoder = getattr(model, "videomae", getattr(model, "vjepa2", model))
    skip = {"skip_predictor": True} if isinstance(encoder, transformers.VJEPA2Model) else {}
    tokens = encoder(clips, **skip).last_hidden_state
    steps = clips.shape[1] // encoder.config.tubelet_size
    found = {"mean": tokens.mean(1), "time": tokens.unflatten(1, (steps, -1)).mean(2)}
    if getattr(model, "fc_norm", None) is not None:
        found = {pool: model.fc_norm(features) for pool, features in found.items()}
    return {"mean": found["mean"], "time": found["time"].flatten(1), "none": tokens.flatten(1)}
