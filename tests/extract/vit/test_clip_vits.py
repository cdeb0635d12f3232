"""ViTs of clips against transformers and against the authors' computation: the same features.

What encoders of clips are known to be got wrong by has tests that fail on an engine that does, here and in
tests/extract/test_clip_windows.py (`pytest -k trap tests/extract` runs them):
 1. VideoMAE's biases of queries and values: test_trap_biases_…, test_trap_folders_that_state_biases_and_have_none
 2. rotary positions that are tiled, or in pairs: test_trap_layouts_of_rotary_positions
 3. places by the clips, not by crop_size: test_trap_places_follow_the_clips_not_the_config
 4. two encoders of one file: test_trap_two_encoders_of_one_file
 5. the epsilon of fc_norm: test_trap_epsilon_of_the_norm_behind_the_mean
 6. mean and std of the folder: test_trap_pixels_are_as_the_folder_says, test_trap_without_mean_and_std_they_are_asked_for
 7. the heads of VideoMAE-small: test_trap_heads_of_the_small_videomae
 8. the attentive pooler: test_trap_attentive_pooler_of_vjepa2
 9. too short clips: test_trap_too_short_exams, test_trap_refused_when_too_short (windows)
10. sampling by linspace: test_trap_linspace_is_not_every_fourth_frame (windows)
11. pixels that nobody normalised: test_trap_pixels_of_features_for_action_detection
12. the order of axes: test_trap_axes_… (windows)
Volumes of one channel are no clips, and have tests of their own."""

import json
import os
import re
import subprocess
import sys

import numpy
import pytest
import safetensors.torch
import torch
import transformers

import clip_models
import vit_features
from clip_models import authors, clips_of, transformers_features
from loaded_program import BUILD, loaded
from vit_features import FP32_DIFFERENCE, HALF_COSINE, Refused, cosine, difference, features

SHOWS = 30 * FP32_DIFFERENCE  # what a mistake changes must be far beyond what is accepted


def save(model, folder):
    model.save_pretrained(folder)
    return folder


def save_with_split_biases(model, folder):
    """A folder of VideoMAE as published, with q_bias and v_bias; transformers writes them so again."""
    names = safetensors.torch.load_file(save(model, folder) / "model.safetensors").keys()
    assert any(name.endswith("attention.attention.q_bias") for name in names)
    return folder


def save_pt(model, path, **others):
    """As the authors' training writes it."""
    state = {f"module.backbone.{name}": tensor for name, tensor in model.state_dict().items()}
    torch.save({"target_encoder": state, "epoch": 9, **others}, path)
    return path


def expect_all(weights, clips, expected, halves=True, **settings):
    """Every pooling in fp32, the mean in bf16 and fp16; returns the description."""
    for pool, features_there in expected.items():
        found, description = features(weights, clips, pool=pool, **settings)
        figure = difference(found, features_there)
        assert figure <= FP32_DIFFERENCE, (pool, figure)
    for precision in ("bf16", "fp16") if halves else ():
        found, _ = features(weights, clips, pool="mean", precision=precision, **settings)
        figure = cosine(found, expected["mean"])
        assert figure >= HALF_COSINE, (precision, figure)
    return description


