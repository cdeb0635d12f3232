#include "train_temporal/run/options/shared_rows.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Ascending numbers above 0 with commas between them.
std::vector<double> ascending_numbers(const std::string& option, const std::string& words) {
  std::vector<double> numbers;
  for (const std::string& word : split(words, ',')) {
    const double before = numbers.empty() ? 0 : numbers.back();
    numbers.push_back(0);
    if (!parse_double(trim(word), numbers.back()) || !(numbers.back() > before) ||
        !(numbers.back() < 1e300))
      throw ConfigError(
          concat("--", option, ": expected ascending numbers above 0 with commas between them"));
  }
  return numbers;
}

void require_different(std::vector<std::string> names, const char* option) {
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) != names.end())
    throw ConfigError(concat("--", option, ": expected each column once"));
}

}  // namespace

void add_cache(OptionRows& rows, TargetOptions& data) {
  rows.text("cache", data.cache, "CACHE",
            "features, as `coldframe extract` made them; of several streams in a cache each: "
            "fa=PATH,icga=PATH")
      .most_used()
      .local();
}

void add_data(OptionRows& rows, TargetOptions& data) {
  add_cache(rows, data);
  rows.text("target", data.target, "COLUMN",
            "what to learn: a column of the cache (of exams or of frames) or of --labels; several "
            "as A,B, each with a task of its own as A:regression,B; a time to an event as "
            "TIME:EVENT")
      .most_used();
  rows.text("labels", data.labels, "FILE.csv", "labels from a CSV with columns exam and COLUMN")
      .most_used()
      .local();
  rows.toggle("exam-is-patient", data.exam_is_patient,
              "every exam is of another patient (when there is no patient column)");
}

void add_horizons(OptionRows& rows, TargetOptions& data) {
  rows.parsed(
      "horizons", "A,B",
      [&](const std::string& option, const std::string& words) {
        data.horizons = ascending_numbers(option, words);
      },
      "of TIME:EVENT: predict the probability of no event up to these times (default: the "
      "quartiles of the times of all events of the run)");
}

void add_questions(OptionRows& rows, Questions& questions) {
  rows.names("subgroups", questions.subgroups,
             "all figures for each value of these columns of the cache or of --labels, too");
  rows.names("characteristics", questions.characteristics,
             "a table of the cohort by class (Table 1) of these columns");
  rows.toggle("figures", questions.figures,
              "write drawings as SVG and PNG and tables as CSV and LaTeX into a folder `figures` "
              "beside the report, too");
  rows.text("aggregate", questions.aggregate, "WHAT",
            "figures are of patients (`patient`), whose exams' predictions are averaged, or of a "
            "patient's exams with one value of a column (`study`)");
  rows.number("relaxed-frames", questions.relaxed_frames, at_least(0),
              "targets per frame: figures in which so many frames at the borders of a phase may be "
              "of the phase before or behind, too");
  rows.number("threshold", questions.threshold, share(),
              "binary: decide for the positive class from this probability on (default: as the "
              "validation part chose)");
  // Nearer to 0 or 1 odds overflow.
  rows.number("prevalence", questions.prevalence, share(1e-9),
              "binary: predictive values where this share is positive");
  rows.number("at-specificity", questions.at_specificity, share(),
              "binary: the sensitivity at this specificity");
  rows.number("at-sensitivity", questions.at_sensitivity, share(),
              "binary: the specificity at this sensitivity");
  rows.toggle("without-thumbnails", questions.without_thumbnails,
              "show no pictures of the frames in the report, although the cache has them");
}

void add_bootstrap(OptionRows& rows, std::size_t& resamples) {
  rows.number("bootstrap", resamples, between(1, 1000000), "resamples for the bands around curves");
}

void add_machine(OptionRows& rows, std::string& device, std::size_t& threads, bool& json) {
  ValueRow& row = rows.text("device", device, "NAME", "cpu, cuda, cuda:N or auto").most_used();
  if (device.empty()) row.help += " (default: cpu, with --input auto)";
  rows.number("threads", threads, between(0, 1024), "CPU threads, 0: one per core");
  rows.toggle("json", json, "print the summary as JSON");
}

void check_questions(const Questions& questions) {
  require_different(questions.subgroups, "subgroups");
  require_different(questions.characteristics, "characteristics");
}

}  // namespace coldframe::temporal
