// DICOMDIR: the list of the files of a CD or an export (PS3.3 F, PS3.10).
#pragma once

#include <filesystem>
#include <vector>

namespace coldframe::frames::dicom {

// True for a file that is called DICOMDIR, however it is spelt.
bool is_directory_file(const std::filesystem::path& path);

// The files that it names, in its order, each once. DataError: it cannot be read, it names none, or
// it names one outside its folder.
std::vector<std::filesystem::path> read_directory(const std::filesystem::path& path);

}  // namespace coldframe::frames::dicom
