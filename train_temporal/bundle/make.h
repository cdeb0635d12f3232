// Files that go into a bundle, whole and on the disk before it appears.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe::bundle {

// Copies a file, and makes the folders above it; the copy survives a power cut, and whoever the
// umask lets read the bundle may read it. DataError: it cannot be read. SystemError.
void copy_into(const std::filesystem::path& from, const std::filesystem::path& to);

// `coldframe bundle make`: a finished run and the weights of its recipe become a bundle.

struct MakeOptions {
  std::filesystem::path run, weights, out;
  std::filesystem::path mask, card;  // "": none
  std::string name;                  // of the model, in its card
  std::string license = "unknown";   // as the Hugging Face hub spells it
  bool overwrite = false;
};

// Written under another name and checked as Bundle does, then renamed. ConfigError, DataError: no
// finished run, weights or a mask of another SHA-256 than the recipe's.
void make_bundle(const MakeOptions& options);

}  // namespace coldframe::bundle
