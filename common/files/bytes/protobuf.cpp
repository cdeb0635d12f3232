#include "common/files/bytes/protobuf.h"

#include <bit>

namespace coldframe::protobuf {

void Message::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void Message::fixed(std::uint64_t bits, int width) {
  for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
}

Message& Message::number(int field, std::int64_t value) {
  varint(key(field, Wire::kVarint));
  varint(static_cast<std::uint64_t>(value));
  return *this;
}

Message& Message::float32(int field, float value) {
  varint(key(field, Wire::kFixed32));
  fixed(std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

Message& Message::float64(int field, double value) {
  varint(key(field, Wire::kFixed64));
  fixed(std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

Message& Message::text(int field, std::string_view bytes) {
  varint(key(field, Wire::kLength));
  varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

}  // namespace coldframe::protobuf
