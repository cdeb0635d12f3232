// Cox's proportional hazards: one output, the logarithm of the relative hazard.
#include "train_temporal/labels/cox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/text/text.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

namespace {

// The exams with one time; sums are over all that are followed as long or longer.
struct RiskSet {
  double time = 0;
  std::size_t first = 0, behind = 0;  // indices into `order`
  double events = 0, of_events = 0;   // how many, and the sum of their exp(z)
  double at_risk = 0;                 // the sum of exp(z)
};

struct RiskSets {
  std::vector<std::size_t> order;  // of exams, the latest time first
  std::vector<double> weight;      // exp(z − shift), [n]
  double shift = 0;
  std::vector<RiskSet> sets;  // the latest first
};

RiskSets risk_sets(std::span<const double> z, std::span<const double> label) {
  RiskSets all;
  all.order.resize(z.size());
  std::iota(all.order.begin(), all.order.end(), std::size_t{0});
  std::ranges::stable_sort(all.order, std::greater{},
                           [&](std::size_t i) { return time_of(label[i]); });
  if (!z.empty()) all.shift = *std::ranges::max_element(z);
  for (const double each : z) all.weight.push_back(std::exp(each - all.shift));
  double at_risk = 0;
  for (std::size_t k = 0; k < all.order.size(); ++k) {
    const std::size_t exam = all.order[k];
    const double time = time_of(label[exam]);
    if (all.sets.empty() || all.sets.back().time != time) all.sets.push_back({time, k, k});
    RiskSet& set = all.sets.back();
    set.behind = k + 1;
    set.at_risk = at_risk += all.weight[exam];
    if (!has_event(label[exam])) continue;
    set.events += 1;
    set.of_events += all.weight[exam];
  }
  return all;
}

// Efron: of d events at a time each leaves the risk set by a share l / d before the next one.
struct EfronSums {
  double logarithms = 0, inverses = 0, shares = 0;
};

EfronSums efron_sums(const RiskSet& set) {
  EfronSums sums;
  for (double l = 0; l < set.events; ++l) {
    const double left = set.at_risk - l / set.events * set.of_events;
    sums.logarithms += std::log(left);
    sums.inverses += 1 / left;
    sums.shares += l / set.events / left;
  }
  return sums;
}

}  // namespace

BatchLoss cox_loss(std::span<const double> z, std::span<const double> label) {
  const RiskSets all = risk_sets(z, label);
  BatchLoss result{std::vector<double>(z.size()), std::vector<double>(z.size())};
  double inverses = 0;  // of all events up to the time
  for (std::size_t s = all.sets.size(); s-- > 0;) {
    const RiskSet& set = all.sets[s];
    const EfronSums sums = efron_sums(set);
    inverses += sums.inverses;
    for (std::size_t k = set.first; k < set.behind; ++k) {
      const std::size_t exam = all.order[k];
      result.gradient[exam] = all.weight[exam] * inverses;
      if (!has_event(label[exam])) continue;
      result.gradient[exam] -= all.weight[exam] * sums.shares + 1;
      result.loss[exam] = sums.logarithms / set.events + all.shift - z[exam];
    }
  }
  return result;
}

bool has_comparable_pair(std::span<const double> label) {
  double first_event = std::numeric_limits<double>::infinity();
  for (const double each : label)
    if (has_event(each)) first_event = std::min(first_event, time_of(each));
  return std::ranges::any_of(label, [&](double each) {
    return time_of(each) > first_event || (time_of(each) == first_event && !has_event(each));
  });
}

void fit_baseline(Readout& readout, std::span<const double> z, std::span<const double> label) {
  readout.times.clear();
  readout.hazards.clear();
  if (z.empty()) return;
  readout.mean = -std::accumulate(z.begin(), z.end(), 0.0) / static_cast<double>(z.size());
  const RiskSets all = risk_sets(z, label);
  const double unit = std::exp(all.shift + readout.mean);  // weights are of exp(z − shift)
  double hazard = 0;
  for (std::size_t s = all.sets.size(); s-- > 0;) {
    const RiskSet& set = all.sets[s];
    if (set.events == 0) continue;
    hazard += set.events / (set.at_risk * unit);
    readout.times.push_back(set.time);
    readout.hazards.push_back(hazard);
  }
}

std::vector<double> baseline_at(const Target& target, const Readout& readout) {
  std::vector<double> hazards;
  for (const double horizon : target.horizons) {
    const auto steps = std::ranges::upper_bound(readout.times, horizon) - readout.times.begin();
    hazards.push_back(steps > 0 ? readout.hazards[static_cast<std::size_t>(steps) - 1] : 0);
  }
  return hazards;
}

namespace {

void add_cox_scores(std::vector<double>& scores, double risk, const std::vector<double>& baseline) {
  scores.push_back(risk);
  for (const double hazard : baseline)
    scores.push_back(hazard > 0 ? std::exp(-hazard * std::exp(risk)) : 1);
}

class CoxRows : public RowLoss {
 public:
  double weight(double label) const override { return has_event(label) ? 1 : 0; }
  double operator()(std::span<const double>, double, double, float*) const override { return 0; }
  bool is_of_batch() const override { return true; }
  BatchLoss of_batch(std::span<const double> z, std::span<const double> label) const override {
    return cox_loss(z, label);
  }
};

class CoxKind : public TaskKind {
  using Operations = OutputOperations;

 public:
  constexpr CoxKind() : TaskKind(Task::kCox, "cox", Scale::kTime) {}

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

  std::size_t outputs(const Target&) const override { return 1; }
  std::vector<double> scores_of(const Target& target, const Readout& readout,
                                std::span<const double> outputs) const override {
    const std::vector<double> baseline = baseline_at(target, readout);
    std::vector<double> scores;
    for (const double output : outputs)
      add_cox_scores(scores, readout.mean + readout.deviation * output, baseline);
    return scores;
  }
  Operations::Value explained(Operations&, const Target&, const Readout&, std::size_t,
                              Operations::Value outputs) const override {
    return outputs;
  }
  bool is_blind(std::span<const double> label) const override {
    return !has_comparable_pair(label);
  }
  void learn_outputs(Readout& readout, const LabelledOutputs& training,
                     const LabelledOutputs&) const override {
    fit_baseline(readout, training.outputs, training.label);
  }
  std::unique_ptr<const RowLoss> loss(const Target&, LossSettings) const override {
    return std::make_unique<CoxRows>();
  }
  RowLabels linear_rows(const Target&, const Readout&) const override {
    return {RowLabels::Loss::kCox, 1};
  }
  std::string explained_output(const Target&, std::size_t) const override {
    return "log relative hazard";
  }
};

}  // namespace

const TaskKind& cox_task() {
  static const CoxKind kind;
  return kind;
}

}  // namespace coldframe::temporal
