// What tasks of times to an event have in common.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/text/text.h"
#include "train_temporal/tasks/survival.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {

class TimeKind : public TaskKind {
 public:
  constexpr TimeKind(Task of, const char* called) : TaskKind(of, called, Scale::kTime) {}

  std::vector<std::string> label_columns() const override { return {"label", "event"}; }
  std::vector<std::string> label_fields(const Target&, double label) const override {
    if (std::isnan(label)) return {"", ""};
    return {exact(time_of(label)), has_event(label) ? "1" : "0"};
  }
  double label_from(const Target&, std::span<const std::string> fields) const override {
    double time = 0;
    return parse_double(fields[0], time) ? survival_label(time, fields[1] == "1") : std::nan("");
  }
  std::string expected_label(const Target&) const override { return "a number"; }
  // "12+" where an exam was censored at 12.
  std::string label_text(const Target&, double label) const override {
    if (std::isnan(label)) return "";
    return exact(time_of(label)) + (has_event(label) ? "" : "+");
  }
  void add_label(ScoredExams& exams, double label) const override {
    exams.label.push_back(has_event(label));
    exams.number.push_back(time_of(label));
  }
  std::string stratum_name(const Target&, std::size_t stratum, std::size_t) const override {
    return stratum == 1 ? "event" : "censored";
  }
  bool is_class(std::size_t stratum) const override { return stratum == 1; }
  std::vector<std::string> group_names(const Target&) const override {
    return {"without an event", "with an event"};
  }
  bool is_sound(const Target& target) const override {
    const auto follows = [](double a, double b) { return !(a < b && std::isfinite(b)); };
    const std::vector<double>& horizons = target.horizons;
    return target.classes.empty() && !target.event.empty() && !horizons.empty() &&
           horizons.front() > 0 && std::isfinite(horizons.front()) &&
           target.intervals <= kIntervalLimit &&
           std::ranges::adjacent_find(horizons, follows) == horizons.end();
  }
  // Times ascend, and hazards belong to them.
  bool is_sound_readout(const Target&, const Readout& readout) const override {
    const auto finite = [](double x) { return std::isfinite(x); };
    return readout.times.size() == readout.hazards.size() &&
           std::ranges::is_sorted(readout.times) && std::ranges::all_of(readout.times, finite) &&
           std::ranges::all_of(readout.hazards, finite);
  }
  std::size_t scores(const Target& target) const override { return 1 + target.horizons.size(); }
  std::vector<std::string> score_names(const Target& target) const override {
    std::vector<std::string> names = {"risk"};
    for (const double horizon : target.horizons) names.push_back("survival_" + exact(horizon));
    return names;
  }
  std::vector<std::string> score_columns(const Target& target) const override {
    return score_names(target);
  }
  std::string unmixable(const Target&) const override {
    return "there is no time to an event between a censored one and another; leave the option out";
  }
  std::vector<Example> examples(double, std::span<const double> scores, int) const override {
    return {{0, true, scores.front()}, {1, true, -scores.front()}};
  }
  const char* explained_exams() const override { return "The highest and the lowest risk"; }
  std::string explained_title(const Target& target, double label, std::span<const double> scores,
                              int) const override {
    return concat(target.event, has_event(label) ? " after " : " not within ", time_of(label),
                  ", risk ", fixed(scores[0], 2));
  }

 protected:
  using Operations = OutputOperations;
};

}  // namespace coldframe::temporal
