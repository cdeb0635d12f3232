// Which kernels compute on this processor.
#pragma once

#include <memory>

#include "common/torch/precision.h"
#include "extract/vit/engine/engine.h"

namespace coldframe::vit::engine {

// Whether products of bf16 numbers are quicker than those of floats here. Intel's processors of the
// Sapphire Rapids family compute VDPBF16PS at half the rate of float's multiply-add; AMD's since
// Zen 4 at twice that rate.
bool bf16_is_quicker();

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// for fp16, and for architectures that it refuses. With bf16 on a processor whose floats are at
// least as quick, the weights alone are rounded to bf16 and the rest is computed in float.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model, std::int64_t image_size,
                                    Precision precision);

}  // namespace coldframe::vit::engine
