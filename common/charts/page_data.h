// Data in a page, which its script (page.js) shows in place of what stands there without it.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "common/charts/html.h"
#include "common/files/json.h"

namespace coldframe::html {

inline constexpr std::string_view kDataTable = "<div class=\"data\"";

// <div class="KIND" id="ID"> with HTML for those who read without scripts or print, and the data.
std::string with_data(std::string_view kind, std::string_view id, std::string_view html,
                      const Json& data);

// The bytes of little-endian values, in base64.
template <typename To, typename From>
std::string packed(const std::vector<From>& values) {
  std::string bytes(values.size() * sizeof(To), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return to_base64(bytes);
}

}  // namespace coldframe::html
