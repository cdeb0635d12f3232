"""Reads from a timm model what extract/vit/published/models.csv holds of it.

    timm_rows.py extract/vit/published/models.csv    writes the file, and prints the models that it leaves out, with the reason
"""

import pathlib
import sys

import timm
import torch
from timm.layers import RmsNorm, SwiGLUPacked
from timm.models import deit, eva
from timm.models._registry import _deprecated_models, _module_to_models

MODULES = ("vision_transformer", "deit", "eva", "beit")
ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "SiLU": "silu", "GELUQuick": "quick_gelu",
               "GeluTanh": "gelu_tanh", "QuickGelu": "quick_gelu"}


# Models that are published with the arguments of timm.create_model on their cards (extract/pipeline/preset.cpp names these).
GATED = {"mlp_layer": SwiGLUPacked, "act_layer": torch.nn.SiLU}
CARDS = {
    "uni": ("vit_large_patch16_224", {"img_size": 224, "init_values": 1e-5}),
    "uni2_h": ("vit_giant_patch14_224", {
        "img_size": 224, "patch_size": 14, "depth": 24, "num_heads": 24, "init_values": 1e-5, "embed_dim": 1536,
        "mlp_ratio": 2.66667 * 2, "no_embed_class": True, "reg_tokens": 8, **GATED}),
    "virchow2": ("vit_huge_patch14_224", {
        "img_size": 224, "init_values": 1e-5, "mlp_ratio": 5.3375, "reg_tokens": 4, **GATED}),
    "prov_gigapath": ("vit_giant_patch14_dinov2", {
        "img_size": 224, "patch_size": 16, "embed_dim": 1536, "depth": 40, "num_heads": 24, "mlp_ratio": 5.33334}),
    "phikon_v2": ("vit_large_patch14_dinov2", {"img_size": 224, "patch_size": 16}),
    "medsiglip": ("vit_so400m_patch14_siglip_384", {"img_size": 448, "act_layer": "gelu_tanh"}),
}


class Unsupported(Exception):
    pass


def names(module):
    """Every name that one of timm's files registers, but its deprecated ones, of which some load no more."""
    return sorted(name for name in _module_to_models[module] if name not in _deprecated_models)


def activation_of(module):
    name = type(module).__name__
    if name not in ACTIVATIONS:
        raise Unsupported(f"activation {name}")
    return ACTIVATIONS[name]


def norm_of(model):
    """("layer" | "rms", eps), the same in all norms of a model that are supported."""
    kinds = set()
    for name, module in model.named_modules():
        if name.endswith(".sub_norm"):  # of differential attention, the same in all models
            continue
        if isinstance(module, RmsNorm):
            kinds.add(("rms", module.eps))
        elif isinstance(module, torch.nn.LayerNorm):
            kinds.add(("layer", module.eps))
        elif "norm" in type(module).__name__.lower() and list(module.parameters(recurse=False)):
            raise Unsupported(f"norm {type(module).__name__}")
    if len(kinds) != 1:
        raise Unsupported(f"norms of several kinds {sorted(kinds)}")
    return kinds.pop()


def is_present(module):
    return module is not None and not isinstance(module, torch.nn.Identity)


def read_attention(row, attn):
    row["differential"] = type(attn).__name__ == "DiffAttention"
    if row["differential"] and attn.dual_lambda:
        raise Unsupported("differential attention with two numbers for lambda")
    if getattr(attn, "num_kv_groups", 1) != 1:
        raise Unsupported("grouped queries")
    if getattr(attn, "gate", None) is not None:
        raise Unsupported("a gated attention")
    row["heads"] = attn.num_heads
    row["qk_norm"] = is_present(getattr(attn, "q_norm", None))
    row["attention_norm"] = is_present(getattr(attn, "norm", None))
    if getattr(attn, "qkv", None) is not None:
        row["qkv_bias"] = attn.qkv.bias is not None or getattr(attn, "q_bias", None) is not None
        row["qkv"] = "split_bias" if getattr(attn, "q_bias", None) is not None else "fused"
    else:
        row["qkv_bias"] = attn.q_proj.bias is not None
        row["qkv"] = "split"
    row["projection_bias"] = attn.proj.bias is not None
    row["relative_positions"] = getattr(attn, "relative_position_bias_table", None) is not None


