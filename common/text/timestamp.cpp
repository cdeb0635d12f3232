#include "common/text/timestamp.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "common/text/text.h"

namespace coldframe {

namespace {

// Takes a text apart from its front; once something did not fit, everything fails.
class TimestampText {
 public:
  explicit TimestampText(std::string_view text) : rest_(text) {}

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  bool next_is(char c) const { return !rest_.empty() && rest_.front() == c; }
  bool next_is_digit() const {
    return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
  }

  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) { ok_ = take(c) && ok_; }

  int digits(std::size_t count) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!next_is_digit()) {
        ok_ = false;
        return 0;
      }
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }

  // ".25" or ",25" -> 0.25; nothing -> 0.
  double fraction() {
    if (!take('.') && !take(',')) return 0.0;
    double value = 0.0, place = 0.1;
    if (!next_is_digit()) ok_ = false;
    for (; next_is_digit(); rest_.remove_prefix(1)) {
      value += (rest_.front() - '0') * place;
      place /= 10;
    }
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// Reads a date, with or without hyphens.
double days_since_epoch(TimestampText& reader, bool hyphens) {
  namespace chrono = std::chrono;
  const int year = reader.digits(4);
  if (hyphens) reader.expect('-');
  const int month = reader.digits(2);
  if (hyphens) reader.expect('-');
  const int day = reader.digits(2);
  const chrono::year_month_day date{chrono::year(year), chrono::month(static_cast<unsigned>(month)),
                                    chrono::day(static_cast<unsigned>(day))};
  if (!reader.ok() || !date.ok()) return std::nan("");
  return static_cast<double>(chrono::sys_days(date).time_since_epoch().count());
}

// Seconds to subtract for a zone: "+02:00" -> 7200; none and "Z" -> 0.
double zone_offset(TimestampText& reader) {
  if (reader.take('Z') || reader.at_end()) return 0.0;
  const double sign = reader.next_is('-') ? -1.0 : 1.0;
  if (!reader.take('-')) reader.expect('+');
  const int hours = reader.digits(2);
  int minutes = 0;
  if (!reader.at_end()) {
    reader.take(':');
    minutes = reader.digits(2);
  }
  if (hours > 23 || minutes > 59) return std::nan("");
  return sign * (hours * 3600.0 + minutes * 60.0);
}

// Reads a time of day, with or without colons.
double time_of_day(TimestampText& reader) {
  const int hours = reader.digits(2);
  reader.take(':');
  const int minutes = reader.digits(2);
  double seconds = 0.0;
  if (reader.take(':') || reader.next_is_digit()) {
    seconds = reader.digits(2);
    if (seconds >= 60.0) return std::nan("");
    seconds += reader.fraction();
  }
  if (hours > 23 || minutes > 59) return std::nan("");
  return hours * 3600.0 + minutes * 60.0 + seconds - zone_offset(reader);
}

std::optional<Timestamp> finish(const TimestampText& reader, double seconds) {
  if (!reader.ok() || !reader.at_end() || !std::isfinite(seconds)) return std::nullopt;
  return Timestamp{seconds, true};
}

std::optional<Timestamp> parse_date(std::string_view text) {
  TimestampText reader(text);
  double seconds = days_since_epoch(reader, true) * 86400.0;
  if (reader.ok() && !reader.at_end()) {
    if (!reader.take('T')) reader.expect(' ');
    seconds += time_of_day(reader);
  }
  return finish(reader, seconds);
}

// Reads a date without hyphens. Spreadsheets put ".0" behind whole numbers.
std::optional<Timestamp> parse_compact_date(std::string_view text) {
  if (text.ends_with(".0")) text.remove_suffix(2);
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool has_letter = digits == 8 && text.size() > 8 && text[8] == 'T';
  if (!has_letter && digits != 14 && text.size() != 8) return std::nullopt;
  if (!text.starts_with("19") && !text.starts_with("20")) return std::nullopt;
  TimestampText reader(text);
  double seconds = days_since_epoch(reader, false) * 86400.0;
  if (reader.ok() && (reader.take('T') || !reader.at_end())) seconds += time_of_day(reader);
  return finish(reader, seconds);
}

}  // namespace

std::optional<Timestamp> parse_timestamp(std::string_view text) {
  if (const auto date = parse_compact_date(text)) return date;
  double seconds = 0.0;
  if (!parse_double(text, seconds)) return parse_date(text);
  if (!(std::abs(seconds) <= kMaxUnixSeconds)) return std::nullopt;
  return Timestamp{seconds, false};
}

namespace {

constexpr double kSameInstant = 1e-3;  // seconds

}  // namespace

std::vector<std::size_t> instants_of(std::span<const double> times,
                                     std::span<const std::size_t> streams) {
  std::vector<std::size_t> order(times.size()), instants(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool is_timed = std::ranges::all_of(times, [](double time) { return std::isfinite(time); });
  if (is_timed)
    std::ranges::stable_sort(order, {}, [&](std::size_t frame) { return times[frame]; });
  std::map<std::size_t, std::size_t> next;  // a stream's next instant among those of this time
  std::size_t first = 0, end = 0;           // the instants of this time
  double begun = 0;
  for (const std::size_t frame : order) {
    if (is_timed && (end == 0 || times[frame] - begun > kSameInstant)) {
      next.clear();
      first = end;
      begun = times[frame];
    }
    std::size_t& instant = next.try_emplace(streams[frame], first).first->second;
    instants[frame] = instant++;
    end = std::max(end, instant);
  }
  return instants;
}

}  // namespace coldframe
