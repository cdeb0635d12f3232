#include "train_temporal/run/predictions.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {
namespace {

// The number of each present frame among all of the exam's.
std::vector<std::size_t> present_slots(const cache::ExamInfo& exam) {
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < exam.frames(); ++slot)
    if (exam.present[slot]) slots.push_back(slot);
  return slots;
}

// Rows of one unit become one.
FoldScores averaged(const FoldScores& fold, const Target& target,
                    const std::vector<double>& threshold, const std::vector<std::size_t>& unit) {
  std::map<std::size_t, std::size_t> place;  // of each unit
  std::vector<std::size_t> first, into;
  for (std::size_t i = 0; i < fold.exams.size(); ++i) {
    const auto [known, added] = place.emplace(unit[fold.exams.frame[i].exam], first.size());
    if (added) first.push_back(i);
    into.push_back(known->second);
  }
  FoldScores result{fold.repeat, fold.fold, exams_at(fold.exams, first), {}, fold.drawn_from};
  std::vector<double>& mean = result.exams.predicted;
  std::ranges::fill(mean, 0.0);
  std::vector<double> count(first.size(), 0.0);
  const std::size_t width = fold.exams.width;
  for (std::size_t i = 0; i < into.size(); ++i) {
    count[into[i]] += 1;
    for (std::size_t c = 0; c < width; ++c) mean[into[i] * width + c] += fold.exams.score(i, c);
  }
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] /= count[i / width];
  result.exams.decision = decide(target, mean, threshold.front());
  for (std::size_t i : first) result.patient.push_back(fold.patient[i]);
  return result;
}

// Calls `take` with each column of the targets, which of them it is of, and what it is.
enum class Kind { kLabel, kScore, kDecision };
template <class Take>
void for_columns(std::span<const Target> targets, bool labels, const Take& take) {
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const TaskKind& kind = targets[t].kind();
    const auto add = [&](const std::vector<std::string>& names, Kind what) {
      for (const std::string& name : names)
        take(targets.size() > 1 ? targets[t].name + ":" + name : name, t, what);
    };
    if (labels) add(kind.label_columns(), Kind::kLabel);
    add(kind.score_columns(targets[t]), Kind::kScore);
    if (targets[t].has_classes()) add({"predicted"}, Kind::kDecision);
  }
}

// A field of the file; `expected` names what it is not.
DataError bad_field(const CsvTable& file, std::size_t row, std::size_t column,
                    const std::string& expected) {
  return DataError(concat(file.name, " line ", file.lines[row], ": column '", file.header[column],
                          "' has '", file.rows[row][column], "'; expected ", expected));
}

double number(const CsvTable& file, std::size_t row, std::size_t column) {
  double value = 0;
  if (parse_double(file.rows[row][column], value)) return value;
  throw bad_field(file, row, column, "a number");
}

std::size_t whole_number(const CsvTable& file, std::size_t row, std::size_t column) {
  std::int64_t value = 0;
  if (parse_int(file.rows[row][column], value) && value >= 0)
    return static_cast<std::size_t>(value);
  throw bad_field(file, row, column, "a whole number");
}

// Where the columns of a target stand in the file.
struct Places {
  std::vector<std::size_t> labels, scores;
  std::optional<std::size_t> decision;
};

void read_row(PredictionTable::OfTarget& of, const Target& target, const Places& places,
              const CsvTable& file, std::size_t row) {
  std::vector<std::string> label;
  for (std::size_t column : places.labels) label.push_back(file.rows[row][column]);
  const bool masked = label.front().empty();
  of.label.push_back(masked ? std::nan("") : target.kind().label_from(target, label));
  if (!masked && std::isnan(of.label.back()))
    throw bad_field(file, row, places.labels.front(), target.kind().expected_label(target));
  for (std::size_t column : places.scores) of.scores.push_back(number(file, row, column));
  of.decision.push_back(0);
  if (!places.decision) return;
  const auto found = std::ranges::find(target.classes, file.rows[row][*places.decision]);
  if (found == target.classes.end())
    throw bad_field(file, row, *places.decision, "one of " + join(target.classes, ", "));
  of.decision.back() = static_cast<int>(found - target.classes.begin());
}

