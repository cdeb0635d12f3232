"""A whole step of tuning, the end of a ViT with a GRU and its loss, against timm's ViT and PyTorch's GRU: loss, features,
and every gradient. And what is merged after a step: extract's features of it are timm's after the same step."""
import copy
import functools
import json
import sys

import pytest
import safetensors.torch
import torch
from training_support import BUILD, REPO, loaded

from coldframe.models import TemporalModel

sys.path.append(str(REPO / "tests" / "extract" / "vit"))
import timm_models  # noqa: E402
import vit_features  # noqa: E402

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
EXAMS, FRAMES, LABELS = 2, 3, [1, 0]
# name, arguments of timm, pooling, cut, blocks that are trained
SMALL, NARROW = {"img_size": 48, "depth": 3}, {"depth": 2, "embed_dim": 192, "num_heads": 3}
MODELS = {
    "tiny": ("vit_tiny_patch16_224", SMALL, "cls", 0, 3),
    "tiny_last_two": ("vit_tiny_patch16_224", SMALL, "cls", 1, 2),
    "small": ("vit_small_patch16_224", {"img_size": 32, "depth": 2}, "mean", 0, 2),
    "registers": ("vit_small_patch14_reg4_dinov2", {"img_size": 42, "depth": 3}, "cls+mean", 1, 2),
    "layer_scale": ("vit_small_patch14_dinov2", {"img_size": 42, "depth": 2}, "cls", 0, 2),
    "eva": ("eva02_tiny_patch14_224", {"img_size": 42, "depth": 2}, "mean", 0, 2),
    "clip": ("vit_base_patch32_clip_quickgelu_224", {"img_size": 64, **NARROW}, "cls", 0, 2),
    "swiglu": ("vit_small_plus_patch16_dinov3", {"img_size": 48, "depth": 2}, "cls", 1, 1),
    "post_norm": ("vit_base_patch16_rpn_224", {"img_size": 48, **NARROW}, "mean", 0, 2),
    "siglip": ("vit_base_patch16_siglip_224", {"img_size": 48, **NARROW}, "map", 1, 1),
    "mixed_rotary": ("vit_small_patch16_rope_mixed_224", {"img_size": 48, "depth": 2}, "cls", 0, 2),
    "beit": ("beit_base_patch16_224", {"img_size": 48, **NARROW}, "mean", 0, 2),
}


def canonical(tensors):
    """timm's names and shapes of EVA and BEiT as those of its plain ViTs."""
    found = dict(tensors)
    for key in tensors:
        prefix = key.rsplit(".", 1)[0]
        if key.endswith((".gamma_1", ".gamma_2")):
            found[f"{prefix}.ls{key[-1]}.gamma"] = found.pop(key)
        elif key.endswith("fc1_g.weight") or key.endswith("fc1_g.bias"):
            other = key.replace("fc1_g", "fc1_x")
            found[key.replace("fc1_g", "fc1")] = torch.cat([found.pop(key), found.pop(other)])
        elif key.endswith("q_proj.weight"):
            parts = [found.pop(key.replace("q_proj", f"{letter}_proj")) for letter in "qkv"]
            found[key.replace("q_proj", "qkv")] = torch.cat(parts)
        elif key.endswith("q_proj.bias"):
            bias = found.pop(key)
            other = found.pop(key.replace("q_proj", "v_proj"))
            found[key.replace("q_proj", "qkv")] = torch.cat([bias, torch.zeros_like(bias), other])
        elif key.endswith("q_bias"):
            bias = found.pop(key)
            found[f"{prefix}.qkv.bias"] = torch.cat([bias, torch.zeros_like(bias), found.pop(f"{prefix}.v_bias")])
    if "rope.freqs" in found:
        found["rope_freqs"] = found.pop("rope.freqs")
    return found


def pooled(model, images, pool):
    tokens = model.forward_features(images)
    if pool == "map":
        return model.pool(tokens)
    cls, mean = tokens[:, 0], tokens[:, model.num_prefix_tokens:].mean(1)
    parts = {"cls": [cls], "mean": [mean], "cls+mean": [cls, mean]}[pool]
    return torch.cat([model.fc_norm(part) for part in parts], 1)


