// The device that computes is chosen here. Our programs link LibTorch's CPU libraries only; the
// CUDA ones are opened when a CUDA device is asked for, so that a CPU run starts fast and small.
#pragma once

#include <c10/core/Stream.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/system/stage_times.h"
#include "common/torch/tensor.h"

namespace coldframe {

// "auto" (the first CUDA device if a driver, a device and the CUDA libraries are there, else the
// CPU), "cpu", "cuda" or "cuda:N". ConfigError when the word is none of these, SystemError when the
// device is not there, with what was missing and what to do. Call it before LibTorch does anything
// else: LibTorch looks for CUDA once (even torch::manual_seed does) and keeps the answer. A CUDA
// device has its context afterwards, in autograd's thread too.
torch::Device resolve_device(const std::string& word);

// Begins to open CUDA's libraries, and contexts on the devices of `words`, on a thread of its own;
// nothing where they name the CPU. resolve_device() waits for the libraries, and tells what failed.
// Until it returns, nobody else uses LibTorch. Stages: "libraries", "contexts".
void begin_loading_cuda(const std::vector<std::string>& words, std::shared_ptr<StageTimes> times);
// Waits for that thread: at the end of a program, when its error has been told, but before the
// libraries' own destructors.
void end_loading_cuda();

// A stream of a CUDA device that no other OwnStream has: what is launched there can be recorded as
// a graph, as nothing on LibTorch's default stream can, and nobody else's work gets into it. It
// goes on where the caller's stream is. On the CPU it is as if there were none.
class OwnStream {
 public:
  explicit OwnStream(const torch::Device& device);  // SystemError beyond kMost of a device
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  c10::Stream get() const { return stream_; }
  void follow() const;         // what comes next waits for what the caller's stream was given
  void wait() const noexcept;  // for all that it was given

  static constexpr std::size_t kMost = 24;

 private:
  c10::Stream stream_;
};

// One OwnStream of each device, for one purpose of the whole program.
class LastingStream {
 public:
  c10::Stream of(const torch::Device& device);  // the same in every call, from any thread

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, OwnStream> streams_;
};

// The stream on which a job computes on a CUDA device, the same in every call: libraries keep a
// workspace for every stream that they have worked on.
c10::Stream compute_stream(const torch::Device& device);

std::string device_name(
    const torch::Device& device);  // "cpu (Intel …, 2 threads)", "cuda:0 (NVIDIA H200)"

// Lets LibTorch compute with so many threads, or with as many as OpenMP gives a team
// (OMP_THREAD_LIMIT), which is logged once: oneDNN leaves out what the threads would have computed
// that it counted on and did not get. SystemError where the system does not grant them: LibTorch
// 2.11 waits forever then, in pthreadpool_create(). Every thread that computes calls it, or lets
// LibTorch start its team.
void set_torch_threads(int threads);

}  // namespace coldframe
