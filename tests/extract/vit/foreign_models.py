"""Models of transformers and open_clip with random weights, each saved as its library saves it, with the features that
Coldframe's must equal."""

import inspect
import json

import open_clip
import torch
import transformers

from timm_models import train_like

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 160}
SIZED = {**SMALL, "image_size": 48, "patch_size": 8}
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 99,
        "bos_token_id": 97, "eos_token_id": 98, "pad_token_id": 1, "projection_dim": 24}


def of(family, kind, **config):
    return getattr(transformers, family + kind)(getattr(transformers, family + "Config")(**config))


# Each makes a model of transformers.
TRANSFORMERS = {
    "vit": lambda: of("ViT", "Model", **SIZED),
    "vit_classifier": lambda: of("ViT", "ForImageClassification", **SIZED),
    "vit_gelu_new": lambda: of("ViT", "Model", **SIZED, hidden_act="gelu_new"),
    "vit_without_qkv_bias": lambda: of("ViT", "Model", **SIZED, qkv_bias=False),
    "vit_grey": lambda: of("ViT", "Model", **SIZED, num_channels=1),
    "vit_mae": lambda: of("ViTMAE", "Model", **SIZED, mask_ratio=0.0),
    "deit": lambda: of("DeiT", "Model", **SIZED),
    "ijepa": lambda: of("IJepa", "Model", **SIZED),
    "dinov2": lambda: of("Dinov2", "Model", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=48,
                         patch_size=8),
    "dinov2_swiglu": lambda: of("Dinov2", "Model", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=48,
                                patch_size=8, use_swiglu_ffn=True),
    "dinov2_registers": lambda: of("Dinov2WithRegisters", "Model", hidden_size=64, num_hidden_layers=2,
                                   num_attention_heads=4, image_size=48, patch_size=8),
    "dinov3": lambda: of("DINOv3ViT", "Model", **SIZED, num_register_tokens=4),
    "dinov3_gated": lambda: of("DINOv3ViT", "Model", **SIZED, num_register_tokens=4, use_gated_mlp=True, hidden_act="silu"),
    "dinov3_other_theta": lambda: of("DINOv3ViT", "Model", **SIZED, num_register_tokens=2, rope_theta=50.0, key_bias=True),
    "clip": lambda: of("CLIPVision", "Model", **SIZED),
    "clip_gelu": lambda: of("CLIPVision", "Model", **SIZED, hidden_act="gelu", layer_norm_eps=1e-6),
    "clip_projection": lambda: transformers.CLIPVisionModelWithProjection(
        transformers.CLIPVisionConfig(**SIZED, projection_dim=24)),
    "clip_whole": lambda: transformers.CLIPModel(transformers.CLIPConfig(vision_config=SIZED, text_config=TEXT,
                                                                         projection_dim=24)),
    "siglip": lambda: of("SiglipVision", "Model", **SIZED),
    "siglip_whole": lambda: transformers.SiglipModel(transformers.SiglipConfig(vision_config=SIZED, text_config={
        **TEXT, "hidden_size": 64})),
    "beit": lambda: of("Beit", "Model", **SIZED),
    "beit_relative": lambda: of("Beit", "Model", **SIZED, use_relative_position_bias=True),
    "beit_shared_relative": lambda: of("Beit", "Model", **SIZED, use_shared_relative_position_bias=True),
    "beit_both_positions": lambda: of("Beit", "Model", **SIZED, use_relative_position_bias=True,
                                      use_absolute_position_embeddings=True, use_mean_pooling=False),
}

# Without a way to take other sizes, or with one that Coldframe refuses.
NATIVE_SIZE_ONLY = {"vit_mae", "beit", "beit_relative", "beit_shared_relative", "beit_both_positions"}


def save_transformers(name, folder):
    """The model, and its features by --pool for images."""
    torch.manual_seed(0)
    model = train_like(TRANSFORMERS[name](), 0)
    model.save_pretrained(folder)
    return model


def encoder_of(model):
    for part in ("vit", "vision_model"):
        model = getattr(model, part, model)
    return model


def transformers_features(name, model, images):
    """By --pool: the class token and the mean over patches of the normalised tokens, and what the pooling head gives."""
    encoder = encoder_of(model)
    if name == "vit_grey":
        images = images[:, :1]
    takes_sizes = "interpolate_pos_encoding" in inspect.signature(encoder.forward).parameters
    other_size = images.shape[-1] != SIZED["image_size"]
    arguments = {"interpolate_pos_encoding": True} if takes_sizes and other_size else {}
    if name == "vit_mae":  # without its shuffling of patches
        noise = torch.arange((images.shape[-1] // SIZED["patch_size"]) ** 2, dtype=torch.float32)
        arguments["noise"] = noise.expand(len(images), -1)
    with torch.inference_mode():
        output = encoder(images, **arguments)
        tokens = output.last_hidden_state
        if name.startswith("clip"):
            tokens = encoder.post_layernorm(tokens)
        prefix = tokens.shape[1] - (images.shape[-1] // SIZED["patch_size"]) ** 2
        mean = tokens[:, prefix:].mean(1)
        result = {"mean": mean}
        if prefix:
            result |= {"cls": tokens[:, 0], "cls+mean": torch.cat([tokens[:, 0], mean], 1)}
        if name.startswith("siglip"):
            result["map"] = output.pooler_output
        if name.startswith("beit") and name != "beit_both_positions":  # its norm comes behind the mean
            result = {"mean": output.pooler_output}
    return result


OPEN_CLIP = {
    "clip": {"vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8}},
    "clip_quick": {"quick_gelu": True,
                   "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8}},
    "timm_tower": {"vision_cfg": {"timm_model_name": "vit_tiny_patch16_224", "timm_pool": "", "timm_proj": "linear",
                                  "image_size": 224}},
    "timm_siglip": {"vision_cfg": {"timm_model_name": "vit_base_patch16_siglip_224", "timm_pool": "map", "timm_proj": "none",
                                   "image_size": 224}},
}


def save_open_clip(name, folder):
    """The image encoder of an open_clip model that is saved as push_to_hf_hub saves it."""
    config = {"embed_dim": 24, "text_cfg": {"context_length": 8, "vocab_size": 99, "width": 32, "heads": 2, "layers": 1},
              **OPEN_CLIP[name]}
    if name == "timm_siglip":
        config["embed_dim"] = 768
    model = train_like(open_clip.CLIP(**config) if not config["vision_cfg"].get("timm_model_name") else
                       open_clip.model.CustomTextCLIP(**config), 0)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {
        "mean": [0.48, 0.45, 0.4], "std": [0.26, 0.26, 0.27], "interpolation": "bicubic", "resize_mode": "shortest"}}))
    return model.visual


def open_clip_features(visual, images):
    with torch.inference_mode():
        if hasattr(visual, "trunk"):
            tokens = visual.trunk.forward_features(images)
            if visual.trunk.attn_pool is not None:
                return {"map": visual.trunk.pool(tokens), "mean": tokens.mean(1)}
            return {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1)}
        x = visual.transformer(visual._embeds(images))
        tokens = visual.ln_post(x)
        return {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1)}
