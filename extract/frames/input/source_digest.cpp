// Lets a later run tell whether an exam's files are still the same.
#include <algorithm>
#include <set>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/source_stamp.h"
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

void add_file(const InputFile& file, Xxh3Stream& digest) {
  const std::uint64_t size = file.size();
  digest.update(std::as_bytes(std::span(&size, 1)));  // so that files cannot flow into each other
  std::vector<std::byte> block(std::min<std::uint64_t>(size, 1 << 20));
  for (std::uint64_t at = 0; at < size;) {
    const std::size_t count = file.read_some(at, block);
    if (count == 0) break;
    digest.update(std::span(block).first(count));
    at += count;
  }
}

// A file that cannot be read counts as one of a size that no file has.
void add_lacking(Lack lack, Xxh3Stream& digest) {
  const std::uint64_t size = lack == Lack::kEmpty ? 0 : ~std::uint64_t{0};
  digest.update(std::as_bytes(std::span(&size, 1)));
}

void add_content(const std::filesystem::path& path, Xxh3Stream& digest) {
  try {
    add_file(InputFile(path), digest);
  } catch (const DataError&) {
    add_lacking(Lack::kUnreadable, digest);
  }
}

}  // namespace

std::string source_stamp(const ExamSpec& exam) {
  return files_stamp(distinct_files(exam));
}

std::string source_digest(const ExamSpec& exam, const std::set<std::filesystem::path>& were_read) {
  Xxh3Stream digest;
  for (const auto& path : with_voxel_files(distinct_files(exam)))
    if (were_read.contains(path))
      add_file(InputFile(path), digest);
    else
      add_content(path, digest);
  return digest.hex();
}

std::string source_digest_without(const ExamSpec& exam,
                                  const std::set<std::filesystem::path>& lacking, Lack lack) {
  Xxh3Stream digest;
  for (const auto& path : with_voxel_files(distinct_files(exam)))
    if (lacking.contains(path))
      add_lacking(lack, digest);
    else
      add_content(path, digest);
  return digest.hex();
}

}  // namespace coldframe::frames
