#include "train_temporal/labels/split.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

namespace {

// An assignment under construction. What is balanced has C + 1 dimensions: the exams of each class
// and the patients.
class Assignment {
 public:
  Assignment(std::span<const PatientGroup> groups, std::span<const double> shares)
      : groups_(groups),
        shares_(shares),
        dimensions_(groups.front().per_class.size() + 1),
        total_(dimensions_, 0.0),
        part_(groups.size(), 0),
        filled_(shares.size(), std::vector<double>(dimensions_, 0.0)),
        holders_(shares.size(), std::vector<std::size_t>(dimensions_, 0)) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t d = 0; d < dimensions_; ++d) total_[d] += amount(g, d);
    }
  }

  // Large and one-sided patients first, while there is room to balance them; ties are broken at
  // random.
  void fill(CounterRandom random) {
    std::vector<std::size_t> order(groups_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    random.shuffle(order);
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](std::size_t g) { return weight(g); });
    for (std::size_t g : order) put(g, cheapest_part(g));
  }

  // Moves patients into parts that lack a class, as long as that leaves no more lacking altogether;
  // twice as often as there can be gaps, since moves that change nothing may go round in a circle.
  void repair() {
    for (std::size_t moves = 2 * shares_.size() * dimensions_; moves > 0 && lacking() > 0;
         --moves) {
      const double before = lacking();
      Move best{0, 0, before - 1e-9, std::numeric_limits<double>::infinity()};
      for (std::size_t part = 0; part < shares_.size(); ++part) {
        for (std::size_t g = 0; g < groups_.size(); ++g) {
          if (part_[g] != part && brings_missing_class(g, part)) consider(g, part, best);
        }
      }
      if (best.cost == std::numeric_limits<double>::infinity()) return;
      take(best.group);
      put(best.group, best.part);
    }
  }

  // Shares of the parts that lack a class, summed over classes: what repair() lowers.
  double lacking() const {
    double sum = 0;
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      for (std::size_t d = 0; d < dimensions_; ++d) sum += holders_[part][d] ? 0 : shares_[part];
    }
    return sum;
  }

  // Least when every part is filled to its share in every dimension.
  double cost() const {
    double sum = 0;
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      for (std::size_t d = 0; d < dimensions_; ++d) {
        if (total_[d] == 0) continue;
        const double share = filled_[part][d] / total_[d];
        sum += share * share / shares_[part];
      }
    }
    return sum;
  }

  const std::vector<std::size_t>& parts() const { return part_; }

 private:
  struct Move {
    std::size_t group, part;
    double lacking, cost;
  };

  double amount(std::size_t group, std::size_t dimension) const {
    const auto& per_class = groups_[group].per_class;
    return dimension < per_class.size() ? static_cast<double>(per_class[dimension]) : 1.0;
  }

  double weight(std::size_t group) const {
    double sum = 0;
    for (std::size_t d = 0; d < dimensions_; ++d) {
      const double share = total_[d] > 0 ? amount(group, d) / total_[d] : 0;
      sum += share * share;
    }
    return sum;
  }

  std::size_t cheapest_part(std::size_t group) const {
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      double rise = 0;
      for (std::size_t d = 0; d < dimensions_; ++d) {
        const double now = filled_[part][d], added = amount(group, d);
        if (added > 0) rise += added * (2 * now + added) / (shares_[part] * total_[d] * total_[d]);
      }
      if (rise < least) {
        least = rise;
        best = part;
      }
    }
    return best;
  }

  bool brings_missing_class(std::size_t group, std::size_t part) const {
    for (std::size_t d = 0; d < dimensions_; ++d) {
      if (amount(group, d) > 0 && holders_[part][d] == 0) return true;
    }
    return false;
  }

  void consider(std::size_t group, std::size_t part, Move& best) {
    const std::size_t home = part_[group];
    take(group);
    put(group, part);
    const double now = lacking(), price = cost();
    if (now < best.lacking - 1e-9 || (now <= best.lacking + 1e-9 && price < best.cost)) {
      best = {group, part, now, price};
    }
    take(group);
    put(group, home);
  }

  void put(std::size_t group, std::size_t part) { change(group, part, +1); }
  void take(std::size_t group) { change(group, part_[group], -1); }
  void change(std::size_t group, std::size_t part, int sign) {
    part_[group] = part;
    for (std::size_t d = 0; d < dimensions_; ++d) {
      if (amount(group, d) == 0) continue;
      filled_[part][d] += sign * amount(group, d);
      holders_[part][d] += static_cast<std::size_t>(sign);
    }
  }

  std::span<const PatientGroup> groups_;
  std::span<const double> shares_;
  std::size_t dimensions_;
  std::vector<double> total_;                      // [dimension]
  std::vector<std::size_t> part_;                  // [group]
  std::vector<std::vector<double>> filled_;        // [part][dimension]
  std::vector<std::vector<std::size_t>> holders_;  // [part][dimension] patients that have any
};

}  // namespace

