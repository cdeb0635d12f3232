// coldframe-train_temporal VERB …: `coldframe train` and its kin come here with the verb first.
#include <iostream>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/system/job_step.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/bundle/command.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/plan/command.h"

namespace {

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments);
  bool several = false;  // whether several processes may share its work
};

constexpr Verb kVerbs[] = {
    {"train", "fit a temporal model on cached features", coldframe::temporal::run_train, true},
    {"evaluate", "apply a run to another labelled cohort", coldframe::temporal::run_evaluate},
    {"predict", "apply a run to exams without labels", coldframe::temporal::run_predict},
    {"bundle", "make a finished run one thing to hand over", coldframe::bundle::run_bundle},
    {"plan", "say what training would take before it runs", coldframe::plan::run_plan},
};

std::string verb_list() {
  std::string list;
  for (const Verb& verb : kVerbs) {
    list += coldframe::concat("  ", coldframe::padded(verb.name, 10), verb.summary, "\n");
  }
  return list;
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::cout << "Usage: coldframe VERB [options]\n\n"
              << verb_list() << "\n`coldframe VERB --help` lists the options of each.\n";
    return arguments.empty() ? static_cast<int>(coldframe::ExitCode::kUsage) : 0;
  }
  for (const Verb& verb : kVerbs) {
    if (arguments[0] != verb.name) continue;
    if (!verb.several && coldframe::job_step(coldframe::from_environment).several()) {
      throw coldframe::ConfigError(coldframe::concat(
          verb.name, " runs in one process; start it without torchrun, and with srun --ntasks=1"));
    }
    return verb.run({arguments.begin() + 1, arguments.end()});
  }
  throw coldframe::ConfigError(
      coldframe::concat("unknown verb '", arguments[0], "'; expected one of\n", verb_list()));
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, dispatch);
}
