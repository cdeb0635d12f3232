// What a name stands for that is to be written to: links are followed, and devices are no files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace coldframe {

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

}  // namespace coldframe
