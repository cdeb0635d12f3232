// How a later run tells whether an exam's files are still the same.
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "common/error.h"
#include "common/file.h"
#include "common/fingerprint.h"
#include "common/text.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

std::vector<std::filesystem::path> distinct_files(const ExamSpec& exam) {
  std::vector<std::filesystem::path> files;
  std::set<std::filesystem::path> seen;
  for (const ExamItem& item : exam.items) {
    if (!item.path.empty() && seen.insert(item.path).second) files.push_back(item.path);
  }
  return files;
}

std::string file_stamp(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    throw DataError(concat("cannot read '", path.string(), "': ", std::strerror(errno)));
  }
  const std::int64_t nanoseconds =
      std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec;
  return concat(status.st_size, ':', nanoseconds);
}

void add_content(const std::filesystem::path& path, Xxh3Stream& digest) {
  const InputFile file(path);
  const std::uint64_t size = file.size();
  digest.update(std::as_bytes(std::span(&size, 1)));  // so that files cannot flow into each other
  std::vector<std::byte> block(1 << 20);
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t count = file.read_some(at, block);
    if (count == 0) break;
    digest.update(std::span(block).first(count));
    at += count;
  }
}

}  // namespace

// One file's stamp as it is; of several, a digest, since every exam's stamp is stored.
std::string source_stamp(const ExamSpec& exam) {
  const auto files = distinct_files(exam);
  std::string all;
  for (const auto& path : files) all += concat(all.empty() ? "" : ";", file_stamp(path));
  if (files.size() <= 1) return all;
  return concat(files.size(), ':', to_hex(xxh3_128(std::as_bytes(std::span(all)))));
}

std::string source_digest(const ExamSpec& exam) {
  Xxh3Stream digest;
  for (const auto& path : distinct_files(exam)) add_content(path, digest);
  return digest.hex();
}

}  // namespace coldframe::frames
