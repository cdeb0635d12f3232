"""Models of transformers and open_clip with random weights, each saved as its library saves it, with the pixels and the
features that Coldframe's must equal."""

import copy
import functools
import inspect
import json

import open_clip
import torch
import transformers
from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict
from PIL import Image

from timm_models import images_of, train_like
from vit_features import pictures

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
    "deit_with_teacher": lambda: of("DeiT", "ForImageClassificationWithTeacher", **SIZED),
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
    "siglip2_naflex": lambda: of("Siglip2Vision", "Model", **SMALL, patch_size=8, num_patches=36),
    "siglip_whole": lambda: transformers.SiglipModel(transformers.SiglipConfig(vision_config=SIZED, text_config={
        **TEXT, "hidden_size": 64})),
    "beit": lambda: of("Beit", "Model", **SIZED),
    "beit_relative": lambda: of("Beit", "Model", **SIZED, use_relative_position_bias=True),
    "beit_shared_relative": lambda: of("Beit", "Model", **SIZED, use_shared_relative_position_bias=True),
    "beit_both_positions": lambda: of("Beit", "Model", **SIZED, use_relative_position_bias=True,
                                      use_absolute_position_embeddings=True, use_mean_pooling=False),
}

# By the beginning of the name: what prepares its images, and the pooling that its config stands for. Crops are odd, since
# these round otherwise than torchvision's.
SQUARE = {"height": 48, "width": 48}
PROCESSORS = {
    "vit": (lambda: transformers.ViTImageProcessor(size=SQUARE), "cls"),
    "deit": (lambda: transformers.DeiTImageProcessor(size={"height": 55, "width": 55}, crop_size=SQUARE), "cls"),
    "ijepa": (lambda: transformers.ViTImageProcessor(size=SQUARE, resample=3), "mean"),
    "dinov2": (lambda: transformers.BitImageProcessor(
        size={"shortest_edge": 55}, crop_size=SQUARE, image_mean=[0.5307] * 3, image_std=[0.2583] * 3), "cls"),
    "dinov3": (lambda: transformers.DINOv3ViTImageProcessor(size=SQUARE), "cls"),
    "clip": (lambda: transformers.CLIPImageProcessor(size={"shortest_edge": 51}, crop_size=SQUARE), "cls"),
    "siglip": (lambda: transformers.SiglipImageProcessor(size=SQUARE), "map"),
    "siglip2": (lambda: transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=36), "map"),
    "beit": (lambda: transformers.BeitImageProcessor(size=SQUARE), "mean"),
}

# transformers gives no features of these at other sizes.
NATIVE_SIZE_ONLY = {"vit_mae", "beit", "beit_relative", "beit_shared_relative", "beit_both_positions", "siglip2_naflex"}


# Families whose models give tokens alone, or a class token behind a layer that only a classifier's training fits: what
# transformers takes of their tokens is what its classifier reads.
READ_BY_CLASSIFIERS = {"vit": "ViT", "deit": "DeiT", "ijepa": "IJepa"}


def encoder_of(model):
    for part in ("vit", "deit", "vision_model"):
        model = getattr(model, part, model)
    return model


def without_heads(model):
    """A classifier that gives what its heads read."""
    for name, part in model.named_children():
        if "classifier" in name and isinstance(part, torch.nn.Linear):
            setattr(model, name, torch.nn.Identity())
    return model.eval()


def classifier_on(family, encoder):
    """transformers' classifier of this family on the encoder's weights; ViT's for a ViTMAE, which has none."""
    kind = READ_BY_CLASSIFIERS[family]
    config = encoder.config.to_dict()
    config.pop("model_type")
    model = getattr(transformers, kind + "ForImageClassification")(getattr(transformers, kind + "Config")(**config))
    wanted = getattr(model, family)
    state = encoder.state_dict()
    wanted.load_state_dict({name: state[name] for name in wanted.state_dict()})
    return without_heads(model)


