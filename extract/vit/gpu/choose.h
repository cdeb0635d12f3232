// Decides whether the GPU engine computes a model.
#pragma once

#include <memory>

#include "common/torch/precision.h"
#include "extract/vit/backbone.h"
#include "extract/vit/gpu/engine.h"

namespace coldframe::vit::gpu {

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// in a build without CUDA kernels and for architectures that it refuses. `checked`: a check follows
// that can take back what rounds more.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision, bool checked);

}  // namespace coldframe::vit::gpu
