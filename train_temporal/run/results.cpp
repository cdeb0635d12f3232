#include "train_temporal/run/results.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/labels/task_kind.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/models/summary_model.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/confounds.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

// The table of a cohort's characteristics by class, Table 1 of a paper.

// Exams and patients, frames, and of each column that was asked for: of numbers mean (SD) and
// median [quartiles], else the count and share of every value; and how many exams have none. Shares
// are of the exams that have a value. `used`: the exams, of which those without a label do not
// count.
std::vector<Characteristic> characteristics_of(const Cohort& cohort, std::size_t target,
                                               const std::vector<std::size_t>& used,
                                               const ResolvedQuestions& asked);

// A cohort in numbers, for the report.

// Counts the exams with these indices as one target sees them, and on which way the others were
// left out.
DataOverview overview(const Cohort& cohort, std::size_t target,
                      const std::vector<std::size_t>& used);

namespace {

constexpr std::size_t kMaxGroups = 50;
constexpr std::size_t kMaxCategories = 50;

// The name of what an exam is averaged into: its patient, or this patient's value of a column; an
// exam without a value stays by itself.
std::vector<std::string> unit_names(Cohort& cohort, const std::string& aggregate) {
  if (aggregate == "patient") return cohort.patients;
  std::vector<std::string> names = cohort.column(aggregate, "aggregate");
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = names[i].empty() ? concat("exam ", cohort.exams()[i].id)
                                : concat(cohort.patients[i], ", ", aggregate, " ", names[i]);
  return names;
}

// One value per unit; `value` says which an exam has, "" none.
template <class Value>
void require_agreement(const Cohort& cohort, const std::vector<std::string>& unit,
                       const std::string& aggregate, const std::string& what, const Value& value) {
  std::map<std::string, std::size_t> first;
  for (std::size_t exam : cohort.labeled()) {
    if (value(exam).empty()) continue;
    const auto [known, added] = first.emplace(unit[exam], exam);
    if (added || value(known->second) == value(exam)) continue;
    throw DataError(concat("--aggregate ", aggregate, " averages the exams of one patient, but '",
                           cohort.exams()[known->second].id, "' and '", cohort.exams()[exam].id,
                           "' of ", unit[exam], " have '", what, "' = '", value(known->second),
                           "' and '", value(exam),
                           "'; correct one of them, or aggregate by a column within which they "
                           "agree"));
  }
}

// Exams without a value take that of their unit, which has one at most.
void share_within(const std::vector<std::string>& unit, const Cohort& cohort,
                  std::vector<std::string>& values) {
  std::map<std::string, std::string> value_of;
  for (std::size_t exam : cohort.labeled())
    if (!values[exam].empty()) value_of[unit[exam]] = values[exam];
  for (std::size_t exam : cohort.labeled())
    if (values[exam].empty()) values[exam] = value_of[unit[exam]];
}

void aggregate_exams(ResolvedQuestions& asked, Cohort& cohort) {
  const std::string& aggregate = asked.questions.aggregate;
  if (aggregate.empty()) return;
  if (cohort.targets.per_frame())
    throw ConfigError(concat("--aggregate averages predictions of exams, and '",
                             cohort.targets.names(), "' has a value per frame; leave it out"));
  const std::vector<std::string> unit = unit_names(cohort, aggregate);
  for (const Labels& labels : cohort.targets) {
    require_agreement(cohort, unit, aggregate, labels.name, [&](std::size_t exam) {
      return labels.kind().label_text(labels, labels.at(exam, 0));
    });
  }
  for (const auto& [column, values] : asked.columns) {
    require_agreement(cohort, unit, aggregate, column,
                      [&, &values = values](std::size_t exam) { return values[exam]; });
  }
  for (auto& [column, values] : asked.columns) share_within(unit, cohort, values);
  std::map<std::string, std::size_t> number;
  for (const std::string& name : unit)
    asked.unit.push_back(number.emplace(name, number.size()).first->second);
}

void read_characteristics(ResolvedQuestions& asked, Cohort& cohort) {
  for (const std::string& name : asked.questions.characteristics) {
    std::vector<std::string> values = cohort.column(name, "characteristics");
    const std::vector<std::string> used = cohort.of_labeled(values), different = distinct(used);
    if (different.size() > kMaxCategories && !one_spelling(used).numeric)
      throw ConfigError(concat("--characteristics ", name, ": the column has ", different.size(),
                               " different values that are no numbers (", some_of(different),
                               "); at most ", kMaxCategories, " categories make a table"));
    asked.characteristics.emplace_back(name, std::move(values));
  }
}

void read_subgroups(ResolvedQuestions& asked, Cohort& cohort) {
  for (const std::string& name : asked.questions.subgroups) {
    std::vector<std::string> values = cohort.column(name, "subgroups");
    const std::vector<std::string> groups = distinct(cohort.of_labeled(values));
    if (groups.size() < 2 || groups.size() > kMaxGroups)
      throw ConfigError(concat("--subgroups ", name, ": the column has ", groups.size(),
                               " different values of labelled exams",
                               groups.empty() ? "" : concat(", ", some_of(groups)),
                               "; expected 2 to ", kMaxGroups,
                               " (make a column of ranges of a number)"));
    asked.columns.emplace_back(name, std::move(values));
  }
}

}  // namespace

