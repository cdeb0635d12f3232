#include "extract/decode/dicom/times.h"

#include <dcmtk/dcmdata/dcvrat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "common/text/text.h"
#include "common/text/timestamp.h"
#include "extract/decode/frame.h"

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
  if (day.size() != 8) return kNotStated;
  const std::size_t point = std::min(time.find('.'), time.size());
  std::string clock = digits_only(time.substr(0, point));
  if (clock.size() > 6 || clock.size() % 2 != 0) return kNotStated;
  clock.append(6 - clock.size(), '0');
  const std::string fraction = digits_only(time.substr(point));
  const auto parsed = parse_timestamp(concat(
      day.substr(0, 4), "-", day.substr(4, 2), "-", day.substr(6), "T", clock.substr(0, 2), ":",
      clock.substr(2, 2), ":", clock.substr(4), fraction.empty() ? "" : ".", fraction, zone));
  return parsed ? parsed->seconds : kNotStated;
}

// DT "20240301123005.25+0100".
double unix_seconds(std::string_view date_time, std::string_view zone) {
  const std::size_t sign = date_time.find_first_of("+-");
  if (sign != std::string_view::npos) zone = date_time.substr(sign);
  date_time = date_time.substr(0, sign);
  if (date_time.size() < 8) return kNotStated;
  return unix_seconds(date_time.substr(0, 8), date_time.substr(8), zone);
}

// True if two known times differ: there is something in the frames' own times.
bool any_differ(const std::vector<double>& seconds) {
  const auto known = [](double second) { return std::isfinite(second); };
  const auto first = std::find_if(seconds.begin(), seconds.end(), known);
  return std::any_of(first, seconds.end(),
                     [&](double second) { return known(second) && second != *first; });
}

FrameTimes as_stored(std::vector<double> seconds, std::string times) {
  FrameTimes result{std::move(seconds), {}};
  result.stored.resize(result.seconds.size());
  std::iota(result.stored.begin(), result.stored.end(), std::int64_t{0});
  result.basis = {kFileOrder, std::move(times)};
  return result;
}

std::vector<double> running_sum(const std::vector<double>& steps) {
  std::vector<double> times;
  for (const double step : steps) times.push_back(times.empty() ? 0 : times.back() + step);
  return times;
}

std::vector<double> regular_times(std::int64_t frames, double step) {
  std::vector<double> times;
  for (std::int64_t i = 0; i < frames; ++i) times.push_back(static_cast<double>(i) * step);
  return times;
}

bool points_to(DcmItem& root, const DcmTagKey& tag) {
  DcmElement* pointer = nullptr;
  if (root.findAndGetElement(DCM_FrameIncrementPointer, pointer).bad()) return false;
  DcmTagKey named;
  for (unsigned long i = 0; i < pointer->getVM(); ++i) {
    auto* tags = dynamic_cast<DcmAttributeTag*>(pointer);
    if (tags != nullptr && tags->getTagVal(named, i).good() && named == tag) return true;
  }
  return false;
}

// Milliseconds, of which the first stands before the first frame; some writers leave that one out.
std::vector<double> vector_steps(DcmItem& root, std::int64_t frames) {
  std::vector<double> steps = numbers_of(root, DCM_FrameTimeVector);
  if (std::ssize(steps) == frames - 1) steps.insert(steps.begin(), 0.0);
  for (double& step : steps) step /= 1e3;
  const std::vector<double> times = running_sum(steps);
  if (std::ssize(steps) != frames || !std::is_sorted(times.begin(), times.end())) return {};
  return any_differ(times) ? steps : std::vector<double>();
}

std::vector<double> regular_steps(std::int64_t frames, double step) {
  if (!(step > 0) || !std::isfinite(step)) return {};
  return std::vector<double>(static_cast<std::size_t>(frames), step);
}

// Seconds from frame to frame, and why what the header states was not taken.
struct Cine {
  std::vector<double> steps;
  bool is_vector = false;
  std::string note = {};
};

