#include "tests/support/driver.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>

#include "common/cli/cli.h"
#include "common/files/json.h"

namespace coldframe::testing {
namespace {

std::map<std::string, DriverBody>& drivers() {
  static std::map<std::string, DriverBody> all;
  return all;
}

// Messages go to stderr, as ever.
int serve(char* program, DriverBody body) {
  for (std::string line; std::getline(std::cin, line);) {
    auto words = Json::parse(line).get<std::vector<std::string>>();
    std::vector<char*> argv{program};
    for (std::string& word : words) argv.push_back(word.data());
    std::ostringstream output;
    auto* const answers = std::cout.rdbuf(output.rdbuf());
    const int code = run_main(static_cast<int>(argv.size()), argv.data(), body);
    std::cout.rdbuf(answers);
    std::cout << Json{{"code", code}, {"output", output.str()}}.dump() << std::endl;
  }
  return 0;
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
  if (argc == 2 && std::string(argv[1]) == "serve") return testing::serve(argv[0], found->second);
  return run_main(argc, argv, found->second);
}
