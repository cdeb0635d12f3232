#include "train_temporal/evaluate/confounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"

namespace coldframe::temporal {

namespace {

constexpr std::size_t kMaxFolds = 5;
constexpr std::size_t kBins = 5;         // of a number
constexpr std::size_t kFewNumbers = 5;   // of no more different ones each is a category
constexpr std::size_t kMinPatients = 5;  // of whom a value is shown
constexpr double kError = 0.05;          // shared by all traits that are looked at
constexpr int kMissing = -1;             // the group of exams without a value

std::size_t width_of(const ConfoundLabels& labels) {
  return labels.classes > 0 ? labels.classes : 1;
}

// One column per class, 0 or 1; or the number.
double truth(const ConfoundLabels& labels, std::size_t exam, std::size_t column) {
  if (labels.classes == 0) return labels.number[exam];
  return labels.label[exam] == static_cast<int>(column) ? 1 : 0;
}

std::map<std::size_t, std::vector<std::size_t>> exams_by_patient(const ConfoundLabels& labels) {
  std::map<std::size_t, std::vector<std::size_t>> exams;
  for (std::size_t i = 0; i < labels.patient.size(); ++i) exams[labels.patient[i]].push_back(i);
  return exams;
}

// The fold of each exam.
std::vector<std::size_t> deal_folds(const ConfoundLabels& labels) {
  struct Dealt {
    double of = 0;  // the class of most exams, or the mean number
    const std::vector<std::size_t>* exams = nullptr;
  };
  const auto by_patient = exams_by_patient(labels);
  std::vector<Dealt> patients;
  for (const auto& [patient, exams] : by_patient) {
    std::vector<double> sums(width_of(labels));
    for (const std::size_t exam : exams)
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += truth(labels, exam, c);
    const double most = static_cast<double>(std::ranges::max_element(sums) - sums.begin());
    const double mean = sums.front() / static_cast<double>(exams.size());
    patients.push_back({labels.classes > 0 ? most : mean, &exams});
  }
  std::ranges::stable_sort(patients, {}, &Dealt::of);
  std::size_t folds = kMaxFolds;
  for (std::size_t c = 0; c < labels.classes; ++c) {
    const auto of_class = std::ranges::count(patients, static_cast<double>(c), &Dealt::of);
    folds = std::clamp<std::size_t>(static_cast<std::size_t>(of_class), 2, folds);
  }
  std::vector<std::size_t> fold(labels.patient.size());
  for (std::size_t p = 0; p < patients.size(); ++p)
    for (const std::size_t exam : *patients[p].exams) fold[exam] = p % folds;
  return fold;
}

// The trait as numbers; nothing if a value is none, or if there are few different ones.
std::vector<std::optional<double>> numbers_of(const ExamTrait& trait) {
  std::vector<std::optional<double>> numbers;
  std::set<double> different;
  for (const std::string& value : trait.values) {
    numbers.emplace_back();
    if (value.empty()) continue;
    double number = 0;
    if (!parse_double(value, number)) {
      const auto time = parse_timestamp(value);
      if (!time) return {};
      number = time->seconds;
    }
    different.insert(number);
    numbers.back() = number;
  }
  if (different.size() <= kFewNumbers) return {};
  return numbers;
}

// The groups of exams whose rates are learnt: one for each value, or fifths of numbers.
class Groups {
 public:
  explicit Groups(const ExamTrait& trait) : numbers_(numbers_of(trait)) {
    std::map<std::string, int> number;
    for (const std::string& value : trait.values)
      values_.push_back(value.empty() ? kMissing
                                      : number.emplace(value, number.size()).first->second);
  }

  bool numeric() const { return !numbers_.empty(); }
  const std::vector<int>& values() const { return values_; }

  // The group of each exam; bins are of the exams for which `trains`.
  std::vector<int> learnt(const std::vector<bool>& trains) const {
    if (!numeric()) return values_;
    std::vector<double> known, edges;
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      if (trains[i] && numbers_[i]) known.push_back(*numbers_[i]);
    std::ranges::sort(known);
    for (std::size_t b = 1; b < kBins && !known.empty(); ++b)
      edges.push_back(quantile(known, static_cast<double>(b) / kBins));
    std::vector<int> groups;
    for (const auto& number : numbers_)
      groups.push_back(
          number ? static_cast<int>(std::ranges::upper_bound(edges, *number) - edges.begin())
                 : kMissing);
    return groups;
  }

