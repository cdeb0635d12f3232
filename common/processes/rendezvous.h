// How the processes of a job find and connect to each other.
#pragma once

#include <string>
#include <vector>

#include "common/processes/launch.h"
#include "common/system/socket.h"

namespace coldframe {

struct Connections {
  Socket next, previous;           // in the ring of ranks
  std::vector<Socket> control;     // rank 0: to rank 1, 2, …; else one, to rank 0
  std::vector<std::string> names;  // of all ranks: "rank 1 (node2, process 4711)"
};

// SystemError when not all have come by the deadline.
Connections connect_processes(const Launch& launch, Deadline deadline);

}  // namespace coldframe
