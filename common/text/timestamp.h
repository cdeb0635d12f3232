// Times in tables, and instants that rounding alone tells apart.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace coldframe {

// A table's column of times: seconds, or dates and times as ISO 8601 writes them.

// 30 million years: what is beyond is no time.
inline constexpr double kMaxUnixSeconds = 1e15;

struct Timestamp {
  double seconds = 0.0;   // since 1970-01-01T00:00:00Z when absolute
  bool absolute = false;  // a date; without a zone it is taken as UTC
};

// "12.5", "2024-03-01", "2024-03-01T12:30", "2024-03-01 12:30:05.25", with Z or ±HH, ±HH:MM or
// ±HHMM behind the time. Also without hyphens and colons, as ISO 8601's basic format and DICOM's DA
// and DT have it: "20240301", "20240301T1230", "20240301123005.25"; numbers of 8 or 14 digits are
// therefore dates where they are ones of the years 1900 to 2099, and seconds else. Nothing for any
// other text, an impossible date, nan, inf and seconds beyond kMaxUnixSeconds.
std::optional<Timestamp> parse_timestamp(std::string_view text);

// Frames of several streams (FA and ICGA, T1 and T2) that show the same instant.

// The instant of each frame, counted from 0 in the order of time. `times`: seconds; `streams`: the
// number of each frame's stream. Frames of different streams within a millisecond are of one
// instant; of several frames of one stream at that time the first belongs to the first of the
// others, and so on. Where a frame's time is unknown (NaN), the first frames of all streams are of
// one instant, then the second ones.
std::vector<std::size_t> instants_of(std::span<const double> times,
                                     std::span<const std::size_t> streams);

}  // namespace coldframe
