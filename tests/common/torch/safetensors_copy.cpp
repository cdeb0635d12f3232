// For the cross-check against the reference implementation:
//   safetensors_copy copy FROM TO    writes what was read
//   safetensors_copy check FILE...   a line per file: "ok" or why it was refused
#include <iostream>

#include "common/cli/error.h"
#include "common/torch/safetensors.h"
#include "tests/support/driver.h"

namespace coldframe {
namespace {

void check(const std::string& path) {
  try {
    read_safetensors(path);
    std::cout << "ok\n";
  } catch (const DataError& error) {
    std::cout << error.what() << "\n";
  }
}

int run_safetensors_copy(const std::vector<std::string>& arguments) {
  if (arguments.at(0) == "copy") {
    const SafetensorsFile file = read_safetensors(arguments.at(1));
    write_safetensors(arguments.at(2), file.tensors, file.metadata);
    return 0;
  }
  for (std::size_t i = 1; i < arguments.size(); ++i) check(arguments[i]);
  return 0;
}

const testing::Driver kSafetensorsCopy{"safetensors_copy", run_safetensors_copy};

}  // namespace
}  // namespace coldframe
