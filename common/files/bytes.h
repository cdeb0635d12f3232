// Bytes by position that nobody vouches for, in a file or in memory: how many there are is known
// before anything is allocated.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `bytes` from `offset` as far as the content goes and returns how many there were.
  virtual std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const = 0;

  // Both refuse a content that ends before; the second one does so before it allocates.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  std::string read(std::uint64_t offset, std::uint64_t count) const;

 protected:
  // Throws: DataError that says `reason` alone, unless a kind of source knows more.
  [[noreturn]] virtual void refuse(std::string_view reason) const;

 private:
  void require(std::uint64_t offset, std::uint64_t count) const;
};

class MemoryBytes : public ByteSource {
 public:
  explicit MemoryBytes(std::string content) : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override;

 private:
  std::string content_;
};

// Reads numbers and texts out of bytes that nobody vouches for: sequentially, or at a
// position. Refuses what would reach beyond the end.

// A request that was refused: where the bytes end, and the first and the number of those asked for.
struct BeyondEnd {
  std::uint64_t end, at, count;
};

struct RefuseAsTruncated {
  [[noreturn]] void operator()(const BeyondEnd& wanted) const {
    throw DataError(concat("it is truncated: it ends at byte ", wanted.end, " of at least ",
                           wanted.at + std::min(wanted.count, ~wanted.at)));
  }
};

// `Refuse` takes a BeyondEnd and throws a room's own error. The bytes must outlive the cursor.
template <typename Refuse = RefuseAsTruncated>
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes, std::endian order = std::endian::little,
                      Refuse refuse = {})
      : bytes_(bytes), order_(order), refuse_(refuse) {}
  explicit ByteCursor(std::string_view text, std::endian order = std::endian::little,
                      Refuse refuse = {})
      : ByteCursor(std::as_bytes(std::span(text)), order, refuse) {}

  std::uint64_t size() const { return bytes_.size(); }
  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return bytes_.size() - position_; }
  void require(std::uint64_t at, std::uint64_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) refuse_({bytes_.size(), at, count});
  }

  // These read from the position on, which then moves past them. A number has `width` bytes, 1
  // to 8.
  std::span<const std::byte> take(std::uint64_t count) {
    require(position_, count);
    position_ += count;
    return bytes_.subspan(position_ - count, count);
  }
  std::string_view text(std::uint64_t count) { return as_text(take(count)); }
  std::uint64_t number(std::size_t width) { return number(width, order_); }
  std::uint64_t number(std::size_t width, std::endian order) { return decode(take(width), order); }

  // These read at `at`, wherever the position is.
  std::uint64_t number_at(std::uint64_t at, std::size_t width) const {
    require(at, width);
    return decode(bytes_.subspan(at, width), order_);
  }
  std::uint32_t u8(std::uint64_t at) const { return small_number_at(at, 1); }
  std::uint32_t u16(std::uint64_t at) const { return small_number_at(at, 2); }
  std::uint32_t u24(std::uint64_t at) const { return small_number_at(at, 3); }
  std::uint32_t u32(std::uint64_t at) const { return small_number_at(at, 4); }
  std::uint64_t u64(std::uint64_t at) const { return number_at(at, 8); }
  std::string_view text_at(std::uint64_t at, std::uint64_t count) const {
    require(at, count);
    return as_text(bytes_.subspan(at, count));
  }
  bool holds(std::uint64_t at, std::string_view text) const {
    return at <= bytes_.size() && as_text(bytes_.subspan(at)).starts_with(text);
  }

 private:
  static std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::uint64_t decode(std::span<const std::byte> bytes, std::endian order) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t from = order == std::endian::big ? i : bytes.size() - 1 - i;
      value = value << 8 | std::to_integer<std::uint64_t>(bytes[from]);
    }
    return value;
  }
  std::uint32_t small_number_at(std::uint64_t at, std::size_t width) const {
    return static_cast<std::uint32_t>(number_at(at, width));
  }

  std::span<const std::byte> bytes_;
  std::endian order_;
  Refuse refuse_;
  std::uint64_t position_ = 0;
};

}  // namespace coldframe
