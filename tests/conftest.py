"""PyTorch computes the peers' values, and its first call of a vector function in several threads may be wrong by 1e-5
(settle_vector_functions() in common/torch/device.cpp): here they are called first by one."""
import torch

for name in ["acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp", "log", "log2", "log10", "sqrt", "sin", "tan", "tanh", "trunc"]:
    for dtype in [torch.float32, torch.float64]:
        getattr(torch, name)(torch.ones(1, dtype=dtype))