class Transformers:
    sizes = (48, 64)

    def __init__(self, name, folder):
        torch.manual_seed(0)
        self.name, self.folder = name, folder
        self.model = train_like(TRANSFORMERS[name](), 0)
        self.model.save_pretrained(folder)
        self.weights = folder / "model.safetensors"
        processor, self.pool = PROCESSORS[name.split("_")[0]]
        processor().save_pretrained(folder)
        self.pool = {"beit_both_positions": "cls", "deit_with_teacher": "prefix-mean"}.get(name, self.pool)

    def _grey(self, images):
        return images[:, :1].expand(-1, 3, -1, -1) if self.name == "vit_grey" else images

    def images(self, size):
        return self._grey(images_of(size))

    def pictures(self):
        return [picture[..., :1].repeat(3, -1) if self.name == "vit_grey" else picture for picture in pictures()]

    def transform(self, pictures):
        """As the image processor that transformers finds in the folder prepares them."""
        processor = transformers.AutoImageProcessor.from_pretrained(self.folder)
        return torch.cat([processor(images=Image.fromarray(picture), return_tensors="pt")["pixel_values"]
                          for picture in pictures])

    def own_features(self, images):
        """What transformers itself takes for the features of images of the model's size."""
        family = self.name.split("_")[0]
        with torch.inference_mode():
            if self.name == "vit_grey":
                images = images[:, :1]
            if self.name == "deit_with_teacher":
                return without_heads(copy.deepcopy(self.model))(images).logits
            if family in READ_BY_CLASSIFIERS:
                return classifier_on(family, encoder_of(self.model))(images).logits
            if self.name in ("clip_whole", "siglip_whole"):
                features = self.model.get_image_features(images)
                return getattr(features, "pooler_output", features)
            output = self.model(images)
            return output.image_embeds if self.name == "clip_projection" else output.pooler_output

    def features(self, images):
        """By --pool: the class token and the mean over patches of the normalised tokens, and what the pooling head
        gives. None at sizes of which transformers has none."""
        if images.shape[-1] != self.sizes[0] and self.name in NATIVE_SIZE_ONLY:
            return None
        encoder = encoder_of(self.model)
        if self.name == "vit_grey":
            images = images[:, :1]
        takes_sizes = "interpolate_pos_encoding" in inspect.signature(encoder.forward).parameters
        arguments = {"interpolate_pos_encoding": True} if takes_sizes and images.shape[-1] != self.sizes[0] else {}
        patches = (images.shape[-1] // SIZED["patch_size"]) ** 2
        if self.name == "vit_mae":  # without its shuffling of patches
            arguments["noise"] = torch.arange(patches, dtype=torch.float32).expand(len(images), -1)
        if self.name == "siglip2_naflex":  # patches with their channels innermost
            grid = images.shape[-1] // 8
            images = images.unflatten(3, (grid, 8)).unflatten(2, (grid, 8)).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
            arguments = {"pixel_attention_mask": torch.ones(images.shape[:2], dtype=torch.int64),
                         "spatial_shapes": torch.full((len(images), 2), grid)}
        with torch.inference_mode():
            return self._pooled(encoder, encoder(images, **arguments), patches)

    def _pooled(self, encoder, output, patches):
        tokens = output.last_hidden_state
        if self.name.startswith("clip"):
            tokens = encoder.post_layernorm(tokens)
        prefix = tokens.shape[1] - patches
        mean = tokens[:, prefix:].mean(1)
        result = {"mean": mean}
        if prefix:
            result |= {"cls": tokens[:, 0], "cls+mean": torch.cat([tokens[:, 0], mean], 1)}
        if self.name == "deit_with_teacher":
            result["prefix-mean"] = tokens[:, :prefix].mean(1)
        if self.name.startswith("siglip"):
            result["map"] = output.pooler_output
        if self.name.startswith("beit") and self.name != "beit_both_positions":  # its norm comes behind the mean
            result = {"mean": output.pooler_output}
        return result


TIMM_TOWER = {"timm_model_name": "vit_tiny_patch16_224", "timm_pool": "", "timm_proj": "linear", "image_size": 224}
OPEN_CLIP = {
    "open_clip_vit": {"vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8}},
    "open_clip_quick_gelu": {
        "quick_gelu": True, "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8}},
    "timm_tower": {"vision_cfg": TIMM_TOWER},
    "timm_average": {"vision_cfg": {key: value for key, value in TIMM_TOWER.items() if key != "timm_pool"}},
    # microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224's open_clip_config.json
    "biomedclip": {"vision_cfg": {**TIMM_TOWER, "timm_model_name": "vit_base_patch16_224"}},
    "timm_siglip": {"embed_dim": 768, "vision_cfg": {
        "timm_model_name": "vit_base_patch16_siglip_224", "timm_pool": "map", "timm_proj": "none", "image_size": 224}},
}
# preprocess_cfg, where it is not a plain one.
PIXELS = {
    "biomedclip": {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]},
    "timm_siglip": {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"},
    "open_clip_quick_gelu": {"mean": [0.5] * 3, "std": [0.3] * 3, "interpolation": "bilinear", "resize_mode": "shortest"},
}


class OpenClip:
    """The image encoder of a model that is saved as push_to_hf_hub saves it."""

    def __init__(self, name, folder):
        self.config = {"embed_dim": 24, "text_cfg": {"context_length": 8, "vocab_size": 99, "width": 32, "heads": 2,
                                                     "layers": 1}, **OPEN_CLIP[name]}
        self.pixels = PIXELS.get(name, {"mean": [0.48, 0.45, 0.4], "std": [0.26, 0.26, 0.27]})
        model = train_like(self._make(self.config), 0)
        self.state, self.visual = model.state_dict(), model.visual
        self.sizes = (self.config["vision_cfg"]["image_size"], self.config["vision_cfg"]["image_size"] + 16)
        self.pool = {"timm_siglip": "map", "timm_average": "mean"}.get(name, "cls")
        folder.mkdir(parents=True, exist_ok=True)
        self.weights = folder / "open_clip_pytorch_model.bin"
        torch.save(self.state, self.weights)
        (folder / "open_clip_config.json").write_text(
            json.dumps({"model_cfg": self.config, "preprocess_cfg": self.pixels}))

    @staticmethod
    def _make(config):
        kind = open_clip.model.CustomTextCLIP if "timm_model_name" in config["vision_cfg"] else open_clip.CLIP
        return kind(**config)

    images = staticmethod(images_of)
    pictures = staticmethod(pictures)

    def transform(self, pictures):
        """As open_clip.create_model_from_pretrained prepares them."""
        pixels = merge_preprocess_dict(PreprocessCfg(size=self.sizes[0]), self.pixels)
        transform = image_transform_v2(PreprocessCfg(**pixels), is_train=False)
        return torch.stack([transform(Image.fromarray(picture)) for picture in pictures])

    def own_features(self, images):
        """encode_image, of images of the model's size."""
        with torch.inference_mode():
            return self.visual(images)

    def features(self, images):
        visual = self.visual if images.shape[-1] == self.sizes[0] else self._at(images.shape[-1])
        with torch.inference_mode():
            if not hasattr(visual, "trunk"):
                tokens = visual.ln_post(visual.transformer(visual._embeds(images)))
                return {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1),
                        "cls+mean": torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1)}
            tokens = visual.trunk.forward_features(images)
            if visual.trunk.attn_pool is not None:
                return {"map": visual.trunk.pool(tokens), "mean": tokens.mean(1)}
            return {"cls": tokens[:, 0], "mean": tokens[:, 1:].mean(1),
                    "cls+mean": torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1)}

    def _at(self, size):
        """The same weights in a model for another size, as open_clip's load_checkpoint resizes their positions."""
        if hasattr(self.visual, "trunk"):
            visual = copy.deepcopy(self.visual)
            visual.trunk.set_input_size(img_size=(size, size))
            return visual
        model = self._make({**self.config, "vision_cfg": {**self.config["vision_cfg"], "image_size": size}})
        state = dict(self.state)
        open_clip.model.resize_pos_embed(state, model)
        model.load_state_dict(state)
        return model.eval().visual


# Each makes a model in a folder.
LIBRARIES = {
    "transformers": {name: functools.partial(Transformers, name) for name in TRANSFORMERS},
    "open_clip": {name: functools.partial(OpenClip, name) for name in OPEN_CLIP},
}
