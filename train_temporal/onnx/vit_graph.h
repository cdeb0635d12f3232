// A ViT as an ONNX graph: extract/vit/vit.h with nodes in place of operators.
#pragma once

#include "common/text/image_size.h"
#include "extract/vit/pooling.h"
#include "extract/vit/vit.h"
#include "train_temporal/onnx/graph.h"

namespace coldframe::onnx {

// Input `images` [batch, 3, H, W] float32, normalised; output `features` [batch, D].
Graph vit_graph(const vit::VisionTransformerImpl& model, const ImageSize& image_size,
                const vit::FeatureOptions& options);

}  // namespace coldframe::onnx
