"""Made volumes and encoders of blocks, and what MONAI makes of the same files."""

import json

import h5py
import monai.transforms as transforms
import nibabel
import numpy as np
import torch

import loaded_program

LOW, HIGH = -175.0, 250.0
WINDOW = ["--window", f"{(LOW + HIGH) / 2},{HIGH - LOW}"]


def coldframe(*arguments, expect=0):
    done = loaded_program.coldframe(*map(str, arguments))
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


def made_values(shape, seed=0):
    """A body of smooth structures in air, in Hounsfield units."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij"))
    inside = np.sum(grid ** 2, 0) < 0.6
    values = 120 * np.sin(7 * grid[0] + 2 * grid[1]) + 90 * np.cos(5 * grid[2] - 3 * grid[1] * grid[0])
    return np.where(inside, values + rng.normal(0, 30, shape), -1000).round().astype(np.int16)


def affine_of(spacing, axes=(0, 1, 2), signs=(1, 1, 1), angles=(0, 0, 0), origin=(-30.5, 12.25, 7)):
    """Voxel axis i runs along patient axis axes[i], turned by `angles` (radians)."""
    affine = np.eye(4)
    for voxel, (patient, sign) in enumerate(zip(axes, signs)):
        affine[:3, voxel] = 0
        affine[patient, voxel] = sign * spacing[voxel]
    for axis, angle in enumerate(angles):
        a, b = [i for i in range(3) if i != axis]
        turn = np.eye(4)
        turn[a, a] = turn[b, b] = np.cos(angle)
        turn[a, b], turn[b, a] = -np.sin(angle), np.sin(angle)
        affine = turn @ affine
    affine[:3, 3] = origin
    return affine


def write_nifti(path, values, affine, slope=None):
    image = nibabel.Nifti1Image(values, affine)
    if slope is not None:
        image.header.set_slope_inter(*slope)
    nibabel.save(image, path)
    return path


def monai_volume(path, spacing=None, orientation="RAS", crop=False, reader=None, scale=None):
    """[1, X, Y, Z] with its affine, as MONAI's usual transforms of the file."""
    steps = [transforms.LoadImage(ensure_channel_first=True, image_only=True, reader=reader),
             transforms.Orientation(orientation, labels=(("L", "R"), ("P", "A"), ("I", "S")))]
    if spacing is not None:
        steps.append(transforms.Spacing(spacing, mode="bilinear", padding_mode="border"))
    steps.append(scale or transforms.ScaleIntensityRange(LOW, HIGH, 0, 1, clip=True))
    if crop:
        steps.append(transforms.CropForeground())
    return transforms.Compose(steps)(path)


class Voxels(torch.nn.Module):
    """[B, 1, X, Y, Z] -> [B, X · Y · Z]: a row is the block itself."""

    def forward(self, x):
        return x.flatten(1)


def encoder(stride=1, channels=3):
    """[B, 1, X, Y, Z] -> a map [B, D, X / stride, …]."""
    torch.manual_seed(stride)
    return torch.nn.Sequential(torch.nn.Conv3d(1, channels, 3, padding=1, stride=stride), torch.nn.Tanh(),
                               torch.nn.Conv3d(channels, channels, 3, padding=1)).eval()


def save(model, path):
    torch.jit.script(model).save(str(path))
    return path


def extract(source, out, module, *words, expect=0):
    """The summary, or what stderr says."""
    done = coldframe("extract", "--input", source, "--backbone", module, "--device", "cpu", "--precision", "fp32", "--store", "float32",
                     "--json", "--out", out, *words, expect=expect)
    return json.loads(done.stdout) if done.stdout else done.stderr


def rows_of(cache):
    """{exam: (features [rows, D], {column: values})}"""
    with h5py.File(cache) as file:
        columns = {name: file[f"frames/columns/{name}"].asstr()[:] for name in file.get("frames/columns", {})}
        offsets, features = file["exams/offset"][:], file["features/clean"][:]
        return {exam: (features[a:b], {name: values[a:b] for name, values in columns.items()})
                for exam, a, b in zip(file["exams/id"].asstr()[:], offsets, offsets[1:])}
