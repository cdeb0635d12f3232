// Copies files into a bundle, complete and synced to disk before the bundle appears.
#pragma once

#include <filesystem>
#include <string>

namespace coldframe::bundle {

// Copies a file and creates its parent folders. The copy survives a power cut, and is readable for
// everyone whom the umask lets read the bundle. DataError: `from` cannot be read. SystemError.
void copy_into(const std::filesystem::path& from, const std::filesystem::path& to);

// `coldframe bundle make`: makes a bundle of a finished run and the weights of its recipe.

struct MakeOptions {
  std::filesystem::path run, weights, out;
  std::filesystem::path mask, card;  // "": none
  std::string name;                  // of the model, in its card
  std::string license = "unknown";   // in the spelling of the Hugging Face hub
  bool overwrite = false;
};

// Writes under a temporary name, verifies like Bundle, then renames. ConfigError, DataError: not a
// finished run, or the SHA-256 of weights or mask differs from the recipe's.
void make_bundle(const MakeOptions& options);

}  // namespace coldframe::bundle
