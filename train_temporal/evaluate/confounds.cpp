#include "train_temporal/evaluate/confounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"
#include "common/threads/counter_random.h"

namespace coldframe::temporal {

namespace {

constexpr std::size_t kMaxFolds = 5;
constexpr std::size_t kBins = 5;         // of a number
constexpr std::size_t kFewNumbers = 5;   // of no more different ones each is a category
constexpr std::size_t kMinPatients = 5;  // of whom a value is shown
constexpr double kError = 0.05;          // shared by all traits that are looked at
constexpr std::size_t kMissing = 0;      // the group of exams without a value
// A trait is found if at most one draw predicts as well: (1 + 1) / (draws + 1) is the limit of p.
constexpr std::size_t kMostAsGood = 1;
constexpr std::uint64_t kSeed = 5407;
constexpr double kSameFigure = 1e-9;  // of figures that are equal
constexpr std::size_t kBlocks = 100;  // of patients, at most, for intervals: these take longest

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
    const auto of_class =
        static_cast<std::size_t>(std::ranges::count(patients, static_cast<double>(c), &Dealt::of));
    if (of_class > 1) folds = std::min(of_class, folds);  // nothing is learnt of a single patient
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

// The exams that share a value, or a fifth of the numbers; a number that fills a fifth by itself is
// a group apart. What is not known is a group as well.
struct Groups {
  bool numeric = false;
  std::size_t count = 1;        // with kMissing
  std::vector<std::size_t> of;  // [N]
};

Groups fifths(const std::vector<std::optional<double>>& numbers) {
  std::vector<double> known, edges;
  for (const auto& number : numbers)
    if (number) known.push_back(*number);
  std::ranges::sort(known);
  for (std::size_t b = 1; b < kBins; ++b)
    edges.push_back(quantile(known, static_cast<double>(b) / kBins));
  Groups groups{true, 2 * kBins, {}};
  for (const auto& number : numbers) {
    std::size_t group = kMissing;
    if (number) {
      const auto equal = std::ranges::equal_range(edges, *number);
      group = 1 + static_cast<std::size_t>(equal.end() - edges.begin());
      if (equal.size() > 1) group += kBins - 1;
    }
    groups.of.push_back(group);
  }
  return groups;
}

Groups groups_of(const ExamTrait& trait) {
  if (const auto numbers = numbers_of(trait); !numbers.empty()) return fifths(numbers);
  std::map<std::string, std::size_t> known = {{"", kMissing}};
  Groups groups;
  for (const std::string& value : trait.values)
    groups.of.push_back(known.emplace(value, known.size()).first->second);
  groups.count = known.size();
  return groups;
}

// How well groups predict the labels of held-out folds. What does not depend on the groups is
// computed once, as many draws of groups are asked for.
class Prediction {
 public:
  explicit Prediction(const ConfoundLabels& labels)
      : labels_(labels),
        width_(width_of(labels)),
        fold_(deal_folds(labels)),
        folds_(*std::ranges::max_element(fold_) + 1),
        weight_(fold_.size()) {
    for (const auto& [patient, exams] : exams_by_patient(labels))
      for (const std::size_t exam : exams) weight_[exam] = 1.0 / static_cast<double>(exams.size());
    rank_numbers();
  }

  std::vector<FoldScores> predictions(const Groups& groups) const {
    const Sums sums = add_up(groups);
    std::vector<FoldScores> result;
    for (std::size_t f = 0; f < folds_; ++f)
      result.push_back(held_out(groups, f, rates_for(sums, groups.count, f)));
    return result;
  }

  // The mean over the folds of the AUROC, of several classes that over those that are present; or
  // of Spearman's correlation, which is 0 where all predictions are equal.
  double figure(const Groups& groups) const {
    const Sums sums = add_up(groups);
    double sum = 0, folds = 0;
    for (std::size_t f = 0; f < folds_; ++f) {
      const auto rates = rates_for(sums, groups.count, f);
      const double of_fold = figure_of_fold(sums, rates, f);
      if (std::isnan(of_fold)) continue;
      sum += of_fold;
      ++folds;
    }
    return sum / folds;
  }

