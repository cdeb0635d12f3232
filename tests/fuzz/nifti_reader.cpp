// NIfTI and Analyze: one file, a compressed one, and a header with its voxels beside it.
#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_input.h"

namespace {

using coldframe::fuzz::Bytes;

constexpr std::size_t kHeaderBytes = 348;

// Compressed here, since a changed byte of compressed data would fail at its checksum.
std::vector<std::uint8_t> compressed(Bytes bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::vector<std::uint8_t> result(deflateBound(&stream, bytes.size()));
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = result.data();
  stream.avail_out = static_cast<unsigned>(result.size());
  deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

bool is_pair(Bytes bytes) {
  constexpr std::string_view kSingle = "n+1", kSingle2 = "n+2";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < kHeaderBytes || text.substr(4, 3) == kSingle2) return false;
  return text.substr(344, 3) != kSingle;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coldframe;
  const Bytes bytes(data, size);
  const auto variant = static_cast<unsigned>(size);
  if (size > 2 && data[0] == 0x1f && data[1] == 0x8b) {
    return fuzz::read_all(fuzz::write("volume.nii.gz", bytes), "nifti", variant);
  }
  if (is_pair(bytes)) {
    const std::size_t header = std::min<std::size_t>(size, kHeaderBytes);
    fuzz::write("volume.img", bytes.subspan(header));
    return fuzz::read_all(fuzz::write("volume.hdr", bytes.first(header)), "nifti", variant);
  }
  if (variant % 2 != 0) {
    return fuzz::read_all(fuzz::write("volume.nii.gz", compressed(bytes)), "nifti", variant);
  }
  return fuzz::read_all(fuzz::write("volume.nii", bytes), "nifti", variant);
}
