// Files that go into a bundle, whole and on the disk before it appears.
#pragma once

#include <filesystem>

namespace coldframe::bundle {

// Copies a file, and makes the folders above it; the copy survives a power cut, and whoever the
// umask lets read the bundle may read it. DataError: it cannot be read. SystemError.
void copy_into(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace coldframe::bundle
