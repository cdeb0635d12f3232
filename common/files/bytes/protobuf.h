// Writes protocol buffers' wire format (protobuf.dev/programming-guides/encoding). LibTorch exports
// symbols of its own protobuf, so that no library can be linked beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace coldframe::protobuf {

enum class Wire : unsigned { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// What stands before a field.
constexpr std::uint64_t key(int field, Wire wire) {
  return static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned>(wire);
}

class Message {
 public:
  Message& number(int field, std::int64_t value);
  Message& float32(int field, float value);
  Message& float64(int field, double value);
  Message& text(int field, std::string_view bytes);  // string or bytes
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  void fixed(std::uint64_t bits, int width);

  std::string bytes_;
};

}  // namespace coldframe::protobuf