std::vector<PatientGroup> group_by_patient(const Targets& targets,
                                           const std::vector<std::string>& patients,
                                           std::span<const std::size_t> exams) {
  std::map<std::string, PatientGroup> by_patient;
  for (std::size_t exam : exams) {
    if (!targets.labeled(exam)) continue;
    PatientGroup& group = by_patient[patients[exam]];
    group.patient = patients[exam];
    group.exams.push_back(exam);
    const std::vector<std::size_t> count = targets.count_strata(exam);
    group.per_class.resize(count.size(), 0);
    for (std::size_t c = 0; c < count.size(); ++c) group.per_class[c] += count[c];
  }
  std::vector<PatientGroup> groups;
  for (auto& [patient, group] : by_patient) groups.push_back(std::move(group));
  return groups;
}

std::vector<std::size_t> assign_groups(std::span<const PatientGroup> groups,
                                       std::span<const double> shares,
                                       std::initializer_list<std::uint64_t> key) {
  if (groups.empty()) return {};
  constexpr std::uint64_t kAttempts = 8;  // the greedy order is partly chance: the best of a few
  std::vector<std::size_t> best;
  double min_lacking = 0, min_cost = 0;
  for (std::uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    Assignment assignment(groups, shares);
    CounterRandom keyed(key);
    assignment.fill(CounterRandom({keyed.next(), attempt}));
    assignment.repair();
    const double lacking = assignment.lacking(), cost = assignment.cost();
    if (best.empty() || lacking < min_lacking - 1e-9 ||
        (lacking <= min_lacking + 1e-9 && cost < min_cost)) {
      best = assignment.parts();
      min_lacking = lacking;
      min_cost = cost;
    }
  }
  return best;
}

namespace {

// One patient of a class is held out, another is learnt from.
constexpr std::size_t kMinOfClass = 2;

// Streams of the split's random numbers.
enum Stream : std::uint64_t { kFolds = 1, kHoldout = 2 };

// ConfigError unless there are `parts` patients, and `needed` of each class.
void require_patients(const Targets& targets, const std::vector<PatientGroup>& groups,
                      std::size_t parts, std::size_t needed, const std::string& purpose,
                      const std::string& what) {
  if (groups.size() < parts) {
    throw ConfigError(concat(plural(groups.size(), what), " with a label, but ", purpose,
                             " needs at least ", parts));
  }
  if (targets.size() > 1) return;  // a class that is missing somewhere is then a warning
  std::vector<std::size_t> patients(targets.strata(), 0);
  for (const PatientGroup& group : groups) {
    for (std::size_t c = 0; c < patients.size(); ++c) patients[c] += group.per_class[c] > 0;
  }
  std::vector<std::string> counts;
  std::size_t least = needed;
  for (std::size_t c = 0; c < patients.size(); ++c) {
    if (!targets.is_class(c)) continue;
    counts.push_back(concat(targets.stratum_name(c), " ", plural(patients[c], what)));
    least = std::min(least, patients[c]);
  }
  if (least == needed) return;
  if (targets[0].is_timed())
    throw ConfigError(concat(
        purpose, " needs at least ", needed, " ", what, "s with an event in '", targets[0].event,
        "', but there ", least == 1 ? "is " : "are ", least,
        least >= 2 ? concat("; take --folds ", least) : std::string("; too few to learn from")));
  throw ConfigError(concat(
      purpose, " needs at least ", needed, " ", what, "s of every class of '", targets.names(),
      "', but there are: ", join(counts, ", "), "; ", least >= 2 ? "take --folds 2, " : "",
      "leave the rare class out (--drop-class), or learn it with another as one "
      "(--merge-classes)"));
}

// What it means that a fold holds out none of a class.
void warn_of_rare_classes(const Targets& targets, SplitSet& set) {
  for (std::size_t c = 0; c < targets.strata(); ++c) {
    if (targets.size() > 1 || !targets.is_class(c)) continue;
    const auto lacks = [&](const Split& split) {
      return std::ranges::none_of(
          split.test, [&](std::size_t exam) { return targets.count_strata(exam)[c] > 0; });
    };
    const auto without = static_cast<std::size_t>(std::ranges::count_if(set.splits, lacks));
    if (without == 0) continue;
    set.warnings.push_back(concat(
        without, " of ", plural(set.splits.size(), "fold"), without == 1 ? " is" : " are",
        " tested without class ", targets.stratum_name(c),
        ", and figures that need every class are undefined there; fewer --folds, --drop-class or "
        "--merge-classes avoid that"));
  }
}

std::vector<std::vector<std::size_t>> exams_of_parts(const std::vector<PatientGroup>& groups,
                                                     std::span<const double> shares,
                                                     std::initializer_list<std::uint64_t> key) {
  const std::vector<std::size_t> part = assign_groups(groups, shares, key);
  std::vector<std::vector<std::size_t>> exams(shares.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    exams[part[g]].insert(exams[part[g]].end(), groups[g].exams.begin(), groups[g].exams.end());
  }
  for (auto& one : exams) std::ranges::sort(one);
  return exams;
}

}  // namespace

