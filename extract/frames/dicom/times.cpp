#include "extract/frames/dicom/times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "common/text/text.h"
#include "common/text/timestamp.h"

namespace coldframe::frames::dicom {
namespace {

std::string digits_only(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9') digits += c;
  }
  return digits;
}

// DA "20240301" (in old files "2024.03.01") and TM "123005.25" (in old files "12:30:05").
double unix_seconds(std::string_view date, std::string_view time, std::string_view zone) {
  const std::string day = digits_only(date);
  if (day.size() != 8) return kUnknown;
  const std::size_t point = std::min(time.find('.'), time.size());
  std::string clock = digits_only(time.substr(0, point));
  if (clock.size() > 6 || clock.size() % 2 != 0) return kUnknown;
  clock.append(6 - clock.size(), '0');
  const std::string fraction = digits_only(time.substr(point));
  const auto parsed = parse_timestamp(concat(
      day.substr(0, 4), "-", day.substr(4, 2), "-", day.substr(6), "T", clock.substr(0, 2), ":",
      clock.substr(2, 2), ":", clock.substr(4), fraction.empty() ? "" : ".", fraction, zone));
  return parsed ? parsed->seconds : kUnknown;
}

// DT "20240301123005.25+0100".
double unix_seconds(std::string_view date_time, std::string_view zone) {
  const std::size_t sign = date_time.find_first_of("+-");
  if (sign != std::string_view::npos) zone = date_time.substr(sign);
  date_time = date_time.substr(0, sign);
  if (date_time.size() < 8) return kUnknown;
  return unix_seconds(date_time.substr(0, 8), date_time.substr(8), zone);
}

// True if two known times differ: there is something in the frames' own times.
bool any_differ(const std::vector<double>& seconds) {
  const auto known = [](double second) { return std::isfinite(second); };
  const auto first = std::find_if(seconds.begin(), seconds.end(), known);
  return std::any_of(first, seconds.end(),
                     [&](double second) { return known(second) && second != *first; });
}

FrameTimes as_stored(std::vector<double> seconds) {
  FrameTimes times{std::move(seconds), {}};
  times.stored.resize(times.seconds.size());
  std::iota(times.stored.begin(), times.stored.end(), std::int64_t{0});
  return times;
}

// Seconds since the first, in the order of time; nothing unless all are known and some differ.
FrameTimes in_order(const std::vector<double>& seconds) {
  const auto known = [](double second) { return std::isfinite(second); };
  if (!std::all_of(seconds.begin(), seconds.end(), known) || !any_differ(seconds)) return {};
  FrameTimes times = as_stored(seconds);
  const auto at = [&](std::int64_t frame) { return seconds[static_cast<std::size_t>(frame)]; };
  std::stable_sort(times.stored.begin(), times.stored.end(),
                   [&](std::int64_t a, std::int64_t b) { return at(a) < at(b); });
  for (std::size_t i = 0; i < seconds.size(); ++i)
    times.seconds[i] = at(times.stored[i]) - at(times.stored[0]);
  return times;
}

std::vector<double> regular_times(std::int64_t frames, double step) {
  std::vector<double> times;
  if (!(step > 0) || !std::isfinite(step)) return times;
  for (std::int64_t i = 0; i < frames; ++i) times.push_back(static_cast<double>(i) * step);
  return times;
}

std::vector<double> cine_times(DcmItem& root, std::int64_t frames) {
  const auto steps = numbers_of(root, DCM_FrameTimeVector);  // milliseconds, the first before it
  if (steps.size() == static_cast<std::size_t>(frames)) {
    std::vector<double> times(1, 0.0);
    for (std::size_t i = 1; i < steps.size(); ++i) times.push_back(times.back() + steps[i] / 1e3);
    if (std::is_sorted(times.begin(), times.end()) && any_differ(times)) return times;
  }
  return regular_times(frames, number_of(root, DCM_FrameTime, 0) / 1e3);
}

// Each frame at a place of its own: slices of a volume, however long they took.
bool is_volume(const FunctionalGroups& groups, std::int64_t frames) {
  std::set<std::vector<double>> places;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    DcmItem* plane = groups.find(frame, DCM_PlanePositionSequence);
    const auto place =
        plane != nullptr ? numbers_of(*plane, DCM_ImagePositionPatient) : std::vector<double>();
    if (place.empty() || !places.insert(place).second) return false;
  }
  return true;
}

struct EnhancedTimes {
  FrameTimes times;     // empty where they are not all known
  bool stated = false;  // the functional groups tell frames apart by time
};

