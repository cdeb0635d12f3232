#include "train_temporal/run/options/shared_options.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/run/options/option_values.h"

namespace coldframe::temporal {

namespace po = boost::program_options;

void add_data(po::options_description& description, std::string& cache, std::string& labels,
              TargetOptions& data) {
  auto add = description.add_options();
  add("cache", text(cache, "CACHE"), "features, as `coldframe extract` made them");
  add("target", text(data.target, "COLUMN"),
      "what to learn: a column of the cache (of exams or of frames) or of --labels; several as "
      "A,B, each with a task of its own as A:regression,B");
  add("labels", text(labels, "FILE.csv"), "labels from a CSV with columns exam and COLUMN");
  add("exam-is-patient", po::bool_switch(&data.exam_is_patient),
      "every exam is of another patient (when there is no patient column)");
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