namespace {

// Splits by exam would train on a patient whom they hold out.
void refuse_known_patients(const std::vector<std::string>& patients, const Targets& targets) {
  std::map<std::string, std::size_t> exams_of;
  for (std::size_t exam : targets.labeled_exams())
    if (!patients[exam].empty()) ++exams_of[patients[exam]];
  std::erase_if(exams_of, [](const auto& patient) { return patient.second < 2; });
  if (exams_of.empty()) return;
  const auto& [patient, count] = *exams_of.begin();
  throw ConfigError(
      concat("--exam-is-patient, but the cache names patients, and ", exams_of.size(),
             exams_of.size() == 1 ? " has" : " have", " several exams ('", patient, "' has ", count,
             "); leave the option out, so that no patient is on both sides of a split"));
}

}  // namespace

std::vector<std::string> known_patients(std::span<const cache::ExamInfo> exams,
                                        EqualNumbers numbers, std::vector<std::string>& warnings) {
  std::vector<std::string> patients;
  for (const cache::ExamInfo& exam : exams) patients.push_back(trim(exam.patient));
  if (numbers == EqualNumbers::kAsk)
    if (const auto two = find_equal_numbers(patients))
      throw ConfigError(concat("the patients '", patients[two->first], "' (exam '",
                               exams[two->first].id, "') and '", patients[two->second], "' (exam '",
                               exams[two->second].id,
                               "') are equal as numbers: if they are one "
                               "person, give --equal-numbers same; if they are two, give "
                               "--equal-numbers different"));
  if (const std::string changes = unify_spelling(patients, numbers); !changes.empty())
    warnings.push_back(
        concat("patients that differ in spelling alone (case, spaces, forms of Unicode",
               numbers == EqualNumbers::kSame ? ", zeros" : "",
               ") are taken as one person, so that nobody is on both sides of a split, ", changes,
               "; if they are different people, give them ids that differ more"));
  return patients;
}

std::vector<std::string> patients_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                     bool exam_is_patient, std::vector<std::string>& warnings,
                                     EqualNumbers numbers) {
  std::vector<std::string> patients = known_patients(exams, numbers, warnings), missing;
  if (exam_is_patient) {
    refuse_known_patients(patients, targets);
    std::ranges::transform(exams, patients.begin(), &cache::ExamInfo::id);
  }
  for (std::size_t exam : targets.labeled_exams()) {
    if (patients[exam].empty()) missing.push_back(exams[exam].id);
  }
  if (missing.empty()) return patients;
  if (missing.size() == targets.labeled()) {
    throw ConfigError(
        "no labelled exam has a patient; splits are made by patient: give a column 'patient', or "
        "say --exam-is-patient if every exam is of another person");
  }
  throw ConfigError(concat(missing.size(), " of ", plural(targets.labeled(), "labelled exam"),
                           " have no patient, the first '", missing.front(),
                           "'; splits are made by patient: give these a patient, or leave their "
                           "labels empty"));
}

