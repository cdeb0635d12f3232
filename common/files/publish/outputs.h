// The one rule for every option that names what a command writes: nothing is replaced that nobody
// said is to be, and nothing that the command reads.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/files/publish/publish.h"

namespace coldframe {

struct NamedInput {
  std::string option;          // "--labels"; for messages
  std::filesystem::path path;  // empty: not given
};

struct NamedOutput {
  std::string option;
  std::filesystem::path path;  // empty: not given
  // True if an existing file may stay: the command continues it, or checks it itself. Empty: never.
  std::function<bool(const std::filesystem::path&)> may_stand = {};
  bool is_folder = false;  // where `may_stand` is empty
};

// Whether a command can be told to replace its outputs, and was.
enum class Overwrite { kCannot, kNotSaid, kSaid };
inline Overwrite overwrite_said(bool said) {
  return said ? Overwrite::kSaid : Overwrite::kNotSaid;
}
// What becomes of an output that appears after check_outputs().
inline Existing existing_for(bool overwrite) {
  return overwrite ? Existing::kReplace : Existing::kKeep;
}

// Call it before anything slow. ConfigError for an output that exists (unless it may stand, or
// `overwrite` says that it is to be replaced), is an input, holds an input or lies in one that
// would be replaced, equals another output, has no folder or too long a name, or cannot be
// replaced: a socket, a block device, a mounted folder, a file with other names. Streams
// (destination.h) are written to without being asked about. Puts back and removes what killed
// processes left of outputs of these names.
void check_outputs(const std::vector<NamedOutput>& outputs, const std::vector<NamedInput>& inputs,
                   Overwrite overwrite);

}  // namespace coldframe