void check_answerable(const Questions& questions, const std::vector<Target>& targets) {
  if (!questions.of_decisions()) return;
  const auto binary = std::ranges::count_if(targets, &Target::has_threshold);
  const char* options = "--threshold, --prevalence, --at-specificity and --at-sensitivity";
  if (binary == 0)
    throw ConfigError(concat(options, " are for a binary target, and ", names_of(targets),
                             targets.size() > 1 ? " are none" : " is none"));
  if (binary > 1 && questions.threshold)
    throw ConfigError(concat("--threshold is for one binary target, and of ", names_of(targets),
                             ", ", binary, " are; leave it out"));
}

Questions questions_of(const TrainOptions& options, Cohort& cohort) {
  Questions questions = options.questions;
  auto& columns = questions.subgroups;
  const bool asked = std::ranges::find(columns, options.group) != columns.end();
  if (!options.each_group || asked || !questions.aggregate.empty()) return questions;
  const auto groups = distinct(cohort.of_labeled(cohort.column(options.group, "group")));
  if (groups.size() >= 2 && groups.size() <= kMaxGroups) columns.push_back(options.group);
  return questions;
}

ResolvedQuestions ask(Cohort& cohort, const Questions& questions) {
  ResolvedQuestions asked{questions, {}, {}, {}};
  check_answerable(questions, cohort.targets.list());
  read_characteristics(asked, cohort);
  read_subgroups(asked, cohort);
  aggregate_exams(asked, cohort);
  return asked;
}

