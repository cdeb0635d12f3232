#include "common/torch/device.h"

#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <link.h>
#include <omp.h>
#include <torch/cuda.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/system/checks.h"
#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe {

namespace {

// The folder from which libtorch_cpu was loaded, "" if it cannot be told.
std::filesystem::path libtorch_folder() {
  void* library = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return {};
  link_map* map = nullptr;
  const bool found = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name;
  std::filesystem::path path = found ? map->l_name : "";
  ::dlclose(library);
  return path.parent_path();
}

// Opens LibTorch's CUDA half, which registers its kernels and hooks as it loads. Returns "" or why
// it could not.
std::string open_libtorch_cuda() {
  // The name comes first: the program's rpath leads to the LibTorch with which it was linked.
  if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return "";
  const std::string by_name = ::dlerror();
  const auto beside = libtorch_folder() / "libtorch_cuda.so";
  if (!std::filesystem::exists(beside)) {
    return concat("this LibTorch has no CUDA libraries (", beside.string(),
                  " is missing); install one with CUDA by running common/bootstrap, or name one in "
                  "CMAKE_PREFIX_PATH, and build again");
  }
  if (::dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL)) return "";
  return concat("LibTorch's CUDA libraries do not load: ", ::dlerror());
}

// "" when CUDA devices are ready for LibTorch, else why not.
const std::string& prepare_cuda() {
  static const std::string problem = [] {
    if (cuda_driver::device_count() == 0) return cuda_driver::reason_for_none();
    if (std::string failed = open_libtorch_cuda(); !failed.empty()) return failed;
    if (torch::cuda::device_count() == 0) {
      return std::string(
          "LibTorch finds no CUDA device that it can use; its CUDA 13 needs a driver of version "
          "580 "
          "or later and compute capability 7.5 or more");
    }
    return std::string();
  }();
  return problem;
}

// "cuda:N" -> N; ConfigError when it is not that.
int device_index(const std::string& word) {
  std::int64_t index = 0;
  if (word.starts_with("cuda:") && parse_int(word.substr(5), index) && index >= 0 && index < 128) {
    return static_cast<int>(index);
  }
  throw ConfigError(
      concat("--device: '", word, "' is not a device; expected auto, cpu, cuda or cuda:N"));
}

// Readies LibTorch's allocator, which tells nothing before, and gives the device's context to
// autograd's thread of the device. That thread would get it by its first kernel; where a product
// comes first, LibTorch finds none and warns (2.11, ATen/cuda/CublasHandlePool.cpp).
void open_device(const torch::Device& device) {
  at::globalContext().lazyInitDevice(device.type());
  const torch::AutoGradMode with_graph(true);
  const torch::Tensor one = torch::ones({1}, torch::TensorOptions(device).requires_grad(true));
  (one * 2).backward();
}

// fp32 means fp32: without this, cuDNN's convolutions and recurrent layers round to TF32. cuDNN's
// attention, which LibTorch 2.11 prefers on Hopper, builds a plan for every new shape; flash
// attention has none to build (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp). Where shapes
// stay, who computes asks for cuDNN's (extract/vit/gpu). A GPU that others use has less memory than
// its name says, and takes longer.
torch::Device prepared(int index) {
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setSDPUseCuDNN(false);
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
  try {
    open_device(device);
  } catch (const c10::Error& error) {
    throw SystemError(concat(device_name(device), " does not compute: ", first_line(error),
                             "; look with nvidia-smi whether other processes have its memory, or "
                             "take --device cpu"));
  }
  const auto usage = nvml::usage(cuda_driver::pci_bus_id(index));
  if (!usage) return device;
  const unsigned others = usage->processes;
  log_info(concat(device_name(device), ": ", human_bytes(usage->total_bytes - usage->memory_bytes),
                  " of ", human_bytes(usage->total_bytes), " are free",
                  others == 0   ? ""
                  : others == 1 ? ", another process computes there"
                                : concat(", ", others, " other processes compute there")));
  return device;
}

torch::Device chosen_device(const std::string& word) {
  if (word == "cpu") return torch::Device(torch::kCPU);
  if (word == "auto") {
    std::string problem = prepare_cuda();
    try {
      if (problem.empty()) return prepared(0);
    } catch (const SystemError& error) {
      problem = error.what();
    }
    // A GPU that stands idle is worth a word; a machine without one is not.
    if (cuda_driver::device_count() > 0) log_warning("computing on the CPU: " + problem);
    return torch::Device(torch::kCPU);
  }
  const int index = word == "cuda" ? 0 : device_index(word);
  if (!prepare_cuda().empty()) {
    throw SystemError(
        concat("--device ", word, ": ", prepare_cuda(), "; --device cpu computes without a GPU"));
  }
  const int count = static_cast<int>(torch::cuda::device_count());
  if (index >= count) {
    throw SystemError(concat("--device ", word, ": there ", count == 1 ? "is " : "are ",
                             plural(static_cast<std::size_t>(count), "CUDA device"),
                             "; the last is cuda:", count - 1));
  }
  return prepared(index);
}

struct PoolStream {
  c10::Stream stream;
  bool taken;
};
std::mutex streams_mutex;
std::map<c10::DeviceIndex, std::vector<PoolStream>> pool_streams;

// LibTorch hands the streams of its pool out in turn, whoever still has one. Few are used, again
// and again: libraries keep a workspace, and LibTorch freed memory, for each.
c10::Stream free_stream(const torch::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (!device.is_cuda()) return guard.getStream(device);
  const std::scoped_lock lock(streams_mutex);
  auto& known = pool_streams[guard.getStream(device).device_index()];
  const auto free = std::ranges::find(known, false, &PoolStream::taken);
  if (free != known.end()) {
    free->taken = true;
    return free->stream;
  }
  if (known.size() == OwnStream::kMost)
    throw SystemError(
        concat("more than ", OwnStream::kMost, " jobs compute on one GPU at a time; lower --jobs"));
  return known.emplace_back(guard.getStreamFromGlobalPool(device), true).stream;
}

