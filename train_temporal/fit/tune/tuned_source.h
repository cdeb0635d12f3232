// The ViT that a cache was made with, ready to be trained on from the cache's cut: read and checked
// once for a run, shared by its fits.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/text/text.h"
#include "common/torch/safetensors.h"
#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/pooling.h"

namespace coldframe::tune {

// What a recipe says of its ViT and of the pixels that enter it.
struct RecipeShape {
  vit::Architecture architecture;
  vit::FeatureOptions features;  // without a cut
  ImageSize image_size;
  std::int64_t projected = 0;  // features of the projection; 0 without one
};
// `recipe`: the features' part of a cache's. ConfigError: of another kind of backbone.
RecipeShape read_shape(const Json& recipe);

class TunedSource {
 public:
  // `recipe`: the features' part of the cache's recipe, which says how the ViT is built and what
  // becomes of pixels. `cut`: the block whose input the cache holds, 0: pixels. `weights`: as
  // `extract --weights`; empty where the recipe says random weights. `digest`: the weights' own,
  // where they are not those of the recipe but tuned ones. ConfigError, DataError: a cache of
  // another kind of backbone, weights of another digest or shape, layers before the cut.
  TunedSource(const Json& recipe, std::int64_t cut, const std::filesystem::path& weights,
              const std::string& digest = "");
  TunedSource(const TunedSource&) = delete;
  TunedSource& operator=(const TunedSource&) = delete;

  const vit::Architecture& architecture() const { return shape_.architecture; }
  const vit::FeatureOptions& features() const { return shape_.features; }
  const ImageSize& image_size() const { return shape_.image_size; }
  // timm's name of a published model of this architecture, "" if there is none.
  std::string model_name() const;
  std::int64_t cut() const { return cut_; }
  std::int64_t projected() const { return shape_.projected; }  // 0 without a projection
  // timm's names and shapes, float32 on the CPU, as read.
  const StateDict& tensors() const { return tensors_; }
  // One of them on a device, where all fits share it.
  torch::Tensor shared(const std::string& name, const torch::Device& device) const;
  // Each level of each channel becomes one of these: [3, 256] float32.
  const torch::Tensor& levels() const { return levels_; }

 private:
  void check_cut() const;

  RecipeShape shape_;
  std::int64_t cut_;
  StateDict tensors_;
  torch::Tensor levels_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, std::string>, torch::Tensor> on_device_;
};

}  // namespace coldframe::tune
