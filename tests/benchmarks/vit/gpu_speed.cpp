// The GPU engine for tests/benchmarks/vit/gpu.py, one line in, one line out, so that it takes turns
// with its peers.
//   vit_gpu_speed WEIGHTS.safetensors FRAMES.bin SIZE BATCH POOL PRECISION DEVICE [KEY=VALUE…]
// Reads raw uint8 frames [BATCH, SIZE, SIZE, 3]; mean and std are 0.5. Lines on stdin:
//   run N          N forward passes of frames that lie on the device: prints seconds per pass
//   stage N        N batches from host memory and back, two under way: prints seconds per batch
//   features FILE  writes the features as raw float32
//   layers N       prints NAME SECONDS FLOP BYTES of each kind of layer, the median of N passes
//   memory         prints the most bytes in tensors, graphs included, and those taken from CUDA
// Keys: residual=fp32|bf16|fp16, gelu=0|1 (in fc1's product), graphs=0|1. On the CPU the kernels'
// twins compute, to try the script out.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/cuda/library.h"
#include "extract/pipeline/transfer.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/gpu/engine.h"
#include "extract/vit/resolve_architecture.h"
#include "tests/extract/cuda/twin.h"

namespace coldframe::vit::gpu {
namespace {

struct Setup {
  std::string weights;
  EngineOptions options;
  bool graphs = true;
};

Setup read_setup(const std::vector<std::string>& words) {
  Setup setup;
  setup.weights = words[0];
  setup.options.image_size = std::stoll(words[2]);
  setup.options.features.pooling = parse_pooling(words[4]);
  setup.options.device = resolve_device(words[6]);
  setup.options.type = scalar_type(parse_precision(words[5], setup.options.device));
  if (setup.options.device.is_cuda() && setup.options.type != torch::kFloat)
    setup.options.attention = cudnn_attention;
  for (std::size_t i = 7; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals), value = words[i].substr(equals + 1);
    if (key == "residual")
      setup.options.residual = scalar_type(parse_precision(value, setup.options.device));
    else if (key == "gelu")
      setup.options.gelu_in_product = value != "0";
    else if (key == "graphs")
      setup.graphs = value != "0";
    else
      throw ConfigError("unknown key: " + words[i]);
  }
  return setup;
}

Engine make_engine(const Setup& setup) {
  CanonicalWeights weights = canonical_names(load_checkpoint(setup.weights));
  const Architecture architecture = resolve_architecture(weights, {}, {});
  StateDictSource source(std::move(weights.tensors));
  VisionTransformer model(Scope(source), architecture, setup.options.image_size);
  const bool cuda = setup.options.device.is_cuda();
  if (cuda && !cuda::kernels()) throw ConfigError("this build has no CUDA kernels");
  return Engine(*model, setup.options, cuda ? *cuda::kernels() : cuda::twin_kernels(),
                cuda && setup.graphs ? cuda_graphs() : MakeGraph());
}

torch::Tensor read_frames(const std::string& path, std::int64_t batch, std::int64_t size) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (bytes.size() != static_cast<std::size_t>(batch * size * size * 3))
    throw DataError("the file of frames has another size than BATCH and SIZE tell");
  torch::Tensor frames = torch::empty({batch, size, size, 3}, torch::kUInt8);
  std::memcpy(frames.data_ptr(), bytes.data(), bytes.size());
  return frames;
}

class Speed {
 public:
  Speed(const Setup& setup, const torch::Tensor& frames)
      : device_(setup.options.device),
        frames_(frames),
        on_device_(frames.to(device_)),
        levels_(((torch::arange(256).to(torch::kFloat) / 255 - 0.5) / 0.5)
                    .expand({3, 256})
                    .contiguous()
                    .to(device_)),
        engine_(make_engine(setup)),
        streams_(extract::make_streams(device_)) {
    engine_.expect(frames.size(0));
  }

  void wait() {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  double run(int passes) {
    const auto started = Clock::now();
    for (int i = 0; i < passes; ++i)
      streams_->run(extract::Streams::Stream::kCompute,
                    [&] { features_ = engine_.forward_frames(on_device_, levels_); });
    wait();
    return std::chrono::duration<double>(Clock::now() - started).count() / passes;
  }

  double stage(int batches) {
    const std::int64_t count = frames_.size(0);
    extract::Staging staging(*streams_, {frames_.sizes().slice(1).vec()}, features().size(1),
                             [&](const torch::Tensor& frames, int, std::int64_t) {
                               return engine_.forward_frames(frames, levels_);
                             });
    for (int slot = 0; slot < extract::Staging::kSlots; ++slot) {
      staging.reserve(slot, count);
      staging.frames(slot).copy_(frames_);
    }
    const auto started = Clock::now();
    for (int i = 0; i < batches; ++i) {
      staging.collect(i % extract::Staging::kSlots);
      staging.submit(i % extract::Staging::kSlots, 0, count);
    }
    for (int slot = 0; slot < extract::Staging::kSlots; ++slot) staging.collect(slot);
    return std::chrono::duration<double>(Clock::now() - started).count() / batches;
  }

  std::string layers(int passes) {
    std::vector<std::vector<LayerCost>> measured(static_cast<std::size_t>(passes));
    for (std::vector<LayerCost>& costs : measured)
      streams_->run(extract::Streams::Stream::kCompute,
                    [&] { costs = engine_.measure_layers(frames_.size(0)); });
    std::string line;
    for (std::size_t i = 0; i < measured.front().size(); ++i) {
      std::ranges::nth_element(
          measured, measured.begin() + passes / 2, {},
          [i](const std::vector<LayerCost>& costs) { return costs[i].seconds; });
      const LayerCost& cost = measured[static_cast<std::size_t>(passes) / 2][i];
      line += concat(cost.layer, ' ', cost.seconds, ' ', cost.operations, ' ', cost.bytes, ' ');
    }
    return line;
  }

  torch::Tensor features() {
    run(1);
    return features_.cpu().contiguous();
  }

  std::string memory() {
    if (!device_.is_cuda()) return "0 0";
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index());
    return concat(peak_device_memory(device_) + engine_.graph_bytes(), ' ',
                  stats.reserved_bytes[kAll].peak);
  }

 private:
  using Clock = std::chrono::steady_clock;
  torch::Device device_;
  torch::Tensor frames_, on_device_, levels_, features_;
  Engine engine_;
  std::unique_ptr<extract::Streams> streams_;
};

int run(const std::vector<std::string>& words) {
  if (words.size() < 7)
    throw ConfigError(
        "usage: vit_gpu_speed WEIGHTS FRAMES SIZE BATCH POOL PRECISION DEVICE [KEY=VALUE…]");
  const Setup setup = read_setup(words);
  const torch::InferenceMode guard;
  Speed speed(setup, read_frames(words[1], std::stoll(words[3]), setup.options.image_size));
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string verb, word;
    in >> verb >> word;
    if (verb == "run") std::cout << speed.run(std::stoi(word)) << std::endl;
    if (verb == "stage") std::cout << speed.stage(std::stoi(word)) << std::endl;
    if (verb == "layers") std::cout << speed.layers(std::stoi(word)) << std::endl;
    if (verb == "memory") std::cout << speed.memory() << std::endl;
    if (verb == "features") {
      const torch::Tensor features = speed.features();
      std::ofstream(word, std::ios::binary)
          .write(static_cast<const char*>(features.data_ptr()),
                 static_cast<std::streamsize>(features.nbytes()));
      std::cout << features.size(0) << ' ' << features.size(1) << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace coldframe::vit::gpu

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, coldframe::vit::gpu::run);
}
