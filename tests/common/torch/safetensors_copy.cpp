// For the cross-check against the reference implementation:
//   safetensors_copy copy FROM TO    writes what was read
//   safetensors_copy check FILE...   a line per file: "ok" or why it was refused
#include <iostream>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/torch/safetensors.h"

namespace {

void check(const std::string& path) {
  try {
    coldframe::read_safetensors(path);
    std::cout << "ok\n";
  } catch (const coldframe::DataError& error) {
    std::cout << error.what() << "\n";
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.at(0) == "copy") {
    const coldframe::SafetensorsFile file = coldframe::read_safetensors(arguments.at(1));
    coldframe::write_safetensors(arguments.at(2), file.tensors, file.metadata);
    return 0;
  }
  for (std::size_t i = 1; i < arguments.size(); ++i) check(arguments[i]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, run);
}
