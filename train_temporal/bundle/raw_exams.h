// Exams as they come, made into the features that a bundle's models take.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/files/publish/scratch_folder.h"
#include "extract/options/options.h"
#include "extract/pipeline/devices/compute_devices.h"
#include "train_temporal/bundle/bundle.h"

namespace coldframe::bundle {

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
