// Little-endian numbers out of bytes that nobody vouches for: reading past the end is a CacheError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "common/cli/error.h"

namespace coldframe::cache::hdf5 {

class ByteCursor {
 public:
  // `what` names the structure in the error; it must outlive the cursor.
  ByteCursor(std::span<const std::byte> bytes, std::string_view what)
      : bytes_(bytes), what_(what) {}

  std::size_t left() const { return bytes_.size(); }

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size())
      throw CacheError("malformed HDF5: " + std::string(what_) + " ends too early");
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

  // `width`: 1 to 8 bytes.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const auto taken = take(width);
    std::memcpy(&value, taken.data(), taken.size());
    return value;
  }

  void expect(std::string_view signature) {
    const auto taken = take(signature.size());
    if (std::memcmp(taken.data(), signature.data(), signature.size()) != 0)
      throw CacheError("malformed HDF5: " + std::string(what_) + " without its signature");
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view what_;
};

}  // namespace coldframe::cache::hdf5
