// Still images and NumPy arrays.
#include <zlib.h>

#include <cstring>

#include "tests/fuzz/fuzz_input.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coldframe;
  const auto path = fuzz::write("file", {data, size});
  const auto variant = static_cast<unsigned>(size);
  if (fuzz::read_all(path, "image", variant) == 0) return 0;
  return fuzz::read_all(path, "npy", variant);
}

namespace {

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

// A changed chunk of a PNG with its old checksum would be refused before it is read.
void mend_checksums(std::uint8_t* data, std::size_t size) {
  for (std::size_t at = 8; at + 12 <= size;) {
    const std::size_t length = big_endian(data + at);
    if (length > size - at - 12) return;
    const auto sum =
        static_cast<std::uint32_t>(crc32(0, data + at + 4, static_cast<unsigned>(length + 4)));
    for (unsigned i = 0; i < 4; ++i) {
      data[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    }
    at += length + 12;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  const bool is_png = size > 8 && std::memcmp(data, "\x89PNG", 4) == 0;
  if (is_png && seed % 8 != 0) mend_checksums(data, size);
  return size;
}