 private:
  // Of the exams of each fold and group.
  struct Sums {
    std::vector<double> exams, weight;  // [F, G]
    std::vector<double> truth;          // [F, G, W] weighted
    std::vector<double> place;          // [F, G, W] exams of each class; or ranks of numbers
  };

  // Within the folds.
  void rank_numbers() {
    rank_.assign(labels_.number.size(), 0);
    for (std::size_t f = 0; f < folds_ && labels_.classes == 0; ++f) {
      std::vector<double> numbers;
      for (std::size_t i = 0; i < fold_.size(); ++i)
        if (fold_[i] == f) numbers.push_back(labels_.number[i]);
      const std::vector<double> ranks = midranks(numbers);
      rank_squares_.push_back(std::inner_product(ranks.begin(), ranks.end(), ranks.begin(), 0.0));
      auto next = ranks.begin();
      for (std::size_t i = 0; i < fold_.size(); ++i)
        if (fold_[i] == f) rank_[i] = *next++;
    }
  }

  Sums add_up(const Groups& groups) const {
    const std::size_t cells = folds_ * groups.count;
    Sums sums{std::vector<double>(cells), std::vector<double>(cells),
              std::vector<double>(cells * width_), std::vector<double>(cells * width_)};
    const bool classes = labels_.classes > 0;
    for (std::size_t i = 0; i < fold_.size(); ++i) {
      const std::size_t cell = fold_[i] * groups.count + groups.of[i];
      const std::size_t column =
          cell * width_ + (classes ? static_cast<std::size_t>(labels_.label[i]) : 0);
      ++sums.exams[cell];
      sums.weight[cell] += weight_[i];
      sums.truth[column] += weight_[i] * (classes ? 1 : labels_.number[i]);
      sums.place[column] += classes ? 1 : rank_[i];
    }
    return sums;
  }

  // Of each group among the patients of the other folds: [G, W].
  std::vector<double> rates_for(const Sums& sums, std::size_t groups, std::size_t fold) const {
    std::vector<double> rates(groups * width_), weight(groups), average(width_);
    double all = 0;
    for (std::size_t f = 0; f < folds_; ++f) {
      if (f == fold) continue;
      for (std::size_t g = 0; g < groups; ++g) weight[g] += sums.weight[f * groups + g];
      for (std::size_t k = 0; k < rates.size(); ++k) rates[k] += sums.truth[f * rates.size() + k];
    }
    for (std::size_t g = 0; g < groups; ++g) {
      all += weight[g];
      for (std::size_t c = 0; c < width_; ++c) average[c] += rates[g * width_ + c];
    }
    for (std::size_t k = 0; k < rates.size(); ++k)
      rates[k] = (rates[k] + average[k % width_] / all) / (weight[k / width_] + 1);
    return rates;
  }

  FoldScores held_out(const Groups& groups, std::size_t fold,
                      const std::vector<double>& rates) const {
    FoldScores scores;
    scores.fold = fold;
    ScoredExams& exams = scores.exams;
    exams.width = width_;
    exams.scale = labels_.classes > 0 ? Scale::kNominal : Scale::kNumber;
    for (std::size_t i = 0; i < fold_.size(); ++i) {
      if (fold_[i] != fold) continue;
      for (std::size_t c = 0; c < width_; ++c)
        exams.predicted.push_back(rates[groups.of[i] * width_ + c]);
      exams.label.push_back(labels_.label[i]);
      if (labels_.classes == 0) exams.number.push_back(labels_.number[i]);
      scores.patient.push_back(labels_.patient[i]);
    }
    exams.decision.assign(exams.label.size(), 0);
    return scores;
  }

  // NaN where the fold has one class only, or one number.
  double figure_of_fold(const Sums& sums, const std::vector<double>& rates,
                        std::size_t fold) const {
    double sum = 0, columns = 0;
    for (std::size_t c = width_ == 2 ? 1 : 0; c < width_; ++c) {
      const double figure = figure_of_column(sums, rates, fold, c);
      if (std::isnan(figure)) continue;
      sum += figure;
      ++columns;
    }
    return sum / columns;
  }

