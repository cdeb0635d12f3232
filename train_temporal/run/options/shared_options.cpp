#include "train_temporal/run/options/shared_options.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/run/options/option_values.h"

namespace coldframe::temporal {

namespace po = boost::program_options;

void add_data(po::options_description& description, std::string& cache, std::string& labels,
              TargetOptions& data) {
  auto add = description.add_options();
  add("cache", text(cache, "CACHE"),
      "features, as `coldframe extract` made them; of several streams in a cache each: "
      "fa=PATH,icga=PATH");
  add("target", text(data.target, "COLUMN"),
      "what to learn: a column of the cache (of exams or of frames) or of --labels; several as "
      "A,B, each with a task of its own as A:regression,B; a time to an event as TIME:EVENT");
  add("labels", text(labels, "FILE.csv"), "labels from a CSV with columns exam and COLUMN");
  add("exam-is-patient", po::bool_switch(&data.exam_is_patient),
      "every exam is of another patient (when there is no patient column)");
}

void add_horizons(po::options_description& description, TargetOptions& data) {
  description.add_options()("horizons", numbers("horizons", data.horizons),
                            "of TIME:EVENT: predict the probability of no event up to these times "
                            "(default: the quartiles of the times of all events of the run)");
}

void add_questions(po::options_description& description, Questions& questions) {
  auto add = description.add_options();
  add("subgroups", names("subgroups", questions.subgroups),
      "all figures for each value of these columns of the cache or of --labels, too");
  add("characteristics", names("characteristics", questions.characteristics),
      "a table of the cohort by class (Table 1) of these columns");
  add("figures", po::bool_switch(&questions.figures),
      "write drawings as SVG and PNG and tables as CSV and LaTeX into a folder `figures` beside "
      "the report, too");
  add("aggregate", text(questions.aggregate, "WHAT"),
      "figures are of patients (`patient`), whose exams' predictions are averaged, or of a "
      "patient's exams with one value of a column (`study`)");
  add("threshold", number(questions.threshold),
      "binary: decide for the positive class from this probability on (default: as the validation "
      "part chose)");
  add("prevalence", number(questions.prevalence),
      "binary: predictive values where this share is positive");
  add("at-specificity", number(questions.at_specificity),
      "binary: the sensitivity at this specificity");
  add("at-sensitivity", number(questions.at_sensitivity),
      "binary: the specificity at this sensitivity");
}

void add_machine(po::options_description& description, std::string& device, std::size_t& threads,
                 bool& json) {
  auto add = description.add_options();
  const std::string shown = device.empty() ? "cpu, with --input auto" : device;
  add("device", text(device, "NAME")->default_value(device, shown), "cpu, cuda, cuda:N or auto");
  add("threads", number(threads), "CPU threads, 0: one per core");
  add("json", po::bool_switch(&json), "print the summary as JSON");
}

void require_given(const std::string& value, const char* option) {
  if (value.empty()) throw ConfigError(concat("--", option, " is missing; see --help"));
}

}  // namespace coldframe::temporal
