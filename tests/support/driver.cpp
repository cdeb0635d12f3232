#include "tests/support/driver.h"

#include <filesystem>
#include <iostream>
#include <map>

#include "common/cli/cli.h"

namespace coldframe::testing {
namespace {

std::map<std::string, DriverBody>& drivers() {
  static std::map<std::string, DriverBody> all;
  return all;
}

}  // namespace

Driver::Driver(const char* name, DriverBody body) {
  drivers()[name] = body;
}

}  // namespace coldframe::testing

int main(int argc, char** argv) {
  using namespace coldframe;
  const auto found = testing::drivers().find(std::filesystem::path(argv[0]).filename());
  if (found == testing::drivers().end()) {
    std::cerr << "error: no driver has the name of this program\n";
    return 2;
  }
  return run_main(argc, argv, found->second);
}
