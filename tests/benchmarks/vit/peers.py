"""Runs what a user would run instead: timm eager, torch.compile with freezing, ONNX Runtime and OpenVINO."""

import copy
import importlib.util

import torch
import torch._inductor.config

TYPES = {"fp32": (torch.float32, "f32"), "bf16": (torch.bfloat16, "bf16"), "fp16": (torch.float16, "f16")}


def eager(model, images):
    return lambda: model(images)


def compiled(model, images):
    torch._inductor.config.freezing = True
    return eager(torch.compile(model), images)


class OfImages(torch.nn.Module):
    """A model that takes nothing but images: the exporter makes tensors of forward()'s other arguments, defaults too."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model(images)


def has(package):
    """Says what is left out."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"without {package}, which is not installed", flush=True)
    return found


def export(model, images, folder):
    path = folder / "model.onnx"
    torch.onnx.export(OfImages(model), (images,), str(path), dynamo=False, input_names=["images"], opset_version=17)
    return path


def onnx_runtime(path, images, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    pixels = images.numpy()
    return lambda: session.run(None, {"images": pixels})


def open_vino(path, images, threads, precision):
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads,
                "PERFORMANCE_HINT": "LATENCY"}
    model = core.read_model(str(path))
    model.reshape([*images.shape])
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    pixels = images.numpy()
    return lambda: request.infer([pixels])


def in_type(model, dtype):
    return copy.deepcopy(model).to(dtype)


def pytorch(model, images, precision):
    dtype, _ = TYPES[precision]
    cast = images.to(dtype)
    return {f"timm eager {precision}": (precision, eager(in_type(model, dtype), cast)),
            f"torch.compile {precision}": (precision, compiled(in_type(model, dtype), cast))}


def all_peers(model, images, threads, folder, precisions):
    """Name -> (precision, a function that runs one batch)."""
    peers = {}
    for precision in precisions:
        peers |= pytorch(model, images, precision)
    if not has("onnx"):
        return peers
    path = export(model, images, folder)
    if has("onnxruntime"):
        peers["ONNX Runtime fp32"] = "fp32", onnx_runtime(path, images, threads)
    if has("openvino"):
        for precision in precisions:
            peers[f"OpenVINO {precision}"] = precision, open_vino(path, images, threads, TYPES[precision][1])
    return peers


def gemms(precisions, size=2048):
    """Large square products: the machine's limit is the quickest of a precision."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    packed = torch.ops.mkldnn._reorder_linear_weight(b, size)
    products = {"fp32 GEMM, oneDNN":
                ("fp32", lambda: torch.ops.mkldnn._linear_pointwise(a, packed, None, "none", [], ""))}
    for precision in precisions:
        left, right = a.to(TYPES[precision][0]), b.to(TYPES[precision][0])
        products[f"{precision} GEMM, torch"] = (precision, lambda left=left, right=right: left @ right)
    return products, 2 * size ** 3
