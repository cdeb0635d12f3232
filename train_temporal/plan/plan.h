// Counts a ViT's parameters, and those that are trained.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "train_temporal/fit/tune/chain.h"
#include "train_temporal/fit/tune/measured_costs.h"
#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::plan {

struct ParameterCount {
  std::uint64_t all = 0, trained = 0;  // LoRA's own are in `trained` alone
};
ParameterCount count_parameters(const tune::ChainShape& shape);

// Predicts memory and time of every way to train a ViT with a temporal model, for `coldframe plan`.

struct Query;
struct Trained;

// The device at hand, which measures what steps of a ViT take: each kind of step once, when it is
// asked for. It counts memory by now (budget_device_memory()).
class Machine {
 public:
  explicit Machine(const torch::Device& device) : device_(device) {}

  const torch::Device& device() const { return device_; }
  // Of a query whose ViT and images are always the same.
  std::shared_ptr<const tune::ChainCosts> costs(const Query& query, const Trained& trained);
  // Floating-point operations in a second of the ViT's blocks.
  double speed(const Query& query);

 private:
  torch::Device device_;
  std::map<bool, tune::MeasuredSteps> steps_;  // in float32, and in half precision
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, std::shared_ptr<const tune::ChainCosts>>
      costs_;
};

// A training step of so many exams of so many frames. Bytes are counted in 64 bits, which
// check_countable() holds it to.
struct Query {
  std::string model;  // as it was named
  vit::Architecture architecture;
  ImageSize image_size;
  vit::FeatureOptions features;
  std::int64_t exams = 16, frames = 20;  // of the longest exam
  bool half = false;                     // bf16 or fp16 by autocast
  bool cuda = true;                      // what the plan is for
  bool dropout = false;                  // of trained blocks
  bool coupled = false;                  // by the loss or mixup: all exams of a step go together
  std::int64_t moments = 2;              // tensors that the optimizer keeps for each parameter
  std::string temporal = "gru";          // the temporal model's name
  std::int64_t hidden = temporal::ModelConfig().hidden, layers = 1, outputs = 1;  // of it
  bool bidirectional = false;
  std::int64_t lora_rank = 8;          // of the way that trains LoRA
  std::shared_ptr<Machine> machine{};  // copies share it

  std::int64_t all_frames() const { return exams * frames; }
};

// The part that is trained with the temporal model.
struct Trained {
  std::int64_t blocks = 0;  // the last so many; 0: none, the features are cached
  std::int64_t lora_rank = 0;

  bool operator==(const Trained&) const = default;
};
std::string name_of(const Trained& trained, const Query& query);  // "last 4 blocks", "end to end"
// Options of `coldframe train`: "--tune-blocks 4: last 4 blocks".
std::string options_of(const Trained& trained, const Query& query);

struct Bytes {
  // Of the ViT as its file holds them, of what is trained of it, and of the temporal model.
  std::uint64_t weights = 0;
  std::uint64_t gradients = 0;
  std::uint64_t optimizer = 0;  // moments, decay, and the best parameters so far
  std::uint64_t inputs = 0;     // the batch as the cache holds it, and what frozen steps made of it
  std::uint64_t activations = 0;  // of the ViT's step, with what operators need while they run
  std::uint64_t attention = 0;    // of these: N² matrices that a kernel writes out
  std::uint64_t temporal = 0;     // the temporal model's activations, between the ViT's two passes
  std::uint64_t allocator = 0;    // what the device's allocator holds beyond that; an estimate
  std::uint64_t context = 0;      // CUDA's context and libraries; an estimate

  std::uint64_t total() const {
    return weights + gradients + optimizer + inputs + std::max(activations, temporal) + allocator +
           context;
  }
};

// A way of training, by one schedule.
struct Row {
  Trained trained;
  tune::Way way;            // of the exams that go at once
  std::int64_t exams = 0;   // that go at once; the query's, or fewer in turn
  std::string schedule;     // "cheap", "optimal (1.2 GiB)", "cheap, 2 exams at a time"
  std::uint64_t share = 0;  // the fastest within this part of what keeping everything takes
  std::uint64_t trained_parameters = 0;
  Bytes bytes;
  double seconds = 0;  // of a step
};

