#include "train_temporal/run/results/held_out.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/results/resolved_questions.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace fs = std::filesystem;
namespace {

// One prediction: of an exam or of one of its frames, by one repeat.
using Key = std::tuple<std::size_t, std::string, std::string>;  // repeat, exam, frame

struct Prediction {
  std::size_t fold = 0, frame = 0;
  std::string patient;
  double label = 0;  // as in TaskKind
  std::vector<double> scores;
  int decision = 0;
};

struct FinishedRun {
  std::string name;
  std::vector<Target> targets;
  CsvTable table;
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
  if (!fs::is_regular_file(folder / "predictions.csv"))
    throw ConfigError(concat("'", folder.string(),
                             "' is not a finished run of `coldframe train`: it has no "
                             "predictions.csv"));
  try {
    return {name_beside(folder, other), targets_of(read_json_file(folder / "config.json")),
            read_csv(folder / "predictions.csv")};
  } catch (const Json::exception& error) {
    throw DataError(concat("'", (folder / "config.json").string(),
                           "' does not say what the run learnt: ", error.what()));
  }
}

// A field of the table; `expected` names what it is not.
DataError bad_field(const CsvTable& table, std::size_t row, std::size_t column,
                    const std::string& expected) {
  return DataError(concat(table.name, " line ", table.lines[row], ": column '",
                          table.header[column], "' has '", table.rows[row][column], "'; expected ",
                          expected));
}

double number(const CsvTable& table, std::size_t row, std::size_t column) {
  double value = 0;
  if (parse_double(table.rows[row][column], value)) return value;
  throw bad_field(table, row, column, "a number");
}

std::size_t whole_number(const CsvTable& table, std::size_t row, std::size_t column) {
  std::int64_t value = 0;
  if (parse_int(table.rows[row][column], value) && value >= 0)
    return static_cast<std::size_t>(value);
  throw bad_field(table, row, column, "a whole number");
}

int class_at(const CsvTable& table, std::size_t row, std::size_t column, const Target& target) {
  const auto found = std::ranges::find(target.classes, table.rows[row][column]);
  if (found != target.classes.end()) return static_cast<int>(found - target.classes.begin());
  throw bad_field(table, row, column, "one of " + join(target.classes, ", "));
}

// The rows that have a label for the target.
std::map<Key, Prediction> predictions_of(const FinishedRun& run, std::size_t t) {
  const Target& target = run.targets[t];
  const CsvTable& table = run.table;
  const auto column = [&](const std::string& name) {
    return table.require_column(run.targets.size() > 1 ? target.name + ":" + name : name);
  };
  const auto columns = [&](const std::vector<std::string>& names) {
    std::vector<std::size_t> found;
    for (const std::string& name : names) found.push_back(column(name));
    return found;
  };
  const TaskKind& kind = target.kind();
  const std::vector<std::size_t> labels = columns(kind.label_columns());
  const std::vector<std::size_t> scores = columns(kind.score_columns(target));
  const std::size_t label = labels.front();
  const std::size_t predicted = target.has_classes() ? column("predicted") : label;
  const std::size_t repeat = table.require_column("repeat"), fold = table.require_column("fold"),
                    exam = table.require_column("exam"), patient = table.require_column("patient");
  const auto frame = table.column("frame");
  std::map<Key, Prediction> result;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    if (row[label].empty()) continue;
    Prediction one;
    one.fold = whole_number(table, r, fold);
    if (frame) one.frame = whole_number(table, r, *frame);
    one.patient = row[patient];
    for (std::size_t score : scores) one.scores.push_back(number(table, r, score));
    std::vector<std::string> fields;
    for (std::size_t c : labels) fields.push_back(row[c]);
    one.label = kind.label_from(target, fields);
    if (std::isnan(one.label)) throw bad_field(table, r, label, kind.expected_label(target));
    if (target.has_classes()) one.decision = class_at(table, r, predicted, target);
    result[{whole_number(table, r, repeat), row[exam], frame ? row[*frame] : std::string()}] =
        std::move(one);
  }
  return result;
}

// Both runs' predictions of what both have held out, in one order.
struct Pair {
  std::vector<Key> keys;
  std::vector<Prediction> of[2];
  bool same_folds = true;
  std::size_t left_out = 0;
};

Pair pair_up(const FinishedRun (&runs)[2], std::size_t t) {
  const std::map<Key, Prediction> of[2] = {predictions_of(runs[0], t), predictions_of(runs[1], t)};
  const auto text = [&](const Prediction& one) {
    return runs[0].targets[t].kind().label_text(runs[0].targets[t], one.label);
  };
  Pair pair;
  for (const auto& [key, a] : of[0]) {
    const auto found = of[1].find(key);
    if (found == of[1].end()) continue;
    const Prediction& b = found->second;
    const bool other = text(a) != text(b);
    if (other || plain_spelling(a.patient) != plain_spelling(b.patient))
      throw DataError(concat("exam '", std::get<1>(key), "' has the ", other ? "label" : "patient",
                             " '", other ? text(a) : a.patient, "' in ", runs[0].name, " and '",
                             other ? text(b) : b.patient, "' in ", runs[1].name,
                             "; compare runs of the same labels and patients"));
    pair.keys.push_back(key);
    pair.of[0].push_back(a);
    pair.of[1].push_back(b);
    pair.same_folds = pair.same_folds && a.fold == b.fold;
  }
  pair.left_out = of[0].size() + of[1].size() - 2 * pair.keys.size();
  if (!pair.keys.empty()) return pair;
  throw DataError(
      concat(runs[0].name, " and ", runs[1].name,
             " hold out no exam with a label in common; give --cache to compare both on "
             "a cohort"));
}

