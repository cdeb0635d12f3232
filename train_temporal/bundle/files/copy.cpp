#include "train_temporal/bundle/files/copy.h"

#include <algorithm>

namespace coldframe::bundle {

namespace {

constexpr std::uint64_t kPiece = 1 << 20;  // bytes

}  // namespace

void copy_into(const std::filesystem::path& from, const std::filesystem::path& to) {
  const InputFile file(from);
  create_folders_durably(to.parent_path());
  AtomicFile copy(to);
  append(copy, file, 0, file.size());
  copy.finish();
}

void append(AtomicFile& to, const InputFile& from, std::uint64_t at, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t piece = std::min(kPiece, bytes - done);
    to.append(from.read(at + done, piece));
    done += piece;
  }
}

}  // namespace coldframe::bundle