# Of every family what a folder may say; each kind of file that transformers writes.
FOLDERS = {
    "videomae_classifier": lambda: clip_models.videomae(),
    "videomae_encoder": lambda: clip_models.videomae("Model"),
    "videomae_pretraining": lambda: clip_models.videomae("ForPreTraining"),
    "videomae_normed_encoder": lambda: clip_models.videomae("Model", use_mean_pooling=False, layer_norm_eps=1e-6),
    "videomae_without_biases": lambda: clip_models.videomae(qv_bias=False),
    "videomae_other_tubelets": lambda: clip_models.videomae(tubelet_size=4, patch_size=8, hidden_act="gelu_new"),
    "videomae_grey": lambda: clip_models.videomae(num_channels=1),
    "vjepa2": lambda: clip_models.vjepa2(),
    "vjepa2_oblong_heads": lambda: clip_models.vjepa2(hidden_size=80, num_attention_heads=1),
    "vjepa2_without_biases": lambda: clip_models.vjepa2(qkv_bias=False),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_transformers(name, tmp_path):
    model = FOLDERS[name]()
    clips = clips_of(8, 48)
    if name == "videomae_grey":
        clips = clips[:, :, :1]
    expected = transformers_features(model, clips)
    if hasattr(model, "fc_norm"):
        del expected["none"]  # each token then goes through the norm that is behind their mean
    description = expect_all(save(model, tmp_path / "hub"), clips.expand(-1, -1, 3, -1, -1), expected)
    assert description["clip_frames"] == 8 and description["architecture"]["frames"] == 8


# The shapes of all sizes, cut in depth, and to small clips where the model takes any; VideoMAE-S as a whole.
SIZES = {
    "videomae_small": {"width": 384, "heads": 6, "depth": 12},
    "videomae_base": {"width": 768, "heads": 12, "depth": 2},
    "videomae_large": {"width": 1024, "heads": 16, "depth": 1},
    "videomae_huge": {"width": 1280, "heads": 16, "depth": 1},
    "videomae_v2_giant": {"width": 1408, "heads": 16, "depth": 1, "hidden": 6144, "patch": 14},
    "vjepa2_vit_large": {"width": 1024, "heads": 16, "depth": 2},
    "vjepa2_vit_huge": {"width": 1280, "heads": 16, "depth": 2},
    "vjepa2_vit_giant": {"width": 1408, "heads": 22, "depth": 2, "hidden": 6144},
    "vjepa2_1_vit_base": {"width": 768, "heads": 12, "depth": 2},
    "vjepa2_1_vit_large": {"width": 1024, "heads": 16, "depth": 2},
    "vjepa2_1_vit_giant": {"width": 1408, "heads": 22, "depth": 2, "hidden": 6144},
    "vjepa2_1_vit_gigantic": {"width": 1664, "heads": 26, "depth": 1, "hidden": 8192},
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_the_authors_files(name, tmp_path):
    """Without a config and without a name: the tensors' names and shapes say which family it is."""
    family = name.split("_vit")[0] if name.startswith("vjepa") else "videomae"
    model = authors(family, **SIZES[name])
    if family == "videomae":
        clips, path = clips_of(16, 224, batch=1), tmp_path / "checkpoint.pth"
        torch.save({"module": {**model.state_dict(), "head.weight": torch.zeros(7, model.width), "head.bias": torch.zeros(7)}}, path)
        settings = {}
    else:
        clips, path = clips_of(4, 64, 96, batch=1), save_pt(model, tmp_path / "vjepa2.pt")
        settings = {"frames": 4}
    description = expect_all(path, clips, model.features(clips), halves=name != "videomae_small", **settings)
    assert description["architecture"]["heads"] == SIZES[name]["heads"]
    if name == "videomae_small":  # as deep as its name says
        named, _ = features(path, clips, pool="time", architecture=name)
        assert difference(named, model.features(clips)["time"]) <= FP32_DIFFERENCE


@pytest.mark.parametrize("config, shape", [
    ({"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 2, "intermediate_size": 1536}, (8, 64)),
    ({"hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 1, "intermediate_size": 5120}, (4, 64))])
def test_transformers_and_the_authors_agree_on_videomae(config, shape, tmp_path):
    """One set of weights, in a folder of transformers and in a file of the authors."""
    frames, side = shape
    folder = save_with_split_biases(clip_models.videomae(**config, image_size=side, num_frames=frames), tmp_path / "hub")
    model = transformers.VideoMAEForVideoClassification.from_pretrained(folder)
    clips = clips_of(frames, side)
    found, _ = features(folder, clips, pool="mean")
    assert difference(found, transformers_features(model.eval(), clips)["mean"]) <= FP32_DIFFERENCE
    state = {}
    for name, tensor in safetensors.torch.load_file(folder / "model.safetensors").items():
        if name.startswith("classifier"):
            continue
        name = name.removeprefix("videomae.").replace("embeddings.patch_embeddings.projection", "patch_embed.proj")
        name = name.replace("encoder.layer.", "blocks.").replace("attention.attention.", "attn.").replace("attention.output.dense", "attn.proj")
        name = name.replace("intermediate.dense", "mlp.fc1").replace("output.dense", "mlp.fc2")
        state[name.replace("layernorm_before", "norm1").replace("layernorm_after", "norm2")] = tensor
    for number in range(config["num_hidden_layers"]):
        parts = [state.pop(f"blocks.{number}.attn.{part}.weight") for part in ("query", "key", "value")]
        state[f"blocks.{number}.attn.qkv.weight"] = torch.cat(parts)
    own = clip_models.Authors("videomae", width=config["hidden_size"], depth=config["num_hidden_layers"],
                              heads=config["num_attention_heads"], hidden=config["intermediate_size"]).eval()
    own.load_state_dict(state)
    assert difference(found, own.features(clips)["mean"]) <= 2 * FP32_DIFFERENCE  # their epsilons differ: 1e-12 and 1e-6


def test_authors_pretrained_encoder_of_videomae(tmp_path):
    model = authors("videomae_pretrained", width=384, heads=6)
    state = {f"encoder.{name}": tensor for name, tensor in model.state_dict().items()}
    state |= {"encoder_to_decoder.weight": torch.ones(192, 384), "mask_token": torch.zeros(1, 1, 192),
              "decoder.norm.weight": torch.ones(192), "decoder.blocks.0.attn.q_bias": torch.ones(192)}
    torch.save({"model": state, "epoch": 799}, tmp_path / "pretrained.pth")
    clips = clips_of(16, 224, batch=1)
    expect_all(tmp_path / "pretrained.pth", clips, model.features(clips), halves=False)


def test_learned_positions_of_clips(tmp_path):
    model = authors("videomae_learned", frames=16, side=64)
    torch.save(model.state_dict(), tmp_path / "learned.pth")
    clips, settings = clips_of(16, 64), {"frames": 16, "heads": 4, "activation": "gelu"}
    expect_all(tmp_path / "learned.pth", clips, model.features(clips), **settings)
    with pytest.raises(Refused, match="do not go with the positions of these weights.*--clip 16 and --image-size 64"):
        features(tmp_path / "learned.pth", clips_of(16, 80), pool="mean", **settings)


def expect_other(figure):
    assert figure > SHOWS, "the mistake would not show"


def test_trap_biases_of_queries_and_values_in_published_folders(tmp_path):
    """transformers from 5.0 left them at zero; 5.23 of tests/requirements.txt reads them."""
    model = clip_models.videomae()
    folder, clips = save_with_split_biases(model, tmp_path / "hub"), clips_of(8, 48)
    loaded_again = transformers.VideoMAEForVideoClassification.from_pretrained(folder).eval()
    own = loaded_again.videomae.encoder.layer[0].attention.attention.query.bias
    assert torch.equal(own, model.videomae.encoder.layer[0].attention.attention.query.bias) and own.abs().max() > 0.1
    found, _ = features(folder, clips, pool="mean")
    assert difference(found, transformers_features(loaded_again, clips)["mean"]) <= FP32_DIFFERENCE
    for layer in loaded_again.videomae.encoder.layer:
        layer.attention.attention.query.bias.data.zero_()
        layer.attention.attention.value.bias.data.zero_()
    expect_other(difference(found, transformers_features(loaded_again, clips)["mean"]))


def test_biases_under_the_names_of_linear_layers(tmp_path):
    folder, clips = save_with_split_biases(clip_models.videomae(), tmp_path / "hub"), clips_of(8, 48)
    before, _ = features(folder, clips, pool="mean")
    state = {name.replace("q_bias", "query.bias").replace("v_bias", "value.bias"): tensor
             for name, tensor in safetensors.torch.load_file(folder / "model.safetensors").items()}
    safetensors.torch.save_file(state, folder / "model.safetensors", {"format": "pt"})
    assert torch.equal(features(folder, clips, pool="mean")[0], before)


def test_trap_folders_that_state_biases_and_have_none(tmp_path):
    folder = save(clip_models.videomae(qv_bias=False), tmp_path / "hub")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "qv_bias": True}))
    with pytest.raises(Refused, match="qkv bias 0 instead of 1"):
        features(folder, clips_of(8, 48), pool="mean")


@pytest.mark.parametrize("family", ["vjepa2", "vjepa2_1"])
def test_trap_layouts_of_rotary_positions(family, tmp_path):
    model = authors(family, width=128, heads=2)
    path, clips = save_pt(model, tmp_path / "vjepa2.pt"), clips_of(4, 64)
    found, _ = features(path, clips, pool="mean", frames=4, heads=2)
    assert difference(found, model.features(clips)["mean"]) <= FP32_DIFFERENCE
    for other in {"tiled", "pairs", "halves"} - {model.layout}:
        model.layout = other
        expect_other(difference(found, model.features(clips)["mean"]))


def test_trap_places_follow_the_clips_not_the_config(tmp_path):
    """transformers numbers rows and columns by crop_size whatever the size of the clips."""
    model = clip_models.vjepa2(crop_size=48)
    folder, clips = save(model, tmp_path / "hub"), clips_of(6, 64, 64)
    at_this_size = clip_models.vjepa2(crop_size=64)
    at_this_size.load_state_dict(model.state_dict())
    found, _ = features(folder, clips, pool="mean", frames=6)
    assert difference(found, transformers_features(at_this_size, clips)["mean"]) <= FP32_DIFFERENCE
    expect_other(difference(found, transformers_features(model, clips)["mean"]))


def test_trap_two_encoders_of_one_file(tmp_path):
    """Which of them it was is in the recipe."""
    target, student = (authors("vjepa2", seed, width=1024, heads=16, depth=1) for seed in (0, 1))
    encoder = {f"module.backbone.{name}": tensor for name, tensor in student.state_dict().items()}
    both, clips = save_pt(target, tmp_path / "both.pt", encoder=encoder), clips_of(2, 32)
    torch.save({"encoder": encoder}, tmp_path / "one.pt")
    for path, part, model, other in ((both, "target_encoder", target, student), (tmp_path / "one.pt", "encoder", student, target)):
        found, description = features(path, clips, pool="mean", frames=2)
        assert difference(found, model.features(clips)["mean"]) <= FP32_DIFFERENCE
        expect_other(difference(found, other.features(clips)["mean"]))
        assert description["part"] == part


def test_trap_epsilon_of_the_norm_behind_the_mean(tmp_path):
    model = clip_models.videomae(layer_norm_eps=1e-12)
    assert model.fc_norm.eps == 1e-5
    # Features that hardly vary show it: the positions' mean is taken away, the rest is small.
    patches = model.videomae.embeddings.patch_embeddings.projection
    patches.bias.data = -model.videomae.embeddings.position_embeddings.mean(1)[0]
    patches.weight.data *= 0.05
    for layer in model.videomae.encoder.layer:
        for linear in (layer.attention.output.dense, layer.output.dense):
            linear.weight.data *= 0.05
            linear.bias.data *= 0.05
    clips = clips_of(8, 48)
    found, _ = features(save(model, tmp_path / "hub"), clips, pool="mean")
    assert difference(found, transformers_features(model, clips)["mean"]) <= FP32_DIFFERENCE
    model.fc_norm.eps = 1e-12
    expect_other(difference(found, transformers_features(model, clips)["mean"]))


class Pooler(torch.nn.Module):
    """V-JEPA's attentive pooler, in our own words (src/models/attentive_pooler.py of vjepa2): blocks whose MLPs are four
    times as wide as the tokens, then a query that attends to the normalised tokens and is added to what it finds; no
    projection follows the attention, but a second norm and an MLP that are added again."""

    def __init__(self, pooler, hidden_of=4):
        super().__init__()
        self.pooler, self.hidden_of = pooler, hidden_of

    def attend(self, layer, queries, tokens, heads):
        q, k, v = (getattr(layer, part)(x).unflatten(-1, (heads, -1)).transpose(1, 2)
                   for part, x in (("q_proj", queries), ("k_proj", tokens), ("v_proj", tokens)))
        return (torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2)

    def mlp(self, layer, x):
        assert layer.mlp.fc1.out_features == self.hidden_of * x.shape[-1]
        return x + layer.mlp.fc2(torch.nn.functional.gelu(layer.mlp.fc1(layer.layer_norm2(x))))

    def forward(self, tokens, heads, projected=False):
        for layer in self.pooler.self_attention_layers:
            normed = layer.layer_norm1(tokens)
            tokens = tokens + layer.self_attn.out_proj(self.attend(layer.self_attn, normed, normed, heads))
            tokens = self.mlp(layer, tokens)
        last = self.pooler.cross_attention_layer
        query = self.pooler.query_tokens.expand(len(tokens), -1, -1)
        found = self.attend(last.cross_attn, query, last.layer_norm1(tokens), heads)
        if projected:  # as other cross-attentions have it
            found = self.pooler.self_attention_layers[-1].self_attn.out_proj(found)
        return self.mlp(last, query + found).squeeze(1)


def test_trap_attentive_pooler_of_vjepa2(tmp_path):
    """Its MLPs are four times as wide as tokens whatever the encoder's, and its cross-attention has no projection."""
    model = clip_models.vjepa2("ForVideoClassification", mlp_ratio=2.5)
    folder, clips = save(model, tmp_path / "hub"), clips_of(8, 48)
    found, description = features(folder, clips, pool="map")
    with torch.inference_mode():
        tokens = model.vjepa2(clips, skip_predictor=True).last_hidden_state
        assert difference(found, model.pooler(tokens)) <= FP32_DIFFERENCE
        assert difference(found, Pooler(model.pooler)(tokens, heads=4)) <= FP32_DIFFERENCE
        expect_other(difference(found, Pooler(model.pooler)(tokens, heads=4, projected=True)))
    assert description["architecture"]["pool_hidden"] == 4 * 64 and description["architecture"]["mlp_hidden"] == 160
    expect_all(folder, clips, transformers_features(model, clips))
    for precision in ("bf16", "fp16"):
        assert cosine(features(folder, clips, pool="map", precision=precision)[0], found) >= HALF_COSINE
    # Without an option the folder gives what its classifier reads.
    PROCESSORS["vjepa2"]().save_pretrained(folder)
    pixels, found, _ = vit_features.from_folder(videos(), "--weights", folder, "--clip-every", 1)
    with torch.inference_mode():
        assert difference(found, model.pooler(model.vjepa2(pixels[None], skip_predictor=True).last_hidden_state)) <= FP32_DIFFERENCE


def videos(frames=8, size=(61, 83)):
    """[T, height, width, 3], no two frames alike."""
    picture = vit_features.pictures([size[::-1]])[0]
    return numpy.stack([numpy.roll(picture, 3 * frame, 1) for frame in range(frames)])


PROCESSORS = {
    "videomae": lambda: transformers.VideoMAEVideoProcessor(
        size={"shortest_edge": 53}, crop_size={"height": 48, "width": 48}, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]),
    "videomae_of_images": lambda: transformers.VideoMAEImageProcessor(
        size={"shortest_edge": 48}, crop_size={"height": 48, "width": 48}, image_mean=[0.4] * 3, image_std=[0.3] * 3),
    "vjepa2": lambda: transformers.VJEPA2VideoProcessor(crop_size=48),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_trap_pixels_are_as_the_folder_says(name, tmp_path):
    """Short edge, crop, mean and std: from the folder, value for value, and the features of these, without an option."""
    model = clip_models.vjepa2() if name == "vjepa2" else clip_models.videomae()
    folder = save(model, tmp_path / "hub")
    PROCESSORS[name]().save_pretrained(folder)
    video = videos()
    loader = transformers.AutoImageProcessor if name == "videomae_of_images" else transformers.AutoVideoProcessor
    processor = loader.from_pretrained(folder)
    given = list(video) if name == "videomae_of_images" else video
    wanted = next(iter(processor(given, return_tensors="pt").values()))
    pixels, found, description = vit_features.from_folder(video, "--weights", folder, "--clip-every", 1)
    assert torch.equal(pixels, wanted[0])
    assert description["clip_frames"] == 8
    assert difference(found, transformers_features(model, wanted)["mean"]) <= FP32_DIFFERENCE
    by_the_class = (numpy.float32(0.5), numpy.float32(0.5))
    assert (description["preprocessing"]["mean"][0], description["preprocessing"]["std"][0]) != by_the_class


def test_trap_without_mean_and_std_they_are_asked_for(tmp_path):
    folder = save(clip_models.videomae(), tmp_path / "hub")
    said = {"video_processor_type": "VideoMAEVideoProcessor", "crop_size": {"height": 48, "width": 48}, "size": {"shortest_edge": 48}}
    for file in (None, "preprocessor_config.json"):
        if file:
            (folder / file).write_text(json.dumps(said))
        with pytest.raises(Refused, match="--mean"):
            vit_features.from_folder(videos(), "--weights", folder, "--clip-every", 1, computes=False)
    vit_features.from_folder(videos(), "--weights", folder, "--clip-every", 1, "--mean", "0.4,0.4,0.4", "--std", "0.3,0.3,0.3", computes=False)


def test_trap_pixels_of_features_for_action_detection(tmp_path):
    """VideoMAE v2's published ones (extract_tad_feature.py) come from frames that are squashed and not normalised."""
    model = authors("videomae", width=384, heads=6, depth=1)
    torch.save({"module": model.state_dict()}, tmp_path / "model.pth")
    video = videos(frames=16)
    squashed = torch.nn.functional.interpolate(torch.from_numpy(video).permute(0, 3, 1, 2) / 255, size=(224, 224), mode="bilinear")
    options = ["--weights", tmp_path / "model.pth", "--clip-every", 1, "--pool", "mean", "--resize", "squash", "--interpolation", "bilinear"]
    with pytest.raises(Refused, match="--mean"):
        vit_features.from_folder(video, *options, computes=False)
    pixels, found, _ = vit_features.from_folder(video, *options, "--mean", 0, "--std", 1)
    assert (pixels - squashed).abs().max() <= 1 / 255  # theirs are not rounded to 8 bits
    assert cosine(found, model.features(squashed[None])["mean"]) >= HALF_COSINE
    mean, std = (torch.tensor(values)[:, None, None] for values in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    assert cosine(found, model.features((squashed[None] - mean) / std)["mean"]) < 0.99


def test_trap_heads_of_the_small_videomae(tmp_path):
    """The config goes before the authors' number, and the log says so."""
    config = {"hidden_size": 384, "num_hidden_layers": 1, "intermediate_size": 1536, "image_size": 32, "num_frames": 4}
    as_converted = clip_models.videomae(**config, num_attention_heads=16)
    as_trained = clip_models.videomae(**config, num_attention_heads=6)
    as_trained.load_state_dict(as_converted.state_dict())
    folder, clips = save(as_converted, tmp_path / "hub"), clips_of(4, 32)
    clips.numpy().tofile(tmp_path / "clips.bin")
    words = ["features", f"weights={folder}", f"input={tmp_path / 'clips.bin'}", f"output={tmp_path / 'out.bin'}", "size=32", "pool=mean"]
    done = loaded(BUILD / "tests" / "vit_driver").run(words)
    assert re.search("states 16 heads of 24 features, and its authors' model of this width has 6 of 64", done.stderr), done.stderr
    expected = [transformers_features(model, clips)["mean"] for model in (as_converted, as_trained)]
    expect_other(difference(*expected))
    for settings, wanted in (({}, expected[0]), ({"heads": 6}, expected[1])):
        assert difference(features(folder, clips, pool="mean", **settings)[0], wanted) <= FP32_DIFFERENCE


REFUSED = [
    ("frames", {"frames": 7}, r"clips of 7 frames \(of --clip, or else of the config\) do not go with the backbone's patches of 2 frames; give a multiple, --clip 8"),
    ("cut", {"cut": 1}, "--cut 1: the tokens of clips are not stored"),
    ("class_token", {"pool": "cls"}, "needs a class token"),
    ("layers", {"pool": "time", "layers": "1,2"}, "--pool time takes the tokens of one block"),
    ("length", {"frames": 4}, "clips of 4 frames of 48×48 do not go with the positions of these weights.*--clip 8 and --image-size 48"),
]


@pytest.mark.parametrize("settings, message", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refusals(settings, message, tmp_path):
    folder = save(clip_models.videomae(), tmp_path / "hub")
    with pytest.raises(Refused, match=message):
        features(folder, clips_of(8, 48), **{"pool": "mean", **settings})


def test_clips_are_refused_by_backbones_of_images_and_images_by_those_of_clips(tmp_path):
    images = torch.zeros(1, 3, 224, 224)
    with pytest.raises(Refused, match="--clip 16: the backbone takes images"):
        features(None, images, seed=1, architecture="vit_tiny_patch16_224", pool="mean", frames=16)
    with pytest.raises(Refused, match="--pool time needs the steps of clips"):
        features(None, images, seed=1, architecture="vit_tiny_patch16_224", pool="time")


def test_options_of_videomae_that_nobody_published_are_refused_by_name(tmp_path):
    model = authors("videomae", width=384, heads=6, depth=1)
    state = model.state_dict()
    for extra, message in (({"blocks.0.attn.scale": torch.zeros(6, 1, 1)}, "belongs to cosine attention"),
                           ({"blocks.0.gamma_1": torch.ones(384), "blocks.0.gamma_2": torch.ones(384)}, "layer scale 1 instead of 0")):
        torch.save({"model": {**state, **extra}}, tmp_path / "model.pth")
        with pytest.raises(Refused, match=message):
            features(tmp_path / "model.pth", torch.zeros(1, 16, 3, 224, 224), pool="mean")


def test_unknown_configs_of_clips_are_refused_by_name(tmp_path):
    folder = save(clip_models.videomae(), tmp_path / "hub")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "timesformer"}))
    with pytest.raises(Refused, match="'model_type' is 'timesformer', expected .*videomae, vjepa2"):
        features(folder, clips_of(8, 48), pool="mean")
    with pytest.raises(Refused, match="--architecture"):  # transformers' names without a config
        (folder / "config.json").unlink()
        features(folder, clips_of(8, 48), pool="mean")


def test_long_clips_of_a_batch_go_one_by_one(tmp_path):
    """Of more than 800 tokens, each is shared by all threads; shorter ones each thread computes by itself, as images."""
    model, clips = clip_models.videomae(image_size=240), clips_of(8, 240, batch=3)
    expect_all(save(model, tmp_path / "hub"), clips, {"mean": transformers_features(model, clips)["mean"]})


# A process begins with the peak of the one that starts it, and that of the tests is large.
PEAK_OF = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_long_clips_need_no_matrix_of_all_scores(precision, tmp_path):
    """8192 tokens of four heads have half a gigabyte of scores in bf16, twice as many in floats."""
    folder = save(clip_models.vjepa2(num_hidden_layers=1, crop_size=256, frames_per_clip=64), tmp_path / "hub")
    clips_of(64, 256, batch=1).numpy().tofile(tmp_path / "clips.bin")
    words = [BUILD / "tests" / "vit_driver", "features", f"weights={folder}", f"input={tmp_path / 'clips.bin'}",
             f"output={tmp_path / 'out.bin'}", "size=256", "pool=mean", f"precision={precision}"]
    done = subprocess.run([sys.executable, "-c", PEAK_OF, *words], capture_output=True, text=True, check=True,
                          env=os.environ | {"OMP_NUM_THREADS": "2"})
    assert int(done.stdout) * 1024 < 4 * 8192 ** 2 * 2


def test_weights_are_not_in_memory_twice(tmp_path):
    """A block's are packed and then let go: 8 more blocks take no memory of 16."""
    peaks = []
    clips_of(2, 32, batch=1).numpy().tofile(tmp_path / "clips.bin")
    for depth in (1, 9):
        folder = save(clip_models.videomae("Model", hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=depth,
                                           image_size=32, num_frames=2), tmp_path / str(depth))
        words = [BUILD / "tests" / "vit_driver", "features", f"weights={folder}", f"input={tmp_path / 'clips.bin'}",
                 f"output={tmp_path / 'out.bin'}", "size=32", "pool=mean", "precision=fp32"]
        done = subprocess.run([sys.executable, "-c", PEAK_OF, *words], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) * 1024)
    of_a_block = 4 * 12 * 768 ** 2
    assert peaks[1] - peaks[0] < 8 * of_a_block * 1.4
