#include "train_temporal/run/results/held_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/results/resolved_questions.h"
#include "train_temporal/run/results/results.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
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
  result.is_as_it_is = true;
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

}  // namespace coldframe::temporal
