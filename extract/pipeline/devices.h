// The devices of a job and a copy of the backbone on each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/reader.h"
#include "common/torch/tensor.h"
#include "extract/input/exam_list.h"
#include "extract/options.h"
#include "extract/pipeline/pipeline.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

class ComputeDevices {
 public:
  // `words`: the values of --device or --devices, as for resolve_device(). Workers on the CPU share
  // `threads` threads (0: LibTorch's choice).
  ComputeDevices(const std::vector<std::string>& words, int threads);

  // Unloads previous backbones, then calls `make` for each device in order.
  void load(const std::function<std::unique_ptr<vit::Backbone>(const torch::Device&)>& make);

  const torch::Device& first() const { return devices_.front(); }
  vit::Backbone& backbone() const { return *backbones_.front(); }
  std::vector<ComputeDevice> all() const;
  std::string names() const;              // "cuda:0 (NVIDIA H200), cuda:1 (NVIDIA H200)"
  std::vector<std::string> gpus() const;  // PCI bus ids

 private:
  std::vector<torch::Device> devices_;
  std::vector<std::unique_ptr<vit::Backbone>> backbones_;
};

// Samples the input before the job, to check the backbone's precision.

// Starts a thread that reads the first readable frames (or windows) of the input, at most `count`.
// The returned function waits for them and returns an empty input if there are none. Every worker
// of a job gets the same frames. `input` and `options` must outlive it.
std::function<vit::CheckInput()> first_frames(const frames::ExamList& input,
                                              const ExtractOptions& options, std::int64_t count);

// Loads the backbone on every device of a job, in the precision that the job computes in.

// `auto` is resolved once: by the cache that the job continues, else by the first device; other
// devices use the same precision. CacheError: the cache to continue has another precision.
// SystemError: a device deviates too much in it. `shared`: if several processes write a cache, the
// first decides for all of them, and each must use devices of the same kind unless
// --allow-mixed-precision.
void load_backbones(ComputeDevices& devices, const ExtractOptions& options,
                    const frames::ExamList& input, const cache::CacheReader* cached,
                    const cache::Location* shared = nullptr);

}  // namespace coldframe::extract
