#include "train_temporal/plan/part.h"

#include <cmath>

#include "common/text/text.h"
#include "common/torch/device_memory.h"
#include "train_temporal/models/registry.h"

namespace coldframe::plan {
namespace {

using tune::Strategy;
using tune::Way;

constexpr std::uint64_t kFloat = 4;
// CUDA's context and kernels take this on common cards; drivers differ.
constexpr std::uint64_t kContext = 500ull << 20;
// Blocks that the caching allocator holds and cannot use.
constexpr double kFragments = 0.03;

std::uint64_t count(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

temporal::ModelConfig temporal_model(const Query& query, std::uint64_t dimension) {
  temporal::ModelConfig config;
  config.dimension = static_cast<std::int64_t>(dimension);
  config.outputs = query.outputs;
  config.hidden = query.hidden;
  config.layers = query.layers;
  config.bidirectional = query.bidirectional;
  set_model(config, query.temporal);
  config.time = config.architecture->ordered;
  return config;
}

// Counts weights, gradients, and what goes with each trained parameter.
Bytes parameter_bytes(const Query& query, std::uint64_t all, std::uint64_t trained) {
  Bytes bytes;
  bytes.weights = kFloat * all;
  bytes.gradients = kFloat * trained;
  bytes.optimizer = kFloat * trained * (count(query.moments) + 2);  // decay, and the best so far
  return bytes;
}

void add_device(const Query& query, Bytes& bytes) {
  if (!query.cuda) return;
  bytes.allocator =
      static_cast<std::uint64_t>(kFragments * double(bytes.total())) + cuda_training_workspaces();
  bytes.context = kContext;
}

std::string schedule_name(const Way& way, std::int64_t frames, std::int64_t exams) {
  std::string name = word_for(tune::kStrategies, way.strategy);
  if (way.strategy == Strategy::kOptimal) name += concat(" (", human_bytes(way.budget), ")");
  if (exams > 0) name += concat(", ", plural(count(exams), "exam"), " at a time");
  if (way.chunk < frames) name += concat(", ", plural(count(way.chunk), "frame"), " at a time");
  if (way.chunk < frames && way.kept > 0) name += concat(", ", way.kept, " kept");
  return name;
}

}  // namespace

Part::Part(const Query& query, const Trained& trained)
    : query_(query),
      trained_(trained),
      shape_(shape_of(query, trained)),
      config_(temporal_model(query, count(shape_.feature_count()))),
      temporal_(config_),
      parameters_(static_cast<std::uint64_t>(temporal_.parameters())) {
  if (is_cached()) return;
  vit_ = count_parameters(shape_);
  costs_ = query.machine->costs(query, trained);
  task_ = tune::step_task(*costs_, tune::chunk_uses(costs_), query.all_frames());
}

tune::StepTask Part::task(std::int64_t exams) const {
  tune::StepTask task = task_;
  task.frames = exams * query_.frames;
  task.head = temporal_bytes(exams);
  return task;
}

Bytes Part::bytes(const Way& way, std::uint64_t peak, std::int64_t exams,
                  std::int64_t at_once) const {
  const std::uint64_t fixed = count(at_once * query_.frames) * task_.fixed;
  Bytes bytes =
      parameter_bytes(query_, vit_.all + vit_.trained + parameters_, vit_.trained + parameters_);
  bytes.inputs = count(exams * query_.frames) * frame_bytes() + fixed;
  bytes.temporal = temporal_bytes(at_once);
  bytes.activations = peak - fixed;
  if (shape_.architecture.relative_positions && trained_.lora_rank == 0)
    bytes.attention = count(way.chunk) * shape_.attention_bytes() * count(trained_.blocks);
  add_device(query_, bytes);
  return bytes;
}

double Part::memory_before_device(std::uint64_t memory) const {
  if (!query_.cuda) return double(memory);
  const double taken = double(kContext + cuda_training_workspaces());
  return std::ceil((double(memory) - taken + 1) / (1 + kFragments)) - 1;
}

Row Part::row(const Way& way, const tune::Use& use, std::int64_t at_once) const {
  Row row;
  row.trained = trained_;
  row.way = way;
  row.exams = at_once;
  row.schedule = is_cached() ? "-"
                             : schedule_name(way, at_once * query_.frames,
                                             at_once < query_.exams ? at_once : 0);
  row.trained_parameters = vit_.trained + parameters_;
  row.bytes = bytes(way, use.peak, query_.exams, at_once);
  row.seconds =
      use.seconds * double(query_.exams) / double(at_once) +
      6.0 * double(parameters_) * double(query_.all_frames()) / query_.machine->speed(query_);
  return row;
}

std::vector<Row> Part::rows_within(std::uint64_t budget) const {
  const auto task_of = [this](std::int64_t exams) { return task(exams); };
  const std::int64_t at_once =
      query_.coupled ? query_.exams
                     : tune::exams_that_fit(query_.exams, budget, Strategy::kCheap, task_of);
  std::vector<Row> rows;
  for (const tune::ConsideredWay& each : tune::consider_ways(task(at_once), budget))
    if (each.fits) rows.push_back(row(each.way, each.use, at_once));
  return rows;
}

std::uint64_t Part::frame_bytes() const {
  if (is_cached()) return kFloat * count(shape_.feature_count());
  return shape_.cut == 0 ? count(3 * shape_.image_size.pixels()) : shape_.token_bytes() / 2;
}
std::uint64_t Part::temporal_bytes(std::int64_t exams) const {
  const double n = double(exams * query_.frames), b = double(exams);
  const bool fused = is_cached() && !query_.cuda && !query_.half && config_.has_kernels();
  return kFloat * static_cast<std::uint64_t>(
                      fused ? temporal_.forward(n, b) + temporal_.backward(n, b)
                            : temporal_.by_autograd(n, b, double(query_.frames), true));
}

}  // namespace coldframe::plan
