"""Packages that AOTInductor compiled (.pt2) as a backbone, against the model in timm that they were made of."""

import json
import zipfile

import pytest
import timm
import torch

from timm_models import images_of, train_like
from vit_features import FP32_DIFFERENCE, Refused, difference, features

SIZE = 32


def compiled(path, model, images, dynamic_shapes=None):
    program = torch.export.export(model, (images,), dynamic_shapes=dynamic_shapes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))
    return path


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Of a ViT, for any number of images: its path and the model."""
    model = train_like(timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=SIZE, depth=1), 0)
    path = tmp_path_factory.mktemp("package") / "vit.pt2"
    return compiled(path, model, images_of(SIZE)[:2], ({0: torch.export.Dim("batch")},)), model


def edited(source, target, change):
    """A copy in which `change` gives a name and content for each entry, or None to leave it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            if kept := change(name, old.read(name)):
                new.writestr(*kept)
    return target


def with_fact(source, target, key, value):
    def change(name, content):
        if not name.endswith("_metadata.json"):
            return name, content
        return name, json.dumps(json.loads(content) | {key: value})
    return edited(source, target, change)


def refusal(path, images=None, **settings):
    with pytest.raises(Refused) as refused:
        features(None, images_of(SIZE) if images is None else images, module=path, **settings)
    assert str(path) in str(refused.value) and str(refused.value).count("\n") == 0
    return str(refused.value)


def test_features_are_the_models(package):
    path, model = package
    images = images_of(SIZE)
    with torch.inference_mode():
        expected = model(images)
    found, description = features(None, images, module=path)
    assert difference(found, expected) <= FP32_DIFFERENCE
    assert description["kind"] == "aotinductor" and description["dimension"] == 192
    single, _ = features(None, images[:1], module=path)
    assert difference(single, expected[:1]) <= FP32_DIFFERENCE


def test_another_size_or_precision(package):
    path, _ = package
    assert "expected: 32, but got: 48; check --image-size" in refusal(path, images_of(48))
    assert "expected: 6(at::kFloat), but got: 15" in refusal(path, precision="bf16")


def test_another_machine(package, tmp_path):
    path, _ = package
    assert "compiled for cuda, and the device is cpu; give --device cuda" in refusal(
        with_fact(path, tmp_path / "cuda.pt2", "AOTI_DEVICE_KEY", "cuda"))
    assert "compiled for processors of kind riscv64" in refusal(
        with_fact(path, tmp_path / "riscv.pt2", "AOTI_MACHINE", "riscv64"))


def test_damage(package, tmp_path):
    path, _ = package
    content = path.read_bytes()
    cut, flipped = tmp_path / "cut.pt2", tmp_path / "flipped.pt2"
    cut.write_bytes(content[:len(content) // 2])
    assert "neither a TorchScript module nor a package" in refusal(cut)
    flipped.write_bytes(content[:len(content) // 2] + bytes([content[len(content) // 2] ^ 1]) + content[len(content) // 2 + 1:])
    assert "checksum" in refusal(flipped)
    assert "points outside of the package" in refusal(edited(
        path, tmp_path / "up.pt2", lambda name, content: ("a/../../b" if name.endswith("byteorder") else name, content)))
    assert "LibTorch cannot load it" in refusal(edited(
        path, tmp_path / "json.pt2", lambda name, content: (name, b"{" if name.endswith("_metadata.json") else content)))
    assert "holds the models 'model', 'other'" in refusal(edited(
        path, tmp_path / "two.pt2",
        lambda name, content: (name.replace("/model/", "/other/") if name.endswith(".kernel.cpp") else name, content)))


def test_a_program_that_is_not_compiled(tmp_path):
    path = tmp_path / "exported.pt2"
    torch.export.save(torch.export.export(torch.nn.Flatten(), (images_of(SIZE),)), path)
    assert "is not compiled; compile it for this machine with torch._inductor" in refusal(path)


class Odd(torch.nn.Module):
    """Gives a vector for each image, of what `kind` says."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        features = x.flatten(1)[:, :8]
        if self.kind == "nan":
            return features / 0.0 * 0.0
        if self.kind == "batch":
            return features - x.mean() + features.mean(0) * 9
        return features.expand(4, -1, -1)


@pytest.mark.parametrize("kind, message", [("nan", "infinite or no number"), ("batch", "depend on the other images of the batch"),
                                           ("shape", "expected .3, D.")])
def test_a_module_that_is_no_backbone_is_refused_before_the_job(kind, message, tmp_path):
    path = tmp_path / "odd.pt"
    torch.jit.trace(Odd(kind), images_of(SIZE), check_trace=False).save(str(path))
    with pytest.raises(Refused, match=message):
        features(None, images_of(SIZE), module=path)
