#include "train_temporal/bundle/files/copy.h"

#include <algorithm>
#include <cstdint>

#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"

namespace coldframe::bundle {
namespace {

constexpr std::uint64_t kPiece = 1 << 20;  // bytes

}  // namespace

void copy_into(const std::filesystem::path& from, const std::filesystem::path& to) {
  const InputFile file(from);
  create_folders_durably(to.parent_path());
  AtomicFile copy(to);
  for (std::uint64_t at = 0; at < file.size(); at += kPiece)
    copy.append(file.read(at, std::min(kPiece, file.size() - at)));
  copy.finish();
}

}  // namespace coldframe::bundle
