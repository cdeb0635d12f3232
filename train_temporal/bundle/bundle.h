// A finished run as one folder that gives predictions by itself:
//
//   bundle.json                 format, versions, licence, recipe, backbone, targets, training
//   README.md                   the model card, with front matter as the Hugging Face hub reads it
//   extract.ini                 the recipe as options of `coldframe extract --config`
//   train.ini                   the training's options, without its files
//   backbone/…                  the weights: one file, or shards and their index; a mask
//   models/STEM.safetensors     the fits of all folds and seeds; of tuned ones a folder models/STEM
//   controls/NAME/…             likewise of each control that the run has kept
//   metrics/summary.json        the run's figures with their intervals
//   configs/metadata.json       what MONAI's bundles state
//   SHA256SUMS                  of all other files, and of itself (checksums.h)
//
// models/ and controls/ are those of a run, so that what reads a run's models reads a bundle's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cache/format/recipe.h"
#include "common/files/json.h"
#include "train_temporal/bundle/files/checksums.h"

namespace coldframe::bundle {

inline constexpr const char* kFormat = "coldframe.bundle.1";
inline constexpr const char* kFactsFile = "bundle.json";
inline constexpr const char* kOptionsFile = "extract.ini";
inline constexpr const char* kTrainingFile = "train.ini";

// What a bundle states of its files, which are not looked at yet. ConfigError: it is no bundle.
Checksums checksums_in(const std::filesystem::path& folder);

class Bundle {
 public:
  // Every byte is held against SHA256SUMS: DataError names the file that differs, is missing, or is
  // nobody's.
  explicit Bundle(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }  // as given; for model_files()
  const std::vector<BundleFile>& files() const { return sums_.files; }
  bool has(std::string_view name) const;
  std::filesystem::path file(std::string_view name) const;  // DataError when it is not there

  const Json& facts() const { return facts_; }             // bundle.json
  const cache::Recipe& recipe() const { return recipe_; }  // of the features that its models take
  const std::string& digest() const { return sums_.digest; }

 private:
  std::filesystem::path folder_;
  Checksums sums_;
  Json facts_;
  cache::Recipe recipe_;
};

}  // namespace coldframe::bundle