  // By midranks, which all exams of a group share.
  double figure_of_column(const Sums& sums, const std::vector<double>& rates, std::size_t fold,
                          std::size_t column) const {
    const std::size_t groups = rates.size() / width_;
    const double* exams = &sums.exams[fold * groups];
    const double* place = &sums.place[fold * rates.size()];
    std::vector<std::size_t> order;
    for (std::size_t g = 0; g < groups; ++g)
      if (exams[g] > 0) order.push_back(g);
    const auto rate = [&](std::size_t g) { return rates[g * width_ + column]; };
    std::ranges::sort(order, {}, rate);
    double below = 0, places = 0, product = 0, squares = 0;
    for (std::size_t a = 0, b = 0; a < order.size(); a = b) {
      double equal = 0, placed = 0;
      for (; b < order.size() && !(rate(order[b]) > rate(order[a])); ++b) {
        equal += exams[order[b]];
        placed += place[order[b] * width_ + column];
      }
      const double midrank = below + (equal + 1) / 2;
      product += midrank * placed;
      squares += equal * midrank * midrank;
      places += placed;
      below += equal;
    }
    const double average = below * (below + 1) * (below + 1) / 4;  // of products of ranks
    if (labels_.classes > 0)
      return (product - places * (places + 1) / 2) / (places * (below - places));
    if (squares - average < kSameFigure) return 0;
    return (product - average) / std::sqrt((squares - average) * (rank_squares_[fold] - average));
  }

