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

  const vit::Architecture& architecture() const { return architecture_; }
  const vit::FeatureOptions& features() const { return features_; }
  const ImageSize& image_size() const { return image_size_; }
  // timm's name of a published model of this architecture, "" if there is none.
  std::string model_name() const;
  std::int64_t cut() const { return cut_; }
  std::int64_t projected() const { return projected_; }  // 0 without a projection
  // timm's names and shapes, float32 on the CPU, as read.
  const StateDict& tensors() const { return tensors_; }
  // One of them on a device, where all fits share it.
  torch::Tensor shared(const std::string& name, const torch::Device& device) const;
  // Each level of each channel becomes one of these: [3, 256] float32.
  const torch::Tensor& levels() const { return levels_; }

 private:
  void read_recipe(const Json& recipe);

  vit::Architecture architecture_;
  vit::FeatureOptions features_;
  ImageSize image_size_;
  std::int64_t cut_, projected_ = 0;
  StateDict tensors_;
  torch::Tensor levels_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, std::string>, torch::Tensor> on_device_;
};

}  // namespace coldframe::tune
