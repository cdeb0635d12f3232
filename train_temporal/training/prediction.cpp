#include "train_temporal/training/prediction.h"

#include <algorithm>
#include <unordered_map>

#include "train_temporal/models/fused/fused_gru.h"

namespace coldframe::temporal {
namespace {

// The exams of one micro-batch, with all their frames; `size`: of each.
std::vector<BatchItem> evaluation_items(const Prediction& prediction,
                                        const std::vector<std::size_t>& exams, std::size_t size,
                                        std::size_t number) {
  const FrameSampler sampler(prediction.config.order, 0, prediction.seed);
  const std::size_t start = number * size;
  std::vector<BatchItem> items;
  for (std::size_t i = start; i < std::min(start + size, exams.size()); ++i) {
    const Sequence& sequence = prediction.dataset.sequences[exams[i]];
    items.push_back({exams[i], sampler.for_evaluation(sequence.frames(), sequence.key)});
  }
  return items;
}

std::size_t divide_up(std::size_t count, std::size_t by) {
  return (count + by - 1) / by;
}

}  // namespace

// On the CPU small enough for the processor's cache; results are the same in any.
std::size_t evaluation_size(const Dataset& dataset) {
  return dataset.device.is_cpu() ? 64 : 256;
}

std::vector<double> predict_logits(SequenceModel& model, const Prediction& prediction,
                                   const std::vector<std::size_t>& exams, ThreadTeam& team) {
  torch::NoGradGuard no_grad;
  const Dataset& dataset = prediction.dataset;
  const auto classes = static_cast<std::size_t>(prediction.config.outputs);
  const bool is_fused = FusedGru::supports(model);
  // LibTorch divides the work within a micro-batch, the fused GRU's threads take whole ones.
  const std::size_t share = divide_up(exams.size(), is_fused ? team.threads() : 1);
  const std::size_t size = std::clamp<std::size_t>(share, 1, prediction.at_once);
  const std::size_t count = divide_up(exams.size(), size);
  const bool per_frame = prediction.config.per_frame();
  std::unordered_map<std::size_t, std::size_t> first_row;
  std::size_t rows = 0;
  for (std::size_t exam : exams) {
    first_row[exam] = rows;
    rows += per_frame ? static_cast<std::size_t>(dataset.sequences[exam].frames()) : 1;
  }
  std::vector<double> result(rows * classes);
  const auto keep = [&](const PackedBatch& batch, const float* values) {
    for_output_rows(batch, per_frame, [&](std::size_t exam, std::size_t row) {
      std::copy_n(values, classes,
                  result.begin() + std::ptrdiff_t((first_row.at(exam) + row) * classes));
      values += classes;
    });
  };
  if (!is_fused) {
    for (std::size_t number = 0; number < count; ++number) {
      const PackedBatch batch =
          make_batch(dataset, evaluation_items(prediction, exams, size, number));
      const torch::Tensor logits =
          compute_logits(model, dataset, batch).cpu().to(torch::kFloat32).contiguous();
      keep(batch, logits.data_ptr<float>());
    }
    return result;
  }
  FusedGru fused(model, prediction.config);
  fused.prepare(team);
  const std::size_t parts = std::min(team.threads(), count);
  team.run(parts, [&](std::size_t part) {
    FusedPass pass(fused);
    PackedBatch batch;
    for (std::size_t number = part; number < count; number += parts) {
      pack(dataset, evaluation_items(prediction, exams, size, number), batch);
      keep(batch, pass.forward(dataset, batch, Dropout()));
    }
  });
  return result;
}

}  // namespace coldframe::temporal