std::jthread& cuda_loader() {
  static std::jthread loader;
  return loader;
}

// CUDA makes a device's context when the device is first waited for.
void open_cuda(const std::vector<std::string>& words, StageTimes& times) {
  const auto begun = std::chrono::steady_clock::now();
  if (!prepare_cuda().empty()) return;
  times.add("libraries",
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  const StageTimer timer(&times, "contexts");
  const c10::impl::VirtualGuardImpl devices(torch::kCUDA);
  for (const std::string& word : words)
    devices.synchronizeDevice(
        static_cast<c10::DeviceIndex>(word == "auto" || word == "cuda" ? 0 : device_index(word)));
}

// Calls each of MKL's vector functions for the first time, while no other thread does. They choose
// their kernels at that call, and of two threads in it at once one may compute its part by a kernel
// with errors of 1e-5 (pytorch/pytorch, issue 188792: oneMKL 2024.2, which LibTorch 2.11 carries).
// The list is that of ATen/cpu/vml.h.
void settle_vector_functions() {
  using Function = at::Tensor (*)(const at::Tensor&);
  constexpr Function kFunctions[] = {at::acos,   at::asin, at::atan, at::cos,  at::erf,   at::erfc,
                                     at::erfinv, at::exp,  at::log,  at::log2, at::log10, at::sqrt,
                                     at::sin,    at::tan,  at::tanh, at::trunc};
  for (const auto type : {torch::kFloat, torch::kDouble})
    for (const Function function : kFunctions) function(torch::ones({1}, type));
}

// The threads of an OpenMP team for which `wanted` are asked. They flush denormals from then on; a
// thread that is started later has the mode of the one that starts it.
int team_of(int wanted) {
  int given = 1;
#pragma omp parallel num_threads(wanted)
  {
    at::globalContext().setFlushDenormal(true);
#pragma omp single
    given = omp_get_num_threads();
  }
  return given;
}

// LibTorch's choice, which does not know the quota of a container, unless somebody said otherwise.
int usual_threads() {
  const int chosen = torch::get_num_threads();
  if (std::getenv("OMP_NUM_THREADS")) return chosen;
  return std::min(chosen, static_cast<int>(usable_processors()));
}

}  // namespace

torch::Device resolve_device(const std::string& word) {
  const torch::Device device = chosen_device(word);
  static std::once_flag settled;
  std::call_once(settled, [] {
    set_torch_threads(usual_threads());
    settle_vector_functions();
  });
  return device;
}

void begin_loading_cuda(const std::vector<std::string>& words, std::shared_ptr<StageTimes> times) {
  std::vector<std::string> wanted;
  for (const std::string& word : words)
    if (word == "auto" || word.starts_with("cuda")) wanted.push_back(word);
  if (wanted.empty()) return;
  try {
    cuda_loader() = start_thread([wanted, times] {
      try {
        open_cuda(wanted, *times);
      } catch (const std::exception&) {
        // Who uses the device meets it again.
      }
    });
  } catch (const SystemError&) {
    // No thread is granted: resolve_device() loads them.
  }
}

void end_loading_cuda() {
  if (cuda_loader().joinable()) cuda_loader().join();
}

OwnStream::OwnStream(const torch::Device& device) : stream_(free_stream(device)) {
  follow();
}

OwnStream::~OwnStream() {
  wait();  // whoever has it next may be recording
  const std::scoped_lock lock(streams_mutex);
  for (PoolStream& known : pool_streams[stream_.device_index()])
    if (known.stream == stream_) known.taken = false;
}

// By an event: to wait for the whole device would break what others record there.
void OwnStream::follow() const {
  if (!stream_.device().is_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(stream_.device_type());
  c10::Event given(stream_.device_type());
  given.record(guard.getStream(stream_.device()));
  given.block(stream_);
}

void OwnStream::wait() const noexcept {
  try {
    stream_.synchronize();
  } catch (const std::exception&) {
    // The next call that waits for the device tells what went wrong on it.
  }
}

c10::Stream LastingStream::of(const torch::Device& device) {
  const std::scoped_lock lock(mutex_);
  return streams_.try_emplace(device.index(), device).first->second.get();
}

c10::Stream compute_stream(const torch::Device& device) {
  static LastingStream stream;
  return stream.of(device);
}

std::string device_name(const torch::Device& device) {
  if (device.is_cuda()) {
    return concat("cuda:", static_cast<int>(device.index()), " (",
                  cuda_driver::device_name(device.index()), ")");
  }
  const auto threads = static_cast<std::size_t>(torch::get_num_threads());
  return concat("cpu (", processor_name(), ", ", plural(threads, "thread"), ")");
}

void set_torch_threads(int threads) {
  constexpr std::size_t kPools = 2;  // OpenMP's and pthreadpool's, each with the caller for one
  require_threads(kPools * static_cast<std::size_t>(std::max(threads, 1) - 1));
  omp_set_dynamic(0);  // a team is as large as it was asked to be, whatever the load
  const int given = team_of(std::max(threads, 1));
  if (given < threads)
    log_info_once(concat("OpenMP gives a team ", plural(static_cast<std::size_t>(given), "thread"),
                         " of ", threads,
                         "; computing with as many (OMP_THREAD_LIMIT and "
                         "OMP_MAX_ACTIVE_LEVELS allow more)"));
  torch::set_num_threads(given);
}

}  // namespace coldframe
