// Outputs that a command line names: what they are, and what must not be replaced.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/files/publish/publish.h"

namespace coldframe {

// What a name stands for that is to be written to: links are followed, and devices are no files.

// The file or folder to which the symbolic links at a name lead, also where nothing is there yet. A
// descriptor's name (/dev/stdout, /proc/self/fd/7) stays. SystemError where they lead nowhere.
std::filesystem::path link_target(std::filesystem::path path);

// The same of a folder as it was typed, also with a slash behind it: its absolute path.
std::filesystem::path folder_target(const std::filesystem::path& typed);

// True for what takes text as it comes and is never replaced: a character device (/dev/null), a
// FIFO, a descriptor's name.
bool is_stream(const std::filesystem::path& path);

// "a socket" or "a block device": nothing is written to these. "" for anything else.
std::string unwritable_kind(const std::filesystem::path& path);

// Writes the first `size` bytes of an open file to a stream. Waits for the reader of a FIFO;
// Interrupted after a stop request. SystemError.
void copy_to_stream(int from, std::uint64_t size, const std::filesystem::path& stream);

// What replaces a file or a folder gets its permissions and, as far as the system lets us, its
// owner. `descriptor`: of the new one. Nothing happens where nothing has the name.
void keep_owner_and_mode(const std::filesystem::path& replaced, int descriptor);

// The one rule for every option that names what a command writes: nothing is replaced that nobody
// said is to be, and nothing that the command reads.

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
// are written to without being asked about. Puts back and removes what killed
// processes left of outputs of these names.
void check_outputs(const std::vector<NamedOutput>& outputs, const std::vector<NamedInput>& inputs,
                   Overwrite overwrite);

}  // namespace coldframe
