// The part of a bundle that makes features: weights, mask, and the options of `extract`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/files/json.h"
#include "common/files/publish/scratch_folder.h"
#include "extract/options.h"
#include "extract/pipeline/devices.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::bundle {

struct BackboneFiles {
  std::filesystem::path weights, mask;  // "": none
};

struct PackedBackbone {
  Json facts;           // kind, the files' names within the bundle, and the cut of tuned models
  std::string options;  // extract.ini, for people
};

// Copies the files into `folder`. DataError when they are not the recipe's, by their SHA-256;
// ConfigError when one is missing or one too many.
PackedBackbone pack_backbone(const temporal::ModelMetadata& card, const BackboneFiles& files,
                             const std::filesystem::path& folder);

// Exams as they come, made into the features that a bundle's models take.

// `asked` (the input, how its data is laid out, the machine) with all that the bundle's recipe
// decides: preprocessing, selection, readers, and a backbone with the bundle's weights. The column
// of a run's streams is among the frame columns. A cut that is asked for goes before that of tuned
// models. DataError.
extract::ExtractOptions extract_options(const Bundle& bundle, extract::ExtractOptions asked);

class RawExams {
 public:
  // Finds the devices: before LibTorch does anything else (resolve_device). The bundle must live
  // on.
  RawExams(const Bundle& bundle, const extract::ExtractOptions& asked);

  // The pipeline of `extract` on the input that is asked for, into a temporary cache that lives as
  // long as this. An exam or a frame that cannot be read is among the cache's failures.
  // Interrupted.
  const std::filesystem::path& extract();

 private:
  std::unique_ptr<ScratchFolder> scratch_;
  std::filesystem::path cache_;
  extract::ExtractOptions options_;
  extract::ComputeDevices devices_;
};

}  // namespace coldframe::bundle
