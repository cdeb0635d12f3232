// Discrete-time hazards: an output for each interval of time, the logit of its hazard.
#include <algorithm>
#include <limits>
#include <numeric>

#include "train_temporal/tasks/logistic.h"
#include "train_temporal/tasks/time_kind.h"

namespace coldframe::temporal {
namespace {

double lower_end(const Readout& readout, std::size_t interval) {
  return interval > 0 ? readout.times[interval - 1] : 0;
}

// Calls body(interval, had an event) for each interval that tells something of the exam.
template <class Body>
void for_intervals(double label, const Readout& readout, Body body) {
  const double time = time_of(label);
  for (std::size_t j = 0; j < readout.times.size(); ++j) {
    const double upper = readout.times[j];
    const bool survives =
        has_event(label) ? time > upper : 2 * time >= lower_end(readout, j) + upper;
    if (survives) {
      body(j, false);
      continue;
    }
    if (has_event(label)) body(j, true);
    return;
  }
}

// Gives the share of an interval that lies before the horizon.
double share_before(const Readout& readout, std::size_t interval, double horizon) {
  const double lower = lower_end(readout, interval), upper = readout.times[interval];
  if (horizon >= upper) return 1;
  return std::max((horizon - lower) / (upper - lower), 0.0);
}

// Halves the longest interval.
void add_end(std::vector<double>& ends) {
  std::size_t longest = 0;
  const auto length = [&](std::size_t j) { return ends[j] - (j > 0 ? ends[j - 1] : 0); };
  for (std::size_t j = 1; j < ends.size(); ++j)
    if (length(j) > length(longest)) longest = j;
  ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(longest),
              ends[longest] - length(longest) / 2);
}

// Quantiles of the times, none twice.
std::vector<double> interval_ends(std::vector<double> times, std::size_t intervals) {
  std::ranges::sort(times);
  if (times.empty()) times.push_back(1);
  std::vector<double> different = times, ends;
  different.erase(std::unique(different.begin(), different.end()), different.end());
  while (different.size() < intervals) add_end(different);
  std::size_t next = 0;
  for (std::size_t j = 1; j <= intervals; ++j) {
    const double quantile = times[(j * times.size() + intervals - 1) / intervals - 1];
    const auto place = std::ranges::lower_bound(different, quantile) - different.begin();
    next = std::clamp(static_cast<std::size_t>(place), next, different.size() - 1 - intervals + j);
    ends.push_back(different[next++]);
  }
  return ends;
}

}  // namespace

void set_intervals(Readout& readout, std::span<const double> label, std::size_t intervals) {
  std::vector<double> times;
  for (const double each : label)
    if (has_event(each)) times.push_back(time_of(each));
  readout.times = interval_ends(std::move(times), intervals);
  std::vector<double> reached(intervals, 0.0), events(intervals, 0.0);
  for (const double each : label) {
    for_intervals(each, readout, [&](std::size_t j, bool event) {
      reached[j] += 1;
      events[j] += event;
    });
  }
  const double all = std::accumulate(events.begin(), events.end(), 0.5);  // no share is 0 or 1
  const double rate = all / std::accumulate(reached.begin(), reached.end(), 1.0);
  readout.hazards.clear();
  for (std::size_t j = 0; j < intervals; ++j)
    readout.hazards.push_back(
        std::log((events[j] + 0.5 * rate) / (reached[j] - events[j] + 0.5 * (1 - rate))));
}

double hazards_loss(std::span<const double> z, double label, const Readout& readout, double total,
                    float* gradient) {
  double loss = 0;
  if (gradient != nullptr) std::fill_n(gradient, z.size(), 0.0f);
  for_intervals(label, readout, [&](std::size_t j, bool event) {
    const double logit = z[j] + readout.hazards[j];
    loss += softplus(event ? -logit : logit);
    if (gradient != nullptr)
      gradient[j] = static_cast<float>((logistic(logit) - (event ? 1 : 0)) / total);
  });
  return loss;
}

std::vector<double> interval_labels(double label, const Readout& readout) {
  std::vector<double> labels(readout.times.size(), std::numeric_limits<double>::quiet_NaN());
  for_intervals(label, readout, [&](std::size_t j, bool event) { labels[j] = event; });
  return labels;
}

std::vector<double> interval_shares(const Target& target, const Readout& readout) {
  const std::size_t intervals = readout.times.size();
  std::vector<double> shares;
  for (std::size_t j = 0; j < intervals; ++j)
    shares.push_back(static_cast<double>(intervals - j) / static_cast<double>(intervals));
  for (const double horizon : target.horizons)
    for (std::size_t j = 0; j < intervals; ++j) shares.push_back(share_before(readout, j, horizon));
  return shares;
}

namespace {

void add_hazard_scores(std::vector<double>& scores, std::span<const double> z,
                       const Readout& readout, const std::vector<double>& shares) {
  std::vector<double> hazards;
  for (std::size_t j = 0; j < z.size(); ++j) hazards.push_back(softplus(z[j] + readout.hazards[j]));
  for (std::size_t from = 0; from < shares.size(); from += z.size()) {
    const double sum = std::inner_product(hazards.begin(), hazards.end(), &shares[from], 0.0);
    scores.push_back(from == 0 ? sum : std::exp(-sum));
  }
}

class HazardsLoss : public RowLoss {
 public:
  explicit HazardsLoss(Readout readout) : readout_(std::move(readout)) {}

  double weight(double) const override { return 1; }
  double operator()(std::span<const double> z, double label, double total,
                    float* gradient) const override {
    return hazards_loss(z, label, readout_, total, gradient);
  }

 private:
  Readout readout_;
};

class HazardsKind : public TimeKind {
 public:
  constexpr HazardsKind() : TimeKind(Task::kHazards, "hazards") {}

  bool has_intervals() const override { return true; }
  std::size_t outputs(const Target& target) const override { return target.intervals; }
  std::vector<double> scores_of(const Target& target, const Readout& readout,
                                std::span<const double> outputs) const override {
    const std::vector<double> shares = interval_shares(target, readout);
    std::vector<double> scores;
    for (std::size_t row = 0; row < outputs.size(); row += target.intervals)
      add_hazard_scores(scores, outputs.subspan(row, target.intervals), readout, shares);
    return scores;
  }
  Operations::Value explained(Operations& on, const Target& target, const Readout& readout,
                              std::size_t, Operations::Value outputs) const override {
    std::vector<double> of_risk = interval_shares(target, readout);
    of_risk.resize(target.intervals);
    return on.sum(on.softplus(on.plus(outputs, readout.hazards)), of_risk);
  }
  bool is_sound_readout(const Target& target, const Readout& readout) const override {
    return TimeKind::is_sound_readout(target, readout) && readout.times.size() == target.intervals;
  }
  void learn_labels(Readout& readout, const Target& target,
                    std::span<const double> label) const override {
    set_intervals(readout, label, target.intervals);
  }
  std::unique_ptr<const RowLoss> loss(const Target&, LossSettings settings) const override {
    return std::make_unique<HazardsLoss>(std::move(settings.readout));
  }
  RowLabels linear_rows(const Target& target, const Readout& readout) const override {
    return {RowLabels::Loss::kLogistic, target.intervals, {}, readout.hazards};
  }
  void add_row(RowLabels& rows, const Readout& readout, double label) const override {
    for (const double event : interval_labels(label, readout)) rows.value.push_back(event);
  }
  std::string explained_output(const Target&, std::size_t) const override { return "risk"; }
};

}  // namespace

const TaskKind& hazards_task() {
  static const HazardsKind kind;
  return kind;
}

}  // namespace coldframe::temporal