std::vector<std::string> header_of(const PredictionTable& table) {
  std::vector<std::string> header;
  if (table.held_out) header = {"repeat", "fold"};
  header.insert(header.end(), {"exam", "patient"});
  if (table.per_frame()) header.push_back("frame");
  for_columns(table.targets, table.held_out,
              [&](const std::string& name, std::size_t, Kind) { header.push_back(name); });
  for (const PredictionTable::Column& column : table.more) header.push_back(column.name);
  return header;
}

std::vector<std::string> fields_of(const PredictionTable& table, std::size_t row) {
  const auto& [repeat, fold, exam, frame] = table.rows[row];
  std::vector<std::string> fields;
  if (table.held_out) fields = {concat(repeat), concat(fold)};
  fields.insert(fields.end(), {table.exams[exam].id, table.exams[exam].patient});
  if (table.per_frame()) fields.push_back(concat(frame));
  for (std::size_t t = 0; t < table.targets.size(); ++t) {
    const Target& target = table.targets[t];
    if (table.held_out)
      for (std::string& field : target.kind().label_fields(target, table.of[t].label[row]))
        fields.push_back(std::move(field));
    for (const double score : table.scores(t, row)) fields.push_back(exact(score));
    if (target.has_classes())
      fields.push_back(target.classes[static_cast<std::size_t>(table.of[t].decision[row])]);
  }
  for (const PredictionTable::Column& column : table.more)
    fields.push_back(column.values.empty() ? "" : exact(column.values[row]));
  return fields;
}

}  // namespace

PredictionTable empty_table(const std::vector<Target>& targets,
                            std::span<const cache::ExamInfo> exams,
                            const std::vector<std::string>& patients,
                            const std::vector<std::size_t>& patient_number) {
  PredictionTable table;
  table.targets = targets;
  table.of.resize(targets.size());
  for (std::size_t i = 0; i < exams.size(); ++i)
    table.exams.push_back({exams[i].id, patients.empty() ? exams[i].patient : patients[i],
                           patient_number.empty() ? i : patient_number[i]});
  return table;
}

void add_rows(PredictionTable& table, std::span<const cache::ExamInfo> all,
              const std::vector<std::size_t>& exams, const Targets* labels, std::size_t repeat,
              std::size_t fold) {
  for (std::size_t exam : exams) {
    const auto frames =
        table.per_frame() ? present_slots(all[exam]) : std::vector<std::size_t>(1, 0);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      table.rows.push_back({repeat, fold, exam, frames[i]});
      for (std::size_t t = 0; labels != nullptr && t < table.of.size(); ++t)
        table.of[t].label.push_back((*labels)[t].at(exam, i));
    }
  }
}

void add_scores(PredictionTable& table, std::size_t target, std::span<const double> scores,
                double threshold) {
  PredictionTable::OfTarget& of = table.of[target];
  of.scores.insert(of.scores.end(), scores.begin(), scores.end());
  const auto decision = decide(table.targets[target], scores, threshold);
  of.decision.insert(of.decision.end(), decision.begin(), decision.end());
  of.threshold.resize(of.decision.size(), threshold);
}

PredictionTable rescored(PredictionTable table, std::size_t target, std::vector<double> scores) {
  PredictionTable::OfTarget& of = table.of[target];
  of.scores = std::move(scores);
  for (std::size_t row = 0; row < of.decision.size(); ++row)
    of.decision[row] =
        decide(table.targets[target], table.scores(target, row), of.threshold[row]).front();
  return table;
}

PredictionTable rows_at(const PredictionTable& table, std::span<const std::size_t> rows) {
  PredictionTable taken{table.held_out, table.targets, table.exams, {}, {}};
  taken.of.resize(table.targets.size());
  for (std::size_t row : rows) {
    taken.rows.push_back(table.rows[row]);
    for (std::size_t t = 0; t < table.targets.size(); ++t) {
      const auto scores = table.scores(t, row);
      taken.of[t].label.push_back(table.of[t].label[row]);
      taken.of[t].scores.insert(taken.of[t].scores.end(), scores.begin(), scores.end());
      taken.of[t].decision.push_back(table.of[t].decision[row]);
    }
  }
  return taken;
}

