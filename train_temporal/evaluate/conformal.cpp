#include "train_temporal/evaluate/conformal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "common/text/text.h"

namespace coldframe::temporal {

namespace {

// Of sums of weights 1/n.
constexpr double kWeightRounding = 1e-9;

bool suffices(double weight, double needed) {
  return weight >= needed - kWeightRounding;
}

// The smallest value up to which weights sum to `needed`; infinite if they do not.
double weighted_quantile(std::vector<std::pair<double, double>> values_and_weights, double needed) {
  std::ranges::sort(values_and_weights);
  double sum = 0;
  for (const auto& [value, weight] : values_and_weights)
    if (suffices(sum += weight, needed)) return value;
  return std::numeric_limits<double>::infinity();
}

double unlikeness(const ScoredExams& exams, std::size_t exam, std::size_t of_class) {
  return exams.scale == Scale::kNumber ? std::abs(exams.score(exam, 0) - exams.number[exam])
                                       : 1 - exams.score(exam, of_class);
}

std::size_t true_class(const ScoredExams& exams, std::size_t exam) {
  return static_cast<std::size_t>(exams.label[exam]);
}

}  // namespace

std::vector<HeldOutScore> held_out_scores(std::span<const FoldScores> folds) {
  std::vector<HeldOutScore> scores;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    const ScoredExams& exams = folds[f].exams;
    for (std::size_t i = 0; i < exams.size(); ++i) {
      const std::size_t truth = true_class(exams, i);
      scores.push_back({f, folds[f].patient[i], truth, unlikeness(exams, i, truth)});
    }
  }
  return scores;
}

ConformalSets::ConformalSets(std::span<const HeldOutScore> scores, std::size_t classes,
                             double level)
    : level_(level), classes_(std::max<std::size_t>(classes, 1)) {
  std::vector<std::map<std::size_t, double>> exams_of(classes_.size());  // each patient
  for (const HeldOutScore& one : scores) ++exams_of[one.of_class][one.patient];
  for (const HeldOutScore& one : scores)
    classes_[one.of_class].scores.push_back(
        {one.score, 1 / exams_of[one.of_class][one.patient], one.fold});
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    classes_[c].patients = exams_of[c].size();
    classes_[c].needed = level * static_cast<double>(exams_of[c].size() + 1);
  }
}

std::optional<TooFewPatients> ConformalSets::too_few() const {
  const auto fewest = std::ranges::min_element(classes_, {}, &OfClass::patients);
  if (suffices(static_cast<double>(fewest->patients), fewest->needed)) return {};
  return TooFewPatients{
      static_cast<std::size_t>(fewest - classes_.begin()), fewest->patients,
      static_cast<std::size_t>(std::ceil(level_ / (1 - level_) - kWeightRounding))};
}

double ConformalSets::quantile(std::size_t of_class) const {
  std::vector<std::pair<double, double>> scores;
  for (const Weighted& one : classes_[of_class].scores) scores.emplace_back(one.score, one.weight);
  return weighted_quantile(std::move(scores), classes_[of_class].needed);
}

bool ConformalSets::holds(std::size_t of_class, std::span<const double> score) const {
  double better = 0;  // held-out exams that suit the class better
  for (const Weighted& one : classes_[of_class].scores)
    if (one.score < score[one.fold]) better += one.weight;
  return !suffices(better, classes_[of_class].needed);
}

std::pair<double, double> ConformalSets::interval(std::span<const double> prediction) const {
  std::vector<std::pair<double, double>> below, above;
  for (const Weighted& one : classes_.front().scores) {
    below.emplace_back(one.score - prediction[one.fold], one.weight);
    above.emplace_back(prediction[one.fold] + one.score, one.weight);
  }
  const double needed = classes_.front().needed;
  return {-weighted_quantile(std::move(below), needed),
          weighted_quantile(std::move(above), needed)};
}

