// Writes protocol buffers' wire format (protobuf.dev/programming-guides/encoding), as far as ONNX's
// files need it. LibTorch exports symbols of its own protobuf, so that no library can be linked
// beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace coldframe::onnx {

class Message {
 public:
  Message& number(int field, std::int64_t value);
  Message& real(int field, float value);
  Message& text(int field, std::string_view bytes);  // string or bytes
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace coldframe::onnx