std::vector<std::string> groups_of(std::span<const cache::ExamInfo> exams, const Targets& targets,
                                   const std::vector<std::string>& patients,
                                   const std::vector<std::string>& values,
                                   const std::string& column) {
  std::vector<std::string> without;
  std::map<std::string, std::set<std::string>> linked;  // values that patients share
  std::map<std::string, std::string> value_of;          // one of each patient
  for (std::size_t exam : targets.labeled_exams()) {
    if (values[exam].empty()) without.push_back(exams[exam].id);
    linked[values[exam]].insert(values[exam]);
    const auto [first, added] = value_of.emplace(patients[exam], values[exam]);
    linked[first->second].insert(values[exam]);
    linked[values[exam]].insert(first->second);
  }
  if (!without.empty())
    throw ConfigError(concat("--group ", column, ": ", plural(without.size(), "labelled exam"),
                             " without a value, the first '", without.front(),
                             "'; give these one, or leave their labels empty"));
  std::map<std::string, std::string> name_of;
  for (const auto& [value, neighbours] : linked) {
    if (name_of.contains(value)) continue;
    std::set<std::string> reached = {value};
    for (std::vector<std::string> next = {value}; !next.empty();) {
      const std::string one = next.back();
      next.pop_back();
      for (const std::string& other : linked[one])
        if (reached.insert(other).second) next.push_back(other);
    }
    const std::string name = join({reached.begin(), reached.end()}, " + ");
    for (const std::string& one : reached) name_of[one] = name;
  }
  std::vector<std::string> groups(exams.size());
  for (std::size_t exam : targets.labeled_exams()) groups[exam] = name_of[values[exam]];
  return groups;
}

SplitSet make_folds(const Targets& targets, const std::vector<std::string>& patients,
                    std::size_t folds, std::uint64_t seed, std::size_t repeats,
                    const std::string& what) {
  if (folds < 2) throw ConfigError(concat("--folds ", folds, ": at least 2 are needed"));
  const std::vector<std::size_t> exams = targets.labeled_exams();
  const std::vector<PatientGroup> groups = group_by_patient(targets, patients, exams);
  const bool timed = targets.size() == 1 && targets[0].is_timed();
  require_patients(targets, groups, folds, timed ? folds : std::min(folds, kMinOfClass),
                   concat("--folds ", folds), what);
  const std::vector<double> shares(folds, 1.0 / static_cast<double>(folds));
  SplitSet result;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    const auto held_out = exams_of_parts(groups, shares, {seed, kFolds, repeat});
    for (std::size_t fold = 0; fold < folds; ++fold) {
      Split split{repeat, fold, {}, {}, held_out[fold]};
      std::ranges::set_difference(exams, split.test, std::back_inserter(split.train));
      take_validation(split, targets, patients, seed);
      check_parts(split, targets, patients, result.warnings);
      result.splits.push_back(std::move(split));
    }
  }
  warn_of_rare_classes(targets, result);
  return result;
}

SplitSet leave_one_out(const Targets& targets, const std::vector<std::string>& patients,
                       const std::vector<std::string>& groups, std::uint64_t seed,
                       const std::string& what) {
  const std::vector<std::size_t> exams = targets.labeled_exams();
  const std::vector<PatientGroup> held_out = group_by_patient(targets, groups, exams);
  require_patients(targets, held_out, 2, kMinOfClass, concat("--folds ", what, "s"), what);
  SplitSet result;
  for (std::size_t fold = 0; fold < held_out.size(); ++fold) {
    Split split{0, fold, {}, {}, held_out[fold].exams};
    std::ranges::sort(split.test);
    std::ranges::set_difference(exams, split.test, std::back_inserter(split.train));
    take_validation(split, targets, patients, seed);
    check_parts(split, targets, patients, result.warnings);
    result.splits.push_back(std::move(split));
  }
  return result;
}