namespace {

// The set of a held-out exam.
struct TriedSet {
  std::size_t fold = 0, exam = 0, patient = 0, truth = 0;
  double held = 0, size = 0;
};

void try_fold(const FoldScores& fold, std::size_t number, const ConformalSets& sets,
              std::size_t classes, std::vector<TriedSet>& tried) {
  std::vector<double> most;
  for (std::size_t c = 0; c < std::max<std::size_t>(classes, 1); ++c)
    most.push_back(sets.quantile(c));
  const ScoredExams& exams = fold.exams;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const std::size_t truth = true_class(exams, i);
    TriedSet& one = tried.emplace_back();
    one = {number, exams.frame.empty() ? i : exams.frame[i].exam, fold.patient[i], truth};
    one.held = unlikeness(exams, i, truth) <= most[truth];
    one.size = classes == 0 ? 2 * most.front() : 0;
    for (std::size_t c = 0; c < classes; ++c) one.size += unlikeness(exams, i, c) <= most[c];
  }
}

Estimate share_of_patients(const std::vector<double>& held, double level) {
  const auto n = static_cast<double>(held.size());
  double mean = 0, squares = 0;
  for (const double share : held) mean += share / n;
  for (const double share : held) squares += (share - mean) * (share - mean);
  Estimate result{MetricValue::of(mean), {}, {}};
  const std::size_t least = metric_named("sensitivity")->min_units;
  if (held.size() < least) {
    result.low = result.high =
        MetricValue::none(too_small_a_sample(held.size(), /*are_pairs=*/false, least));
    return result;
  }
  Spread spread{squares / (n - 1) / n, n - 1, held.size()};
  spread.trials = n;
  spread.freedom_of_variance = n - 1;
  const Bounds bounds = share_bounds(mean, spread, level);
  result.low = bounds.low;
  result.high = bounds.high;
  return result;
}

template <class Takes>
SetFigures figures_of_sets(const std::vector<TriedSet>& tried, double level, const Takes& takes) {
  struct OfPatient {
    double sets = 0, held = 0, size = 0;
  };
  std::map<std::size_t, OfPatient> patients;
  std::set<std::size_t> exams;
  for (const TriedSet& one : tried) {
    if (!takes(one)) continue;
    exams.insert(one.exam);
    OfPatient& patient = patients[one.patient];
    patient.sets += 1;
    patient.held += one.held;
    patient.size += one.size;
  }
  SetFigures figures{exams.size(), patients.size(), {}, 0};
  figures.coverage.value = MetricValue::none("held out nowhere");
  if (patients.empty()) return figures;
  std::vector<double> held;
  for (const auto& [number, patient] : patients) {
    held.push_back(patient.held / patient.sets);
    figures.size += patient.size / patient.sets / static_cast<double>(patients.size());
  }
  figures.coverage = share_of_patients(held, level);
  return figures;
}

}  // namespace

SetCoverage coverage_of_sets(std::span<const FoldScores> folds, std::size_t classes, double level,
                             double interval_level, std::span<const SubgroupColumn> columns) {
  SetCoverage result{level};
  std::vector<TriedSet> tried;
  const std::vector<HeldOutScore> scores = held_out_scores(folds);
  for (std::size_t f = 0; f < folds.size(); ++f) {
    std::vector<HeldOutScore> others;
    std::ranges::copy_if(scores, std::back_inserter(others), [&](const HeldOutScore& one) {
      return one.fold != f && folds[one.fold].repeat == folds[f].repeat;
    });
    const ConformalSets sets(others, classes, level);
    const auto lacking = sets.too_few();
    if (lacking && (!result.too_few || lacking->patients < result.too_few->patients))
      result.too_few = lacking;
    if (!result.too_few) try_fold(folds[f], f, sets, classes, tried);
  }
  if (result.too_few) return result;
  const auto figures = [&](const auto& takes) {
    return figures_of_sets(tried, interval_level, takes);
  };
  const auto by_fold = [&](const auto& takes) {
    SetFigures of = figures(takes);
    for (std::size_t f = 0; f < folds.size(); ++f)
      of.per_fold.push_back(
          figures([&](const TriedSet& one) { return one.fold == f && takes(one); }).coverage.value);
    return of;
  };
  result.all = by_fold([](const TriedSet&) { return true; });
  for (std::size_t c = 0; c < classes; ++c)
    result.of_class.push_back(by_fold([&](const TriedSet& one) { return one.truth == c; }));
  for (const SubgroupColumn& column : columns) {
    auto& groups = result.of_group.emplace_back();
    for (std::size_t v = 0; v < column.values.size(); ++v)
      groups.push_back(
          figures([&](const TriedSet& one) { return column.value_of[one.exam] == v; }));
  }
  return result;
}

}  // namespace coldframe::temporal
