// SHA256SUMS: a line "SHA-256  NAME" for each other file of a bundle, sorted by name, as `sha256sum
// --check` reads it. The last line, a comment to sha256sum, is the digest of those before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/format/recipe.h"
#include "common/files/json.h"

namespace coldframe::bundle {

inline constexpr const char* kChecksumsFile = "SHA256SUMS";

struct BundleFile {
  std::string name;    // within the bundle, "models/fold-0-seed-0.safetensors"
  std::string sha256;  // as in SHA256SUMS
  std::uint64_t bytes = 0;
};

struct Checksums {
  std::vector<BundleFile> files;  // sorted by name; bytes 0
  std::string digest;             // SHA-256 of their lines: the digest of the bundle
};

// Of all files below `folder`.
std::string checksums_of(const std::filesystem::path& folder);
// DataError for anything that checksums_of() would not write, and for names that lead out of a
// bundle.
Checksums parse_checksums(const std::string& text);

// Everything in `folder` that is not one of the files, including links to folders. `dotted`:
// include top-level names that begin with a dot, such as git and the hub's client leave next to a
// download.
std::set<std::string> strangers(const std::filesystem::path& folder,
                                const std::vector<BundleFile>& files, bool dotted);

// Compares the files with their checksums and fills in their sizes. Returns a line for each file
// that differs, is missing, is a link out of the bundle, or is unlisted; ignores dotted ones.
std::vector<std::string> find_faults(const std::filesystem::path& folder,
                                     std::vector<BundleFile>& files);

// A finished run as one folder that gives predictions by itself:
//
//   bundle.json                 format, versions, licence, recipe, backbone, targets, training
//   README.md                   the model card, with front matter as the Hugging Face hub reads it
//   extract.ini, train.ini      for people: the recipe and the training's options, without files,
//                               as `coldframe extract` and `train` take them by --config
//   backbone/…                  the weights: one file, or shards and their index; a mask
//   models/STEM.safetensors     the fits of all folds and seeds; of tuned ones a folder models/STEM
//   controls/NAME/…             likewise of each control that the run has kept
//   held_out_scores.csv         what `predict --sets` rests on
//   metrics/summary.json        the run's figures with their intervals
//   configs/metadata.json       what MONAI's bundles state
//   SHA256SUMS                  of all other files, and of itself
//
// models/ and controls/ are those of a run, so that what reads a run's models reads a bundle's.

inline constexpr const char* kFormat = "coldframe.bundle.1";
inline constexpr const char* kFactsFile = "bundle.json";
inline constexpr const char* kOptionsFile = "extract.ini";
inline constexpr const char* kTrainingFile = "train.ini";

// The checksums that a bundle states, not yet verified. ConfigError: not a bundle.
Checksums checksums_in(const std::filesystem::path& folder);

class Bundle {
 public:
  // Verifies every byte against SHA256SUMS: DataError names the file that differs, is missing, or
  // is unlisted.
  explicit Bundle(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }  // as given; for model_files()
  const std::vector<BundleFile>& files() const { return sums_.files; }
  bool has(std::string_view name) const;
  std::filesystem::path file(std::string_view name) const;  // DataError if it does not exist

  const Json& facts() const { return facts_; }             // bundle.json
  const cache::Recipe& recipe() const { return recipe_; }  // of the features for its models
  const std::string& digest() const { return sums_.digest; }

 private:
  std::filesystem::path folder_;
  Checksums sums_;
  Json facts_;
  cache::Recipe recipe_;
};

}  // namespace coldframe::bundle