SplitSet make_holdout(const Targets& targets, const std::vector<std::string>& patients,
                      std::uint64_t seed, const std::string& what) {
  const std::vector<PatientGroup> groups =
      group_by_patient(targets, patients, targets.labeled_exams());
  require_patients(targets, groups, 3, 3, "a split into training, validation and test part", what);
  constexpr std::array kShares = {0.6, 0.2, 0.2};
  auto parts = exams_of_parts(groups, kShares, {seed, kHoldout});
  SplitSet result;
  result.splits.push_back({0, 0, std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
  check_parts(result.splits[0], targets, patients, result.warnings);
  return result;
}

void check_patients_apart(const Split& split, const std::vector<std::string>& patients) {
  std::map<std::string, std::string> part_of;
  for (const auto& [name, exams] : parts_of(split)) {
    for (std::size_t exam : *exams) {
      const auto [known, added] = part_of.emplace(patients[exam], name);
      if (added || known->second == name) continue;
      throw DataError(concat("patient '", patients[exam], "' is in the ", known->second,
                             " part and in the ", name, " part of repeat ", split.repeat, ", fold ",
                             split.fold, "; all exams of a patient must be in one part"));
    }
  }
}

namespace {

constexpr double kValidationShare = 0.2;
constexpr std::uint64_t kInnerStream = 3;

// "of class 'ill'"; empty: none is absent.
std::string absent_classes(const std::vector<std::size_t>& exams, const Targets& targets) {
  std::vector<std::size_t> count(targets.strata(), 0);
  for (std::size_t exam : exams) {
    const std::vector<std::size_t> of_exam = targets.count_strata(exam);
    for (std::size_t c = 0; c < count.size(); ++c) count[c] += of_exam[c];
  }
  std::vector<std::string> absent;
  for (std::size_t c = 0; c < count.size(); ++c) {
    if (count[c] == 0 && targets.is_class(c)) absent.push_back(targets.stratum_name(c));
  }
  if (absent.empty()) return {};
  return targets.size() == 1 && targets[0].is_timed() ? "with an event"
                                                      : concat("of class ", join(absent, ", "));
}

std::string blind_targets(const std::vector<std::size_t>& exams, const Targets& targets) {
  std::vector<std::string> blind;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    std::vector<double> labels;
    for (std::size_t exam : exams)
      for (std::size_t row = 0; row < targets[t].rows(exam); ++row)
        if (!std::isnan(targets[t].at(exam, row))) labels.push_back(targets[t].at(exam, row));
    if (targets[t].kind().is_blind(labels)) blind.push_back(concat("'", targets[t].name, "'"));
  }
  return join(blind, ", ");
}

}  // namespace

std::array<NamedPart, 3> parts_of(const Split& split) {
  return {NamedPart{"train", &split.train}, NamedPart{"validation", &split.validation},
          NamedPart{"test", &split.test}};
}

void take_validation(Split& split, const Targets& targets, const std::vector<std::string>& patients,
                     std::uint64_t seed) {
  const std::vector<PatientGroup> groups = group_by_patient(targets, patients, split.train);
  if (groups.size() < 2) {
    throw ConfigError(concat("fold ", split.fold, " leaves ", plural(groups.size(), "patient"),
                             " for training and validation, which need one each"));
  }
  constexpr std::array kShares = {1.0 - kValidationShare, kValidationShare};
  const std::vector<std::size_t> part =
      assign_groups(groups, kShares, {seed, kInnerStream, split.repeat, split.fold});
  split.train.clear();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& into = part[g] == 0 ? split.train : split.validation;
    into.insert(into.end(), groups[g].exams.begin(), groups[g].exams.end());
  }
  if (split.validation.empty()) {
    throw ConfigError(concat("fold ", split.fold, " leaves ", plural(groups.size(), "patient"),
                             " for training and validation, all of which training needs to know "
                             "every class; use more folds, or give more patients of each class"));
  }
  std::ranges::sort(split.train);
  std::ranges::sort(split.validation);
}

