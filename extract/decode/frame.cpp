#include "extract/decode/frame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "common/text/text.h"

namespace coldframe::frames {

namespace {

using Facts = std::span<const FrameFacts>;

struct Key {
  double FrameFacts::*value;
  const char* name;
};
constexpr Key kTemporal{&FrameFacts::temporal_position, "temporal position"};
constexpr Key kTime{&FrameFacts::time, kAcquisitionTime};
constexpr Key kTrigger{&FrameFacts::trigger, "trigger time"};
constexpr Key kMade{&FrameFacts::made, "content time"};
constexpr Key kPosition{&FrameFacts::position, "place"};
constexpr Key kNumber{&FrameFacts::number, "number"};

bool operator==(const Key& a, const Key& b) {
  return a.value == b.value;
}

bool all_stated(Facts facts, const Key& key) {
  return std::ranges::none_of(facts,
                              [&](const FrameFacts& each) { return std::isnan(each.*key.value); });
}

std::size_t count_different(Facts facts, const Key& key) {
  std::set<double> values;
  for (const FrameFacts& each : facts) values.insert(each.*key.value);
  return values.size();
}

// Finds what tells frames of one place apart.
class Judge {
 public:
  Judge(Facts facts, bool one_stack) : facts_(facts) {
    const bool placed = one_stack && all_stated(facts, kPosition);
    places_ = placed ? count_different(facts, kPosition) : 1;
    is_volume_ = placed && facts.size() > 1 && places_ == facts.size();
    for (const FrameFacts& each : facts) at_place_[placed ? each.position : 0].push_back(&each);
  }

  bool is_volume() const { return is_volume_; }
  std::size_t places() const { return places_; }

  // Some frames of one place have different values.
  bool tells(const Key& key) const { return all_stated(facts_, key) && told_apart(key, false); }
  // No two frames of one place have the same value.
  bool tells_all(const Key& key) const {
    return all_stated(facts_, key) && !is_volume_ && told_apart(key, true);
  }

  // Later frames of one place are never at an earlier temporal position.
  bool agrees_with_temporal(const Key& key) const {
    return std::ranges::all_of(at_place_, [&](const auto& place) {
      auto frames = place.second;
      std::ranges::stable_sort(frames, {}, [&](const FrameFacts* f) { return f->*key.value; });
      return std::ranges::is_sorted(frames, {}, &FrameFacts::temporal_position);
    });
  }

 private:
  bool told_apart(const Key& key, bool all) const {
    const auto apart = [&](const auto& place) {
      std::set<double> values;
      for (const FrameFacts* each : place.second) values.insert(each->*key.value);
      return all ? values.size() == place.second.size() : values.size() > 1;
    };
    return all ? std::ranges::all_of(at_place_, apart) : std::ranges::any_of(at_place_, apart);
  }

  Facts facts_;
  std::map<double, std::vector<const FrameFacts*>> at_place_;
  std::size_t places_ = 1;
  bool is_volume_ = false;
};

// Null where nothing tells frames apart by time.
const Key* choose(Facts facts, const Judge& judge) {
  if (judge.is_volume() || facts.size() < 2) return nullptr;
  const bool temporal = judge.tells(kTemporal);
  if (judge.tells_all(kTime) && (!temporal || judge.agrees_with_temporal(kTime))) return &kTime;
  if (temporal) return &kTemporal;
  if (judge.tells_all(kTrigger)) return &kTrigger;
  if (judge.tells(kTime)) return &kTime;
  if (judge.tells(kTrigger)) return &kTrigger;
  if (judge.places() == 1 && judge.tells(kMade)) return &kMade;
  return all_stated(facts, kTime) && count_different(facts, kTime) > 1 ? &kTime : nullptr;
}

// Of the frames in order; those at one temporal position are of one moment, the earliest of theirs.
// Empty unless the moments rise.
std::vector<double> moments_by(Facts facts, const std::vector<std::size_t>& order,
                               const Key& clock) {
  if (!all_stated(facts, clock)) return {};
  std::map<double, double> earliest;
  for (const FrameFacts& each : facts) {
    const auto [moment, is_new] = earliest.try_emplace(each.temporal_position, each.*clock.value);
    if (!is_new) moment->second = std::min(moment->second, each.*clock.value);
  }
  std::vector<double> seconds;
  for (const std::size_t frame : order) seconds.push_back(earliest[facts[frame].temporal_position]);
  const bool rise = std::ranges::is_sorted(seconds) && seconds.front() < seconds.back();
  return rise ? seconds : std::vector<double>();
}

const char* name_of(const Key& key, const char* clock) {
  return key == kTime ? clock : key.name;
}

// Those that come first between two neighbours, in words.
std::string decisive(Facts facts, const std::vector<std::size_t>& order,
                     const std::vector<Key>& keys, const char* clock) {
  std::vector<bool> decides(keys.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto differs = [&](const Key& key) {
      return facts[order[i]].*key.value != facts[order[i - 1]].*key.value;
    };
    const auto first = std::ranges::find_if(keys, differs);
    if (first != keys.end()) decides[static_cast<std::size_t>(first - keys.begin())] = true;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (decides[i]) names.emplace_back(name_of(keys[i], clock));
  return join(names, ", then ");
}

void set_times(Facts facts, const Key& primary, const char* clock, FrameOrder& result) {
  std::vector<double> seconds;
  if (primary == kTemporal) {
    for (const Key& key : {kTime, kTrigger}) {
      if (seconds.empty()) seconds = moments_by(facts, result.order, key);
      if (!seconds.empty() && result.basis.times.empty()) result.basis.times = name_of(key, clock);
    }
    if (seconds.empty()) return;
  } else {
    for (const std::size_t frame : result.order) seconds.push_back(facts[frame].*primary.value);
    result.basis.times = name_of(primary, clock);
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) result.seconds[i] = seconds[i] - seconds.front();
}

}  // namespace

FrameOrder order_frames(Facts facts, bool one_stack, const char* clock) {
  const Key* const primary = choose(facts, Judge(facts, one_stack));
  std::vector<Key> keys;
  if (primary != nullptr) keys.push_back(*primary);
  keys.insert(keys.end(), {kPosition, kTime, kTrigger, kNumber});
  std::erase_if(keys, [&](const Key& key) { return !all_stated(facts, key); });
  FrameOrder result;
  result.order.resize(facts.size());
  std::iota(result.order.begin(), result.order.end(), std::size_t{0});
  std::ranges::stable_sort(result.order, [&](std::size_t a, std::size_t b) {
    for (const Key& key : keys)
      if (facts[a].*key.value != facts[b].*key.value)
        return facts[a].*key.value < facts[b].*key.value;
    return false;
  });
  result.basis.order = decisive(facts, result.order, keys, clock);
  result.basis.unusual = primary != nullptr && (*primary == kTemporal || *primary == kTrigger);
  result.seconds.assign(facts.size(), kNotStated);
  if (primary != nullptr) set_times(facts, *primary, clock, result);
  return result;
}

}  // namespace coldframe::frames
