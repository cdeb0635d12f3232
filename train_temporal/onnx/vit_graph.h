// A ViT as an ONNX graph, from the model that the engines of extract/vit compute.
#pragma once

#include "common/text/image_size.h"
#include "extract/vit/pooling.h"
#include "extract/vit/vision_transformer.h"
#include "train_temporal/onnx/graph.h"

namespace coldframe::onnx {

// Input `images` [batch, 3, H, W] float32, normalised; output `features` [batch, D]. ConfigError
// for architectures that the engines do not compute, by name.
Graph vit_graph(vit::VisionTransformerImpl& model, const ImageSize& image_size,
                const vit::FeatureOptions& features);

}  // namespace coldframe::onnx