std::vector<FoldScores> labelled_folds(const PredictionTable& table, std::size_t t,
                                       const std::vector<std::size_t>& unit) {
  const Target& target = table.targets[t];
  const PredictionTable::OfTarget& of = table.of[t];
  std::map<std::pair<std::size_t, std::size_t>, std::pair<FoldScores, std::vector<double>>> folds;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const PredictionTable::Row& row = table.rows[i];
    auto& [fold, threshold] = folds[{row.repeat, row.fold}];
    const std::size_t patient = table.exams[row.exam].patient_number;
    fold.drawn_from.push_back(patient);
    if (std::isnan(of.label[i])) continue;
    ScoredExams& exams = fold.exams;
    const auto scores = table.scores(t, i);
    exams.predicted.insert(exams.predicted.end(), scores.begin(), scores.end());
    exams.decision.push_back(of.decision[i]);
    target.kind().add_label(exams, of.label[i]);
    exams.frame.push_back({row.exam, row.frame});
    fold.patient.push_back(patient);
    if (!unit.empty()) threshold.push_back(of.threshold[i]);
  }
  std::vector<FoldScores> result;
  for (auto& [key, value] : folds) {
    auto& [fold, threshold] = value;
    std::tie(fold.repeat, fold.fold) = key;
    fold.exams.width = target.scores();
    fold.exams.scale = target.scale();
    fold.exams.horizons = target.horizons;
    fold.exams.per_frame = target.per_frame;
    result.push_back(unit.empty() || threshold.empty() ? std::move(fold)
                                                       : averaged(fold, target, threshold, unit));
  }
  return result;
}

std::vector<std::vector<std::string>> csv_rows(const PredictionTable& table) {
  std::vector<std::vector<std::string>> rows = {header_of(table)};
  for (std::size_t row = 0; row < table.rows.size(); ++row) rows.push_back(fields_of(table, row));
  return rows;
}

std::string to_csv(const PredictionTable& table) {
  std::string csv;
  for (const auto& row : csv_rows(table)) csv += csv_row(row);
  return csv;
}

PredictionTable read_predictions(const std::filesystem::path& csv, std::vector<Target> targets) {
  const CsvTable file = read_csv(csv);
  const std::size_t repeat = file.require_column("repeat"), fold = file.require_column("fold"),
                    exam = file.require_column("exam"), patient = file.require_column("patient");
  const auto frame = file.column("frame");
  std::map<std::string, std::size_t> exams, patients;  // their numbers
  for (std::size_t row = 0; row < file.rows.size(); ++row) exams.emplace(file.rows[row][exam], row);
  PredictionTable table;
  table.targets = std::move(targets);
  table.of.resize(table.targets.size());
  for (auto& [id, number] : exams) {
    const std::string& of = file.rows[number][patient];
    number = table.exams.size();
    table.exams.push_back(
        {id, of, patients.emplace(plain_spelling(of), patients.size()).first->second});
  }
  for (std::size_t row = 0; row < file.rows.size(); ++row)
    table.rows.push_back({whole_number(file, row, repeat), whole_number(file, row, fold),
                          exams.at(file.rows[row][exam]),
                          frame ? whole_number(file, row, *frame) : 0});
  std::vector<Places> places(table.targets.size());
  for_columns(table.targets, true, [&](const std::string& name, std::size_t t, Kind what) {
    const std::size_t column = file.require_column(name);
    if (what == Kind::kLabel) places[t].labels.push_back(column);
    if (what == Kind::kScore) places[t].scores.push_back(column);
    if (what == Kind::kDecision) places[t].decision = column;
  });
  for (std::size_t t = 0; t < places.size(); ++t)
    for (std::size_t row = 0; row < file.rows.size(); ++row)
      read_row(table.of[t], table.targets[t], places[t], file, row);
  return table;
}

}  // namespace coldframe::temporal
