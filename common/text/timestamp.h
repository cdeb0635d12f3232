// A table's column of times: seconds, or dates and times as ISO 8601 writes them.
#pragma once

#include <optional>
#include <string_view>

namespace coldframe {

// 30 million years: what is beyond is no time.
inline constexpr double kMostSeconds = 1e15;

struct Timestamp {
  double seconds = 0.0;   // since 1970-01-01T00:00:00Z when absolute
  bool absolute = false;  // a date; without a zone it is taken as UTC
};

// "12.5", "2024-03-01", "2024-03-01T12:30", "2024-03-01 12:30:05.25", with Z or ±HH, ±HH:MM or
// ±HHMM behind the time. Also without hyphens and colons, as ISO 8601's basic format and DICOM's DA
// and DT have it: "20240301", "20240301T1230", "20240301123005.25"; numbers of 8 or 14 digits are
// therefore dates where they are ones of the years 1900 to 2099, and seconds else. Nothing for any
// other text, an impossible date, nan, inf and seconds beyond kMostSeconds.
std::optional<Timestamp> parse_timestamp(std::string_view text);

}  // namespace coldframe
