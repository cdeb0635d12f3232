#include "train_temporal/splits/targets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

// The target that a stratum belongs to, and its number there.
std::pair<std::size_t, std::size_t> find_stratum(const std::vector<Labels>& targets,
                                                 std::size_t stratum) {
  std::size_t target = 0;
  while (stratum >= targets[target].strata()) stratum -= targets[target++].strata();
  return {target, stratum};
}

}  // namespace

Targets::Targets(std::vector<Labels> all) : all_(std::move(all)) {
  for (const Labels& labels : all_) {
    if (labels.per_frame == per_frame()) continue;
    const Labels& first = all_.front();
    throw ConfigError(concat("'", (per_frame() ? first : labels).name, "' has a value per frame, '",
                             (per_frame() ? labels : first).name,
                             "' one per exam; train them in two runs"));
  }
}

std::string Targets::names() const {
  const std::vector<Target> targets = list();
  return names_of(targets);
}

bool Targets::labeled(std::size_t exam) const {
  return std::ranges::any_of(all_,
                             [&](const Labels& one) { return one.value[exam] != kUnlabeled; });
}

std::vector<std::size_t> Targets::labeled_exams() const {
  std::vector<std::size_t> exams;
  for (std::size_t exam = 0; exam < this->exams(); ++exam) {
    if (labeled(exam)) exams.push_back(exam);
  }
  return exams;
}

void Targets::mask(std::size_t exam) {
  for (Labels& labels : all_) labels.mask(exam);
}

std::size_t Targets::rows(const std::vector<std::size_t>& exams) const {
  std::size_t sum = 0;
  for (std::size_t exam : exams) sum += rows(exam);
  return sum;
}

std::size_t Targets::outputs() const {
  return first_output(all_.size());
}

std::size_t Targets::first_output(std::size_t target) const {
  return temporal::first_output(all_, target);
}

std::size_t Targets::strata() const {
  std::size_t sum = 0;
  for (const Labels& labels : all_) sum += labels.strata();
  return sum;
}

std::vector<std::size_t> Targets::count_strata(std::size_t exam) const {
  std::vector<std::size_t> count(strata(), 0);
  std::span<std::size_t> rest(count);
  for (const Labels& labels : all_) {
    labels.count_strata(exam, rest.first(labels.strata()));
    rest = rest.subspan(labels.strata());
  }
  return count;
}

std::string Targets::stratum_name(std::size_t stratum) const {
  const auto [target, number] = find_stratum(all_, stratum);
  const Labels& labels = all_[target];
  const std::string name = labels.kind().stratum_name(labels, number, labels.bins);
  return all_.size() == 1 ? concat("'", name, "'") : concat("'", name, "' of '", labels.name, "'");
}

bool Targets::is_class(std::size_t stratum) const {
  const auto [target, number] = find_stratum(all_, stratum);
  return all_[target].kind().is_class(number);
}

ScoredExams scored_rows(const Labels& labels, const std::vector<std::size_t>& exams,
                        std::span<const double> scores, std::span<const int> decision) {
  ScoredExams result;
  result.width = labels.scores();
  result.scale = labels.scale();
  result.horizons = labels.horizons;
  result.per_frame = labels.per_frame;
  std::size_t next = 0;
  for (std::size_t exam : exams) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row, ++next) {
      const double label = labels.at(exam, row);
      if (std::isnan(label)) continue;
      const auto own = scores.subspan(next * result.width, result.width);
      result.predicted.insert(result.predicted.end(), own.begin(), own.end());
      labels.kind().add_label(result, label);
      result.decision.push_back(decision[next]);
      if (labels.per_frame) result.frame.push_back({exam, row});
    }
  }
  return result;
}

Readout readout_of(const Labels& labels, const std::vector<std::size_t>& train) {
  Readout readout;
  std::vector<double> known;
  for (std::size_t exam : train) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row)
      if (!std::isnan(labels.at(exam, row))) known.push_back(labels.at(exam, row));
  }
  labels.kind().learn_labels(readout, labels, known);
  return readout;
}

}  // namespace coldframe::temporal
