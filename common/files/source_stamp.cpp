#include "common/files/source_stamp.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/files/fingerprint.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

std::string file_stamp(const std::filesystem::path& path) {
  struct stat status = {};
  for (RetryPolicy tries(path);
       ::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0;)
    if (!tries.again(errno)) return "-";
  const std::int64_t nanoseconds =
      std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec;
  return concat(status.st_size, ':', nanoseconds);
}

}  // namespace

std::filesystem::path voxel_file(const std::filesystem::path& header) {
  std::filesystem::path stem = header;
  if (lower(stem.extension().string()) == ".gz") stem.replace_extension();
  for (const char* suffix : {".img", ".img.gz", ".IMG"}) {
    std::filesystem::path path = std::filesystem::path(stem).replace_extension(suffix);
    if (std::filesystem::is_regular_file(status_of(path))) return path;
  }
  return {};
}

std::vector<std::filesystem::path> with_voxel_files(
    const std::vector<std::filesystem::path>& files) {
  std::vector<std::filesystem::path> all;
  for (const auto& path : files) {
    all.push_back(path);
    const std::string name = lower(path.filename().string());
    if (!name.ends_with(".hdr") && !name.ends_with(".hdr.gz")) continue;
    if (auto voxels = voxel_file(path); !voxels.empty()) all.push_back(std::move(voxels));
  }
  return all;
}

std::string files_stamp(const std::vector<std::filesystem::path>& named) {
  const auto files = with_voxel_files(named);
  std::string all;
  for (const auto& path : files) all += concat(all.empty() ? "" : ";", file_stamp(path));
  if (files.size() <= 1) return all;
  return concat(files.size(), ':', to_hex(xxh3_128(std::as_bytes(std::span(all)))));
}

std::string files_part(const std::string& exam_stamp) {
  return exam_stamp.substr(0, exam_stamp.find('/'));
}

}  // namespace coldframe
