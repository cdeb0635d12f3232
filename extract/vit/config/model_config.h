// The config that lies beside weights: which model they are of, and how its images are prepared.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/image_size.h"
#include "extract/vit/architecture.h"
#include "extract/vit/checkpoint/weight_files.h"

namespace coldframe::vit {

// Words are those of the command line's options; what is empty is not said.
struct PixelConfig {
  std::optional<ImageSize> image_size{};
  std::optional<std::string> resize{};         // shortest, squash or pad
  std::optional<std::string> interpolation{};  // bicubic or bilinear
  std::optional<std::string> resampler{};      // pillow or torch
  std::optional<double> crop_pct{};
  std::optional<std::array<float, 3>> mean{}, std{};
};

struct ModelConfig {
  std::filesystem::path file;
  std::string model;          // in messages: "timm's vit_small_patch16_224"
  std::string scheme;         // the NamingScheme that the weights must have; "" if any will do
  Architecture architecture;  // as far as the config says it
  // The fields of `architecture` that names and shapes show as well, and that the weights must
  // have.
  std::vector<std::string> compared;
  std::string pool;         // a word of --pool, "" if it is not said
  bool projection = false;  // of these to the space that images share with texts
  PixelConfig pixels;
};

// Reads config.json of timm or of transformers (with preprocessor_config.json), or
// open_clip_config.json, whichever belongs to the weights; nothing where there is none. DataError
// names the file, what it says, and what is not understood.
std::optional<ModelConfig> read_model_config(const WeightFiles& weights);

// DataError where the weights are of another shape than the config says, or where their names,
// those of `scheme`, are not its library's.
void require_same(const Architecture& weights, const std::string& scheme,
                  const ModelConfig& config);

}  // namespace coldframe::vit
