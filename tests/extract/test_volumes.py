"""`coldframe extract --block` as a user runs it, beside MONAI: orientation, spacing, window, crop to the body, sliding windows
and their blending; then DICOM series, what is refused, and resuming."""

import json
import shutil

import h5py
import nibabel
import numpy as np
import pytest
import torch
from monai.inferers import sliding_window_inference
from monai.transforms import ScaleIntensityRangePercentiles

from volumes import (LOW, HIGH, WINDOW, Voxels, affine_of, coldframe, encoder, extract, made_values, monai_volume, rows_of, save,
                     write_nifti)

OBLIQUE = (0.2, -0.15, 0.1)


@pytest.fixture(scope="module")
def voxels(tmp_path_factory):
    return save(Voxels(), tmp_path_factory.mktemp("voxels") / "voxels.pt")


def monai_blocks(volume, block, overlap):
    """The blocks that MONAI gives to an encoder, and where each one's centre lies."""
    seen = []

    def encode(x, places):
        lack = [max(0, edge - size) // 2 for edge, size in zip(block, volume.shape[1:])]
        for each, place in zip(x, places):
            centre = [part.start + (edge - 1) / 2 - pad for part, edge, pad in zip(place[2:], block, lack)]
            seen.append((each.numpy().ravel(), (np.asarray(volume.affine) @ [*centre, 1])[:3]))
        return x

    sliding_window_inference(volume.as_tensor()[None], block, 4, encode, overlap, with_coord=True)
    return [np.array(values) for values in zip(*seen)]


@pytest.mark.parametrize("name, shape, affine, spacing, words, monai", [
    ("as it is", (20, 18, 16), affine_of((1.5, 1.5, 1.5)), None, [], {}),
    ("finer", (14, 15, 9), affine_of((1.6, 1.4, 3)), (1, 1, 1), [], {}),
    ("coarser", (40, 36, 20), affine_of((0.7, 0.7, 2.5)), (1.5, 1.5, 2), [], {}),
    ("unequal", (24, 22, 12), affine_of((0.8, 0.9, 2.2)), (1.1, 0.6, 1.7), [], {}),
    ("the same to a micrometre", (18, 17, 16), affine_of((1.4996, 1.5, 1.5)), (1.5, 1.5, 1.5), [], {}),
    ("left, posterior", (20, 22, 14), affine_of((1.2, 1.1, 2), signs=(-1, -1, 1)), (1.3, 1.3, 1.3), [], {}),
    ("sagittal slices", (20, 22, 14), affine_of((1.2, 1.1, 2), axes=(1, 2, 0), signs=(-1, 1, -1)), (1.5, 1, 1.3), [], {}),
    ("oblique", (20, 22, 14), affine_of((1.2, 1.1, 2), axes=(2, 0, 1), signs=(1, -1, 1), angles=OBLIQUE), (1.5, 1, 1.3), [], {}),
    ("SPL", (20, 22, 14), affine_of((1.2, 1.1, 2)), (2, 1.4, 1.1), ["--orientation", "SPL"], {"orientation": "SPL"}),
    ("body", (30, 28, 24), affine_of((1.2, 1.1, 2), signs=(-1, 1, 1)), (1.5, 1.3, 1.4), ["--crop", "body"], {"crop": True}),
    ("body, as it is", (30, 28, 24), affine_of((1.2, 1.1, 2)), None, ["--crop", "body"], {"crop": True}),
], ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("kind", ["int16", "float32", "scaled.gz"])
def test_blocks_are_those_of_monai(tmp_path, voxels, name, shape, affine, spacing, words, monai, kind):
    values, slope = made_values(shape), None
    if kind == "float32":
        values = values.astype(np.float32) + np.random.default_rng(1).random(shape, np.float32)
    if kind == "scaled.gz":
        slope = (0.5, -20)
    path = write_nifti(tmp_path / ("a.nii.gz" if slope else "a.nii"), values, affine, slope)
    block, overlap = (12, 10, 8), 0.5
    if spacing:
        words = [*words, "--spacing", ",".join(map(str, spacing))]
    extract(path, tmp_path / "x.h5", voxels, "--block", "12,10,8", "--block-overlap", overlap, *WINDOW, *words)
    expected, centres = monai_blocks(monai_volume(path, spacing, **monai), block, overlap)
    ((features, columns),) = rows_of(tmp_path / "x.h5").values()
    assert features.shape == expected.shape and len(features) > 1
    assert np.abs(features - expected).max() < 1e-4
    found = np.array([columns[f"block_{axis}"].astype(float) for axis in "xyz"]).T
    assert np.abs(found - centres).max() < 1e-3 and set(columns["block_padded"]) == {"0"}


def test_a_volume_smaller_than_a_block_lies_in_its_middle(tmp_path, voxels):
    path = write_nifti(tmp_path / "a.nii", made_values((7, 30, 12)), affine_of((2, 2, 2)))
    extract(path, tmp_path / "x.h5", voxels, "--block", 12, *WINDOW)
    expected, centres = monai_blocks(monai_volume(path), (12, 12, 12), 0.25)
    ((features, columns),) = rows_of(tmp_path / "x.h5").values()
    assert np.abs(features - expected).max() < 1e-5
    assert np.allclose(np.array([columns[f"block_{axis}"].astype(float) for axis in "xyz"]).T, centres, atol=1e-5)
    assert np.allclose(columns["block_padded"].astype(float), 1 - 7 / 12, atol=1e-6)


def test_mean_std_and_percentiles(tmp_path, voxels):
    path = write_nifti(tmp_path / "a.nii", made_values((14, 14, 14)), affine_of((2, 2, 2)))
    extract(path, tmp_path / "x.h5", voxels, "--block", 14, "--window", "5%,95%", "--mean", 0.5, "--std", 0.5)
    volume = monai_volume(path, scale=ScaleIntensityRangePercentiles(5, 95, -1, 1, clip=True))
    ((features, _),) = rows_of(tmp_path / "x.h5").values()
    assert np.abs(features[0] - volume.numpy().ravel()).max() < 1e-5


@pytest.mark.parametrize("shape", [(40, 33, 21), (10, 33, 21)])
@pytest.mark.parametrize("blend", ["constant", "gaussian"])
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_a_pooled_volume_is_the_mean_of_monais_stitched_map(tmp_path, shape, blend, stride):
    path = write_nifti(tmp_path / "a.nii", made_values(shape), affine_of((1.5, 1.5, 1.5)))
    model = encoder(stride)
    summary = extract(path, tmp_path / "x.h5", save(model, tmp_path / "m.pt"), "--block", 16, "--block-overlap", 0.4, "--pool", "volume",
                      "--blend", blend, *WINDOW)
    assert summary["dimension"] == 3 and summary["block"] == [16, 16, 16] and summary["extracted"] == {"exams": 1, "frames": 1}
    with torch.inference_mode():
        stitched = sliding_window_inference(monai_volume(path).as_tensor()[None], (16, 16, 16), 3, model, 0.4, mode=blend)
    ((features, _),) = rows_of(tmp_path / "x.h5").values()
    assert np.abs(features[0] - stitched.mean(dim=(0, 2, 3, 4)).numpy()).max() < 1e-5


class Vector(torch.nn.Module):
    def forward(self, x):
        return torch.stack([x.mean(dim=(1, 2, 3, 4)), x.amax(dim=(1, 2, 3, 4))], 1)


class Tokens(torch.nn.Module):
    """[B, 64, 8 · 8 · 8] tokens."""

    def forward(self, x):
        return x.reshape(x.shape[0], 64, -1)


def test_rows_of_vectors_tokens_and_maps(tmp_path):
    path = write_nifti(tmp_path / "a.nii", made_values((40, 33, 21)), affine_of((1.5, 1.5, 1.5)))
    blocks = monai_blocks(monai_volume(path), (16, 16, 16), 0.25)[0]
    inputs = torch.tensor(blocks).view(-1, 1, 16, 16, 16)
    with torch.inference_mode():
        expected = {"vector": Vector()(inputs), "tokens": Tokens()(inputs).mean(1), "map": encoder(2)(inputs).mean(dim=(2, 3, 4))}
    for name, model in {"vector": Vector(), "tokens": Tokens(), "map": encoder(2)}.items():
        save(model, tmp_path / f"{name}.pt")
        for pool in ("mean", "volume"):
            extract(path, tmp_path / f"{name}{pool}.h5", tmp_path / f"{name}.pt", "--block", 16, *WINDOW, "--pool", pool)
        ((rows, _),) = rows_of(tmp_path / f"{name}mean.h5").values()
        ((row, _),) = rows_of(tmp_path / f"{name}volume.h5").values()
        assert np.allclose(rows, expected[name].numpy(), atol=1e-5)
        if name != "map":  # a vector has no place within its block: all blocks weigh alike
            assert np.allclose(row[0], expected[name].mean(0).numpy(), atol=1e-5)


class ThreeChannels(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv3d(3, 4, 3)

    def forward(self, x):
        return self.conv(x)


def test_three_channels_are_the_same_one(tmp_path):
    path = write_nifti(tmp_path / "a.nii", made_values((12, 12, 12)), affine_of((2, 2, 2)))
    extract(path, tmp_path / "x.h5", save(ThreeChannels(), tmp_path / "m.pt"), "--block", 12, *WINDOW)
    ((features, _),) = rows_of(tmp_path / "x.h5").values()
    with torch.inference_mode():
        expected = ThreeChannels()(monai_volume(path).as_tensor()[None].expand(-1, 3, -1, -1, -1)).mean(dim=(2, 3, 4))
    assert np.allclose(features, expected.numpy(), atol=1e-5)
    with h5py.File(tmp_path / "x.h5") as file:
        assert json.loads(file.attrs["recipe"])["features"]["backbone"]["channels"] == 3


def test_a_package_of_blocks(tmp_path):
    path = write_nifti(tmp_path / "a.nii", made_values((20, 12, 12)), affine_of((2, 2, 2)))
    model = Vector().eval()
    program = torch.export.export(model, (torch.zeros(2, 1, 12, 12, 12),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))
    save(model, tmp_path / "m.pt")
    for suffix in ("pt", "pt2"):
        extract(path, tmp_path / f"{suffix}.h5", tmp_path / f"m.{suffix}", "--block", 12, *WINDOW)
    a, b = (next(iter(rows_of(tmp_path / f"{suffix}.h5").values()))[0] for suffix in ("pt", "pt2"))
    assert len(a) == 2 and np.allclose(a, b, atol=1e-6)


class OfBatch(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :8] * x.shape[0]


class NotANumber(torch.nn.Module):
    def forward(self, x):
        return torch.log(-1 - x.abs()).flatten(1)[:, :8]


class FourAxes(torch.nn.Module):
    def forward(self, x):
        return x[:, 0]


@pytest.mark.parametrize("model, message", [
    (OfBatch(), "its features of a block depend on the other blocks of the batch"), (NotANumber(), "infinite or no number"),
    (FourAxes(), "expected [2, D], [2, tokens, D] or a map [2, D, x, y, z]"),
    (torch.nn.Conv3d(2, 3, 3), "it fails on 1 block of 1 × 8 × 8 × 8 voxels in fp32")])
def test_modules_that_are_no_encoder_of_blocks(tmp_path, model, message):
    path = write_nifti(tmp_path / "a.nii", made_values((8, 8, 8)), affine_of((2, 2, 2)))
    said = extract(path, tmp_path / "x.h5", save(model, tmp_path / "m.pt"), "--block", 8, *WINDOW, expect=3)
    assert message.replace("[2,", "[1,") in said or message in said


@pytest.mark.parametrize("words, message", [
    (["--block", 8], "--block needs --window CENTER,WIDTH or LOW%,HIGH%"),
    (["--block", "8,8", *WINDOW], "--block '8,8': expected voxels of an edge"),
    (["--block", 0, *WINDOW], "--block '0': expected voxels of an edge"),
    (["--block", 8, *WINDOW, "--clip", 4], "--clip is for frames and does not go with --block"),
    (["--block", 8, *WINDOW, "--axis", "x"], "--axis is for frames and does not go with --block"),
    (["--block", 8, *WINDOW, "--cut", 4], "--cut is for frames and does not go with --block"),
    (["--block", 8, *WINDOW, "--spacing", "1,2"], "--spacing '1,2': expected millimetres above 0, or three of them"),
    (["--block", 8, *WINDOW, "--spacing", "1,0,2"], "--spacing '1,0,2': expected millimetres above 0"),
    (["--block", 8, *WINDOW, "--orientation", "RAL"], "--orientation 'RAL': expected the directions of three axes"),
    (["--block", 8, *WINDOW, "--block-overlap", 1], "--block-overlap 1: expected 0 or more and less than 1"),
    (["--block", 8, *WINDOW, "--blend", "gaussian"], "--blend needs --pool volume"),
    (["--block", 8, *WINDOW, "--pool", "cls"], "--pool 'cls': of volumes it is mean, a row for each block (default), or volume"),
    (["--block", 8, *WINDOW, "--crop", "auto"], "--crop 'auto' is of frames; with --block give body, or leave it out"),
    (["--block", 8, *WINDOW, "--mean", "0.1,0.2,0.3"], "--mean and --std of volumes are one number each"),
    (["--spacing", "1,1,2", "--mean", 0, "--std", 1], "--spacing with three numbers needs --block"),
    (["--crop", "body", "--mean", 0, "--std", 1], "--crop body needs --block"),
    (["--orientation", "LPS", "--mean", 0, "--std", 1], "--orientation needs --block")])
def test_wrong_options(tmp_path, voxels, words, message):
    path = write_nifti(tmp_path / "a.nii", made_values((8, 8, 8)), affine_of((2, 2, 2)))
    assert message in extract(path, tmp_path / "x.h5", voxels, *words, expect=2)


def test_values_that_are_no_numbers(tmp_path, voxels):
    values = np.zeros((8, 8, 8), np.float32)
    values[0, 0, 0], values[1, 1, 1], values[2, 2, 2], values[3, 3, 3] = np.inf, -np.inf, np.nan, 3e38
    for name, these in (("float32", values), ("float64", values.astype(np.float64) * 1e3)):
        path = write_nifti(tmp_path / f"{name}.nii", these, affine_of((2, 2, 2)))
        extract(path, tmp_path / f"{name}.h5", voxels, "--block", 8, "--window", "0,2")
        ((features, _),) = rows_of(tmp_path / f"{name}.h5").values()
        block = features[0].reshape(8, 8, 8)
        assert [block[i, i, i] for i in range(5)] == [1, 0, 0, 1, 0.5]
    path = write_nifti(tmp_path / "nan.nii", np.full((8, 8, 8), np.nan, np.float32), affine_of((2, 2, 2)))
    summary = extract(path, tmp_path / "nan.h5", voxels, "--block", 8, *WINDOW, expect=1)
    assert "none of its values is a finite number" in str(summary)


@pytest.mark.parametrize("length", [0, np.nan])
def test_a_header_without_lengths_is_refused(tmp_path, voxels, length):
    """libnifti takes 1 mm for them."""
    image = nibabel.Nifti1Image(made_values((8, 8, 8)), None)
    image.header["qform_code"], image.header["pixdim"][1:4] = 1, [2, 2, 2]
    nibabel.save(image, tmp_path / "a.nii")
    content = bytearray((tmp_path / "a.nii").read_bytes())
    content[88:92] = np.float32(length).tobytes()  # pixdim[3]
    (tmp_path / "a.nii").write_bytes(content)
    said = extract(tmp_path / "a.nii", tmp_path / "x.h5", voxels, "--block", 8, *WINDOW, expect=1)
    assert "does not state where its values lie" in said["failures"][0]["reason"]


def test_too_many_blocks_are_refused(tmp_path, voxels):
    path = write_nifti(tmp_path / "a.nii", made_values((24, 24, 24)), affine_of((1, 1, 1)))
    said = extract(path, tmp_path / "x.h5", voxels, "--block", 1, "--spacing", 0.03, *WINDOW, expect=1)
    assert "it would be cut into more than 1000000 blocks; check --block, --spacing and --block-overlap" in str(said)


def test_a_vit_of_images_is_refused(tmp_path):
    path = write_nifti(tmp_path / "a.nii", made_values((32, 32, 32)), affine_of((2, 2, 2)))
    done = coldframe("extract", "--input", path, "--out", tmp_path / "x.h5", "--random-weights", 0, "--architecture", "vit_tiny_patch16_224",
                     "--pool", "cls", "--mean", 0.5, "--std", 0.5, "--block", 32, *WINDOW, expect=2)
    assert "--block: the backbone takes images; leave it out, or choose a backbone of volumes" in done.stderr


def study_of(folder):
    """Three exams, of which one is over time."""
    rows = ["exam,path,patient,label"]
    for number, shape in enumerate([(20, 12, 12), (12, 12, 30), (9, 9, 9)]):
        write_nifti(folder / f"e{number}.nii", made_values(shape, number), affine_of((2, 2, 2)))
        rows.append(f"e{number},e{number}.nii,p{number},{number % 2}")
    write_nifti(folder / "over_time.nii", np.repeat(made_values((8, 8, 8))[..., None], 5, 3), affine_of((2, 2, 2)))
    (folder / "x.csv").write_text("\n".join([*rows, "t,over_time.nii,pt,0"]) + "\n")
    return folder / "x.csv"


def test_several_exams_and_the_same_command_again(tmp_path, voxels):
    manifest, out = study_of(tmp_path), tmp_path / "x.h5"
    words = ["--block", 12, *WINDOW]
    summary = extract(manifest, out, voxels, *words, expect=1)
    assert summary["extracted"] == {"exams": 3, "frames": 2 + 3 + 1}
    assert "it holds 5 volumes over time" in summary["failures"][0]["reason"]
    before = rows_of(out)
    assert extract(manifest, out, voxels, *words, expect=1)["unchanged"] == 3
    # Elsewhere the same content is the same exam; other content is another.
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "e0.nii", tmp_path / "moved/e0.nii")
    manifest.write_text(manifest.read_text().replace("e0,e0.nii", "e0,moved/e0.nii"))
    write_nifti(tmp_path / "e1.nii", made_values((12, 12, 30), 7), affine_of((2, 2, 2)))
    summary = extract(manifest, out, voxels, *words, expect=1)
    after = rows_of(out)
    assert summary["extracted"]["exams"] == 1 and np.array_equal(after["e0"][0], before["e0"][0])
    assert not np.array_equal(after["e1"][0], before["e1"][0]) and set(after["e0"][1]) == {"block_x", "block_y", "block_z", "block_padded"}
    for other in (["--block", 10], ["--block", 12, "--block-overlap", 0.5], ["--block", 12, "--spacing", 1], ["--block", 12, "--pool", "volume"]):
        assert "was made with another recipe" in extract(manifest, out, voxels, *other, *WINDOW, expect=3)


def test_what_the_cache_says(tmp_path, voxels):
    manifest, out = study_of(tmp_path), tmp_path / "x.h5"
    extract(manifest, out, voxels, "--block", 12, "--spacing", "2,2,1.5", "--crop", "body", *WINDOW, expect=1)
    with h5py.File(out) as file:
        recipe = json.loads(file.attrs["recipe"])
    assert recipe["features"]["preprocessing"] == {"block": [12, 12, 12], "orientation": "RAS", "overlap": 0.25, "spacing_mm": [2, 2, 1.5],
                                                   "crop": "body", "mean": [0, 0, 0], "std": [1, 1, 1]}
    assert recipe["features"]["reading"]["window"] == f"{(LOW + HIGH) / 2},{HIGH - LOW:.0f}"
    info = coldframe("cache", "info", out).stdout
    assert "each of a block of 12 × 12 × 12 voxels of 2.0 × 2.0 × 1.5 mm (RAS)" in info and "block_padded" in info
    assert "6 frames checked: 1 finding" in coldframe("cache", "verify", out, "--input", manifest, expect=1).stderr  # the failed exam


def test_a_dry_run_counts_blocks(tmp_path):
    manifest = study_of(tmp_path)
    words = ["extract", "--input", manifest, "--dry-run", "--block", 12, "--spacing", "2,2,1", *WINDOW]
    told = coldframe(*words, expect=1).stdout
    assert "7 of 24×24×12 mm" in told and "2 of 24×24×12 mm, 2 padded" in told and "it holds 5 volumes over time" in told
    assert "Blocks: 15 of 12×12×12 voxels, 2 padded" in told
    exams = {exam["exam"]: exam for exam in json.loads(coldframe(*words, "--json", expect=1).stdout)["exams"]}
    assert exams["e1"]["volume"] == [12, 12, 59] and exams["e1"]["block_mm"] == [24, 24, 12] and exams["e1"]["inputs"] == 7
    assert exams["e2"]["windows"] == {"count": 2, "padded": 2, "median_s": None}


def test_the_batch_is_halved_where_memory_ends(tmp_path):
    path = write_nifti(tmp_path / "a.nii", made_values((96, 32, 32)), affine_of((2, 2, 2)))
    module = save(encoder(1, 32), tmp_path / "m.pt")
    words = ["--block", 32, "--block-overlap", 0.9, *WINDOW]
    extract(path, tmp_path / "one.h5", module, *words, "--batch", 1)
    done = coldframe("extract", "--input", path, "--backbone", module, "--out", tmp_path / "x.h5", "--device", "cpu", "--precision", "fp32", "--store",
                     "float32", *words, "--batch", 16, "--memory-budget", "64MiB")
    assert "out of memory at 16 blocks; continuing with 8 per forward pass" in done.stderr
    (a, _), (b, _) = (next(iter(rows_of(tmp_path / name).values())) for name in ("one.h5", "x.h5"))
    assert len(a) == 23 and np.allclose(a, b, atol=1e-5)


def test_damaged_files_fail_alone(tmp_path, voxels):
    manifest = study_of(tmp_path)
    whole = (tmp_path / "e1.nii").read_bytes()
    (tmp_path / "e1.nii").write_bytes(whole[:-100])
    image = np.zeros((8, 8, 3), np.uint8)
    from PIL import Image
    Image.fromarray(image).save(tmp_path / "e2.png")
    manifest.write_text(manifest.read_text().replace("e2.nii", "e2.png"))
    summary = extract(manifest, tmp_path / "x.h5", voxels, "--block", 12, *WINDOW, expect=1)
    reasons = {failure["exam"]: failure["reason"] for failure in summary["failures"]}
    assert summary["extracted"]["exams"] == 1
    assert "it is truncated: 29 of its 30 slices are there, and a volume is read whole or not at all" in reasons["e1"]
    assert "it holds no volume; expected a NIfTI file or slices of a DICOM series" in reasons["e2"]


def test_an_exam_of_two_volumes_is_refused(tmp_path, voxels):
    manifest = study_of(tmp_path)
    manifest.write_text("exam,path\na,e0.nii\na,e1.nii\n")
    summary = extract(manifest, tmp_path / "x.h5", voxels, "--block", 12, *WINDOW, expect=1)
    assert "it holds several volumes ('e0.nii', 'e1.nii'); make an exam of each" in summary["failures"][0]["reason"]


def test_nothing_of_the_body_is_in_the_window(tmp_path, voxels):
    path = write_nifti(tmp_path / "a.nii", np.full((8, 8, 8), -1000, np.int16), affine_of((2, 2, 2)))
    summary = extract(path, tmp_path / "x.h5", voxels, "--block", 8, *WINDOW, "--crop", "body", expect=1)
    assert "no voxel is above the lower end of --window" in summary["failures"][0]["reason"]