def read_mlp(row, mlp):
    kind = type(mlp).__name__
    if kind == "GluMlp" and mlp.gate_last or kind not in ("Mlp", "GluMlp", "SwiGLU"):
        raise Unsupported(f"an MLP {kind}")
    row["gated_mlp"] = kind != "Mlp"
    row["mlp_hidden"] = mlp.fc2.in_features
    row["mlp_norm"] = is_present(mlp.norm)
    row["activation"] = activation_of(mlp.act)
    row["mlp"] = {"Mlp": "plain", "GluMlp": "packed", "SwiGLU": "split"}[kind]
    if (mlp.fc2.bias is not None) != row["projection_bias"]:
        raise Unsupported("biases in one projection of two")


def read_block(row, block):
    kind = type(block).__name__
    if kind == "ParallelThingsBlock":
        row["block"] = "parallel_things"
        row["parallel"] = len(block.attns)
        attn, mlp = block.attns[0].attn, block.ffns[0].mlp
        row["layer_scale"] = is_present(block.attns[0].ls)
    elif kind == "ParallelScalingBlock":
        row["block"] = "parallel_scaling"
        if block.out_proj is not None:
            raise Unsupported("a fused output projection")
        row.update(heads=block.num_heads, qk_norm=is_present(block.q_norm), qkv_bias=block.in_proj.bias is not None,
                   projection_bias=block.attn_out_proj.bias is not None, mlp_hidden=block.mlp_out_proj.in_features,
                   activation=activation_of(block.mlp_act), layer_scale=is_present(block.ls))
        return
    elif kind in ("Block", "ResPostBlock", "EvaBlock", "EvaBlockPostNorm"):
        row["block"] = "post_norm" if "Post" in kind else "pre_norm"
        attn, mlp = block.attn, block.mlp
        if hasattr(block, "ls1"):
            row["layer_scale"] = is_present(block.ls1)
        else:
            row["layer_scale"] = getattr(block, "gamma_1", None) is not None
            if row["layer_scale"] != (getattr(block, "gamma_2", None) is not None):
                raise Unsupported("a layer scale of the attention alone")
            row["scale"] = "gamma" if row["layer_scale"] else "none"
    elif kind == "DiffParallelScalingBlock":
        raise Unsupported("differential attention")
    else:
        raise Unsupported(f"a block {kind}")
    read_attention(row, attn)
    read_mlp(row, mlp)


def read_rope(row, model):
    rope = getattr(model, "rope", None)
    if rope is None:
        return
    kind = type(rope).__name__
    kinds = {"RotaryEmbeddingCat": "axial", "RotaryEmbeddingMixed": "mixed", "RotaryEmbeddingDinoV3": "dinov3"}
    if kind not in kinds:
        raise Unsupported(f"rotary positions {kind}")
    row["rotary"] = kinds[kind]
    row["rotary_xy"] = rope.grid_indexing == "xy"
    attn = model.blocks[0].attn
    row["rotary_half"] = bool(attn.rotate_half)
    if kind != "RotaryEmbeddingMixed":
        row["rotary_temperature"] = float(rope.temperature)
        row["rotary_offset"] = float(rope.grid_offset)
    if kind == "RotaryEmbeddingCat":
        if rope.in_pixels or rope.grid_type != "index":
            raise Unsupported("rotary positions in pixels")
        if rope.ref_feat_shape is not None:
            row["rotary_grid"] = rope.ref_feat_shape[0]
    if kind == "RotaryEmbeddingDinoV3" and (rope.normalize_coords != "separate" or rope.min_period):
        raise Unsupported("another DINOv3 rotary embedding")


def read_pool(row, model):
    pool = getattr(model, "attn_pool", None)
    if pool is None:
        return
    if type(pool).__name__ != "AttentionPoolLatent" or pool.mlp is None or pool.pos_embed is not None or is_present(pool.q_norm) \
            or pool.latent_len != 1 or not is_present(pool.norm):
        raise Unsupported("another attention pooling")
    row["attention_pool"] = True
    row["pool_heads"] = pool.num_heads
    row["pool_hidden"] = pool.mlp.fc1.out_features
    row["pool_activation"] = activation_of(pool.mlp.act)
    row["pool_prefix"] = isinstance(model, eva.Eva) or model.pool_include_prefix


