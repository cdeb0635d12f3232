// The device on which a program computes: choosing it, its threads, and its errors in words.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/system/monitor.h"
#include "common/torch/tensor.h"

namespace coldframe {

// Words of LibTorch's exceptions, without the stack that they carry behind it.

inline std::string error_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

inline std::string first_line(const std::exception& error) {
  const std::string text = error_text(error);
  return text.substr(0, text.find('\n'));
}

// True for a lack of memory by any name. Libraries that find none for themselves say so in words
// only: cuBLAS for its handle, cuDNN for its plans, the driver for code that it loads.
inline bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  if (!dynamic_cast<const c10::Error*>(&error)) return false;
  const std::string text = error_text(error);
  for (const std::string_view sign :
       {"out of memory", "ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED"})
    if (text.find(sign) != text.npos) return true;
  return false;
}

// The device that computes is chosen here. Our programs link LibTorch's CPU libraries only; the
// CUDA ones are opened when a CUDA device is asked for, so that a CPU run starts fast and small.

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
// Also lets these threads, and those that they start, count denormals as zero: arithmetic on such
// numbers takes up to a hundred times as long, and a model that sees constants has many of them.
void set_torch_threads(int threads);

}  // namespace coldframe