EnhancedTimes enhanced_times(const FunctionalGroups& groups, std::int64_t frames,
                             const std::string& zone) {
  EnhancedTimes found;
  const auto gather = [&](const DcmTagKey& macro, const auto& seconds) {
    if (!found.times.seconds.empty()) return;
    std::vector<double> list;
    for (std::int64_t frame = 0; frame < frames; ++frame) {
      DcmItem* item = groups.find(frame, macro);
      list.push_back(item != nullptr ? seconds(*item) : kUnknown);
    }
    found.stated = found.stated || any_differ(list);
    found.times = in_order(list);
  };
  for (const DcmTagKey& tag : {DCM_FrameAcquisitionDateTime, DCM_FrameReferenceDateTime}) {
    gather(DCM_FrameContentSequence,
           [&](DcmItem& item) { return unix_seconds(text_of(item, tag), zone); });
  }
  gather(DCM_TemporalPositionSequence,
         [](DcmItem& item) { return number_of(item, DCM_TemporalPositionTimeOffset, kUnknown); });
  gather(DCM_CardiacSynchronizationSequence, [](DcmItem& item) {
    return number_of(item, DCM_NominalCardiacTriggerDelayTime, kUnknown) / 1e3;
  });
  return found;
}

}  // namespace

FrameTimes frame_times(const DataSet& data, std::int64_t frames) {
  if (frames == 1) return as_stored({0.0});
  DcmItem& root = data.root();
  std::vector<double> times = cine_times(root, frames);
  if (!times.empty()) return as_stored(std::move(times));
  const FunctionalGroups groups(root);
  if (!is_volume(groups, frames)) {
    auto own = enhanced_times(groups, frames, text_of(root, DCM_TimezoneOffsetFromUTC));
    if (!own.times.seconds.empty()) return std::move(own.times);
    for (const DcmTagKey& rate : {DCM_RecommendedDisplayFrameRate, DCM_CineRate}) {
      if (own.stated || !times.empty()) break;
      times = regular_times(frames, 1 / number_of(root, rate, 0));
    }
  }
  if (times.empty()) times.assign(static_cast<std::size_t>(frames), kUnknown);
  return as_stored(std::move(times));
}

namespace {

struct Stamp {
  DcmTagKey date, time;
};
const std::array<Stamp, 4> kStamps{{{DCM_AcquisitionDate, DCM_AcquisitionTime},
                                    {DCM_ContentDate, DCM_ContentTime},
                                    {DCM_SeriesDate, DCM_SeriesTime},
                                    {DCM_StudyDate, DCM_StudyTime}}};

// A time of day with another event's date: series and study begin before the image is acquired,
// content is made behind it, either perhaps on the other side of midnight.
double with_date_of(DcmItem& root, const Stamp& other, const std::string& clock,
                    const std::string& zone) {
  const std::string date = text_of(root, other.date);
  const double seconds = unix_seconds(date, clock, zone);
  const double later = seconds - unix_seconds(date, text_of(root, other.time), zone);
  const bool before = other.date == DCM_SeriesDate || other.date == DCM_StudyDate;
  if (before && later < -kDay / 2) return seconds + kDay;
  if (other.date == DCM_ContentDate && later > kDay / 2) return seconds - kDay;
  return seconds;
}

// A time of day of the image itself, with its own date or the first other one.
Moment moment_of(DcmItem& root, const Stamp& own, const std::string& zone) {
  Moment moment;
  const std::string clock = text_of(root, own.time);
  const double since_midnight = unix_seconds("19700101", clock, "");
  if (clock.empty() || std::isnan(since_midnight)) return moment;
  moment.seconds = unix_seconds(text_of(root, own.date), clock, zone);
  for (const Stamp& other : kStamps) {
    if (std::isnan(moment.seconds)) moment.seconds = with_date_of(root, other, clock, zone);
  }
  moment.dated = !std::isnan(moment.seconds);
  if (!moment.dated) moment.seconds = since_midnight;
  moment.acquired = own.time == DCM_AcquisitionTime;
  return moment;
}

}  // namespace

Moment acquisition(DcmItem& root) {
  const std::string zone = text_of(root, DCM_TimezoneOffsetFromUTC);
  const double exact = unix_seconds(text_of(root, DCM_AcquisitionDateTime), zone);
  if (!std::isnan(exact)) return {exact, true, true};
  for (const Stamp& own : {kStamps[0], kStamps[1]}) {
    const Moment moment = moment_of(root, own, zone);
    if (!std::isnan(moment.seconds)) return moment;
  }
  for (const auto& [date, time] : kStamps) {
    const double seconds = unix_seconds(text_of(root, date), text_of(root, time), zone);
    if (!std::isnan(seconds)) return {seconds, true, false};
  }
  return {};
}

double start_time(DcmItem& root) {
  const Moment moment = acquisition(root);
  return moment.dated ? moment.seconds : kUnknown;
}

}  // namespace coldframe::frames::dicom
