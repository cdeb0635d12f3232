// safetensors_copy FROM TO: reads a file and writes what was read, for the cross-check against the
// reference implementation.
#include "common/cli.h"
#include "common/torch/safetensors.h"

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, [](const std::vector<std::string>& arguments) {
    const coldframe::SafetensorsFile file = coldframe::read_safetensors(arguments.at(0));
    coldframe::write_safetensors(arguments.at(1), file.tensors, file.metadata);
    return 0;
  });
}