 private:
  std::vector<std::optional<double>> numbers_;  // empty: categories
  std::vector<int> values_;
};

// Rates of the classes, or the mean number, of a group of exams.
class Rates {
 public:
  Rates(const ConfoundLabels& labels, const std::vector<int>& group,
        const std::vector<double>& weight, const std::vector<bool>& trains)
      : average_(width_of(labels)) {
    double all = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (!trains[i]) continue;
      all += weight[i];
      Sum& sum =
          sums_.try_emplace(group[i], Sum{0, std::vector<double>(average_.size())}).first->second;
      sum.weight += weight[i];
      for (std::size_t c = 0; c < average_.size(); ++c) {
        sum.truth[c] += weight[i] * truth(labels, i, c);
        average_[c] += weight[i] * truth(labels, i, c);
      }
    }
    for (double& value : average_) value /= all;
  }

  double of(int group, std::size_t column) const {
    const auto found = sums_.find(group);
    if (found == sums_.end()) return average_[column];
    return (found->second.truth[column] + average_[column]) / (found->second.weight + 1);
  }

 private:
  struct Sum {
    double weight = 0;
    std::vector<double> truth;
  };
  std::map<int, Sum> sums_;
  std::vector<double> average_;
};

FoldScores held_out(const ConfoundLabels& labels, const std::vector<bool>& trains,
                    const std::vector<int>& group, const Rates& rates) {
  FoldScores scores;
  ScoredExams& exams = scores.exams;
  exams.width = width_of(labels);
  exams.scale = labels.classes > 0 ? Scale::kNominal : Scale::kNumber;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (trains[i]) continue;
    for (std::size_t c = 0; c < exams.width; ++c) exams.predicted.push_back(rates.of(group[i], c));
    exams.label.push_back(labels.label[i]);
    if (labels.classes == 0) exams.number.push_back(labels.number[i]);
    scores.patient.push_back(labels.patient[i]);
  }
  exams.decision.assign(exams.label.size(), 0);
  return scores;
}

std::vector<FoldScores> foretold(const ConfoundLabels& labels, const Groups& trait,
                                 const std::vector<std::size_t>& fold) {
  std::vector<double> weight(labels.patient.size());  // of a patient's exams, 1 together
  for (const auto& [patient, exams] : exams_by_patient(labels))
    for (const std::size_t exam : exams) weight[exam] = 1.0 / static_cast<double>(exams.size());
  std::vector<FoldScores> folds;
  const std::size_t count = *std::ranges::max_element(fold) + 1;
  for (std::size_t f = 0; f < count; ++f) {
    std::vector<bool> trains;
    for (const std::size_t of : fold) trains.push_back(of != f);
    const std::vector<int> group = trait.learnt(trains);
    folds.push_back(held_out(labels, trains, group, Rates(labels, group, weight, trains)));
    folds.back().fold = f;
  }
  return folds;
}

// The classes and patients of the exams with one value.
struct ValueExams {
  std::size_t exams = 0;
  std::set<int> classes;
  std::set<std::size_t> patients;
};

std::map<int, ValueExams> exams_by_value(const ConfoundLabels& labels, const Groups& trait) {
  std::map<int, ValueExams> by_value;
  for (std::size_t i = 0; i < trait.values().size(); ++i) {
    ValueExams& value = by_value[trait.values()[i]];
    ++value.exams;
    value.classes.insert(labels.label[i]);
    value.patients.insert(labels.patient[i]);
  }
  return by_value;
}

// A value that patients share can tell of another patient.
bool can_predict(const ConfoundLabels& labels, const Groups& trait) {
  const auto by_value = exams_by_value(labels, trait);
  return by_value.size() > 1 &&
         (trait.numeric() || std::ranges::any_of(by_value, [](const auto& value) {
            return value.second.patients.size() > 1;
          }));
}

