// Which kernels compute on this processor.
#pragma once

#include <memory>

#include "common/torch/precision.h"
#include "extract/vit/engine/engine.h"

namespace coldframe::vit::engine {

// Whether a ViT is quicker in bf16 than in float here: with AMX, or with VDPBF16PS on AMD's
// processors since Zen 4, which do twice the products of float's multiply-add. On Intel's Sapphire
// Rapids family without AMX (some virtual machines hide it) VDPBF16PS does half as many.
bool bf16_is_quicker();

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// for fp16, for architectures that it refuses, and for bf16 with AMX, which LibTorch's operators
// reach and these kernels do not. With bf16 on a processor whose floats are at least as quick, the
// weights alone are rounded to bf16 and the rest is computed in float.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model, std::int64_t image_size,
                                    Precision precision);

}  // namespace coldframe::vit::engine
