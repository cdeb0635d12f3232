// coldframe-train_temporal VERB …: `coldframe train` and its kin come here with the verb first. So
// does `extract`: bundles bring its code anyway, and an installation has one program per LibTorch.
#include <iostream>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/system/job.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "extract/command.h"
#include "train_temporal/bundle/command.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/plan/command.h"

namespace {

struct Verb {
  const char* name;
  int (*run)(const std::vector<std::string>& arguments);
  bool several = false;  // whether several processes may share its work
};

constexpr Verb kVerbs[] = {
    {"extract", coldframe::extract::run_extract, true},
    {"train", coldframe::temporal::run_train, true},
    {"evaluate", coldframe::temporal::run_evaluate},
    {"predict", coldframe::temporal::run_predict},
    {"bundle", coldframe::bundle::run_bundle},
    {"plan", coldframe::plan::run_plan},
};

int dispatch(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "" : arguments[0];
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) names.emplace_back(verb.name);
  if (name == "--help" || name == "-h") {
    std::cout << "Usage: coldframe COMMAND [options], where COMMAND is "
              << coldframe::join(names, ", ") << "\n";
    return 0;
  }
  for (const Verb& verb : kVerbs) {
    if (name != verb.name) continue;
    if (!verb.several && coldframe::job_step(coldframe::from_environment).several()) {
      throw coldframe::ConfigError(coldframe::concat(
          verb.name, " runs in one process; start it without torchrun, and with srun --ntasks=1"));
    }
    return verb.run({arguments.begin() + 1, arguments.end()});
  }
  throw coldframe::ConfigError(coldframe::concat(
      "there is no command '", name, "'; expected one of ", coldframe::join(names, ", ")));
}

}  // namespace

int main(int argc, char** argv) {
  const int code = coldframe::run_main(argc, argv, dispatch);
  coldframe::end_loading_cuda();
  return code;
}