namespace {

constexpr std::size_t kFewNumbers = 5;  // of no more different ones each is a category

// The exams of each of TaskKind::group_names(); then all.
using Groups = std::vector<std::vector<std::size_t>>;

Groups groups_of_exams(const Labels& labels, const std::vector<std::size_t>& used) {
  Groups groups(labels.kind().group_names(labels).size() + 1);
  for (std::size_t exam : used) {
    if (labels.value[exam] == kUnlabeled) continue;
    groups.back().push_back(exam);
    if (!labels.per_frame && groups.size() > 1)
      groups[static_cast<std::size_t>(labels.value[exam])].push_back(exam);
  }
  if (labels.per_frame) groups = {groups.back()};
  return groups;
}

std::string share_text(std::size_t count, std::size_t of) {
  const double share = of > 0 ? 100.0 * static_cast<double>(count) / static_cast<double>(of) : 0;
  return concat(count, " (", fixed(share, 1), " %)");
}

// Three digits say enough of a person's age and of a share.
std::string short_text(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

std::string mean_text(const std::vector<double>& values) {
  if (values.empty()) return "–";
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(values.size());
  for (double value : values) mean += value / n;
  for (double value : values) squares += (value - mean) * (value - mean);
  return values.size() < 2
             ? short_text(mean)
             : concat(short_text(mean), " (", short_text(std::sqrt(squares / (n - 1))), ")");
}

std::string median_text(std::vector<double> values) {
  if (values.empty()) return "–";
  std::ranges::sort(values);
  return concat(short_text(quantile(values, 0.5)), " [", short_text(quantile(values, 0.25)), ", ",
                short_text(quantile(values, 0.75)), "]");
}

template <class Cell>
Characteristic row_of(const std::string& column, const std::string& row, const Groups& groups,
                      const Cell& cell) {
  Characteristic result{column, row, {}};
  for (const auto& exams : groups) result.cells.push_back(cell(exams));
  return result;
}

std::vector<double> numbers_at(const std::vector<std::string>& values,
                               const std::vector<std::size_t>& exams) {
  std::vector<double> numbers;
  for (std::size_t exam : exams) {
    double number = 0;
    if (!values[exam].empty() && parse_double(values[exam], number)) numbers.push_back(number);
  }
  return numbers;
}

std::size_t count_at(const std::vector<std::string>& values, const std::vector<std::size_t>& exams,
                     const std::string& value) {
  return static_cast<std::size_t>(
      std::ranges::count_if(exams, [&](std::size_t exam) { return values[exam] == value; }));
}

void add_column(std::vector<Characteristic>& rows, const std::string& column,
                const std::vector<std::string>& values, const Groups& groups) {
  std::vector<std::string> used;
  for (std::size_t exam : groups.back()) used.push_back(values[exam]);
  const std::vector<std::string> different = distinct(used);
  const bool numbers = one_spelling(used).numeric && different.size() > kFewNumbers;
  using Exams = std::vector<std::size_t>;
  if (numbers) {
    rows.push_back(row_of(column, "mean (SD)", groups, [&](const Exams& exams) {
      return mean_text(numbers_at(values, exams));
    }));
    rows.push_back(row_of(column, "median [quartiles]", groups, [&](const Exams& exams) {
      return median_text(numbers_at(values, exams));
    }));
  }
  for (const std::string& value : numbers ? std::vector<std::string>() : different) {
    rows.push_back(row_of(column, value, groups, [&](const Exams& exams) {
      return share_text(count_at(values, exams, value), exams.size() - count_at(values, exams, ""));
    }));
  }
  if (different.empty() || count_at(values, groups.back(), "") > 0)
    rows.push_back(row_of(column, "missing", groups,
                          [&](const Exams& exams) { return concat(count_at(values, exams, "")); }));
}

}  // namespace

std::vector<Characteristic> characteristics_of(const Cohort& cohort, std::size_t target,
                                               const std::vector<std::size_t>& used,
                                               const ResolvedQuestions& asked) {
  if (asked.characteristics.empty()) return {};
  using Exams = std::vector<std::size_t>;
  const Groups groups = groups_of_exams(cohort.targets[target], used);
  std::vector<Characteristic> rows;
  rows.push_back(
      row_of("exams", "", groups, [](const Exams& exams) { return concat(exams.size()); }));
  rows.push_back(row_of("patients", "", groups, [&](const Exams& exams) {
    std::set<std::size_t> patients;
    for (std::size_t exam : exams) patients.insert(cohort.patient_number[exam]);
    return concat(patients.size());
  }));
  rows.push_back(row_of("frames per exam", "median [quartiles]", groups, [&](const Exams& exams) {
    std::vector<double> frames;
    for (std::size_t exam : exams)
      frames.push_back(static_cast<double>(present_frames(cohort.exams()[exam])));
    return median_text(frames);
  }));
  for (const auto& [column, values] : asked.characteristics)
    add_column(rows, column, values, groups);
  return rows;
}

namespace {

ExamFlow flow_of(const Cohort& cohort, const Labels& labels, const std::vector<std::size_t>& used) {
  std::set<std::string> read, failed;
  ExamFlow flow;
  for (std::size_t i = 0; i < cohort.exams().size(); ++i) {
    read.insert(cohort.exams()[i].id);
    if (present_frames(cohort.exams()[i]) == 0)
      ++flow.without_frame;
    else
      flow.without_label += labels.value[i] == kUnlabeled;
  }
  for (const cache::Failure& failure : cohort.cache.failures())
    if (!read.contains(failure.exam)) failed.insert(failure.exam);
  flow.failed = failed.size();
  flow.found = read.size() + failed.size();
  flow.used = static_cast<std::size_t>(std::ranges::count_if(
      used, [&](std::size_t exam) { return labels.value[exam] != kUnlabeled; }));
  flow.in_no_part = flow.found - flow.failed - flow.without_frame - flow.without_label - flow.used;
  return flow;
}

}  // namespace

DataOverview overview(const Cohort& cohort, std::size_t target,
                      const std::vector<std::size_t>& used) {
  const Labels& labels = cohort.targets[target];
  DataOverview data;
  std::vector<std::size_t> labels_of(labels.classes.size());
  std::vector<std::set<std::size_t>> patients(labels.classes.size());
  std::set<std::size_t> all_patients;
  ScoredExams all;
  for (std::size_t exam : used) {
    if (labels.value[exam] == kUnlabeled) continue;
    ++data.exams;
    all_patients.insert(cohort.patient_number[exam]);
    data.frames_per_exam.push_back(present_frames(cohort.exams()[exam]));
    for (std::size_t row = 0; row < labels.rows(exam); ++row) {
      const double label = labels.at(exam, row);
      if (std::isnan(label)) {
        ++data.masked_frames;
      } else if (labels.has_classes()) {
        ++labels_of[static_cast<std::size_t>(label)];
        patients[static_cast<std::size_t>(label)].insert(cohort.patient_number[exam]);
      } else {
        labels.kind().add_label(all, label);
      }
    }
  }
  data.numbers = all.number;
  data.events = static_cast<std::size_t>(std::ranges::count(all.label, 1));
  data.patients = all_patients.size();
  data.patients_of_several_classes = patients_of_several_classes(cohort, labels, used);
  data.unlabeled = labels.unlabeled;
  data.flow = flow_of(cohort, labels, used);
  for (std::size_t c = 0; c < labels_of.size(); ++c) {
    data.exams_per_class.emplace_back(labels.classes[c], labels_of[c]);
    data.patients_per_class.push_back(patients[c].size());
  }
  return data;
}

namespace {

void add_share(std::vector<double>& sum, const std::vector<double>& values, double share) {
  sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
}

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// n − 1; empty with one seed.
std::vector<double> deviations(const std::vector<std::vector<double>>& seeds,
                               const std::vector<double>& mean) {
  if (seeds.size() < 2) return {};
  std::vector<double> result(mean.size(), 0.0);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (const auto& one : seeds) result[i] += (one[i] - mean[i]) * (one[i] - mean[i]);
    result[i] = std::sqrt(result[i] / static_cast<double>(seeds.size() - 1));
  }
  return result;
}

// Appends [rows, scores] of a target to the columns of its scores.
void add_deviations(PredictionTable& table, std::size_t target, const std::vector<double>& values) {
  const std::size_t width = table.targets[target].scores();
  std::size_t first = 0;
  for (std::size_t t = 0; t < target; ++t) first += table.targets[t].scores();
  for (std::size_t i = 0; i < values.size(); ++i)
    table.more[first + i % width].values.push_back(values[i]);
}

// The rows of a part that have a label. `table`: of all rows [n, width]; empty: nothing is known of
// this part.
LabelledOutputs labelled(const Labels& labels, const std::vector<std::size_t>& exams,
                         std::span<const double> table, std::size_t width) {
  LabelledOutputs result;
  std::size_t next = 0;
  for (std::size_t exam : table.empty() ? std::vector<std::size_t>() : exams) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row, ++next) {
      const double label = labels.at(exam, row);
      if (std::isnan(label)) continue;
      const auto own = table.subspan(next * width, width);
      result.outputs.insert(result.outputs.end(), own.begin(), own.end());
      result.label.push_back(label);
    }
  }
  return result;
}

