#include "extract/vit/checkpoint/pickle/byte_cursor.h"

#include <bit>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit::pickle {

std::string_view ByteCursor::take(std::uint64_t count) {
  if (count > bytes_.size() - at_)
    throw DataError(concat("truncated: the pickle ends at byte ", bytes_.size(), " where ", count,
                           " bytes are needed at byte ", at_));
  const std::string_view taken = bytes_.substr(at_, count);
  at_ += count;
  return taken;
}

std::string_view ByteCursor::line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) throw DataError("truncated: the pickle ends inside a line");
  const std::string_view taken = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return taken;
}

std::uint64_t ByteCursor::little(int count) {
  const std::string_view bytes = take(static_cast<std::uint64_t>(count));
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  return value;
}

double ByteCursor::big_double() {
  std::uint64_t value = 0;
  for (const char byte : take(8)) value = value << 8 | static_cast<unsigned char>(byte);
  return std::bit_cast<double>(value);
}

}  // namespace coldframe::vit::pickle