def read_row(model):
    """The fields of Architecture (extract/vit/architecture.h), and how timm names its tensors."""
    row = {}
    embed = model.patch_embed
    if type(embed).__name__ != "PatchEmbed":
        raise Unsupported(f"a stem {type(embed).__name__}")
    if embed.patch_size[0] != embed.patch_size[1]:
        raise Unsupported("oblong patches")
    row["patch"] = embed.patch_size[0]
    row["width"] = model.embed_dim
    row["depth"] = len(model.blocks)
    row["image"] = embed.img_size[0]
    row["position_grid"] = embed.grid_size[0]
    row["patch_bias"] = embed.proj.bias is not None
    row["patch_norm"] = is_present(embed.norm)
    row["class_token"] = model.cls_token is not None
    row["distilled"] = isinstance(model, deit.VisionTransformerDistilled)
    row["registers"] = 0 if getattr(model, "reg_token", None) is None else model.reg_token.shape[1]
    row["registers"] += row["distilled"]
    row["positions"] = getattr(model, "pos_embed", None) is not None
    if row["positions"]:
        prefix = model.pos_embed.shape[1] - embed.num_patches
        if prefix not in (0, row["class_token"] + row["registers"]):
            raise Unsupported("positions of some prefix tokens")
        row["prefix_positions"] = prefix > 0 or row["class_token"] + row["registers"] == 0
    if getattr(model, "rel_pos_bias", None) is not None:
        raise Unsupported("relative positions shared by all blocks")
    row["norm_pre"] = is_present(getattr(model, "norm_pre", None))
    row["norm"] = is_present(model.norm)
    row["fc_norm"] = is_present(model.fc_norm)
    read_block(row, model.blocks[0])
    kind, row["norm_epsilon"] = norm_of(model)
    row["rms_norm"] = kind == "rms"
    read_rope(row, model)
    read_pool(row, model)
    row["global_pool"] = model.global_pool
    return row


def create(name, **options):
    """timm's model of this name, or of this one in CARDS."""
    timm_name, arguments = CARDS.get(name, (name, {}))
    return timm.create_model(timm_name, num_classes=0, **{**arguments, **options})


def build_on_meta(name, **options):
    with torch.device("meta"):
        return create(name, **options)


# Architecture's defaults (extract/vit/architecture.h), and those of the rest of a row.
DEFAULTS = {"patch": 16, "width": 384, "depth": 12, "mlp_hidden": 1536, "position_grid": 14, "registers": 0, "parallel": 1,
            "pool_hidden": 0, "class_token": True, "patch_bias": True, "patch_norm": False, "positions": True,
            "prefix_positions": True, "relative_positions": False, "norm_pre": False, "layer_scale": False, "qkv_bias": True,
            "projection_bias": True, "qk_norm": False, "attention_norm": False, "differential": False, "gated_mlp": False, "mlp_norm": False,
            "rms_norm": False, "norm": True, "fc_norm": False, "attention_pool": False, "heads": 6, "activation": "gelu",
            "block": "pre_norm", "norm_epsilon": 1e-6, "rotary": "none", "rotary_half": False, "rotary_xy": False,
            "rotary_temperature": 0.0, "rotary_offset": 0.0, "rotary_grid": 0, "pool_heads": 0, "pool_activation": "gelu",
            "pool_prefix": False, "image": 224, "pool": "cls", "gamma_names": False, "split_names": False}


def text(value):
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def table_row(model):
    """read_row() as the table has it: all fields as text."""
    row = read_row(model)
    pool = row.pop("global_pool")
    row["pool"] = "prefix-mean" if row["distilled"] else {"token": "cls", "avg": "mean", "map": "map"}[pool]
    row["gamma_names"] = row.pop("scale", "none") == "gamma"
    row["split_names"] = row.pop("qkv", "fused") != "fused"
    return {key: text(row.get(key, default)) for key, default in DEFAULTS.items()}


def difference(row, other):
    return " ".join(f"{key}={row[key]}" for key in DEFAULTS if row[key] != other[key])


def table():
    """The file's text, in which each row says what differs from an earlier one, and the models that are left out, with the reason."""
    known = {"": {key: text(value) for key, value in DEFAULTS.items()}}
    lines = [f"# Made by tests/extract/vit/timm_rows.py from timm {timm.__version__}.", "model,like,differences"]
    left_out = {}
    for name in [name for module in MODULES for name in names(module)] + sorted(CARDS):
        try:
            row = table_row(build_on_meta(name))
        except Unsupported as reason:
            left_out[name] = str(reason)
            continue
        like = min(known, key=lambda other: (len(difference(row, known[other])) + len(other) // 4, other != ""))
        lines.append(f"{name},{like},{difference(row, known[like])}")
        known[name] = row
    return "\n".join(lines) + "\n", left_out


def main(path):
    written, left_out = table()
    pathlib.Path(path).write_text(written)
    for name, reason in left_out.items():
        print(name, reason)


if __name__ == "__main__":
    main(sys.argv[1])
