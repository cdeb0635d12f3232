#include "train_temporal/onnx/message.h"

#include <bit>

namespace coldframe::onnx {
namespace {

constexpr std::uint64_t kVarint = 0, kLengthDelimited = 2, kFourBytes = 5;  // wire types

std::uint64_t key(int field, std::uint64_t type) {
  return static_cast<std::uint64_t>(field) << 3 | type;
}

}  // namespace

void Message::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

Message& Message::number(int field, std::int64_t value) {
  varint(key(field, kVarint));
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

Message& Message::real(int field, float value) {
  varint(key(field, kFourBytes));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
  return *this;
}

Message& Message::text(int field, std::string_view bytes) {
  varint(key(field, kLengthDelimited));
  varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

}  // namespace coldframe::onnx
