#include "train_temporal/run/options/requirements.h"

#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/text/word_table.h"

namespace coldframe::temporal {
namespace {

const WordTable<double> kTimeUnits{{"ms", 0.001}, {"min", 60}, {"h", 3600}, {"s", 1}};

[[noreturn]] void refuse_requirement(const std::string& word) {
  throw ConfigError(concat("--require: '", word,
                           "' is none of memory=6GiB, epoch=5s and run=2h, each at most once and "
                           "more than 0 (times in ms, s, min or h)"));
}

double seconds_of(const std::string& text, const std::string& word) {
  for (const auto& [unit, seconds] : kTimeUnits) {
    double number = 0;
    const std::string end = unit;
    if (!text.ends_with(end) || !parse_double(text.substr(0, text.size() - end.size()), number))
      continue;
    if (std::isfinite(number) && number > 0) return number * seconds;
  }
  refuse_requirement(word);
}

}  // namespace

Requirements parse_requirements(const std::string& text) {
  Requirements required;
  for (const std::string& part : split(text, ',')) {
    const std::string word = trim(part);
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) refuse_requirement(word);
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "memory" && required.memory == 0) {
      required.memory = parse_bytes(value);
      if (required.memory == 0) refuse_requirement(word);
    } else if (name == "epoch" && required.epoch_seconds == 0) {
      required.epoch_seconds = seconds_of(value, word);
    } else if (name == "run" && required.run_seconds == 0) {
      required.run_seconds = seconds_of(value, word);
    } else {
      refuse_requirement(word);
    }
  }
  return required;
}

}  // namespace coldframe::temporal
