// The part of a bundle that makes features: weights, mask, and the options of `extract`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/files/publish/scratch_folder.h"
#include "extract/options/options.h"
#include "extract/pipeline/devices/compute_devices.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::bundle {

struct BackboneFiles {
  std::filesystem::path weights, mask;  // "": none
};

struct PackedBackbone {
  Json facts;           // kind, and the files' names within the bundle
  std::string options;  // extract.ini
};

// Copies the files into `folder`. DataError when they are not the recipe's, by their SHA-256;
// ConfigError when one is missing or one too many.
PackedBackbone pack_backbone(const temporal::ModelMetadata& card, const BackboneFiles& files,
                             const std::filesystem::path& folder);

// DataError for an extract.ini that sets anything but what PackedBackbone::options may.
void require_recipe_options(const std::string& text);

// Exams as they come, made into the features that a bundle's models take.

// The options of `extract` for the bundle's recipe: preprocessing, selection, readers, and a
// backbone with the bundle's weights and the recipe's own architecture. The column of a run's
// streams is among the frame columns. `words`: more words of
// `extract`, --input among them. ConfigError.
extract::ExtractOptions extract_options(const Bundle& bundle, std::vector<std::string> words);

class RawExams {
 public:
  // Finds the devices: before LibTorch does anything else (resolve_device). The bundle must live
  // on.
  RawExams(const Bundle& bundle, const std::vector<std::string>& words);

  // The pipeline of `extract` on the input of the words, into a temporary cache that lives as long
  // as this. An exam or a frame that cannot be read is among the cache's failures. Interrupted.
  const std::filesystem::path& extract();

 private:
  std::unique_ptr<ScratchFolder> scratch_;
  std::filesystem::path cache_;
  extract::ExtractOptions options_;
  extract::ComputeDevices devices_;
};

}  // namespace coldframe::bundle
