#include "common/processes/launch.h"

#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

constexpr std::int64_t kMostProcesses = 65536;

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? "" : trim(value);
  }
  bool has(const char* name) const { return !text(name).empty(); }

  // The first of `names` that is set.
  std::string any(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (has(name)) return text(name);
    }
    return "";
  }

  std::int64_t number(const char* name, std::int64_t least, std::int64_t most) const {
    std::int64_t value = 0;
    if (parse_int(text(name), value) && value >= least && value <= most) return value;
    throw ConfigError(concat("the environment's ", name, " is '", text(name),
                             "', expected a number from ", least, " to ", most));
  }
  std::int64_t number_or(const char* name, std::int64_t otherwise) const {
    return has(name) ? number(name, 0, kMostProcesses) : otherwise;
  }

  // ConfigError unless all of `names` are set.
  void require(const std::vector<const char*>& names, const char* launcher) const {
    std::vector<std::string> set, missing;
    for (const char* name : names) (has(name) ? set : missing).push_back(name);
    if (missing.empty()) return;
    throw ConfigError(
        concat("the environment is set for several processes only in part: ", join(set, ", "),
               set.size() == 1 ? " is" : " are", " there, ", join(missing, ", "),
               missing.size() == 1 ? " is" : " are", " missing; start with ", launcher,
               ", or unset ", join(set, ", "), " to run one process"));
  }

 private:
  const Environment& environment_;
};

void check_ranks(const Launch& launch, const char* rank, const char* size) {
  if (launch.rank < launch.size) return;
  throw ConfigError(concat("the environment's ", rank, " is ", launch.rank, " and its ", size,
                           " is ", launch.size, "; ranks count from 0 and are fewer"));
}

Launch from_torchrun(const Variables& variables) {
  variables.require({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}, "torchrun");
  Launch launch;
  launch.rank = static_cast<int>(variables.number("RANK", 0, kMostProcesses));
  launch.size = static_cast<int>(variables.number("WORLD_SIZE", 1, kMostProcesses));
  launch.local_rank = static_cast<int>(variables.number("LOCAL_RANK", 0, kMostProcesses));
  launch.local_size = static_cast<int>(variables.number_or("LOCAL_WORLD_SIZE", 1));
  launch.master_address = variables.text("MASTER_ADDR");
  launch.master_port = static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, 65535));
  check_ranks(launch, "RANK", "WORLD_SIZE");
  // torch.distributed.rendezvous does the same.
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    launch.store_prefix =
        concat("/worker/attempt_", variables.number_or("TORCHELASTIC_RESTART_COUNT", 0));
  }
  return launch;
}

// A step of its own port, so that two on one machine do not meet.
std::uint16_t step_port(const Variables& variables) {
  const std::int64_t job = variables.number_or("SLURM_JOB_ID", 0);
  return static_cast<std::uint16_t>(20000 +
                                    (job * 31 + variables.number_or("SLURM_STEP_ID", 0)) % 10000);
}

Launch from_slurm(const Variables& variables) {
  const bool step = variables.has("SLURM_STEP_NUM_TASKS");
  const char* size = step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  variables.require({"SLURM_PROCID", size}, "srun");
  Launch launch;
  launch.rank = static_cast<int>(variables.number("SLURM_PROCID", 0, kMostProcesses));
  launch.size = static_cast<int>(variables.number(size, 1, kMostProcesses));
  check_ranks(launch, "SLURM_PROCID", size);
  if (!launch.several()) return {};
  variables.require({"SLURM_PROCID", size, "SLURM_LOCALID"}, "srun");
  launch.local_rank = static_cast<int>(variables.number("SLURM_LOCALID", 0, kMostProcesses));
  launch.master_address = variables.text("MASTER_ADDR");
  if (launch.master_address.empty()) {
    launch.master_address =
        first_host(variables.any({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}));
  }
  if (launch.master_address.empty()) {
    variables.require({"SLURM_PROCID", size, "SLURM_STEP_NODELIST"}, "srun");
  }
  launch.master_port = variables.has("MASTER_PORT")
                           ? static_cast<std::uint16_t>(variables.number("MASTER_PORT", 1, 65535))
                           : step_port(variables);
  return launch;
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return trim(list.substr(0, comma));
  const std::size_t end = list.find_first_of("-,]", bracket);
  if (end == std::string::npos) return "";
  const std::size_t close = list.find(']', bracket);
  const std::size_t next = list.find(',', close == std::string::npos ? end : close);
  const std::string suffix =
      close == std::string::npos
          ? ""
          : list.substr(close + 1, next == std::string::npos ? next : next - close - 1);
  return trim(list.substr(0, bracket)) + list.substr(bracket + 1, end - bracket - 1) + trim(suffix);
}

Launch launch_from(const Environment& environment) {
  const Variables variables(environment);
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return from_torchrun(variables);
  // A batch script has SLURM_PROCID and SLURM_NTASKS, too, but is no job step: it is one process.
  const bool step = variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEP_NUM_TASKS");
  if (step || (variables.has("SLURM_PROCID") && !variables.has("SLURM_JOB_ID"))) {
    return from_slurm(variables);
  }
  if (variables.has("LOCAL_RANK")) return from_torchrun(variables);
  return {};
}

Launch launch_from_environment() {
  return launch_from([](const char* name) { return std::getenv(name); });
}

}  // namespace coldframe
