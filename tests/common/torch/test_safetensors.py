"""Coldframe's safetensors against the reference implementation, in both directions."""

import os
import pathlib
import resource
import subprocess

import pytest
import safetensors
import safetensors.torch
import torch

BUILD = pathlib.Path(os.environ.get("COLDFRAME_BUILD", pathlib.Path(__file__).parents[3] / "build"))
PROGRAM = BUILD / "tests" / "safetensors_copy"

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.float16, torch.bfloat16,
    torch.int32, torch.uint32, torch.float32, torch.float64, torch.int64, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64,
]


def some_tensors():
    generator = torch.Generator().manual_seed(7)
    tensors = {}
    for dtype in DTYPES:
        values = torch.rand(3, 5, generator=generator) * 100
        tensors[f"layer.{dtype}"] = values.to(dtype)
    tensors["scalar"] = torch.tensor(1.5)
    tensors["empty"] = torch.zeros(0, 4)
    tensors["nan"] = torch.tensor([float("nan"), float("-inf"), -0.0])
    tensors['odd "näme" \\ \n'] = torch.arange(3)
    return tensors


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8) if tensor.numel() else tensor


def copy(source, target):
    return subprocess.run([PROGRAM, "copy", source, target], capture_output=True, text=True)


def test_tensors_and_metadata_survive_the_way_through_coldframe(tmp_path):
    tensors = some_tensors()
    metadata = {"format": "pt", "note": "ü \" \\ \n"}
    safetensors.torch.save_file(tensors, tmp_path / "reference", metadata)
    done = copy(tmp_path / "reference", tmp_path / "ours")
    assert done.returncode == 0, done.stderr

    back = safetensors.torch.load_file(tmp_path / "ours")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape, name
        assert torch.equal(bits(back[name]), bits(tensor)), name
    with safetensors.safe_open(tmp_path / "ours", "pt") as file:
        assert file.metadata() == metadata


def header_mutants(content):
    """Each byte of the header replaced by some others, removed, and doubled."""
    end = 8 + int.from_bytes(content[:8], "little")
    for at in range(end):
        for value in b'0 "{}[],:\x00\xff':
            if content[at] != value:
                yield content[:at] + bytes([value]) + content[at + 1:]
        yield content[:at] + content[at + 1:]
        yield content[:at] + content[at:at + 1] + content[at:]


def test_coldframe_refuses_every_mutant_that_the_reference_refuses(tmp_path):
    tensors = {"a": torch.ones(3, dtype=torch.uint8), "b": torch.zeros(2, 2)}
    content = safetensors.torch.save(tensors, {"k": "v"})
    paths, verdicts = [], []
    for number, mutant in enumerate(header_mutants(content)):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(mutant)
        try:
            safetensors.torch.load(mutant)
            verdicts.append(True)
        except Exception:  # the reference has several kinds of errors
            verdicts.append(False)
    lines = subprocess.run([PROGRAM, "check", *paths], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    assert len(lines) == len(paths)
    too_lax = [(p.read_bytes(), line) for p, line, ok in zip(paths, lines, verdicts)
               if line == "ok" and not ok]
    too_strict = [(p.read_bytes(), line) for p, line, ok in zip(paths, lines, verdicts)
                  if line != "ok" and ok]
    assert not too_lax
    assert not too_strict
    assert True in verdicts and False in verdicts


@pytest.mark.parametrize("content, message", [(b"", "has 0 bytes"), (b"\xff" * 16, "claims")])
def test_what_is_no_safetensors_file_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "bad").write_bytes(content)
    done = copy(tmp_path / "bad", tmp_path / "out")
    assert done.returncode == 3
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_limit_on_file_sizes_is_an_error_that_leaves_nothing(tmp_path):
    safetensors.torch.save_file({"a": torch.zeros(1 << 20)}, tmp_path / "large")
    (tmp_path / "out").mkdir()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    done = subprocess.run([PROGRAM, "copy", tmp_path / "large", tmp_path / "out" / "copy"],
                          capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 3
    assert "File too large; raise the limit on file sizes" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []
