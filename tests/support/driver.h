// Programs that tests in Python and measurements run. Several share a binary, since LibTorch's
// headers and the link take seconds for each: build/tests/NAME is a link to it, and the name
// chooses.
//   NAME WORDS…   runs the driver
//   NAME serve    runs it for each line of stdin, a JSON list of words, and answers with a JSON
//   line
//                 {"code", "output"}: a session of tests loads LibTorch once
//                 (tests/support/served.py)
#pragma once

#include <string>
#include <vector>

namespace coldframe::testing {

using DriverBody = int (*)(const std::vector<std::string>& words);

// An object of it makes a driver known by its name before main() begins.
struct Driver {
  Driver(const char* name, DriverBody body);
};

}  // namespace coldframe::testing
