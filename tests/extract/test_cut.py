"""`extract --cut`: what enters a block of the ViT, beside the features; against timm and Pillow, and what becomes of it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import loaded_program
from cache_data import all_data

sys.path.insert(0, str(pathlib.Path(__file__).parent / "vit"))
from timm_models import build, save_folder  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build"))
NAME, SIZE, MEAN, STD = "vit_tiny_patch16_224", 48, 0.45, 0.25
MANY = 40  # exams
PIXELS = ["--pool", "mean", "--mean", MEAN, "--std", STD, "--image-size", SIZE, "--resize", "squash",
          "--device", "cpu", "--precision", "fp32", "--quiet", "--json"]
RANDOM = ["--random-weights", "0", "--architecture", NAME, *PIXELS]
VIEWS = ["--views", "2", "--augment", "flip,brightness=0.2"]


def command(*arguments):
    return [str(word) for word in (BUILD / "bin" / "coldframe", *arguments)]


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*arguments)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done.stdout if expect in (0, 1) else done.stderr


def noise(seed, width=60, height=50):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


class Cohort:
    """Exams of 4, 3 and 5 frames. The second of exam 1 is lost; the last two of exam 2 are alike."""

    def __init__(self, folder):
        self.folder, self.manifest = folder, folder / "m.csv"
        rows, self.frames = ["exam,path,time,patient,label"], []
        for exam, count in enumerate((4, 3, 5)):
            for t in range(count):
                lost = (exam, t) == (1, 1)
                picture = noise(10 * exam + min(t, 3))
                if not lost:
                    Image.fromarray(picture).save(folder / f"{exam}-{t}.png")
                self.frames.append(None if lost else picture)
                rows.append(f"E{exam},{'' if lost else f'{exam}-{t}.png'},{t},p{exam},{exam % 2}")
        self.manifest.write_text("\n".join(rows) + "\n")

    def extract(self, out, *options, expect=0):
        return coldframe("extract", "--input", self.manifest, "--out", out, *options, expect=expect)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    return Cohort(tmp_path_factory.mktemp("cut"))


def array(cache, name):
    with h5py.File(cache) as file:
        return file[name][:]


def test_pixels_are_those_that_the_backbone_sees(cohort, tmp_path):
    cohort.extract(tmp_path / "x.h5", *RANDOM, "--cut", "0", "--resampler", "pillow12")
    pixels = array(tmp_path / "x.h5", "cut/clean")
    assert pixels.dtype == np.uint8 and pixels.shape == (12, SIZE, SIZE, 3)
    for found, picture in zip(pixels, cohort.frames):
        if picture is None:
            assert not found.any()
        else:
            resized = Image.fromarray(picture).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
            assert np.abs(found.astype(int) - np.asarray(resized)).max() <= 1
    coldframe("cache", "verify", tmp_path / "x.h5")


@pytest.mark.parametrize("out", ["x.h5", "x.cache"])
def test_tokens_are_timms_of_these_pixels_in_every_view(cohort, tmp_path, out):
    model = build(NAME, img_size=SIZE)
    save_folder(model, tmp_path / "hub", NAME, img_size=SIZE)
    for block in (0, 7):
        cohort.extract(tmp_path / f"{block}-{out}", "--weights", tmp_path / "hub", *PIXELS, *VIEWS, "--cut", block)
    if out.endswith(".cache"):
        for block in (0, 7):
            coldframe("cache", "pack", tmp_path / f"{block}-x.h5", tmp_path / f"{block}-{out}")
    kept = []
    model.blocks[7].register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    present = np.array([frame is not None for frame in cohort.frames])
    for view in ("clean", "view1", "view2"):
        pixels = array(tmp_path / "0-x.h5", f"cut/{view}")
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(255).sub(MEAN).div(STD)
        with torch.inference_mode():
            features = model.forward_features(images)[:, 1:].mean(1).numpy()
        expected, found = kept[-1].numpy(), array(tmp_path / "7-x.h5", f"cut/{view}")
        assert found.dtype == np.float16 and found.shape == (12, 10, 192)
        assert expected.std() > 0.1
        # Half of float16's spacing, and what fp32 strays by.
        assert (np.abs(found - expected) <= np.abs(expected) * 2.0**-11 + 2e-5 * np.abs(expected).max())[present].all()
        assert np.isnan(found[~present]).all()
        np.testing.assert_allclose(array(tmp_path / "7-x.h5", f"features/{view}")[present], features[present], rtol=2e-3, atol=2e-3)
    clean, other = (array(tmp_path / "7-x.h5", f"cut/{view}") for view in ("clean", "view1"))
    assert not np.array_equal(clean[0], other[0])


def test_features_are_the_same_with_and_without(cohort, tmp_path):
    cohort.extract(tmp_path / "x.h5", *RANDOM)
    for options in (["--cut", "8"], ["--cut", "0"]):
        out = tmp_path / f"{'-'.join(options)}.h5"
        cohort.extract(out, *RANDOM, *options)
        assert array(out, "features/clean").tobytes() == array(tmp_path / "x.h5", "features/clean").tobytes()
        coldframe("cache", "pack", out.with_suffix(".plain.h5"), out, "--without-cut")
        assert out.with_suffix(".plain.h5").read_bytes() == (tmp_path / "x.h5").read_bytes()
    info = {}
    for name in ("x", "--cut-8"):
        info[name] = json.loads(coldframe("cache", "info", tmp_path / f"{name}.h5", "--json"))
    assert info["x"]["feature_digest"] == info["--cut-8"]["feature_digest"]
    assert info["x"]["cut"] is None and info["--cut-8"]["cut"]["block"] == 8 and info["--cut-8"]["cut"]["shape"] == [10, 192]


def shards(out):
    """Those that a job has stored of a single-file cache."""
    return sorted(out.parent.glob(f"{out.name}.shards/shard-*.h5"))


@pytest.fixture(scope="module")
def large_job(cohort):
    """Its command up to --out, and the cache that it makes undisturbed. A shard holds 64 MiB of a cut; these exams fill 2.5."""
    torch.jit.script(torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())).save(str(cohort.folder / "means.pt"))
    manifest = cohort.folder / "many.csv"
    rows = [f"M{exam},{2 * (exam % 2)}-{t}.png,{t}" for exam in range(MANY) for t in range(3)]
    manifest.write_text("\n".join(["exam,path,time", *rows]) + "\n")
    pixels = [384 if word == SIZE else word for word in PIXELS[2:]]
    options = ["extract", "--input", manifest, "--backbone", cohort.folder / "means.pt", *pixels, *VIEWS, "--cut", 0, "--out"]
    coldframe(*options, cohort.folder / "scratch.h5")
    return options, cohort.folder / "scratch.h5"


@pytest.mark.parametrize("sent, code", [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 75)])
def test_a_job_that_ends_early_goes_on_from_its_shards(large_job, tmp_path, sent, code):
    options, scratch = large_job
    out = tmp_path / "x.h5"
    for _ in range(2):
        before = len(shards(out))
        job = subprocess.Popen(command(*options, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while len(shards(out)) == before and job.poll() is None:
            time.sleep(0.01)
        job.send_signal(sent)
        error = job.communicate()[1]
        assert job.returncode in (0, code), error  # 0: it was through when the signal came
        assert out.exists() if job.returncode == 0 else len(shards(out)) > before
    done = json.loads(coldframe(*options, out))
    assert done["extracted"]["exams"] < MANY == done["unchanged"] + done["extracted"]["exams"]
    assert all_data(out) == all_data(scratch)
    again = json.loads(coldframe(*options, out))
    assert (again["unchanged"], again["extracted"]["exams"]) == (MANY, 0)


def test_another_cut_is_another_recipe(cohort, tmp_path):
    cohort.extract(tmp_path / "x.h5", *RANDOM, "--cut", "5")
    before = (tmp_path / "x.h5").read_bytes()
    for options in ([], ["--cut", "6"], ["--cut", "0"]):
        assert "cut" in cohort.extract(tmp_path / "x.h5", *RANDOM, *options, expect=3)
    assert (tmp_path / "x.h5").read_bytes() == before


def test_labels_change_and_caches_merge_without_extraction(cohort, tmp_path):
    cohort.extract(tmp_path / "whole.h5", *RANDOM, "--cut", "5")
    text = cohort.manifest.read_text()
    parts = []
    for part in ("E0|E1", "E2"):
        rows = [row for row in text.splitlines() if row.startswith("exam") or row.split(",")[0] in part.split("|")]
        manifest = cohort.folder / f"{part[0:2]}.csv"
        manifest.write_text("\n".join(rows).replace(",p0,0", ",p0,9") + "\n")
        parts.append(tmp_path / f"{part[:2]}.cache")
        coldframe("extract", "--input", manifest, "--out", parts[-1], *RANDOM, "--cut", "5")
        manifest.write_text("\n".join(rows) + "\n")
        again = json.loads(coldframe("extract", "--input", manifest, "--out", parts[-1], *RANDOM, "--cut", "5"))
        assert again["extracted"]["exams"] == 0
    coldframe("cache", "merge", tmp_path / "merged.h5", *parts)
    coldframe("cache", "verify", tmp_path / "merged.h5")
    assert json.loads(coldframe("cache", "diff", tmp_path / "whole.h5", tmp_path / "merged.h5", "--json"))["same"] is True
    assert array(tmp_path / "whole.h5", "cut/clean").tobytes() == array(tmp_path / "merged.h5", "cut/clean").tobytes()


def test_diff_and_export(cohort, tmp_path):
    cohort.extract(tmp_path / "x.h5", *RANDOM, "--cut", "5")
    Image.fromarray(noise(99)).save(cohort.folder / "other.png")
    other = cohort.folder / "other.csv"
    other.write_text(cohort.manifest.read_text().replace("2-1.png", "other.png"))
    coldframe("extract", "--input", other, "--out", tmp_path / "y.h5", *RANDOM, "--cut", "5")
    found = json.loads(coldframe("cache", "diff", tmp_path / "x.h5", tmp_path / "y.h5", "--json", expect=1))
    assert [entry["exam"] for entry in found["different"]] == ["E2"]
    a, b = (array(tmp_path / name, "cut/clean") for name in ("x.h5", "y.h5"))
    largest = np.nanmax(np.abs(a.astype(np.float32) - b.astype(np.float32)))
    assert found["different"][0]["cut"] == {"clean": {"different_frames": 1, "max_difference": pytest.approx(largest)}}
    assert "cut of view clean: 1 frames differ" in coldframe("cache", "diff", tmp_path / "x.h5", tmp_path / "y.h5", expect=1)

    coldframe("cache", "export", tmp_path / "e.npy", tmp_path / "x.h5", "--cut", "--where", "label=0")
    exported = np.load(tmp_path / "e.cut.npy", mmap_mode="r")
    np.testing.assert_array_equal(exported, np.concatenate([a[:4], a[7:]]))
    coldframe("cache", "import", tmp_path / "back.h5", tmp_path / "e.npy", tmp_path / "e.frames.csv", tmp_path / "e.exams.csv",
              "--recipe", tmp_path / "e.recipe.json")
    assert json.loads(coldframe("cache", "info", tmp_path / "back.h5", "--json"))["cut"] is None
    coldframe("cache", "pack", tmp_path / "plain.h5", tmp_path / "x.h5", "--without-cut")
    assert "the cache has none" in coldframe("cache", "export", tmp_path / "f.npy", tmp_path / "plain.h5", "--cut", expect=2)


def test_python_reads_it(cohort, tmp_path):
    cohort.extract(tmp_path / "x.cache", *RANDOM, "--cut", "5")
    sys.path.insert(0, str(ROOT / "common/python"))
    from coldframe import Cache
    coldframe("cache", "pack", tmp_path / "x.h5", tmp_path / "x.cache")
    np.testing.assert_array_equal(Cache(tmp_path / "x.cache").cut("E1"), array(tmp_path / "x.h5", "cut/clean")[4:7])


def test_values_beyond_float16_fail_their_exam(cohort, tmp_path):
    model = build(NAME, img_size=SIZE)
    with torch.no_grad():
        model.pos_embed[0, 3, 5] = 1e5
    save_folder(model, tmp_path / "hub", NAME, img_size=SIZE)
    options = ["--weights", tmp_path / "hub", *PIXELS, "--cut", "1"]
    summary = json.loads(cohort.extract(tmp_path / "x.h5", *options, expect=1))
    assert len(summary["failures"]) == 3
    assert "frame 0: what enters block 1 has a value that is not finite, or beyond float16" in summary["failures"][0]["reason"]
    cohort.extract(tmp_path / "y.h5", *options, "--store", "float32")
    tokens = array(tmp_path / "y.h5", "cut/clean")
    assert tokens.dtype == np.float32 and tokens[0].max() > 65504


@pytest.mark.parametrize("options, code, message", [
    ([*RANDOM, "--cut", "12"], 2, "--cut 12: the backbone has 12 blocks, expected 0"),
    ([*RANDOM, "--cut", "-1"], 2, "--cut -1: expected 0 or more"),
    ([*RANDOM, "--cut", "5", "--layers", "4,12"], 2, "give --cut 3 or less"),
    ([*RANDOM, "--cut", "5", "--tiles"], 2, "--cut cannot be combined with --tiles"),
    (["--backbone", "x.pt", *PIXELS[2:], "--cut", "1"], 2, "does not show what enters its blocks"),
])
def test_refuses_what_cannot_be(cohort, tmp_path, options, code, message):
    assert message in cohort.extract(tmp_path / "x.h5", *options, expect=code)
    assert not list(tmp_path.iterdir())


def test_a_compiled_backbone_stores_pixels(cohort, tmp_path):
    torch.jit.script(torch.nn.Flatten()).save(str(tmp_path / "pixels.pt"))
    cohort.extract(tmp_path / "x.h5", "--backbone", tmp_path / "pixels.pt", *PIXELS[2:], "--cut", "0", "--store", "float32")
    levels = array(tmp_path / "x.h5", "features/clean").reshape(12, 3, SIZE, SIZE).transpose(0, 2, 3, 1) * STD * 255 + MEAN * 255
    pixels = array(tmp_path / "x.h5", "cut/clean")
    present = np.array([frame is not None for frame in cohort.frames])
    np.testing.assert_allclose(pixels[present], levels[present], atol=1e-3)


@pytest.mark.parametrize("block", [0, 8])
def test_looking_ahead(tmp_path, block):
    for exam in range(20):
        (tmp_path / "in" / str(exam)).mkdir(parents=True)
        for t in range(10):
            Image.fromarray(noise(100 * exam + t)).save(tmp_path / "in" / str(exam) / f"{t}.png")
    options = ["--architecture", "vit_small_patch16_224", "--random-weights", "0", "--pool", "cls", "--mean", "0.5", "--std", "0.5",
               "--image-size", "64", "--device", "cpu", "--quiet", "--cut", block, "--views", "1"]
    dry = json.loads(coldframe("extract", "--input", tmp_path / "in", "--dry-run", "--json", *options))
    coldframe("extract", "--input", tmp_path / "in", "--out", tmp_path / "x.h5", *options)
    assert dry["totals"]["cut_bytes_per_frame"] == (64 * 64 * 3 if block == 0 else 17 * 384 * 2)
    assert dry["totals"]["cache_bytes"] == pytest.approx((tmp_path / "x.h5").stat().st_size, rel=0.05)
    coldframe("extract", "--input", tmp_path / "in", "--benchmark", *options)


@pytest.mark.parametrize("published", ["timm", "transformers"])
def test_looking_ahead_reads_the_folder_of_the_weights(tmp_path, published):
    """Patches of 14 pixels, as DINOv2's, in 256 tokens and one; nothing of what a ViT-S/16 has."""
    if published == "timm":
        pixels = {"input_size": [3, 392, 392], "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "crop_pct": 1.0}
        config = {"architecture": "vit_base_patch14_dinov2", "global_pool": "token", "pretrained_cfg": pixels}
    else:
        config = {"model_type": "dinov2", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "mlp_ratio": 4,
                  "patch_size": 14, "image_size": 518, "hidden_act": "gelu", "layer_norm_eps": 1e-6, "qkv_bias": True}
        pixels = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224},
                  "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(pixels))
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"cls_token": torch.zeros(1, 1, 768)}, tmp_path / "model.safetensors")
    (tmp_path / "in").mkdir()
    Image.fromarray(noise(0)).save(tmp_path / "in" / "0.png")
    words = ["extract", "--input", tmp_path / "in", "--dry-run", "--weights", tmp_path, "--cut", "10"]
    totals = json.loads(coldframe(*words, "--json"))["totals"]
    side = 28 if published == "timm" else 16  # patches of an image of the config's size
    assert totals["cut_bytes_per_frame"] == (1 + side * side) * 768 * 2 and totals["features_per_frame"] == 768
    assert "ViT-S" not in coldframe(*words)
    assert "ViT-S" in coldframe(*words[:4])