// Adds what a fold's fits say of one target to both tables, and returns how their outputs are read.
FoldReadout add_target(ModelPredictions& model, std::span<const FinishedFit> seeds,
                       const Targets& targets, std::size_t t, std::optional<double> given) {
  const Labels& labels = targets[t];
  const Split& split = *seeds.front().split;
  const std::size_t outputs = labels.outputs();
  const double share = 1.0 / static_cast<double>(seeds.size());
  const auto own = [&](const std::vector<double>& table) {
    return columns(table, targets.outputs(), targets.first_output(t), outputs);
  };
  FoldReadout result;
  std::vector<double> test_mean, validation_mean;
  std::vector<std::vector<double>> validation_scores;
  for (const FinishedFit& fit : seeds) {
    Readout readout = readout_of(labels, split.train);
    const auto& families = fit.record.families;
    LabelledOutputs held_out =
        labelled(labels, split.validation, own(fit.record.validation_logits), outputs);
    held_out.calibrated = !families.empty();
    labels.kind().learn_outputs(
        readout, labelled(labels, split.train, own(fit.record.train_logits), outputs), held_out);
    validation_scores.push_back(scores_of(labels, readout, own(fit.record.validation_logits)));
    add_share(validation_mean, validation_scores.back(), share);
    const std::vector<double> scores = scores_of(labels, readout, own(fit.record.test_logits));
    add_share(test_mean, scores, share);
    if (seeds.size() > 1) append(model.fits[t][result.seeds.size()], scores);
    result.seeds.push_back(readout);
    result.families.push_back(
        families.empty() ? kNoFamily
                         : family_name(static_cast<Family>(families[targets.first_output(t)])));
  }
  const auto judged = labelled(labels, split.validation, validation_mean, labels.scores());
  const double chosen = labels.kind().threshold(judged.outputs, judged.label);
  for (Readout& readout : result.seeds)
    readout.threshold = labels.has_threshold() && given ? *given : chosen;
  add_scores(model.held_out, t, test_mean, result.threshold());
  add_scores(model.validation, t, validation_mean, result.threshold());
  add_deviations(model.validation, t, deviations(validation_scores, validation_mean));
  return result;
}

void add_fold(ModelPredictions& model, std::span<const FinishedFit> seeds, const Cohort& cohort,
              std::optional<double> threshold) {
  const Split& split = *seeds.front().split;
  if (seeds.size() > 1)
    model.fits.resize(cohort.targets.size(), std::vector<std::vector<double>>(seeds.size()));
  model.splits.push_back(&split);
  add_rows(model.held_out, cohort.exams(), split.test, &cohort.targets, split.repeat, split.fold);
  add_rows(model.validation, cohort.exams(), split.validation, &cohort.targets, split.repeat,
           split.fold);
  auto& readouts = model.readouts.emplace_back();
  for (std::size_t t = 0; t < cohort.targets.size(); ++t)
    readouts.push_back(add_target(model, seeds, cohort.targets, t, threshold));
}

FoldChoice::Part size_of(const std::vector<std::size_t>& exams, const Cohort& cohort) {
  std::set<std::size_t> patients;
  for (std::size_t exam : exams) patients.insert(cohort.patient_number[exam]);
  return {exams.size(), patients.size()};
}

FoldChoice choice_of(const Split& split, const FoldReadout& readout, const Cohort& cohort) {
  FoldChoice result{split.repeat, split.fold, size_of(split.train, cohort),
                    size_of(split.validation, cohort), size_of(split.test, cohort)};
  result.temperature = 0;
  for (const Readout& one : readout.seeds)
    result.temperature += one.temperature / static_cast<double>(readout.seeds.size());
  result.threshold = readout.threshold();
  return result;
}

