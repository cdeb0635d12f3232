// Decides whether the GPU engine computes a model.
#pragma once

#include <memory>

#include "common/torch/precision.h"
#include "extract/vit/backbone.h"
#include "extract/vit/gpu/engine.h"

namespace coldframe::vit::gpu {

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// in a build without CUDA kernels and for architectures that it refuses.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision);

}  // namespace coldframe::vit::gpu
