// Files that go into a bundle, whole and on the disk before it appears.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"

namespace coldframe::bundle {

// Copies a file, and makes the folders above it; the copy survives a power cut, and whoever the
// umask lets read the bundle may read it. DataError: it cannot be read. SystemError.
void copy_into(const std::filesystem::path& from, const std::filesystem::path& to);

// Appends `bytes` bytes of `from`, which begin at `at`, in pieces.
void append(AtomicFile& to, const InputFile& from, std::uint64_t at, std::uint64_t bytes);

}  // namespace coldframe::bundle
