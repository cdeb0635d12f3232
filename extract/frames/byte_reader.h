// Bounds-checked integers out of a file's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {

class ByteReader {
 public:
  enum class Order { kBig, kLittle };
  ByteReader(std::string_view bytes, Order order) : bytes_(bytes), order_(order) {}

  std::uint64_t size() const { return bytes_.size(); }

  std::uint32_t integer(std::uint64_t at, unsigned count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) truncated(at + count);
    std::uint32_t value = 0;
    for (unsigned i = 0; i < count; ++i) {
      const unsigned from = order_ == Order::kBig ? i : count - 1 - i;
      value = value << 8 | static_cast<unsigned char>(bytes_[at + from]);
    }
    return value;
  }
  std::uint32_t u8(std::uint64_t at) const { return integer(at, 1); }
  std::uint32_t u16(std::uint64_t at) const { return integer(at, 2); }
  std::uint32_t u24(std::uint64_t at) const { return integer(at, 3); }
  std::uint32_t u32(std::uint64_t at) const { return integer(at, 4); }

  bool holds(std::uint64_t at, std::string_view text) const {
    return at <= bytes_.size() && bytes_.substr(at).starts_with(text);
  }
  [[noreturn]] void truncated(std::uint64_t expected) const {
    throw DataError(
        concat("it is truncated: it ends at byte ", bytes_.size(), " of at least ", expected));
  }

 private:
  std::string_view bytes_;
  Order order_;
};

}  // namespace coldframe::frames
