// Records how files looked when they were read: the quick way to find that one has changed since.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace coldframe {

// The file with the voxels of a NIfTI or Analyze header, NAME.hdr or NAME.hdr.gz: NAME.img or
// NAME.img.gz beside it; empty when there is none.
std::filesystem::path voxel_file(const std::filesystem::path& header);

// `files`, each NAME.hdr among them followed by its voxel_file().
std::vector<std::filesystem::path> with_voxel_files(
    const std::vector<std::filesystem::path>& files);

// Size and modification time (nanoseconds) of each of `files` and their voxel files, as
// "1024:1700000000000000000"; of several files their number and a digest of all, since a cache
// stores it per exam. A file that cannot be read has the stamp "-".
std::string files_stamp(const std::vector<std::filesystem::path>& files);

// A cache stores, per exam, "<files_stamp>/<what else tells>": the part before the slash.
std::string files_part(const std::string& exam_stamp);

}  // namespace coldframe