void add_model(TargetReport& report, const ModelPredictions& model, std::size_t target,
               const ResolvedQuestions& asked) {
  ModelResult& result = report.models.emplace_back();
  result.name = model.model;
  result.about = about_model(model.model, report.per_frame, !report.covariates.empty());
  result.sequence_model =
      is_twin(model.model) ? report.models.front().sequence_model : model.sequence_model;
  result.learns_order = std::ranges::any_of(split(model.model, '/'), [](const std::string& kind) {
    const NamedModel* known = find_model(kind);  // a search may have taken several kinds
    return known != nullptr && known->learns_order();
  });
  result.frame = model.frame;
  result.folds = labelled_folds(model.held_out, target, asked.unit);
  if (!model.fits.empty())
    for (const std::vector<double>& scores : model.fits[target])
      result.fits.push_back(
          labelled_folds(rescored(model.held_out, target, scores), target, asked.unit));
  for (const auto& readouts : model.readouts) result.families.push_back(readouts[target].families);
  const auto none = [](const auto& fold) {
    return std::ranges::all_of(fold, [](const std::string& one) { return one == kNoFamily; });
  };
  const bool may_choose = model.model == kAutoModel;
  if (model.model == kBlank || (!may_choose && std::ranges::all_of(result.families, none)))
    result.families.clear();
  result.blind_to_order =
      !result.families.empty() && std::ranges::all_of(result.families, [](const auto& fold) {
        return std::ranges::none_of(
            fold, [](const std::string& one) { return one == kNoFamily || depends_on_order(one); });
      });
}

// The sequence model beside `auto`, and the same on shuffled frames.
void add_order(TargetReport& report, const ModelPredictions& shuffled, std::size_t target,
               const ResolvedQuestions& asked) {
  const std::string& name = report.models.front().sequence_model;
  const auto in_order = std::ranges::find(report.models, name, &ModelResult::name);
  if (in_order == report.models.end()) return;
  report.in_order_and_shuffled = {*in_order};
  add_model(report, shuffled, target, asked);
  report.in_order_and_shuffled.push_back(std::move(report.models.back()));
  report.models.pop_back();
}

void describe_asked(TargetReport& report, const Cohort& cohort, std::size_t target,
                    const std::vector<std::size_t>& used, const ResolvedQuestions& asked) {
  report.questions = asked.questions;
  report.characteristics = characteristics_of(cohort, target, used, asked);
  for (const auto& [name, values] : asked.columns) {
    SubgroupColumn& column = report.subgroups.emplace_back();
    column.column = name;
    column.values = distinct(cohort.of_labeled(values));
    for (const std::string& value : values) {
      const auto found = std::ranges::find(column.values, value);
      column.value_of.push_back(static_cast<std::size_t>(found - column.values.begin()));
    }
  }
}

// sd_<class>…, the standard deviations over the seeds.
std::vector<PredictionTable::Column> deviation_columns(const std::vector<Target>& targets) {
  std::vector<PredictionTable::Column> all;
  for (const Target& target : targets) {
    const std::string prefix = targets.size() > 1 ? target.name + ":sd" : "sd";
    for (const std::string& name : target.kind().score_names(target))
      all.push_back({prefix + (name.empty() ? "" : "_") + name, {}});
  }
  return all;
}

}  // namespace

PredictionTable table_of(const Cohort& cohort) {
  return empty_table(cohort.targets.list(), cohort.exams(), cohort.patients, cohort.patient_number);
}

std::vector<ModelPredictions> assemble(const std::vector<FinishedFit>& fits, const Cohort& cohort,
                                       const TrainOptions& options,
                                       std::optional<double> threshold) {
  std::vector<ModelPredictions> models;
  for (std::size_t start = 0; start < fits.size(); start += options.seeds) {
    const std::string& name = fits[start].name.model;
    if (models.empty() || models.back().model != name) {
      const bool one_frame = name == kSingle && !cohort.targets.per_frame();
      models.push_back({name,
                        one_frame ? options.single_frame : "",
                        name == kAutoModel ? kGru.name : "",
                        table_of(cohort),
                        table_of(cohort),
                        {},
                        {}});
      models.back().validation.more = deviation_columns(cohort.targets.list());
    }
    add_fold(models.back(), std::span(fits).subspan(start, options.seeds), cohort, threshold);
  }
  return models;
}

RunReport report_of(const std::vector<ModelPredictions>& models, const RunFacts& run,
                    const Cohort& cohort, const std::vector<std::size_t>& used,
                    const ResolvedQuestions& asked, std::span<const ModelPredictions> shuffled) {
  const ModelPredictions& main = models.front();
  RunReport result;
  for (std::size_t t = 0; t < cohort.targets.size(); ++t) {
    TargetReport& report = result.targets.emplace_back();
    static_cast<RunFacts&>(report) = run;
    describe_target(report, cohort.targets[t]);
    report.data = overview(cohort, t, used);
    if (cohort.copies_across_parts) report.seen = Seen::kCopies;
    if (t == 0) report.warnings = cohort.warnings;
    describe_asked(report, cohort, t, used, asked);
    for (const ModelPredictions& model : models) add_model(report, model, t, asked);
    for (const ModelPredictions& model : shuffled) add_order(report, model, t, asked);
    for (std::size_t f = 0; f < main.splits.size(); ++f)
      report.choices.push_back(choice_of(*main.splits[f], main.readouts[f][t], cohort));
  }
  evaluate_report(result);
  return result;
}

