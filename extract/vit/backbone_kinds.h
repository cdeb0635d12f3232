// The kinds of backbone that make_backbone chooses from.
#pragma once

#include "extract/vit/backbone.h"

namespace coldframe::vit {

// Takes options.weights, or random weights of options.architecture. Several precisions, on the CPU:
// the quickest of them on options.check is taken, the first where nothing is given to compare.
std::unique_ptr<Backbone> make_vit_backbone(const BackboneOptions& options,
                                            const torch::Device& device,
                                            const std::vector<Precision>& precisions);

std::unique_ptr<Backbone> make_compiled_backbone(const BackboneOptions& options,
                                                 const torch::Device& device, Precision precision);

// Features stray in a precision ("features of … have a cosine of …"): SystemError where somebody
// named it, else a warning, since another one computes.
void leave_precision(Precision precision, const std::string& how, bool named, Precision other);

// DataError unless images are [B, 3, H, W] float32.
void require_images(const torch::Tensor& images, const ImageSize& image_size);

}  // namespace coldframe::vit
