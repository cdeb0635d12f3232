#include "train_temporal/run/options/shared_rows.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/run/options/named_caches.h"

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
  rows.word("equal-numbers", data.equal_numbers, kEqualNumbers, "ANSWER",
            "patients whose ids are equal as numbers (0123, 123, 123.0) are the same person, or "
            "different ones");
}

std::vector<NamedInput> cache_inputs(const TargetOptions& data) {
  std::vector<NamedInput> inputs;
  if (data.cache.empty()) return inputs;
  for (const NamedCache& cache : named_caches(data.cache.string()))
    inputs.push_back({"--cache", cache.path});
  return inputs;
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
      .input();
  rows.word(
      "unclear-labels", data.unclear_labels, kUnclearLabels, "ANSWER",
      "labels such as None, null, -, ? and unknown: missing, as empty fields are, or classes");
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

void add_bootstrap(OptionRows& rows, BootstrapOptions& bootstrap) {
  rows.number("bootstrap", bootstrap.resamples, between(1, 1000000),
              "resamples for the bands around curves");
}

void add_machine(OptionRows& rows, std::string& device, std::size_t& threads, bool& json) {
  ValueRow& row =
      rows.text("device", device, "NAME",
                "cpu, cuda, cuda:N, or auto: GPU or CPU, whichever a few steps show to be quicker")
          .most_used();
  if (device.empty()) row.help += " (default: cpu, with --input auto)";
  rows.number("threads", threads, between(0, 1024), "CPU threads, 0: one per core");
  rows.toggle("json", json, "print the summary as JSON");
}

void check_questions(const Questions& questions) {
  require_different(questions.subgroups, "subgroups");
  require_different(questions.characteristics, "characteristics");
}

}  // namespace coldframe::temporal