void describe_target(TargetReport& report, const Target& target) {
  report.target = target.name;
  report.event = target.event;
  report.task = task_name(target.task);
  report.scale = target.scale();
  report.per_frame = target.per_frame;
  report.classes = target.classes;
  report.groups = target.kind().group_names(target);
}

std::string epochs_csv(const std::vector<FinishedFit>& fits) {
  std::string csv = csv_row({"model", "repeat", "fold", "seed", "epoch", "train_loss",
                             "validation_loss", "validation_figure", "learning_rate", "best"});
  for (const FinishedFit& fit : fits) {
    const FitName& name = fit.name;
    for (std::size_t epoch = 0; epoch < fit.record.history.size(); ++epoch) {
      const EpochLosses& losses = fit.record.history[epoch];
      csv += csv_row({name.model, std::to_string(name.repeat), std::to_string(name.fold),
                      std::to_string(name.seed), std::to_string(epoch), exact(losses.train),
                      exact(losses.validation), losses.measured ? exact(*losses.measured) : "",
                      exact(losses.learning_rate), epoch == fit.record.best_epoch ? "1" : "0"});
    }
  }
  return csv;
}

namespace fs = std::filesystem;
namespace {

struct FinishedRun {
  std::string name;
  std::vector<Target> targets;
  PredictionTable predictions = {};  // once the targets have the horizons of both runs
};

std::vector<Target> targets_of(const Json& config) {
  std::vector<Target> targets;
  for (const Json& entry : config.at("targets")) targets.push_back(target_from_json(entry));
  return targets;
}

// Folders from the last one up, as many as tell two runs apart; a run that is about to finish goes
// by the name that it will have.
std::string name_beside(const fs::path& run, const fs::path& other) {
  fs::path of[2], name[2];
  for (std::size_t i = 0; i < 2; ++i) {
    of[i] = fs::absolute(i == 0 ? run : other).lexically_normal();
    if (!of[i].has_filename()) of[i] = of[i].parent_path();
    if (of[i].extension() == kUnfinished) of[i].replace_extension();
  }
  const bool same = of[0] == of[1];
  do {
    for (std::size_t i = 0; i < 2; ++i) {
      name[i] = name[i].empty() ? of[i].filename() : of[i].filename() / name[i];
      of[i] = of[i].parent_path();
    }
  } while (!same && name[0] == name[1]);
  return concat("run ", name[0].string());
}

FinishedRun read_run(const fs::path& folder, const fs::path& other) {
  if (!fs::is_regular_file(folder / kPredictions))
    throw ConfigError(concat("'", folder.string(),
                             "' is not a finished run of `coldframe train`: it has no ",
                             kPredictions));
  try {
    return {name_beside(folder, other), targets_of(read_json_file(folder / "config.json"))};
  } catch (const Json::exception& error) {
    throw DataError(concat("'", (folder / "config.json").string(),
                           "' does not say what the run learnt: ", error.what()));
  }
}

// A row: an exam or one of its frames, predicted by one repeat.
using Key = std::tuple<std::size_t, std::string, std::size_t>;  // repeat, exam, frame

std::map<Key, std::size_t> labelled_rows(const PredictionTable& table, std::size_t t) {
  std::map<Key, std::size_t> rows;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const PredictionTable::Row& row = table.rows[i];
    if (!std::isnan(table.of[t].label[i]))
      rows[{row.repeat, table.exams[row.exam].id, row.frame}] = i;
  }
  return rows;
}

// What both runs have held out and labelled: the same rows in one order, with the exams and labels
// of the first.
struct Pair {
  PredictionTable of[2];
  bool same_folds = true;
  std::size_t left_out = 0;
};

// DataError where the runs know an exam by other labels or patients.
void require_same(const FinishedRun (&runs)[2], std::size_t t, std::size_t a, std::size_t b) {
  const std::size_t row[2] = {a, b};
  std::string label[2], patient[2], id;
  for (std::size_t r = 0; r < 2; ++r) {
    const PredictionTable& table = runs[r].predictions;
    const PredictionTable::Exam& exam = table.exams[table.rows[row[r]].exam];
    label[r] = table.targets[t].kind().label_text(runs[0].targets[t], table.of[t].label[row[r]]);
    patient[r] = exam.patient;
    id = exam.id;
  }
  const bool other = label[0] != label[1];
  if (!other && same_id(patient[0], patient[1])) return;
  const auto& of = other ? label : patient;
  throw DataError(concat("exam '", id, "' has the ", other ? "label" : "patient", " '", of[0],
                         "' in ", runs[0].name, " and '", of[1], "' in ", runs[1].name,
                         "; compare runs of the same labels and patients"));
}

