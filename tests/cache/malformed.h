// Malformed caches with checksums that match: a valid file is changed, and its superblock's end and
// the trailer are made right again, as somebody would who means harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coldframe::cache {

using FileBytes = std::vector<std::byte>;

// `file` with the end of file in its superblock and the trailer that belong to its content. `file`
// has no trailer of its own.
FileBytes sealed(FileBytes file);

// The change number `seed` of a valid file (with its trailer): bits flipped, fields overwritten
// with numbers that tempt (0, 1, all ones, the file's size, other addresses), structures moved over
// each other, bytes left out or repeated, one or several of these. The same for every platform.
FileBytes malformed(const FileBytes& valid, std::uint64_t seed);

}  // namespace coldframe::cache