void check_parts(const Split& split, const Targets& targets,
                 const std::vector<std::string>& patients, std::vector<std::string>& warnings) {
  const std::string where = concat("repeat ", split.repeat, ", fold ", split.fold);
  const auto parts = parts_of(split);
  for (std::size_t i : {0, 2, 1}) {  // what the other two lack explains a missing validation part
    if (!parts[i].second->empty()) continue;
    throw DataError(concat("the ", parts[i].first, " part of ", where, " is empty"));
  }
  check_patients_apart(split, patients);
  if (const std::string absent = absent_classes(split.train, targets); !absent.empty()) {
    const std::string problem =
        concat("the train part of ", where, " has no exam ", absent, ": it cannot be learnt");
    if (targets.size() == 1) throw DataError(problem);
    warnings.push_back(problem);
  }
  const std::string absent = absent_classes(split.validation, targets);
  const std::string blind = blind_targets(split.validation, targets);
  if (!absent.empty() && (targets.size() > 1 || blind.empty()))
    warnings.push_back(concat("the validation part of ", where, " has no exam ", absent));
  if (!blind.empty()) {
    warnings.push_back(concat(
        "the validation part of ", where, " has no event of ", blind,
        " beyond which another exam is followed: it cannot tell epochs apart",
        targets.size() == 1 ? ", and fits keep the weights of the last one (--epochs)" : " by it"));
  }
}

// Splits that come from the manifest's column or from splits.csv, and the writing of the latter.

namespace {

// The part of `split` that a word names; null when it names none.
std::vector<std::size_t>* part_named(Split& split, const std::string& text) {
  const std::string_view part = cache::split_part(text);
  return part == "train"        ? &split.train
         : part == "validation" ? &split.validation
         : part == "test"       ? &split.test
                                : nullptr;
}

std::size_t parse_index(const CsvTable& table, std::size_t row, std::optional<std::size_t> column) {
  if (!column) return 0;
  const std::string& text = table.rows[row][*column];
  std::int64_t value = 0;
  if (!parse_int(text, value) || value < 0 || value > 1'000'000) {
    throw DataError(concat(table.name, " line ", table.lines[row], ": ", table.header[*column],
                           " '", text, "' is not a number from 0 on"));
  }
  return static_cast<std::size_t>(value);
}

// Sorts, takes a validation part where there is none, and checks.
void complete(Split& split, const Targets& targets, const std::vector<std::string>& patients,
              std::uint64_t seed, std::vector<std::string>& warnings) {
  for (auto* part : {&split.train, &split.validation, &split.test}) std::ranges::sort(*part);
  check_patients_apart(split, patients);
  // An empty training or test part is what the checks at the end find.
  if (split.validation.empty() && !split.train.empty() && !split.test.empty()) {
    take_validation(split, targets, patients, seed);
  }
  check_parts(split, targets, patients, warnings);
}

// One fold of splits.csv while it is read.
struct ReadFold {
  Split split;
  std::map<std::size_t, std::size_t> row_of;           // exam → row
  std::map<std::string, std::string> part_of_patient;  // by plain_spelling()
};

struct Columns {
  std::size_t exam, part;
  std::optional<std::size_t> repeat, fold, patient;
};

void add_row(const CsvTable& table, std::size_t row, const Columns& columns, std::size_t exam,
             ReadFold& fold) {
  const auto& fields = table.rows[row];
  const std::string where = concat(table.name, " line ", table.lines[row], ": ");
  if (!fold.row_of.emplace(exam, row).second) {
    throw DataError(concat(where, "exam '", fields[columns.exam], "' is listed twice in fold ",
                           fold.split.fold, " (first on line ", table.lines[fold.row_of[exam]],
                           ")"));
  }
  std::vector<std::size_t>* part = part_named(fold.split, fields[columns.part]);
  if (part == nullptr) {
    throw DataError(
        concat(where, "part '", fields[columns.part], "' is none of train, validation, test"));
  }
  if (columns.patient && !fields[*columns.patient].empty()) {
    const std::string patient = plain_spelling(fields[*columns.patient]);
    const std::string name(cache::split_part(fields[columns.part]));
    const auto [known, added] = fold.part_of_patient.emplace(patient, name);
    if (!added && known->second != name) {
      throw DataError(concat(where, "patient '", fields[*columns.patient], "' is in part ", name,
                             ", but in ", known->second,
                             " further up; all exams of a patient must be in one"));
    }
  }
  part->push_back(exam);
}

void warn_of_left_out(const std::vector<Split>& splits, const Targets& targets,
                      std::size_t without_label, const std::string& name,
                      std::vector<std::string>& warnings) {
  if (without_label > 0) {
    warnings.push_back(
        concat(plural(without_label, "row"), " of ", name, " for exams without a label: left out"));
  }
  std::vector<bool> used(targets.exams(), false);
  for (const Split& split : splits) {
    for (const auto& [part, exams] : parts_of(split)) {
      for (std::size_t exam : *exams) used[exam] = true;
    }
  }
  const auto count = static_cast<std::size_t>(std::ranges::count(used, true));
  if (count < targets.labeled()) {
    warnings.push_back(concat(plural(targets.labeled() - count, "exam"),
                              " with a label, but in no part of ", name, ": not used"));
  }
}

}  // namespace

