// The end of a ViT, from a cache's cut to its features, trained with a temporal model: exact
// gradients whatever the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/torch/safetensors.h"
#include "common/torch/tensor.h"
#include "train_temporal/fit/tune/schedule.h"
#include "train_temporal/fit/tune/tuned_source.h"
#include "train_temporal/models/dropout.h"

namespace coldframe::tune {

struct ChainCosts;  // measured_costs.h
class LearntBudget {
 public:
  std::uint64_t bytes() const { return bytes_; }  // 0: nothing was learnt
  // Keeps the least of those that fits hand over.
  void lower(std::uint64_t bytes) {
    std::uint64_t known = bytes_;
    while (bytes > 0 && (known == 0 || bytes < known) &&
           !bytes_.compare_exchange_weak(known, bytes)) {
    }
  }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
};

struct TuneOptions {
  // The last so many blocks are trained, with the norm and what else follows; 0: nothing is. All of
  // them, of a cut that holds pixels: patch embedding, tokens and positions too.
  std::int64_t blocks = 0;
  // > 0: in their place low-rank matrices next to qkv and proj of these blocks (Hu et al. 2021,
  // arXiv:2106.09685), scaled by lora_alpha / lora_rank.
  std::int64_t lora_rank = 0;
  double lora_alpha = 16;
  std::uint64_t budget = 0;  // bytes that step(), its head too, and features() may take; 0: any
  std::function<std::uint64_t(std::int64_t frames)> head{};  // bytes that step()'s head takes
  std::optional<Strategy> strategy{};                        // empty: chosen, the fastest that fits
  std::int64_t chunk = 0;                                    // frames at a time at most; 0: chosen
  double drop_path = 0;                                      // of the last block, see Chain
  bool dropout = false;                           // step() is given one, which takes some memory
  torch::ScalarType precision = torch::kFloat32;  // or bfloat16, float16: autocast
  std::shared_ptr<const ChainCosts> costs{};      // of these options; null: measured when wanted
  std::shared_ptr<LearntBudget> learnt{};         // of all fits of a run; null: of each its own
};

// One for each fit: frozen tensors are the source's, trained ones its own.
class TunedVit {
 public:
  TunedVit(const TunedSource& source, const TuneOptions& options, std::uint64_t seed,
           const torch::Device& device);
  ~TunedVit();

  // Parameters under timm's names, in the model's order. Their data may move (set_data); grad() is
  // added to in place.
  torch::nn::Module& trainable();
  std::int64_t dimension() const;

  // Rows as the cut stores them, float16 [n, tokens, D] or [n, tokens · D], or uint8 [n, H, W, 3],
  // on the CPU or the device -> features [n, dimension()] float32 on the device. No gradients.
  torch::Tensor features(const torch::Tensor& rows);

  // `head` is called once with the features [n, dimension()] of all rows and returns the gradient
  // of the loss by them; the gradients of trainable() are added up. keys [n]: what dropout depends
  // on, an exam's and a frame's. c10::OutOfMemoryError of `head` passes through; call again, with
  // gradients as before, to try with less.
  using Head = std::function<torch::Tensor(const torch::Tensor& features)>;
  void step(const torch::Tensor& rows, std::span<const std::uint64_t> keys,
            const temporal::Dropout& dropout, const Head& head);

  // Exams may go in turn where each has its own part of the loss: gradients add up to the same.
  // Returns how many of `rows` step() had best get at a time, so that it computes only what is
  // pointwise again. An exam with more rows goes by itself.
  std::int64_t rows_at_once(std::int64_t rows);

  // The predicted peak of step() above weights, gradients and rows, in bytes; where exams go in
  // turn, with `exam` rows in the longest.
  std::uint64_t predicted_bytes(std::int64_t rows, std::int64_t exam = 0) const;
  // Running out of memory has taught this: the budget that goes before TuneOptions' own, 0 for
  // none. Sums depend on how many frames go at a time, so a checkpoint keeps it. Fits that share
  // TuneOptions::learnt begin with what others have learnt.
  std::uint64_t learnt_budget() const;
  void set_learnt_budget(std::uint64_t bytes);

  // The most that step() has taken above what was there before, in bytes.
  std::uint64_t peak_bytes() const;

  // The whole ViT under timm's names, low-rank matrices merged in, on the CPU.
  StateDict merged() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

// The same as TunedVit::predicted_bytes(), of a step by these options, which have costs.
std::uint64_t predicted_bytes(const TuneOptions& options, std::int64_t rows, std::int64_t exam);

}  // namespace coldframe::tune