Pair pair_up(const FinishedRun (&runs)[2], std::size_t t) {
  const PredictionTable &first = runs[0].predictions, &second = runs[1].predictions;
  const std::map<Key, std::size_t> in_first = labelled_rows(first, t),
                                   in_second = labelled_rows(second, t);
  Pair pair;
  std::vector<std::size_t> rows[2];
  for (const auto& [key, a] : in_first) {
    const auto found = in_second.find(key);
    if (found == in_second.end()) continue;
    require_same(runs, t, a, found->second);
    rows[0].push_back(a);
    rows[1].push_back(found->second);
    pair.same_folds = pair.same_folds && first.rows[a].fold == second.rows[found->second].fold;
  }
  if (rows[0].empty())
    throw DataError(
        concat(runs[0].name, " and ", runs[1].name,
               " hold out no exam with a label in common; give --cache to compare both on "
               "a cohort"));
  pair.left_out = in_first.size() + in_second.size() - 2 * rows[0].size();
  for (std::size_t r = 0; r < 2; ++r) pair.of[r] = rows_at(runs[r].predictions, rows[r]);
  if (!pair.same_folds)
    for (PredictionTable::Row& row : pair.of[0].rows) row.fold = 0;
  pair.of[1].exams = pair.of[0].exams;
  pair.of[1].rows = pair.of[0].rows;
  return pair;
}

ModelResult model_of(const std::string& name, const Pair& pair, std::size_t which, std::size_t t) {
  ModelResult result;
  result.name = name;
  result.is_finished_run = true;
  result.folds_together = !pair.same_folds;
  result.folds = labelled_folds(pair.of[which], t);
  return result;
}

// Counts rows of the first repeat.
DataOverview overview_of(const PredictionTable& table, std::size_t t) {
  const Target& target = table.targets[t];
  DataOverview data;
  std::set<std::size_t> exams, patients;
  std::map<std::string, std::size_t> rows;
  std::map<std::string, std::set<std::size_t>> patients_of;
  ScoredExams all;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::size_t exam = table.rows[i].exam, patient = table.exams[exam].patient_number;
    patients.insert(patient);
    if (table.rows[i].repeat != table.rows.front().repeat) continue;
    exams.insert(exam);
    const double label = table.of[t].label[i];
    const std::string text = target.kind().label_text(target, label);
    ++rows[text];
    patients_of[text].insert(patient);
    if (!target.has_classes()) target.kind().add_label(all, label);
  }
  data.exams = exams.size();
  data.patients = patients.size();
  data.numbers = all.number;
  data.events = static_cast<std::size_t>(std::ranges::count(all.label, 1));
  for (const std::string& name : target.classes) {
    data.exams_per_class.emplace_back(name, rows[name]);
    data.patients_per_class.push_back(patients_of[name].size());
  }
  return data;
}

// Horizons are those that both have predicted survival at.
void take_common_horizons(FinishedRun (&runs)[2]) {
  for (std::size_t t = 0; t < runs[0].targets.size(); ++t) {
    std::vector<double>&a = runs[0].targets[t].horizons, &b = runs[1].targets[t].horizons;
    const bool had_some = !a.empty();
    std::erase_if(a, [&](double one) { return std::ranges::find(b, one) == b.end(); });
    if (had_some && a.empty())
      throw DataError(concat(runs[0].name, " and ", runs[1].name, " predict '",
                             runs[0].targets[t].name,
                             "' at no horizon in common; train both with the same --horizons, or "
                             "give --cache and --horizons to compare both on a cohort"));
    b = a;
  }
}

// "days:died (cox), ill (binary)"
std::string questions_of(const std::vector<Target>& targets) {
  std::vector<std::string> all;
  for (const Target& target : targets)
    all.push_back(concat(target.name, target.event.empty() ? "" : ":" + target.event, " (",
                         task_name(target.task), ")"));
  return join(all, ", ");
}

TargetReport report_on(const FinishedRun (&runs)[2], std::size_t t) {
  const Target& target = runs[0].targets[t];
  const Pair pair = pair_up(runs, t);
  TargetReport report;
  report.title = "Coldframe comparison of two runs";
  report.subtitle = concat(runs[0].name, " against ", runs[1].name);
  describe_target(report, target);
  report.split = pair.same_folds ? "folds of both runs" : "exams that both runs held out";
  report.against = runs[1].name;
  for (std::size_t r = 0; r < 2; ++r) report.models.push_back(model_of(runs[r].name, pair, r, t));
  report.data = overview_of(pair.of[0], t);
  if (!pair.same_folds)
    report.warnings.push_back(
        "the runs divided the exams differently, so that exams of all folds are ranked together; "
        "train one with --splits of the other's splits.csv to compare fold by fold");
  if (pair.left_out > 0)
    report.warnings.push_back(
        concat(pair.left_out,
               " predictions of exams that only one of the runs held out, or labelled, "
               "are left out"));
  return report;
}

// Horizons may differ, and how an event is spelt; labels are compared exam by exam.
bool asks_the_same(const Target& a, const Target& b) {
  if (a.is_timed()) return a.name == b.name && a.event == b.event;
  return a == b;
}

}  // namespace

