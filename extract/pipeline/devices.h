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
  // `words` are those of --device or --devices, as resolve_device() takes them. Workers on the CPU
  // share `threads` threads (0: LibTorch's choice).
  ComputeDevices(const std::vector<std::string>& words, int threads);

  // `make` is called for one device after the other. What was loaded before goes.
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

// A look at the input before the job: what the backbone's precision is judged by.

// Begins to read the first frames of the input that can be read, at most `count`, on a thread of
// its own. What is returned waits for them and holds nothing when there is none. Every worker of a
// job gets the same ones. `input` and `options` must outlive it.
std::function<vit::CheckInput()> first_frames(const frames::ExamList& input,
                                              const ExtractOptions& options, std::int64_t count);

// Loads the backbone on every device of a job, in the precision that the job computes in.

// `auto` is decided once: by the cache that the job continues, else by the first device;
// further devices compute in what the first one computes in.
// CacheError: the cache to continue is of another precision. SystemError: a device strays in it.
// `shared`: where several processes make a cache, the first decides for all of them, and each
// computes on devices of the same kind unless --allow-mixed-precision.
void load_backbones(ComputeDevices& devices, const ExtractOptions& options,
                    const frames::ExamList& input, const cache::CacheReader* cached,
                    const cache::Location* shared = nullptr);

}  // namespace coldframe::extract