class Twin:
    """The same in timm and PyTorch."""

    def __init__(self, folder, name, arguments, pool, cut, blocks):
        self.model = timm_models.build(name, **arguments)
        self.folder, self.pool, self.cut, self.blocks = folder, pool, cut, blocks
        self.name = name
        timm_models.save_folder(self.model, folder / "weights", name, **arguments)
        size = arguments["img_size"]
        generator = torch.Generator().manual_seed(2)
        self.pixels = torch.randint(0, 256, (EXAMS * FRAMES, size, size, 3), generator=generator).to(torch.uint8)
        self.images = ((self.pixels / 255 - MEAN) / STD).permute(0, 3, 1, 2).contiguous()
        self.rows = self.pixels if cut == 0 else self.entering(cut).half().contiguous()
        _, description = vit_features.features(folder / "weights", self.images[:1], pool=pool)
        del description["dimension"]
        self.recipe = {"backbone": description, "preprocessing": {
            "image_size": size, "resampler": "pillow", "mean": MEAN.tolist(), "std": STD.tolist()}}
        (folder / "recipe.json").write_text(json.dumps(self.recipe))
        safetensors.torch.save_file({"rows": self.rows}, folder / "rows.safetensors")

    def entering(self, block):
        found = []
        handle = self.model.blocks[block].register_forward_pre_hook(lambda _, inputs: found.append(inputs[0].detach()))
        with torch.no_grad():
            self.model.forward_features(self.images)
        handle.remove()
        return found[0]

    def drive(self, what, **settings):
        output = self.folder / f"{what}.safetensors"
        settings = {"recipe": str(self.folder / "recipe.json"), "weights": str(self.folder / "weights"),
                    "rows": str(self.folder / "rows.safetensors"), "cut": self.cut, "blocks": self.blocks,
                    "frames": FRAMES, "labels": LABELS, "output": str(output), **settings}
        (self.folder / "settings.json").write_text(json.dumps(settings))
        done = loaded(BUILD / "tests" / "tune_driver").run([what, self.folder / "settings.json"])
        assert done.returncode == 0, done.stderr
        self.said = json.loads(done.stdout)
        return safetensors.torch.load_file(output)

    @functools.cached_property
    def whole(self):
        """The driver's step at once."""
        return self.drive("step")

    @functools.cached_property
    def stepped(self):
        """Loss, features and head after step() from the driver's head, whose weights do not depend on its ways."""
        return self.step(part_of(self.whole, "head:weight:"))

    def step(self, head_weights):
        """Loss and gradients, of the head's and the ViT's parameters; leaves them in .grad."""
        handles = []
        if self.cut > 0:
            tokens = self.rows.float()
            handles.append(self.model.blocks[self.cut].register_forward_pre_hook(
                lambda _, inputs: (tokens, *inputs[1:])))
        features = pooled(self.model, self.images, self.pool)
        for handle in handles:
            handle.remove()
        head = TemporalModel.build({"model": {
            "architecture": "gru", "temporal_pool": "last", "time": False, "time_encoding": "log", "dimension": features.shape[1],
            "hidden": 16, "layers": 1, "bidirectional": False, "classes": 2, "dropout": 0.0}})
        head.load_state_dict({**head_weights, "feature_mean": torch.zeros(features.shape[1]),
                              "feature_std": torch.ones(features.shape[1])})
        logits = head(features.view(EXAMS, FRAMES, -1))
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(LABELS))
        loss.backward()
        return loss, features, head


def part_of(result, prefix):
    return {key.removeprefix(prefix): value for key, value in result.items() if key.startswith(prefix)}


def expect_near(found, expected, tolerance=1e-5):
    largest = max(value.abs().max() for value in expected.values())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        scale = max(value.abs().max(), 1e-2 * largest)
        assert (found[name] - value).abs().max() <= tolerance * scale, name


@pytest.fixture(scope="module", params=MODELS)
def twin(request, tmp_path_factory):
    return Twin(tmp_path_factory.mktemp(request.param), *MODELS[request.param])


def timm_gradients(model, names):
    gradients = canonical({name: torch.zeros_like(p) if p.grad is None else p.grad
                           for name, p in model.named_parameters()})
    return {name: gradients[name] for name in names}


