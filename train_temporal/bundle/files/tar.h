// A folder as one tar file (POSIX.1-1988, ustar), the same bytes for the same files: names in
// order, no owner, no time.
#pragma once

#include <filesystem>

namespace coldframe::bundle {

// The files go below the folder bundle/ of the archive. SystemError; ConfigError for a file that
// the format has no room for (8 GiB, names of more than 100 bytes).
void write_tar(const std::filesystem::path& folder, const std::filesystem::path& out);

// Unpacks what write_tar() wrote, and nothing else. DataError names the file of the archive whose
// header or padding is another one.
void unpack_tar(const std::filesystem::path& tar, const std::filesystem::path& folder);

}  // namespace coldframe::bundle