// ConfigError for more than can be counted: what a step takes is beyond any machine's memory.
void check_countable(const Query& query);

// Every way: the cached one, the last blocks, LoRA, and end to end; each with everything kept, by
// what train takes where memory is no matter, in these parts of the memory of the first, exam by
// exam, and frame by frame.
inline constexpr std::uint64_t kShares[] = {2, 3, 5, 10};
std::vector<Row> plan_rows(const Query& query);
std::vector<Trained> trained_parts(const Query& query);
tune::ChainShape shape_of(const Query& query, const Trained& trained);
// The row of one way of one part.
Row plan_row(const Query& query, const Trained& trained, const tune::Way& way);
// The rows that fit into so many bytes, the fastest first.
std::vector<Row> rows_within(const Query& query, const Trained& trained, std::uint64_t memory);

// Cards' memory, in GiB.
inline constexpr std::int64_t kCards[] = {8, 11, 16, 24, 40, 80};
inline constexpr std::uint64_t kGiB = 1ull << 30;
// The most exams of query.frames frames in a step that fit each card, counted up to kMaxExams;
// 0: not one.
using MostExams = std::array<std::int64_t, std::size(kCards)>;
inline constexpr std::int64_t kMaxExams = 1000000;
// For each row, by its way.
std::vector<MostExams> most_exams(const Query& query, const std::vector<Row>& rows);

// A change, and the fastest row that fits with it.
struct Change {
  std::string what;
  Row row;
};
// The changes with which a part fits into so many bytes, under the names of train's options: first
// another schedule, which computes the same, then what computes something else: half precision,
// fewer exams in a step where no schedule fits, and less that is trained.
std::vector<Change> changes(const Query& query, const Trained& trained, std::uint64_t memory);

// Bytes and seconds of a step that trains one part of a ViT. What does not depend on the number
// of exams is found once.

class PartCosts {
 public:
  PartCosts(const Query& query, const Trained& trained);

  const Trained& trained() const { return trained_; }
  tune::StepTask task(std::int64_t exams) const;
  tune::Use use(const tune::Way& way, std::int64_t exams) const {
    return is_cached() ? tune::Use{} : tune::use_of(way, task(exams));
  }
  // The bytes of a step of `exams` whose ViT takes `peak` for `at_once` of them.
  Bytes bytes(const tune::Way& way, std::uint64_t peak, std::int64_t exams,
              std::int64_t at_once) const;
  // The most bytes to which CUDA's context and allocator add no more than `memory` in all; less
  // than 0: none.
  double memory_before_device(std::uint64_t memory) const;
  // `way`: of so many exams at once; without a number, of all.
  Row row(const tune::Way& way, std::int64_t at_once) const {
    return row(way, use(way, at_once), at_once);
  }
  Row row(const tune::Way& way) const { return row(way, query_.exams); }
  // The ways whose ViT takes at most so many bytes, the fastest first, as train would go: as many
  // exams at once as fit without searching, one after another.
  std::vector<Row> rows_within(std::uint64_t budget) const;

 private:
  bool is_cached() const { return trained_.blocks == 0; }
  Row row(const tune::Way& way, const tune::Use& use, std::int64_t at_once) const;
  // The batch's row of a cut: pixels, or tokens in float16; else features.
  std::uint64_t frame_bytes() const;
  // The temporal model's step on [n, D] features.
  std::uint64_t temporal_bytes(std::int64_t exams) const;

  Query query_;
  Trained trained_;
  tune::ChainShape shape_;
  temporal::ModelConfig config_;
  temporal::StepValues temporal_;
  std::uint64_t parameters_;  // of the temporal model
  // Empty where features are cached.
  ParameterCount vit_;
  std::shared_ptr<const tune::ChainCosts> costs_;
  tune::StepTask task_;
};

}  // namespace coldframe::plan