// Numbers names in the order in which they come.
class Numbering {
 public:
  std::size_t operator()(const std::string& name) {
    return number_.emplace(name, number_.size()).first->second;
  }
  std::size_t count() const { return number_.size(); }

 private:
  std::map<std::string, std::size_t> number_;
};

ModelResult model_of(const std::string& name, const Pair& pair, std::size_t which,
                     const Target& target, Numbering& patients) {
  std::map<std::pair<std::size_t, std::size_t>, FoldScores> folds;
  Numbering numbers;  // of exams
  for (std::size_t i = 0; i < pair.keys.size(); ++i) {
    const Prediction& one = pair.of[which][i];
    const std::size_t repeat = std::get<0>(pair.keys[i]), fold = pair.same_folds ? one.fold : 0;
    FoldScores& part = folds.try_emplace({repeat, fold}).first->second;
    part.repeat = repeat;
    part.fold = fold;
    part.patient.push_back(patients(one.patient));
    ScoredExams& exams = part.exams;
    exams.classes = target.scores();
    exams.scale = target.scale();
    exams.horizons = target.horizons;
    exams.per_frame = target.per_frame;
    exams.probability.insert(exams.probability.end(), one.scores.begin(), one.scores.end());
    exams.decision.push_back(one.decision);
    target.kind().add_label(exams, one.label);
    if (target.per_frame) exams.frame.push_back({numbers(std::get<1>(pair.keys[i])), one.frame});
  }
  ModelResult result;
  result.name = name;
  result.folds_together = !pair.same_folds;
  for (auto& [key, part] : folds) result.folds.push_back(std::move(part));
  return result;
}

DataOverview overview_of(const Pair& pair, const Target& target, std::size_t patients) {
  DataOverview data;
  data.patients = patients;
  std::set<std::string> exams;
  std::map<std::string, std::size_t> rows;
  std::map<std::string, std::set<std::string>> patients_of;
  ScoredExams all;
  for (std::size_t i = 0; i < pair.keys.size(); ++i) {
    if (std::get<0>(pair.keys[i]) != std::get<0>(pair.keys.front())) continue;
    const Prediction& one = pair.of[0][i];
    exams.insert(std::get<1>(pair.keys[i]));
    const std::string label = target.kind().label_text(target, one.label);
    ++rows[label];
    patients_of[label].insert(one.patient);
    target.kind().add_label(all, one.label);
  }
  data.exams = exams.size();
  data.numbers = all.number;
  if (target.is_survival())
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

RunReport report_on(const FinishedRun (&runs)[2], std::size_t t) {
  const Target& target = runs[0].targets[t];
  const Pair pair = pair_up(runs, t);
  RunReport report;
  report.title = "Coldframe comparison of two runs";
  report.subtitle = concat(runs[0].name, " against ", runs[1].name);
  report.target = target.name;
  report.event = target.event;
  report.task = task_name(target.task);
  if (const Task other = runs[1].targets[t].task; other != target.task)
    report.task += concat(" against ", task_name(other));
  report.scale = target.scale();
  report.per_frame = target.per_frame;
  report.classes = target.classes;
  report.split = pair.same_folds ? "folds of both runs" : "exams that both runs held out";
  report.against = runs[1].name;
  Numbering patients;
  for (std::size_t r = 0; r < 2; ++r)
    report.models.push_back(model_of(runs[r].name, pair, r, target, patients));
  report.data = overview_of(pair, target, patients.count());
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

// A time to an event may be learnt in several ways; labels are compared exam by exam.
bool asks_the_same(const Target& a, const Target& b) {
  if (a.is_survival()) return b.is_survival() && a.name == b.name && a.event == b.event;
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
  FinishedRun runs[2] = {{"this run", targets, {}}, read_run(run, run)};
  require_same_question(targets, runs[0].name, runs[1].targets, runs[1].name);
  take_common_horizons(runs);
}

StudyReport compare_held_out(const fs::path& run, const fs::path& against,
                             const BootstrapOptions& bootstrap, const Questions& questions) {
  FinishedRun runs[2] = {read_run(run, against), read_run(against, run)};
  require_same_question(runs[0].targets, runs[0].name, runs[1].targets, runs[1].name);
  take_common_horizons(runs);
  check_decisions(questions, runs[0].targets);
  StudyReport study;
  for (std::size_t t = 0; t < runs[0].targets.size(); ++t) {
    study.targets.push_back(report_on(runs, t));
    study.targets.back().bootstrap = bootstrap;
    study.targets.back().questions = questions;
  }
  evaluate_study(study);
  return study;
}

}  // namespace coldframe::temporal