void require_same_question(const std::vector<Target>& a, const std::string& name_a,
                           const std::vector<Target>& b, const std::string& name_b) {
  if (std::ranges::equal(a, b, asks_the_same)) return;
  throw ConfigError(concat(name_a, " learnt ", questions_of(a), ", and ", name_b, " ",
                           questions_of(b),
                           ", or other classes of it; compare runs of the same targets"));
}

void require_comparable(const fs::path& run, const std::vector<Target>& targets) {
  FinishedRun runs[2] = {{"this run", targets}, read_run(run, run)};
  require_same_question(targets, runs[0].name, runs[1].targets, runs[1].name);
  take_common_horizons(runs);
}

RunReport compare_held_out(const fs::path& run, const fs::path& against,
                           const BootstrapOptions& bootstrap, const Questions& questions) {
  FinishedRun runs[2] = {read_run(run, against), read_run(against, run)};
  require_same_question(runs[0].targets, runs[0].name, runs[1].targets, runs[1].name);
  take_common_horizons(runs);
  check_answerable(questions, runs[0].targets);
  runs[0].predictions = read_predictions(run / kPredictions, runs[0].targets);
  runs[1].predictions = read_predictions(against / kPredictions, runs[1].targets);
  RunReport result;
  for (std::size_t t = 0; t < runs[0].targets.size(); ++t) {
    result.targets.push_back(report_on(runs, t));
    result.targets.back().bootstrap = bootstrap;
    result.targets.back().questions = questions;
  }
  evaluate_report(result);
  return result;
}

namespace {

HeldOutExams::Exam one_exam(const PredictionTable& table, std::size_t row, const std::string& id) {
  const Target& target = table.targets.front();
  const PredictionTable::OfTarget& of = table.of.front();
  const auto scores = table.scores(0, row);
  const double label = of.label[row];
  HeldOutExams::Exam exam{id, target.kind().label_text(target, label), "", table.rows[row].fold};
  if (target.has_classes()) {
    const auto decided = static_cast<std::size_t>(of.decision[row]);
    exam.decision = target.classes[decided];
    exam.output = scores[target.has_threshold() ? 1 : decided];
    exam.error = 1 - scores[static_cast<std::size_t>(label)];
  } else {
    exam.output = scores.front();
    exam.error = std::abs(scores.front() - label);
  }
  return exam;
}

// The largest errors first; of classes, every third exam is one that is decided rightly, drawn at
// even steps from the least sure to the surest.
std::vector<std::size_t> picture_order(const std::vector<HeldOutExams::Exam>& exams) {
  std::vector<std::size_t> order(exams.size()), right, others, mixed;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return exams[i].error; });
  for (const std::size_t i : order)
    (exams[i].decision == exams[i].truth ? right : others).push_back(i);
  const std::size_t step =
      std::max<std::size_t>(2 * right.size() / std::max<std::size_t>(others.size(), 1), 1);
  std::size_t drawn = 0;
  std::vector<bool> is_drawn(exams.size());
  for (std::size_t i = 0; i < others.size(); ++i) {
    mixed.push_back(others[i]);
    if (i % 2 == 0 || drawn >= right.size()) continue;
    mixed.push_back(right[drawn]);
    is_drawn[right[drawn]] = true;
    drawn += step;
  }
  std::ranges::copy_if(right, std::back_inserter(mixed),
                       [&](std::size_t i) { return !is_drawn[i]; });
  return mixed;
}

void add_pictures(HeldOutExams& held_out, const std::vector<std::size_t>& exams,
                  cache::Pictures& pictures) {
  if (!pictures.wanted()) return;
  for (const std::size_t i : picture_order(held_out.exams)) {
    held_out.exams[i].pictures = pictures.of(exams[i]);
    if (pictures.is_full()) break;
  }
}

HeldOutExams held_out_exams(const ModelPredictions& main, const Cohort& cohort,
                            cache::Pictures& pictures) {
  const PredictionTable& table = main.held_out;
  const Target& target = table.targets.front();
  HeldOutExams held_out;
  if (table.per_frame() || target.is_timed() || table.rows.empty()) return held_out;
  held_out.output_name = target.has_threshold() ? concat("P(", target.classes[1], ")")
                         : target.has_classes() ? "P(decision)"
                                                : "predicted";
  held_out.error_name = target.has_classes() ? "1 − P(truth)" : "error";
  std::vector<std::size_t> exams;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row].repeat != table.rows.front().repeat ||
        std::isnan(table.of.front().label[row]))
      continue;
    exams.push_back(table.rows[row].exam);
    held_out.exams.push_back(one_exam(table, row, cohort.exams()[exams.back()].id));
  }
  add_pictures(held_out, exams, pictures);
  return held_out;
}

}  // namespace

void show_held_out(const ModelPredictions& main, const Cohort& cohort, cache::Pictures& pictures,
                   TargetReport& report) {
  report.held_out = held_out_exams(main, cohort, pictures);
  report.picture_note = pictures.note(
      "those of example exams and of the largest errors, some right answers between,");
}

}  // namespace coldframe::temporal