void look_at_values(Confound& confound, const ConfoundLabels& labels, const ExamTrait& trait,
                    const Groups& groups) {
  if (labels.classes == 0 || confound.numeric) return;
  const auto by_value = exams_by_value(labels, groups);
  confound.tells_class = std::ranges::all_of(
      by_value, [](const auto& value) { return value.second.classes.size() == 1; });
  for (const auto& [number, value] : by_value) {
    if (number == kMissing || value.classes.size() > 1 || value.patients.size() < kMinPatients ||
        value.exams <= confound.one_class.exams)
      continue;
    const int of_class = *value.classes.begin();
    const auto of = std::ranges::find(groups.values(), number) - groups.values().begin();
    confound.one_class = {trait.values[static_cast<std::size_t>(of)], of_class, value.exams,
                          static_cast<std::size_t>(std::ranges::count(labels.label, of_class)),
                          value.patients.size()};
  }
}

// The mean over the folds that have one, above chance. A quick look: a claim needs several standard
// errors, none of which is below half of 1 / √N, so that most traits need no interval.
bool may_be_above_chance(Metric metric, const std::vector<FoldScores>& folds) {
  double sum = 0, defined = 0, exams = 0;
  for (const FoldScores& fold : folds) {
    const MetricValue figure = compute_metric(metric, fold.exams);
    exams += static_cast<double>(fold.exams.size());
    if (!figure.defined()) continue;
    sum += figure.value - metric->chance;
    ++defined;
  }
  return sum > 0.5 * defined / std::sqrt(exams);
}

// Folds share training exams, so that a pattern of noise helps several of them: their mean varies
// more than their exams show (Nadeau and Bengio 2003, Inference for the generalization error).
bool excludes_chance(const Estimate& claim, double chance, std::size_t folds) {
  if (!claim.low.defined()) return false;
  const auto count = static_cast<double>(folds);
  const double wider = std::sqrt(1 + count / (count - 1));
  return claim.value.value - chance > wider * (claim.value.value - claim.low.value);
}

// Where two patients at least have each of two classes, or there are two numbers.
bool can_be_predicted(const ConfoundLabels& labels) {
  if (labels.classes == 0)
    return std::set<double>(labels.number.begin(), labels.number.end()).size() > 1;
  std::map<int, std::set<std::size_t>> patients;
  for (std::size_t i = 0; i < labels.label.size(); ++i)
    patients[labels.label[i]].insert(labels.patient[i]);
  return std::ranges::count_if(patients, [](const auto& one) { return one.second.size() > 1; }) > 1;
}

}  // namespace

std::vector<FoldScores> foretold(const ConfoundLabels& labels, const ExamTrait& trait) {
  return foretold(labels, Groups(trait), deal_folds(labels));
}

Confounds find_confounds(const ConfoundLabels& labels, const std::vector<ExamTrait>& traits,
                         double level) {
  Confounds result;
  result.metric = metric_named(labels.classes > 0 ? "auroc" : "spearman");
  if (!can_be_predicted(labels)) return result;
  const std::vector<std::size_t> fold = deal_folds(labels);
  std::vector<std::pair<const ExamTrait*, Groups>> looked_at;
  for (const ExamTrait& trait : traits) {
    Groups groups(trait);
    if (!can_predict(labels, groups)) continue;
    ++(trait.of_file ? result.properties : result.columns);
    looked_at.emplace_back(&trait, std::move(groups));
  }
  if (looked_at.empty()) return result;
  result.claim_level = std::max(kClaimLevel, 1 - kError / static_cast<double>(result.looked_at()));
  for (const auto& [trait, groups] : looked_at) {
    const std::vector<FoldScores> folds = foretold(labels, groups, fold);
    if (!may_be_above_chance(result.metric, folds)) continue;
    MetricTable table = leave_out_patients(folds, level, {&result.metric, 1});
    const Estimate figure = summarize(table).front().primary();
    table.level = result.claim_level;
    const Estimate claim = summarize(table).front().primary();
    if (!excludes_chance(claim, result.metric->chance, folds.size())) continue;
    Confound& found =
        result.found.emplace_back(Confound{trait->name, trait->of_file, groups.numeric(), figure});
    look_at_values(found, labels, *trait, groups);
  }
  std::ranges::stable_sort(result.found, std::greater{},
                           [](const Confound& one) { return one.figure.value.value; });
  return result;
}

}  // namespace coldframe::temporal
