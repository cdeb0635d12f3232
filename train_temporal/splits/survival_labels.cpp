#include "train_temporal/splits/survival_labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/cli/error.h"
#include "common/numbers/finite.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/splits/exam_column.h"
#include "train_temporal/splits/label_values.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {
namespace {

constexpr std::array kYes = {"1", "yes", "y", "true", "t"}, kNo = {"0", "no", "n", "false", "f"};

bool is_one_of(const auto& words, const std::string& value) {
  return std::ranges::find(words, lower(value)) != words.end();
}

bool say_yes_or_no(const std::vector<std::string>& values) {
  return std::ranges::all_of(values, [](const std::string& value) {
    return is_one_of(kYes, value) || is_one_of(kNo, value);
  });
}

// A cohort that a model is applied to may spell the event otherwise, which has to be told: taken
// for censored, such exams would make figures wrong without a word.
std::string known_event_value(const std::vector<std::string>& different,
                              const LabelOptions& options) {
  const std::string& own = options.event_value;
  const bool known =
      own.empty() ? say_yes_or_no(different) : find_spelling(different, own).has_value();
  if (known || different.empty()) return own;
  throw ConfigError(concat(
      "the run learnt from a column that says ",
      own.empty() ? "1, yes or true" : concat("'", own, "'"), " where the event came, and '",
      options.event, "' says ", some_of(different),
      " here; give --positive VALUE for the one that means that the event came",
      own.empty() ? "" : concat(", or --positive ", own, " if it came in none of these exams")));
}

// Chooses the value that says that the event came; "" where the words are those above.
std::string event_value_of(const std::vector<std::string>& values, const LabelOptions& options) {
  const std::vector<std::string> different = distinct(values);
  if (different.size() > 2)
    throw ConfigError(concat("--target ", options.target, ":", options.event, ": the column '",
                             options.event, "' has ", different.size(), " different values, ",
                             some_of(different), "; expected whether the event came, 0 or 1"));
  const std::string& asked = options.positive;
  if (!asked.empty()) {
    const std::string value = one_spelling(trim(asked));
    if (options.trained && value == options.event_value) return value;
    if (const auto found = find_spelling(different, value)) return different[*found];
    throw ConfigError(concat("--positive '", asked, "' is no value of '", options.event,
                             "'; those are ", some_of(different)));
  }
  if (options.trained) return known_event_value(different, options);
  if (say_yes_or_no(different)) return "";
  throw ConfigError(concat("the column '", options.event, "' says ", some_of(different),
                           "; expected 0 and 1, no and yes or false and true, or --positive VALUE "
                           "for the one that means that the event came"));
}

std::string listed(const std::vector<double>& numbers) {
  std::vector<std::string> words;
  for (const double number : numbers) words.push_back(exact(number));
  return join(words, ", ");
}

double time_from(const std::string& text, const LabelOptions& options, const std::string& exam) {
  double time = 0;
  if (parse_double(text, time) && is_learnable(time) && time >= 0) return time;
  throw DataError(concat("exam '", exam, "': column '", options.target, "' holds '", text,
                         "'; a time to an event is a number from 0 to ", exact(kMostLearnt),
                         " (empty fields and 'nan' are masked)"));
}

std::vector<double> ascending_times(const Labels& labels, bool of_events) {
  std::vector<double> times;
  for (std::size_t i = 0; i < labels.number.size(); ++i)
    if (labels.value[i] != kUnlabeled && (!of_events || labels.value[i] == 1))
      times.push_back(time_of(labels.number[i]));
  std::ranges::sort(times);
  return times;
}

void check_horizons(const std::vector<double>& horizons, double longest) {
  for (const double horizon : horizons)
    if (horizon >= longest)
      throw ConfigError(concat("--horizons ", exact(horizon), ": the longest follow-up is ",
                               exact(longest), "; give times that some exams are followed beyond"));
}

std::vector<double> quartiles(const std::vector<double>& events, double longest) {
  std::vector<double> horizons;
  for (const std::size_t quarter : {1, 2, 3}) {
    const double time = events[(quarter * events.size() + 3) / 4 - 1];
    const double before = horizons.empty() ? 0 : horizons.back();
    if (time > before && time < longest) horizons.push_back(time);
  }
  if (horizons.empty()) horizons.push_back(longest / 2);
  return horizons;
}

// Horizons depend on the times of all events.
void choose_horizons(Labels& labels, const LabelOptions& options) {
  labels.horizons = options.horizons;
  if (options.trained) return;
  const std::vector<double> events = ascending_times(labels, true);
  if (events.empty())
    throw DataError(concat("column '", labels.event, "' says of no exam with a '", labels.name,
                           "' that the event came; nothing to learn from"));
  const double longest = ascending_times(labels, false).back();
  if (longest == 0)
    throw DataError(
        concat("column '", labels.name, "' is 0 for every exam; nothing to learn from"));
  check_horizons(labels.horizons, longest);
  if (labels.horizons.empty()) labels.horizons = quartiles(events, longest);
  labels.notes.push_back(concat("'", labels.event, "' came in ", events.size(), " of ",
                                plural(labels.labeled(), "exam"),
                                "; horizons: ", listed(labels.horizons)));
}

}  // namespace

Labels survival_labels(std::span<const cache::ExamInfo> exams, const CsvTable* table,
                       const LabelOptions& options) {
  Labels labels;
  const auto column = [&](const std::string& name, std::vector<std::string> words) {
    std::vector<std::string> values = exam_column(exams, table, name, "target", labels.warnings);
    std::string note = empty_missing(values, name, options.unclear, words);
    if (!note.empty()) labels.notes.push_back(std::move(note));
    return values;
  };
  const auto times = column(options.target, {});
  const auto events = column(options.event, {options.event_value, options.positive});
  labels.name = options.target;
  labels.event = options.event;
  labels.task = options.task.value_or(Task::kCox);
  labels.event_value = event_value_of(events, options);
  labels.bins = 2;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const bool known = !times[i].empty() && !events[i].empty();
    const bool came = labels.event_value.empty()
                          ? is_one_of(kYes, events[i])
                          : plain_spelling(events[i]) == plain_spelling(labels.event_value);
    labels.number.push_back(known ? survival_label(time_from(times[i], options, exams[i].id), came)
                                  : std::numeric_limits<double>::quiet_NaN());
    labels.value.push_back(known ? came : kUnlabeled);
    labels.unlabeled += !known;
  }
  if (labels.labeled() == 0)
    throw DataError(concat("no exam has both a '", labels.name, "' and a word in '", labels.event,
                           "'; nothing to learn from"));
  if (labels.unlabeled > 0)
    labels.notes.push_back(concat(plural(labels.unlabeled, "exam"), " of ", exams.size(),
                                  " without '", labels.name, "' or '", labels.event,
                                  "': left out"));
  choose_horizons(labels, options);
  return labels;
}

}  // namespace coldframe::temporal
