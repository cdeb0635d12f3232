// The part of a bundle that computes features: weights, mask, and options of `extract`.
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
  Json facts;           // kind, file names within the bundle, and the cut of tuned models
  std::string options;  // extract.ini, for people
};

// Copies the files into `folder`. DataError if their SHA-256 differs from the recipe's; ConfigError
// if a file is missing or superfluous.
PackedBackbone pack_backbone(const temporal::ModelMetadata& card, const BackboneFiles& files,
                             const std::filesystem::path& folder);

// Computes features for a bundle's models from raw exams.

// Completes `asked` (input, its layout, machine) with everything that the bundle's recipe
// determines: preprocessing, selection, readers, and a backbone with the bundle's weights. Adds the
// column of a run's streams to the frame columns. A requested cut takes precedence over that of
// tuned models. DataError.
extract::ExtractOptions extract_options(const Bundle& bundle, extract::ExtractOptions asked);

class RawExams {
 public:
  // Selects the devices; call it before any other use of LibTorch (resolve_device). The bundle must
  // outlive this.
  RawExams(const Bundle& bundle, const extract::ExtractOptions& asked);

  // Runs the pipeline of `extract` on the requested input into a temporary cache, which exists as
  // long as this object. Unreadable exams and frames are listed in the cache's failures.
  // Interrupted.
  const std::filesystem::path& extract();

 private:
  std::unique_ptr<ScratchFolder> scratch_;
  std::filesystem::path cache_;
  extract::ExtractOptions options_;
  extract::ComputeDevices devices_;
};

}  // namespace coldframe::bundle
