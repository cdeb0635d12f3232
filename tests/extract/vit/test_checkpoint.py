"""Checkpoints as PyTorch saves them: the same tensors, bit for bit; and what must be refused."""

import argparse
import collections
import os
import pathlib
import pickle
import shutil

import numpy
import pytest
import safetensors.torch
import torch

from loaded_program import BUILD, loaded

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
         torch.int8, torch.uint8, torch.bool]


def convert(path):
    out = path.with_suffix(".safetensors")
    done = loaded(BUILD / "tests" / "vit_driver").run(["convert", path, out])
    if done.returncode:
        raise RuntimeError(done.stderr)
    return safetensors.torch.load_file(out)


def random_state(dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    state = collections.OrderedDict()
    for name, shape in (("cls_token", (1, 1, 8)), ("blocks.0.attn.qkv.weight", (24, 8)), ("scalar", ()), ("none", (0, 4))):
        state[name] = (10 * torch.randn(shape, generator=generator)).to(dtype)
    state._metadata = {"": {"version": 1}}
    return state


def bits(tensor):
    return bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert bits(found[name]) == bits(tensor), name


def prefixed(state, prefix):
    return collections.OrderedDict((prefix + name, tensor) for name, tensor in state.items())


def namespace():
    return argparse.Namespace(lr=1e-3, layers=[1, 2], name="vit_small", path=pathlib.PosixPath("/data"), f=numpy.float64(3),
                              g=numpy.arange(3), d=torch.float16, v=torch.device("cpu"), s=torch.Size([1, 2]),
                              z={1, "a"}, k=collections.defaultdict(list, a=[1]), c=collections.Counter("aab"),
                              b=b"bytes", big=1 << 100, t=(), n=None, o=True, y=bytearray(b"x"), r=range(3), q=1j)


def optimizer_state():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimizer.step()
    return optimizer.state_dict()


CONTAINERS = {
    "bare": lambda state: state,
    "dict": lambda state: dict(state),
    "model": lambda state: {"model": state},
    "state_dict": lambda state: {"epoch": 3, "state_dict": dict(state), "optimizer": optimizer_state()},
    "teacher": lambda state: {"student": prefixed(random_state(torch.float64), "x."), "teacher": state, "args": namespace()},
    "student": lambda state: {"student": state, "loss": torch.ones(1)},
    "ddp": lambda state: prefixed(state, "module."),
    "ddp_backbone": lambda state: {"teacher": {**prefixed(state, "module.backbone."), "module.head.mlp.0.weight": torch.ones(2)}},
    "lightning": lambda state: {"state_dict": prefixed(state, "model."), "hyper_parameters": {"a": 1}},
    "compiled": lambda state: {"model": prefixed(state, "_orig_mod.")},
    "parameters": lambda state: {name: torch.nn.Parameter(tensor, requires_grad=False) for name, tensor in state.items()},
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_containers(container, zipped, tmp_path):
    path = tmp_path / "w.pth"
    state = random_state()
    torch.save(CONTAINERS[container](state), path, _use_new_zipfile_serialization=zipped)
    assert_same(convert(path), state)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_types(dtype, zipped, tmp_path):
    path = tmp_path / "w.pth"
    state = random_state(dtype)
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    assert_same(convert(path), state)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_other_pickle_protocols_are_refused(zipped, tmp_path):
    torch.save(random_state(), tmp_path / "w.pth", pickle_protocol=4, _use_new_zipfile_serialization=zipped)
    with pytest.raises(RuntimeError, match="protocol 4, expected 2.*save it again"):
        convert(tmp_path / "w.pth")


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_views_of_shared_storages(zipped, tmp_path):
    base = torch.arange(24, dtype=torch.float32)
    state = {"all": base, "transposed": base.view(4, 6).t(), "part": base[5:9], "stepped": base[::3],
             "expanded": base[:2].view(2, 1).expand(2, 3), "flipped": base.view(2, 3, 4).permute(2, 0, 1)}
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
    assert_same(convert(tmp_path / "w.pth"), state)


def test_without_checksums(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(random_state(), tmp_path / "w.pth")
    finally:
        torch.serialization.set_crc32_options(True)
    assert_same(convert(tmp_path / "w.pth"), random_state())


def test_alignment_of_storages(tmp_path):
    torch.save(random_state(), tmp_path / "small.pth")
    before = torch.utils.serialization.config.save.storage_alignment
    torch.utils.serialization.config.save.storage_alignment = 4096
    try:
        torch.save(random_state(), tmp_path / "w.pth")
    finally:
        torch.utils.serialization.config.save.storage_alignment = before
    assert (tmp_path / "w.pth").stat().st_size > (tmp_path / "small.pth").stat().st_size
    assert_same(convert(tmp_path / "w.pth"), random_state())


def test_safetensors_loses_its_prefix_too(tmp_path):
    state = random_state()
    safetensors.torch.save_file(prefixed(state, "module."), tmp_path / "w.st")
    assert_same(convert(tmp_path / "w.st"), state)


class Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("function,name", [(os.system, r"os\.system"), (eval, "builtins.eval"),
                                           (shutil.rmtree, "shutil.rmtree"), (getattr, "builtins.getattr")])
def test_calls_are_refused_by_name(function, name, zipped, tmp_path):
    marker = tmp_path / "executed"
    torch.save({"model": random_state(), "x": Call(function, f"touch {marker}", "x")}, tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
    with pytest.raises(RuntimeError, match=rf"refused: the pickle calls .*{name}"):
        convert(tmp_path / "w.pth")
    assert not marker.exists()
    assert not (tmp_path / "w.safetensors").exists()


def test_plain_pickle_is_refused_by_name(tmp_path):
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Call(os.system, "true"), protocol=2))
    with pytest.raises(RuntimeError, match=r"os\.system"):
        convert(tmp_path / "w.pth")


def test_whole_models_are_refused(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pth")
    with pytest.raises(RuntimeError, match=r"torch\.nn\.modules\.linear\.Linear.*save model\.state_dict\(\) alone"):
        convert(tmp_path / "w.pth")


@pytest.mark.parametrize("tensor, builder", [(torch.eye(3).to_sparse(), "_rebuild_sparse_tensor"),
                                             (torch.arange(6, dtype=torch.int32).to(torch.uint16), "_rebuild_tensor_v3")],
                         ids=["sparse", "uint16"])
def test_other_tensors_are_refused(tensor, builder, tmp_path):
    torch.save({"a": tensor}, tmp_path / "w.pth")
    with pytest.raises(RuntimeError, match=builder):
        convert(tmp_path / "w.pth")