Cine read_cine(DcmItem& root, std::int64_t frames) {
  const std::size_t values = numbers_of(root, DCM_FrameTimeVector).size();
  const auto regular = [&] {
    return Cine{regular_steps(frames, number_of(root, DCM_FrameTime, 0) / 1e3)};
  };
  if (values == 0) return regular();
  const Cine by_vector{vector_steps(root, frames), true};
  const bool to_vector = points_to(root, DCM_FrameTimeVector);
  if (!to_vector && (points_to(root, DCM_FrameTime) || static_cast<std::int64_t>(values) != frames))
    if (Cine cine = regular(); !cine.steps.empty()) return cine;
  if (!by_vector.steps.empty() || !to_vector)
    return by_vector.steps.empty() ? regular() : by_vector;
  const bool fits = std::abs(static_cast<std::int64_t>(values) - frames) < 2;
  if (Cine cine = regular(); fits && !cine.steps.empty()) return cine;
  return {{},
          true,
          fits ? std::string("its FrameTimeVector does not rise: no times")
               : concat("its FrameTimeVector has ", plural(values, "value"), " for ",
                        plural(static_cast<std::size_t>(frames), "frame"), ": no times")};
}

// Where frames lie (PS3.3 C.7.6.16.2.3): along the common normal, else a number for each plane.
void set_positions(std::span<const GroupFacts> stated, std::vector<FrameFacts>& facts) {
  const auto axes_of = [](const GroupFacts& each) { return std::span(each.plane).subspan(3); };
  if (std::ranges::any_of(stated, [](const GroupFacts& each) { return each.plane.empty(); }))
    return;
  const bool parallel = std::ranges::all_of(stated, [&](const GroupFacts& each) {
    return std::ranges::equal(axes_of(each), axes_of(stated[0]));
  });
  std::map<std::vector<double>, double> seen;
  for (std::size_t i = 0; i < stated.size(); ++i) {
    const std::vector<double>& plane = stated[i].plane;
    const double number = seen.try_emplace(plane, static_cast<double>(seen.size())).first->second;
    facts[i].position = parallel ? along_normal(plane, axes_of(stated[i])) : number;
  }
}

// Three coordinates of its place and six of its axes; empty without the former.
std::vector<double> plane_of(const FunctionalGroups& groups, std::int64_t frame) {
  DcmItem* const position = groups.find(frame, DCM_PlanePositionSequence);
  DcmItem* const orientation = groups.find(frame, DCM_PlaneOrientationSequence);
  std::vector<double> plane, axes;
  if (position != nullptr) plane = numbers_of(*position, DCM_ImagePositionPatient);
  if (orientation != nullptr) axes = numbers_of(*orientation, DCM_ImageOrientationPatient);
  if (plane.size() != 3) return {};
  if (axes.size() != 6) axes = {1, 0, 0, 0, 1, 0};
  plane.insert(plane.end(), axes.begin(), axes.end());
  return plane;
}

constexpr std::array<const char*, kGroupClocks> kClockNames{kAcquisitionTime, "reference time",
                                                            "temporal offset"};

// True if functional groups tell frames apart by time.
bool tell_times(std::span<const GroupFacts> stated) {
  const auto differ = [&](const auto& value) {
    std::vector<double> values;
    for (const GroupFacts& each : stated) values.push_back(value(each));
    return any_differ(values);
  };
  for (std::size_t clock = 0; clock < kGroupClocks; ++clock)
    if (differ([&](const GroupFacts& each) { return each.clocks[clock]; })) return true;
  return differ([](const GroupFacts& each) { return each.trigger; });
}

FrameTimes in_order(std::span<const GroupFacts> stated) {
  FrameOrder order = order_groups(stated);
  FrameTimes times = as_stored(std::move(order.seconds), order.basis.times);
  std::vector<std::int64_t> stored(order.order.begin(), order.order.end());
  if (order.basis.order.empty()) return times;
  order.basis.unusual =
      order.basis.unusual || (order.basis.times.empty() && stored != times.stored);
  times.stored = std::move(stored);
  times.basis = std::move(order.basis);
  return times;
}

}  // namespace

double along_normal(std::span<const double> place, std::span<const double> axes) {
  return place[0] * (axes[1] * axes[5] - axes[2] * axes[4]) +
         place[1] * (axes[2] * axes[3] - axes[0] * axes[5]) +
         place[2] * (axes[0] * axes[4] - axes[1] * axes[3]);
}

std::vector<double> cine_steps(DcmItem& root, std::int64_t frames) {
  return read_cine(root, frames).steps;
}

