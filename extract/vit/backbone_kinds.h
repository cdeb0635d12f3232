// The kinds of backbone that make_backbone chooses from.
#pragma once

#include "extract/vit/backbone.h"

namespace coldframe::vit {

// Takes options.weights, or random weights of options.architecture.
std::unique_ptr<Backbone> make_vit_backbone(const BackboneOptions& options,
                                            const torch::Device& device, Precision precision);

std::unique_ptr<Backbone> make_compiled_backbone(const BackboneOptions& options,
                                                 const torch::Device& device, Precision precision);

// DataError unless images are [B, 3, H, W] float32.
void require_images(const torch::Tensor& images, const ImageSize& image_size);

}  // namespace coldframe::vit
