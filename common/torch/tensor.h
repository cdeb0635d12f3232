// LibTorch's tensors, modules and linear layers: what our code is made of. <torch/torch.h> would
// add its whole API, which every file then takes seconds longer to compile with.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>