std::vector<GroupFacts> group_facts(const DataSet& data, std::int64_t frames) {
  const FunctionalGroups groups(data.root());
  if (groups.frames() == 0) return {};
  const std::string zone = text_of(data.root(), DCM_TimezoneOffsetFromUTC);
  std::vector<GroupFacts> facts;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    GroupFacts& stated = facts.emplace_back();
    if (DcmItem* const content = groups.find(frame, DCM_FrameContentSequence)) {
      stated.clocks[0] = unix_seconds(text_of(*content, DCM_FrameAcquisitionDateTime), zone);
      stated.clocks[1] = unix_seconds(text_of(*content, DCM_FrameReferenceDateTime), zone);
      stated.temporal_position = number_of(*content, DCM_TemporalPositionIndex, kNotStated);
    }
    if (DcmItem* const temporal = groups.find(frame, DCM_TemporalPositionSequence))
      stated.clocks[2] = number_of(*temporal, DCM_TemporalPositionTimeOffset, kNotStated);
    if (DcmItem* const cardiac = groups.find(frame, DCM_CardiacSynchronizationSequence))
      stated.trigger = number_of(*cardiac, DCM_NominalCardiacTriggerDelayTime, kNotStated) / 1e3;
    stated.plane = plane_of(groups, frame);
  }
  return facts;
}

FrameOrder order_groups(std::span<const GroupFacts> stated) {
  std::vector<FrameFacts> facts;
  for (const GroupFacts& each : stated)
    facts.push_back({.temporal_position = each.temporal_position, .trigger = each.trigger});
  set_positions(stated, facts);
  std::size_t chosen = kGroupClocks;
  bool differs = false;
  for (std::size_t clock = 0; clock < kGroupClocks && !differs; ++clock) {
    std::vector<double> times;
    for (const GroupFacts& each : stated) times.push_back(each.clocks[clock]);
    if (std::ranges::any_of(times, [](double time) { return std::isnan(time); })) continue;
    differs = any_differ(times);
    if (differs || chosen == kGroupClocks) chosen = clock;
  }
  if (chosen == kGroupClocks) return order_frames(facts);
  for (std::size_t i = 0; i < facts.size(); ++i) facts[i].time = stated[i].clocks[chosen];
  return order_frames(facts, true, kClockNames[chosen]);
}

FrameTimes frame_times(const DataSet& data, std::int64_t frames) {
  if (frames == 1) return as_stored({0.0}, "");
  DcmItem& root = data.root();
  Cine cine = read_cine(root, frames);
  if (!cine.steps.empty())
    return as_stored(
        cine.is_vector ? running_sum(cine.steps) : regular_times(frames, cine.steps[0]),
        cine.is_vector ? "frame time vector" : "frame time");
  const std::vector<GroupFacts> groups = group_facts(data, frames);
  FrameTimes times = in_order(groups);
  if (groups.empty())
    times = as_stored(std::vector<double>(static_cast<std::size_t>(frames), kNotStated), "");
  times.note = std::move(cine.note);
  if (!times.basis.times.empty() || tell_times(groups) || !times.note.empty() ||
      times.basis.order != kFileOrder)
    return times;
  for (const DcmTagKey& rate : {DCM_RecommendedDisplayFrameRate, DCM_CineRate}) {
    const auto steps = regular_steps(frames, 1 / number_of(root, rate, 0));
    if (!steps.empty()) return as_stored(regular_times(frames, steps[0]), "rate for display");
  }
  return times;
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
// content is made after it, either perhaps on the other side of midnight.
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
ImageTime moment_of(DcmItem& root, const Stamp& own, const std::string& zone) {
  ImageTime moment;
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

ImageTime acquisition(DcmItem& root) {
  const std::string zone = text_of(root, DCM_TimezoneOffsetFromUTC);
  const double exact = unix_seconds(text_of(root, DCM_AcquisitionDateTime), zone);
  if (!std::isnan(exact)) return {exact, true, true};
  for (const Stamp& own : {kStamps[0], kStamps[1]}) {
    const ImageTime moment = moment_of(root, own, zone);
    if (!std::isnan(moment.seconds)) return moment;
  }
  for (const auto& [date, time] : kStamps) {
    const double seconds = unix_seconds(text_of(root, date), text_of(root, time), zone);
    if (!std::isnan(seconds)) return {seconds, true, false};
  }
  return {};
}

ImageTime content(DcmItem& root) {
  return moment_of(root, kStamps[1], text_of(root, DCM_TimezoneOffsetFromUTC));
}

double start_time(DcmItem& root) {
  const ImageTime moment = acquisition(root);
  return moment.dated ? moment.seconds : kNotStated;
}

}  // namespace coldframe::frames::dicom
