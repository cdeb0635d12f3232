// Splits that come from the manifest's column or from splits.csv, and the writing of the latter.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/splits/split.h"
#include "train_temporal/splits/split_parts.h"

namespace coldframe::temporal {
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
