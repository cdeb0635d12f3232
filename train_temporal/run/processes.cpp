#include "train_temporal/run/processes.h"

#include "cache/format/recipe.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/system/cuda_driver.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// "cuda" and "auto" mean each process's own GPU.
std::string own_device(const std::string& word, int local_rank) {
  const int count = cuda_driver::device_count();
  if (count == 0 || (word != "cuda" && word != "auto")) return word;
  return concat("cuda:", local_rank % count);
}

}  // namespace

int in_processes(TrainOptions& options, const std::function<int(ProcessGroup*)>& body) {
  options.launch = launch_from_environment();
  if (!options.launch.several()) return body(nullptr);
  if (options.jobs > 1) {
    throw ConfigError("--jobs is for one process; several, as here, share the work of every fit");
  }
  if (options.required.asked())
    throw ConfigError("--require is for one process; leave it out where several share every fit");
  set_log_rank(options.launch.rank);
  options.device = own_device(options.device, options.launch.local_rank);
  ProcessGroup group(options.launch);
  log_info(concat(options.launch.size, " processes share every batch"));
  try {
    return body(&group);
  } catch (const Interrupted&) {  // all stop together, by choice
    group.leave();
    throw;
  } catch (const std::exception& error) {
    group.fail(error.what());
    throw;
  }
}

void require_same_everywhere(ProcessGroup* group, const Json& config) {
  if (group == nullptr) return;
  Json own = config;
  own["device"] = split(config.at("device").get<std::string>(), ':').front();  // without its number
  const Json leading = Json::parse(group->broadcast(own.dump()));
  const auto changes = cache::differences(leading, own, {"rank 0 has", "this one"});
  if (changes.empty()) return;
  throw ConfigError(concat("this process was started otherwise than rank 0:\n  ",
                           join(changes, "\n  "),
                           "\ngive all processes the same options and data"));
}

}  // namespace coldframe::temporal