@pytest.mark.parametrize("ways", [{}, {"strategy": "optimal", "chunk": 2}], ids=["at once", "in chunks"])
def test_a_step_is_that_of_timm_and_pytorch(twin, ways):
    result = twin.drive("step", **ways) if ways else twin.whole
    loss, features, head = twin.stepped
    expect_near(part_of(result, "head:weight:"), part_of(twin.whole, "head:weight:"), 0)
    assert abs(result["loss"] - loss) <= 1e-5 * loss
    expect_near({"features": result["features"]}, {"features": features.detach()})
    expect_near(part_of(result, "head:gradient:"), {name: p.grad for name, p in head.named_parameters()})
    gradients = part_of(result, "vit:gradient:")
    expect_near(gradients, timm_gradients(twin.model, gradients))
    trained = canonical({name: p for name, p in twin.model.named_parameters() if p.grad is not None})
    if twin.cut == 0:  # all that a gradient reaches is trained
        assert set(gradients) == {name for name in trained}


def test_what_is_merged_after_a_step_is_timms_after_the_same(twin):
    merged = twin.drive("merge", rate=0.5)
    assert twin.stepped
    moved = copy.deepcopy(twin.model)
    with torch.no_grad():
        for (name, parameter), before in zip(moved.named_parameters(), twin.model.parameters(), strict=True):
            block = int(name.split(".")[1]) if name.startswith("blocks.") else None
            trained = block >= len(moved.blocks) - twin.blocks if block is not None else (
                twin.cut == 0 or name.startswith(("norm.", "fc_norm.", "attn_pool.")))
            if trained and before.grad is not None:
                parameter -= 0.5 * before.grad
        expected = pooled(moved, twin.images, twin.pool)
    folder = twin.folder / "merged"
    folder.mkdir()
    safetensors.torch.save_file(merged, folder / "model.safetensors")
    (folder / "config.json").write_bytes((twin.folder / "weights" / "config.json").read_bytes())
    found, _ = vit_features.features(folder, twin.images, pool=twin.pool)
    assert vit_features.difference(found, expected) <= 2e-5


class LowRank(torch.nn.Module):
    """A frozen linear layer with matrices beside it (Hu et al. 2021, eq. 3), spelt with PyTorch's own layers."""

    def __init__(self, layer, down, up, scale):
        super().__init__()
        self.layer, self.scale = layer, scale
        self.down, self.up = torch.nn.Parameter(down), torch.nn.Parameter(up)

    def forward(self, x):
        return self.layer(x) + self.scale * (x @ self.down.T @ self.up.T)


def test_low_rank_matrices(tmp_path):
    twin = Twin(tmp_path, "vit_tiny_patch16_224", SMALL, "cls", 1, 2)
    result = twin.drive("step", lora=4, alpha=8)
    weights, gradients = part_of(result, "vit:weight:"), part_of(result, "vit:gradient:")
    layers = [f"blocks.{block}.attn.{layer}" for block in (1, 2) for layer in ("qkv", "proj")]
    assert set(gradients) == {f"{layer}.lora_{end}" for layer in layers for end in ("down", "up")}
    for layer in layers:
        parent = twin.model.get_submodule(layer.rsplit(".", 1)[0])
        setattr(parent, layer.rsplit(".", 1)[1],
                LowRank(twin.model.get_submodule(layer), weights[f"{layer}.lora_down"], weights[f"{layer}.lora_up"], 2))
    loss, _, _ = twin.step(part_of(result, "head:weight:"))
    assert abs(result["loss"] - loss) <= 1e-5 * loss
    parameters = dict(twin.model.named_parameters())
    expect_near(gradients, {name: parameters[name.replace("lora_", "")].grad for name in gradients})
    # Merged: one linear layer again.
    with torch.no_grad():
        for layer in layers:
            wrapped = twin.model.get_submodule(layer)
            moved = {end: weights[f"{layer}.lora_{end}"] - 0.5 * gradients[f"{layer}.lora_{end}"] for end in ("down", "up")}
            wrapped.down.copy_(moved["down"])
            wrapped.up.copy_(moved["up"])
        expected = pooled(twin.model, twin.images, "cls")
    safetensors.torch.save_file(twin.drive("merge", lora=4, alpha=8, rate=0.5), tmp_path / "merged.safetensors")
    found, _ = vit_features.features(tmp_path / "merged.safetensors", twin.images, pool="cls", heads=3)
    assert vit_features.difference(found, expected) <= 2e-5
