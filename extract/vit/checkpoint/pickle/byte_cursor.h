// Reads a pickle's bytes from front to back and never past their end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace coldframe::vit::pickle {

class ByteCursor {
 public:
  explicit ByteCursor(std::string_view bytes) : bytes_(bytes) {}

  std::size_t position() const { return at_; }
  std::string_view take(std::uint64_t count);  // DataError when fewer are left
  std::string_view line();                     // up to '\n', which is consumed as well
  std::uint64_t little(int count);             // an unsigned little-endian integer
  double big_double();

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace coldframe::vit::pickle