bool has_split_column(std::span<const cache::ExamInfo> exams) {
  return std::ranges::any_of(exams, [](const cache::ExamInfo& exam) {
    return !trim(cache::column_value(exam, cache::kSplitColumn)).empty();
  });
}

SplitSet split_from_column(std::span<const cache::ExamInfo> exams, const Targets& targets,
                           const std::vector<std::string>& patients, std::uint64_t seed) {
  if (!has_split_column(exams)) {
    throw DataError(
        "the cache has no column 'split'; extract with one in the manifest (train, val or test), "
        "or leave out --split-column for folds");
  }
  SplitSet result;
  Split& split = result.splits.emplace_back();
  for (std::size_t i = 0; i < exams.size(); ++i) {
    if (!targets.labeled(i)) continue;
    const std::string& value = cache::column_value(exams[i], cache::kSplitColumn);
    std::vector<std::size_t>* part = part_named(split, value);
    if (part == nullptr) {
      throw DataError(concat("exam '", exams[i].id, "' has ",
                             trim(value).empty() ? "no split" : concat("split '", value, "'"),
                             "; expected train, val or test"));
    }
    part->push_back(i);
  }
  for (const auto& [name, part] : parts_of(split)) {
    if (!part->empty() || part == &split.validation) continue;
    throw DataError(concat("the column 'split' puts no labelled exam into ", name,
                           "; give some, or use --folds"));
  }
  complete(split, targets, patients, seed, result.warnings);
  return result;
}

std::string splits_to_csv(const std::vector<Split>& splits, std::span<const cache::ExamInfo> exams,
                          const std::vector<std::string>& patients) {
  std::string text = csv_row({"repeat", "fold", "exam", "patient", "part"});
  for (const Split& split : splits) {
    for (const auto& [name, part] : parts_of(split)) {
      for (std::size_t exam : *part) {
        text += csv_row(
            {concat(split.repeat), concat(split.fold), exams[exam].id, patients[exam], name});
      }
    }
  }
  return text;
}

SplitSet splits_from_csv(const CsvTable& table, std::span<const cache::ExamInfo> exams,
                         const Targets& targets, const std::vector<std::string>& patients,
                         std::uint64_t seed) {
  const Columns columns{table.require_column("exam"), table.require_column("part"),
                        table.column("repeat"), table.column("fold"), table.column("patient")};
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < exams.size(); ++i) index_of.emplace(exams[i].id, i);
  std::map<std::pair<std::size_t, std::size_t>, ReadFold> folds;
  std::size_t without_label = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto found = index_of.find(table.rows[row][columns.exam]);
    if (found == index_of.end()) {
      throw DataError(concat(table.name, " line ", table.lines[row], ": exam '",
                             table.rows[row][columns.exam], "' is not in the cache"));
    }
    if (!targets.labeled(found->second)) {
      ++without_label;
      continue;
    }
    const std::size_t repeat = parse_index(table, row, columns.repeat);
    const std::size_t fold = parse_index(table, row, columns.fold);
    ReadFold& into = folds[{repeat, fold}];
    into.split.repeat = repeat;
    into.split.fold = fold;
    add_row(table, row, columns, found->second, into);
  }
  if (folds.empty()) throw DataError(concat(table.name, " has no row for a labelled exam"));
  SplitSet result;
  std::set<std::pair<std::size_t, std::size_t>> tested;  // repeat, exam
  for (auto& [key, fold] : folds) {
    for (std::size_t exam : fold.split.test) {
      if (tested.emplace(key.first, exam).second) continue;
      throw DataError(concat(table.name, ": exam '", exams[exam].id,
                             "' is in two test parts of repeat ", key.first,
                             "; an exam may be held out once per repeat"));
    }
    complete(fold.split, targets, patients, seed, result.warnings);
    result.splits.push_back(std::move(fold.split));
  }
  warn_of_left_out(result.splits, targets, without_label,
                   std::filesystem::path(table.name).filename().string(), result.warnings);
  return result;
}

}  // namespace coldframe::temporal
