#include "tests/cache/malformed.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "cache/format/format.h"
#include "cache/format/shard.h"
#include "common/files/fingerprint.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kEndOfFileAt = 28, kSuperblockBytes = 48;

class Mutation {
 public:
  Mutation(FileBytes file, std::uint64_t seed) : file_(std::move(file)), random_(seed) {}

  FileBytes run() {
    for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) {
      switch (below(6)) {
        case 0:
          flip();
          break;
        case 1:
        case 2:
        case 3:
          overwrite(in_structure());
          break;
        case 4:
          copy_structure();
          break;
        case 5:
          resize();
          break;
      }
    }
    return std::move(file_);
  }

 private:
  // std::uniform_int_distribution differs between standard libraries.
  std::size_t below(std::size_t count) { return random_() % count; }

  void flip() {
    file_[below(file_.size())] ^= std::byte{static_cast<unsigned char>(1 + below(255))};
  }

  std::vector<std::size_t> structures() const {
    std::vector<std::size_t> found;
    for (std::size_t i = kSuperblockBytes; i + 4 <= file_.size(); ++i)
      for (const char* signature : {"OHDR", "OCHK", "FAHD", "FADB"})
        if (std::memcmp(&file_[i], signature, 4) == 0) found.push_back(i);
    return found;
  }

  // A byte of the superblock or of a structure's first few hundred.
  std::size_t in_structure() {
    const std::vector<std::size_t> starts = structures();
    const std::size_t which = below(starts.size() + 1);
    if (which == starts.size()) return below(kSuperblockBytes);
    return std::min(starts[which] + below(300), file_.size() - 1);
  }

  void overwrite(std::size_t at) {
    const std::vector<std::size_t> starts = structures();
    const std::uint64_t tempting[] = {
        0,
        1,
        ~std::uint64_t{0},
        ~std::uint64_t{0} >> 1,
        std::uint64_t{1} << (below(64)),
        file_.size(),
        file_.size() - below(64),
        starts.empty() ? 48 : starts[below(starts.size())],
        random_(),
    };
    const std::uint64_t value = tempting[below(std::size(tempting))];
    const std::size_t width = std::min(std::size_t{1} << below(4), file_.size() - at);
    std::memcpy(&file_[at], &value, width);
  }

  void copy_structure() {
    const std::size_t size = 1 + below(200);
    const std::size_t from = in_structure(), to = in_structure();
    const std::size_t room = std::min({size, file_.size() - from, file_.size() - to});
    std::memmove(&file_[to], &file_[from], room);
  }

  void resize() {
    const auto at = file_.begin() + static_cast<std::ptrdiff_t>(in_structure());
    const auto count = static_cast<std::ptrdiff_t>(
        std::min<std::size_t>(1 + below(64), static_cast<std::size_t>(file_.end() - at)));
    if (below(2) == 0 && file_.size() > 1000) {
      file_.erase(at, at + count);
    } else {
      const FileBytes piece(at, at + count);
      file_.insert(at, piece.begin(), piece.end());
    }
  }

  FileBytes file_;
  std::mt19937_64 random_;
};

// Where no reader can follow the structure, the metadata's checksum is zeros.
std::array<std::byte, kTrailerBytes> trailer_for(const FileBytes& file) {
  try {
    return trailer_of(MemoryBytes({reinterpret_cast<const char*>(file.data()), file.size()}));
  } catch (const std::exception&) {
    FileBytes with_zeros = file;
    with_zeros.resize(file.size() + kDigestBytes);
    std::array<std::byte, kTrailerBytes> trailer{};
    std::ranges::copy(xxh3_128(with_zeros), trailer.begin() + kDigestBytes);
    return trailer;
  }
}

}  // namespace

FileBytes sealed(FileBytes file) {
  const std::uint64_t end = file.size();
  if (end >= kSuperblockBytes) std::memcpy(&file[kEndOfFileAt], &end, sizeof end);
  const auto trailer = trailer_for(file);
  file.insert(file.end(), trailer.begin(), trailer.end());
  return file;
}

FileBytes malformed(const FileBytes& valid, std::uint64_t seed) {
  FileBytes content(valid.begin(), valid.end() - static_cast<std::ptrdiff_t>(kTrailerBytes));
  return sealed(Mutation(std::move(content), seed).run());
}

}  // namespace coldframe::cache
