// The CPU engine for tests/benchmarks/vit/run.py, one line in, one line out, so that it takes turns
// with its peers.
//   engine_speed WEIGHTS IMAGES.bin SIZE BATCH POOL PRECISION THREADS
// Reads raw float32 images [BATCH, 3, SIZE, SIZE], or clips [BATCH, T, 3, SIZE, SIZE]. Each line on
// stdin runs one forward pass and prints its wall seconds and CPU seconds; "features FILE" writes
// its result as raw float32.

#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>

#include "common/cli/error.h"
#include "common/torch/tensor.h"
#include "extract/vit/backbone.h"
#include "tests/support/driver.h"

namespace coldframe::vit {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int run_engine_speed(const std::vector<std::string>& arguments) {
  if (arguments.size() != 7)
    throw ConfigError("usage: engine_speed WEIGHTS IMAGES SIZE BATCH POOL PRECISION THREADS");
  at::set_num_threads(std::stoi(arguments[6]));
  BackboneOptions options;
  options.weights = arguments[0];
  options.image_size = std::stoll(arguments[2]);
  options.features.pooling = parse_pooling(arguments[4]);
  const auto backbone =
      make_backbone(options, torch::kCPU, parse_precision(arguments[5], torch::kCPU));
  std::ifstream in(arguments[1], std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::int64_t size = options.image_size.height, batch = std::stoll(arguments[3]);
  const std::int64_t frames = backbone->clip_frames();
  if (bytes.size() != static_cast<std::size_t>(batch * frames * 3 * size * size) * sizeof(float))
    throw DataError("the file of images has another size than BATCH and SIZE tell");
  torch::Tensor images = torch::from_blob(bytes.data(), {batch, frames, 3, size, size});
  if (frames == 1) images = images.squeeze(1);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto started = std::chrono::steady_clock::now();
    double cpu = cpu_seconds();
    const torch::Tensor features = backbone->forward(images);
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
    cpu = cpu_seconds() - cpu;
    if (line.starts_with("features ")) {
      std::ofstream out(line.substr(9), std::ios::binary);
      out.write(static_cast<const char*>(features.data_ptr()),
                static_cast<std::streamsize>(features.nbytes()));
    }
    std::cout << wall.count() << ' ' << cpu << std::endl;
  }
  return 0;
}

const testing::Driver kEngineSpeed{"vit_engine_speed", run_engine_speed};

}  // namespace
}  // namespace coldframe::vit
