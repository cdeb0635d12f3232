// Says which parameters of a ViT are trained, and where they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/torch/tensor.h"
#include "extract/vit/vit.h"
#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/tuned_source.h"
#include "train_temporal/fit/tune/tuned_vit.h"

namespace coldframe::tune {

// What a parameter of this name in files, or a layer, is a part of: "blocks.11.attn.qkv.weight" of
// block 11. What all blocks share is a part of the embedding.
struct ParameterOwner {
  enum Where { kEmbedding, kBlock, kHead } where;
  std::int64_t block = 0;
};
ParameterOwner owner_of(std::string_view name);
// The source's ViT and the part of it that these options train.
ChainShape trained_shape(const TunedSource& source, const TuneOptions& options);
// Numbers that are trained of a tensor with this name in files: all of its own, those of the
// low-rank matrices beside it, or 0. They depend on `architecture`, `features`, `cut`, `blocks` and
// `lora_rank` of `shape`.
std::int64_t trained_values(const ChainShape& shape, const std::string& name,
                            torch::IntArrayRef sizes);
std::int64_t trained_values(const TunedSource& source, const TuneOptions& options);

// A ViT of these weights, whose device is the model's. What is trained requires a gradient.
vit::VisionTransformer make_trained_model(vit::WeightSource& weights, const ChainShape& shape,
                                          std::uint64_t seed);
// The same of the source's weights on the device: what is trained is its own,
// frozen tensors are the source's. ConfigError for options that do not go with the source.
vit::VisionTransformer make_tuned_model(const TunedSource& source, const TuneOptions& options,
                                        std::uint64_t seed, const torch::Device& device);

// A module of the model's parameters that require a gradient, under their names.
std::shared_ptr<torch::nn::Module> trained_parameters(const vit::VisionTransformer& model);

// All of the source's tensors, with those that the model trained in their place.
StateDict merged_tensors(const TunedSource& source, const vit::VisionTransformer& model);

}  // namespace coldframe::tune
