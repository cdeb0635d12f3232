#include <algorithm>

#include "common/cli/error.h"
#include "common/system/cuda_driver.h"
#include "common/system/processors.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"

namespace coldframe::extract {
namespace {

constexpr std::int64_t kMostFrames = 65536;
constexpr int kMostDecodeThreads = 256;

std::int64_t parse_batch(const std::string& word) {
  std::int64_t batch = 0;
  if (word == "auto") return 0;
  if (parse_int(word, batch) && batch >= 1 && batch <= kMostFrames) return batch;
  throw ConfigError(
      concat("--batch '", word, "': expected auto, or 1 to ", kMostFrames, " frames"));
}

// "0,1", "cuda:0,cuda:1" or "all"; "cpu,cpu" has two workers on the CPU, for tests.
std::vector<std::string> parse_devices(const std::string& list) {
  std::vector<std::string> devices;
  if (list == "all") {
    for (int i = 0; i < cuda_driver::device_count(); ++i) devices.push_back(concat("cuda:", i));
    if (devices.empty())
      throw SystemError(concat("--devices all: ", cuda_driver::reason_for_none(),
                               "; --device cpu computes without a GPU"));
    return devices;
  }
  for (const std::string& word : split(list, ',')) {
    std::int64_t index = 0;
    const std::string digits = word.starts_with("cuda:") ? word.substr(5) : word;
    const bool number = parse_int(digits, index) && index >= 0;
    const std::string name = number ? concat("cuda:", index) : word;
    if (!number && word != "cpu")
      throw ConfigError(concat("--devices '", list, "': '", word,
                               "' is not a device; expected all, or numbers such as 0,1"));
    if (name != "cpu" && std::find(devices.begin(), devices.end(), name) != devices.end())
      throw ConfigError(concat("--devices '", list, "' names ", name, " twice"));
    devices.push_back(name);
  }
  return devices;
}

}  // namespace

// The worker of a GPU hands batches over and polls.
int decode_threads_of(const ExtractOptions& options) {
  if (options.decode_threads > 0) return options.decode_threads;
  const std::vector<std::string>& devices = options.devices;
  const auto cores = static_cast<std::int64_t>(usable_processors());
  const auto on_gpus = std::count_if(devices.begin(), devices.end(), [](const std::string& name) {
    return name.starts_with("cuda") || (name == "auto" && cuda_driver::device_count() > 0);
  });
  const bool all = on_gpus == static_cast<std::ptrdiff_t>(devices.size());
  const std::int64_t threads = all ? cores - on_gpus : cores / 2;
  return static_cast<int>(std::clamp<std::int64_t>(threads, 1, kMostDecodeThreads));
}

OptionRows machine_options(ExtractOptions& options) {
  const auto one = [](const std::string& word) { return std::vector{word}; };
  return {
      {"device", "NAME", parsed(options.devices, one), "auto (default), cpu, cuda or cuda:N"},
      {"devices", "LIST", parsed(options.devices, parse_devices),
       "several devices that share the work: all, or numbers of CUDA devices such as 0,1"},
      {"precision", "TYPE", text(options.precision),
       "auto (default: the quickest on this device), fp32, bf16 or fp16; features of the first "
       "frames are compared with fp32"},
      {"allow-mixed-precision", nullptr, flag(options.allow_mixed_precision),
       "extend a cache that was computed in another precision"},
      {"batch", "N", parsed(options.batch.batch, parse_batch),
       "frames per forward pass; auto (default): as many as make it faster and fit"},
      {"memory-budget", "SIZE", parsed(options.batch.memory_budget, parse_bytes),
       "the most that tensors may take on the device, e.g. 4GiB (default: all)"},
      {"decode-threads", "N", number(options.decode_threads, {0, kMostDecodeThreads}),
       "threads that decode and resize (default: half of the cores, beside GPUs all but one for "
       "each)"},
      {"threads", "N", number(options.threads, {0, 1024}), "threads of a backbone on the CPU"},
      {"monitor", "FILE.csv", text(options.monitor),
       "write memory, CPU and GPU load once a second"},
  };
}

void require_one_choice_of_devices(const GivenWords& given) {
  if (given.contains("device") && given.contains("devices"))
    throw ConfigError("--device and --devices: give one of them");
}

}  // namespace coldframe::extract
