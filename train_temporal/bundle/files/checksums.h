// SHA256SUMS: a line "SHA-256  NAME" for each other file of a bundle, in the order of their names,
// as `sha256sum --check` reads it; the last line, a comment to sha256sum, is of those before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace coldframe::bundle {

inline constexpr const char* kChecksumsFile = "SHA256SUMS";

struct BundleFile {
  std::string name;    // within the bundle, "models/fold-0-seed-0.safetensors"
  std::string sha256;  // as SHA256SUMS states it
  std::uint64_t bytes = 0;
};

struct Checksums {
  std::vector<BundleFile> files;  // sorted by name; bytes 0
  std::string digest;             // SHA-256 of their lines: the bundle's own
};

// Of all files below `folder`.
std::string checksums_of(const std::filesystem::path& folder);
// DataError for anything but what checksums_of() writes, and for names that lead out of a bundle.
Checksums parse_checksums(const std::string& text);

// What lies in `folder` and is none of the files. Links to folders are strangers. `dotted`: with
// names that begin with a dot at the top, as git and the hub's client leave them beside a download.
std::set<std::string> strangers(const std::filesystem::path& folder,
                                const std::vector<BundleFile>& files, bool dotted);

// Compares the files with what is stated of them, and fills in their sizes: a line for each that
// differs, is missing, is a link out of the bundle, or is a stranger; dotted ones are nobody's
// business.
std::vector<std::string> find_faults(const std::filesystem::path& folder,
                                     std::vector<BundleFile>& files);

}  // namespace coldframe::bundle
