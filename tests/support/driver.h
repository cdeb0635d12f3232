// Programs that tests in Python and measurements run. Several share a binary, since LibTorch's
// headers and the link take seconds for each: build/tests/NAME is a link to it, and the name
// chooses.
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
