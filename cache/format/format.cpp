#include "cache/format/format.h"

#include "common/cli/error.h"

namespace coldframe::cache {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool must_escape(std::string_view name, std::size_t at) {
  const auto character = static_cast<unsigned char>(name[at]);
  return character == '%' || character == '/' || character < 0x20 || character == 0x7f ||
         (character == '.' && at == 0);
}

}  // namespace

std::string escape_name(std::string_view name) {
  std::string escaped;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto character = static_cast<unsigned char>(name[i]);
    if (!must_escape(name, i)) {
      escaped.push_back(name[i]);
    } else {
      escaped.push_back('%');
      escaped.push_back(kHexDigits[character >> 4]);
      escaped.push_back(kHexDigits[character & 15]);
    }
  }
  return escaped;
}

std::string unescape_name(std::string_view escaped) {
  std::string name;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '%') {
      name.push_back(escaped[i]);
      continue;
    }
    const std::size_t high =
        i + 2 < escaped.size() ? kHexDigits.find(escaped[i + 1]) : kHexDigits.npos;
    const std::size_t low =
        i + 2 < escaped.size() ? kHexDigits.find(escaped[i + 2]) : kHexDigits.npos;
    if (high == kHexDigits.npos || low == kHexDigits.npos) break;
    name.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  if (name.empty() || escape_name(name) != escaped)
    throw CacheError("a column has the malformed name '" + std::string(escaped) + "'");
  return name;
}

}  // namespace coldframe::cache