  const ConfoundLabels& labels_;
  std::size_t width_;
  std::vector<std::size_t> fold_;  // [N]
  std::size_t folds_;
  std::vector<double> weight_;        // [N] of a patient's exams, 1 together
  std::vector<double> rank_;          // [N] of numbers within the fold
  std::vector<double> rank_squares_;  // [F] summed
};

// The classes and patients of the exams of one group.
struct GroupExams {
  std::size_t exams = 0;
  std::set<int> classes;
  std::set<std::size_t> patients;
};

std::map<std::size_t, GroupExams> exams_by_group(const ConfoundLabels& labels,
                                                 const Groups& groups) {
  std::map<std::size_t, GroupExams> by_group;
  for (std::size_t i = 0; i < groups.of.size(); ++i) {
    GroupExams& group = by_group[groups.of[i]];
    ++group.exams;
    group.classes.insert(labels.label[i]);
    group.patients.insert(labels.patient[i]);
  }
  return by_group;
}

// A group that patients share can tell of another patient.
bool can_predict(const ConfoundLabels& labels, const Groups& groups) {
  const auto by_group = exams_by_group(labels, groups);
  return by_group.size() > 1 && std::ranges::any_of(by_group, [](const auto& group) {
           return group.second.patients.size() > 1;
         });
}

// Of a trait that may be the label in other words: the patients of a value who have its class, the
// patients who have such values, and the correlation with numbers.
constexpr double kNearlyAll = 0.95, kMostPatients = 0.5, kSameOrder = 0.9;

// Rows and columns of groups and classes, either way round: [row][column] patients.
using Crossed = std::map<std::size_t, std::map<std::size_t, double>>;

struct MainColumn {
  std::size_t column = 0;
  double patients = 0;  // of the row
  bool is_nearly_all = false;
};

// The column of most patients of each row.
std::vector<MainColumn> main_columns(const Crossed& crossed) {
  std::vector<MainColumn> result;
  for (const auto& [row, columns] : crossed) {
    const auto most =
        std::ranges::max_element(columns, {}, [](const auto& one) { return one.second; });
    MainColumn& main = result.emplace_back(MainColumn{most->first});
    for (const auto& [column, patients] : columns) main.patients += patients;
    const bool few = main.patients < static_cast<double>(kMinPatients);
    main.is_nearly_all = !few && most->second >= kNearlyAll * main.patients;
  }
  return result;
}

// Half of the patients of each of two classes have a value that tells their class. Of one class
// alone, a frequent one, most values tell it: chance, and no other word for the label.
bool values_tell_classes(const Crossed& classes_of_value) {
  std::map<std::size_t, double> told, all;  // patients of each class
  const std::vector<MainColumn> main = main_columns(classes_of_value);
  std::size_t row = 0;
  for (const auto& [value, classes] : classes_of_value) {
    const MainColumn& of_value = main[row++];
    for (const auto& [of_class, patients] : classes) {
      all[of_class] += patients;
      if (of_value.is_nearly_all && of_value.column == of_class) told[of_class] += patients;
    }
  }
  return std::ranges::count_if(all, [&](const auto& of_class) {
           return told[of_class.first] >= kMostPatients * of_class.second;
         }) > 1;
}

// The label tells the value.
bool classes_tell_values(const Crossed& values_of_class) {
  std::set<std::size_t> values;
  for (const MainColumn& of_class : main_columns(values_of_class)) {
    if (of_class.patients < static_cast<double>(kMinPatients)) continue;
    if (!of_class.is_nearly_all) return false;
    values.insert(of_class.column);
  }
  return values.size() > 1;
}

// See the head of the header. A patient counts once, divided among the exams that have a value.
bool may_be_the_label(const Confound& confound, const ConfoundLabels& labels,
                      const Groups& groups) {
  if (labels.classes == 0) return confound.figure.value.value >= kSameOrder;
  std::map<std::size_t, double> exams;
  for (std::size_t i = 0; i < groups.of.size(); ++i)
    if (groups.of[i] != kMissing) ++exams[labels.patient[i]];
  Crossed classes_of_value, values_of_class;
  for (std::size_t i = 0; i < groups.of.size(); ++i) {
    if (groups.of[i] == kMissing) continue;
    const auto of_class = static_cast<std::size_t>(labels.label[i]);
    const double patient = 1 / exams[labels.patient[i]];
    classes_of_value[groups.of[i]][of_class] += patient;
    values_of_class[of_class][groups.of[i]] += patient;
  }
  return values_tell_classes(classes_of_value) || classes_tell_values(values_of_class);
}

void look_at_values(Confound& confound, const ConfoundLabels& labels, const ExamTrait& trait,
                    const Groups& groups) {
  confound.may_be_label = !confound.of_file && may_be_the_label(confound, labels, groups);
  if (labels.classes == 0 || confound.numeric) return;
  const auto by_value = exams_by_group(labels, groups);
  confound.tells_class = std::ranges::all_of(
      by_value, [](const auto& value) { return value.second.classes.size() == 1; });
  confound.may_be_label |= confound.tells_class && !confound.of_file;
  for (const auto& [number, value] : by_value) {
    if (number == kMissing || value.classes.size() > 1 || value.patients.size() < kMinPatients ||
        value.exams <= confound.one_class.exams)
      continue;
    const int of_class = *value.classes.begin();
    const auto of = std::ranges::find(groups.of, number) - groups.of.begin();
    confound.one_class = {trait.values[static_cast<std::size_t>(of)], of_class, value.exams,
                          static_cast<std::size_t>(std::ranges::count(labels.label, of_class)),
                          value.patients.size()};
  }
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

// For each exam the one whose value it is given: patients take another's values, in order, and from
// the first again if they have more exams.
std::vector<std::size_t> drawn_exams(const std::vector<std::vector<std::size_t>>& patients,
                                     std::size_t exams, std::uint64_t draw) {
  std::vector<std::size_t> other(patients.size()), from(exams);
  std::iota(other.begin(), other.end(), std::size_t{0});
  CounterRandom({kSeed, draw}).shuffle(other);
  for (std::size_t p = 0; p < patients.size(); ++p) {
    const std::vector<std::size_t>& taken = patients[other[p]];
    for (std::size_t e = 0; e < patients[p].size(); ++e)
      from[patients[p][e]] = taken[e % taken.size()];
  }
  return from;
}

// A trait while it is compared with draws.
struct LookedAt {
  const ExamTrait* trait;
  Groups groups;
  double figure = 0;
  std::size_t as_good = 0;  // draws

  bool may_be_found() const { return as_good <= kMostAsGood; }
};

// Until more than kMostAsGood draws are as good; returns how many draws are made of the others.
std::size_t compare_with_draws(const ConfoundLabels& labels, const Prediction& prediction,
                               std::vector<LookedAt>& traits, double p_limit) {
  std::vector<std::vector<std::size_t>> patients;
  for (auto& [patient, exams] : exams_by_patient(labels)) patients.push_back(exams);
  const auto draws = static_cast<std::size_t>(std::ceil((kMostAsGood + 1) / p_limit)) - 1;
  for (std::size_t draw = 0; draw < draws; ++draw) {
    if (std::ranges::none_of(traits, &LookedAt::may_be_found)) break;
    const auto from = drawn_exams(patients, labels.patient.size(), draw);
    for (LookedAt& one : traits) {
      if (!one.may_be_found()) continue;
      Groups drawn{one.groups.numeric, one.groups.count, {}};
      for (const std::size_t exam : from) drawn.of.push_back(one.groups.of[exam]);
      one.as_good += prediction.figure(drawn) > one.figure - kSameFigure;
    }
  }
  return draws;
}

// Numbers are ranked in all folds together.
MetricValue value_of(const Prediction& prediction, const LookedAt& one, Metric metric) {
  if (metric->over_folds) return MetricValue::of(one.figure);
  return compute_metric(metric, pooled_by_repeat(prediction.predictions(one.groups)).front().exams);
}

Estimate without_interval(const MetricValue& value, const char* why) {
  return {value, MetricValue::none(why), MetricValue::none(why)};
}

Estimate with_interval(const Prediction& prediction, const LookedAt& one, Metric metric,
                       double level) {
  const MetricTable table =
      leave_out_patients(prediction.predictions(one.groups), level, {&metric, 1}, kBlocks);
  if (!metric->over_folds || std::ranges::all_of(table.per_fold.front(), &MetricValue::defined))
    return summarize(table).front().primary();
  return without_interval(MetricValue::of(one.figure), "a fold lacks a class");
}

}  // namespace

std::vector<FoldScores> foretold(const ConfoundLabels& labels, const ExamTrait& trait) {
  return Prediction(labels).predictions(groups_of(trait));
}

Confounds find_confounds(const ConfoundLabels& labels, const std::vector<ExamTrait>& traits,
                         double level) {
  Confounds result;
  result.metric = metric_named(labels.classes > 0 ? "auroc" : "spearman");
  if (!can_be_predicted(labels)) return result;
  const Prediction prediction(labels);
  std::vector<LookedAt> looked_at;
  for (const ExamTrait& trait : traits) {
    Groups groups = groups_of(trait);
    if (!can_predict(labels, groups)) continue;
    ++(trait.of_file ? result.properties : result.columns);
    const double figure = prediction.figure(groups);
    looked_at.push_back({&trait, std::move(groups), figure});
  }
  if (looked_at.empty()) return result;
  result.p_limit = kError / static_cast<double>(looked_at.size());
  const std::size_t draws = compare_with_draws(labels, prediction, looked_at, result.p_limit);
  std::vector<std::pair<double, const LookedAt*>> strongest;
  for (const LookedAt& one : looked_at) {
    if (one.may_be_found() && one.figure > result.metric->chance)
      strongest.emplace_back(value_of(prediction, one, result.metric).value, &one);
    else
      result.not_found.push_back({one.trait->name, one.trait->of_file});
  }
  std::ranges::stable_sort(strongest, std::greater{}, [](const auto& one) { return one.first; });
  for (const auto& [value, one] : strongest) {
    Confound& found = result.found.emplace_back(
        Confound{one->trait->name, one->trait->of_file, one->groups.numeric,
                 without_interval(MetricValue::of(value), "intervals are of the first ten"),
                 static_cast<double>(one->as_good + 1) / static_cast<double>(draws + 1)});
    look_at_values(found, labels, *one->trait, one->groups);
  }
  // Those that may be the label in other words are told last (report/sections/cohort.cpp).
  std::size_t bounded = 0;
  for (const bool may_be_label : {false, true})
    for (std::size_t i = 0; i < strongest.size(); ++i)
      if (result.found[i].may_be_label == may_be_label && bounded++ < kBoundedConfounds)
        result.found[i].figure =
            with_interval(prediction, *strongest[i].second, result.metric, level);
  return result;
}

}  // namespace coldframe::temporal
