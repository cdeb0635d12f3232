// Reads, in one place, which of several processes this one is, as torchrun and srun say it in the
// environment. An environment that is only partly set is refused by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace coldframe {

struct Launch {
  int rank = 0, size = 1;              // among all processes of the job
  int local_rank = 0, local_size = 1;  // among those of this machine
  std::string master_address;          // where rank 0 runs, or torchrun's own store
  std::uint16_t master_port = 0;
  // torchrun keeps the store itself; its keys begin with this then. Empty: rank 0 keeps it.
  std::string store_prefix;

  bool several() const { return size > 1; }
};

// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (torchrun, docs.pytorch.org "Environment
// variables"); else SLURM_PROCID, SLURM_NTASKS and their kin within a job step (srun(1)); else one
// process. ConfigError names what is missing, or what is no number.
using Environment = std::function<const char*(const char* name)>;  // null: not set
Launch launch_from(const Environment& environment);
Launch launch_from_environment();

// The first host of SLURM's compact list, "node[07-09,12],other" -> "node07".
std::string first_host(const std::string& list);

}  // namespace coldframe
