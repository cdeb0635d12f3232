#include "train_temporal/fit/tune/tuned_vit.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "common/cli/error.h"
#include "common/torch/memory.h"
#include "train_temporal/fit/tune/measured_costs.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/fit/tune/tuned_step.h"

namespace coldframe::tune {
namespace {

// A step's task by costs that are found when the first one is asked for.
RecomputePlanner::Task tasks(const TuneOptions& options,
                             std::function<std::shared_ptr<const ChainCosts>()> find) {
  return [max_chunk = options.chunk, head = options.head, find = std::move(find),
          costs = std::shared_ptr<const ChainCosts>(),
          chunks = std::shared_ptr<ChunkUses>()](std::int64_t frames) mutable {
    if (!costs) chunks = chunk_uses(costs = find());
    StepTask task = step_task(*costs, chunks, frames);
    task.max_chunk = max_chunk;
    if (head) task.head = head(frames);
    return task;
  };
}

}  // namespace

class TunedVit::Parts {
 public:
  Parts(const TunedSource& shared, const TuneOptions& wanted, std::uint64_t seed,
        const torch::Device& where)
      : source(shared),
        options(wanted),
        device(where),
        model(make_tuned_model(shared, wanted, seed, where)),
        trainable(trained_parameters(model)),
        chain(model, shared.features(), shared.cut(), shared.levels().to(where), wanted.drop_path),
        ways(tasks(wanted, [this] { return costs(); }), wanted.budget, wanted.strategy),
        max_without_graph(max_frames(wanted.budget)) {
    if (options.learnt) ways.set_learnt_budget(options.learnt->bytes());
  }

  std::shared_ptr<const ChainCosts> costs() const {
    if (options.costs) return options.costs;
    return std::make_shared<ChainCosts>(measure_costs(trained_shape(source, options), device));
  }

  // Frames at a time where no graph is kept: a few tokens' widths of each are there at once.
  std::int64_t max_frames(std::uint64_t budget) const {
    constexpr std::int64_t kMost = 16;
    if (budget == 0) return kMost;
    const vit::Architecture& shape = source.architecture();
    const std::int64_t tokens =
        shape.prefix_tokens() + vit::Grid(source.image_size(), shape.patch).patches();
    const auto bytes =
        static_cast<std::uint64_t>(4 * tokens * (8 * shape.width + 3 * shape.mlp_hidden));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(budget / 4 / bytes), 1, kMost);
  }

  // Rows [from, to) as the chain takes them.
  Values entering(const torch::Tensor& rows, std::int64_t from, std::int64_t to) const {
    const torch::Tensor chunk = rows.slice(0, from, to).to(device);
    if (source.cut() == 0) return {chunk};
    return {chunk.to(torch::kFloat32).view({to - from, -1, source.architecture().width})};
  }

  // Runs steps [0, end) without a graph.
  Values forward(Values values, std::size_t end, const Pass& pass) const {
    const torch::NoGradGuard no_grad;
    for (std::size_t step = 0; step < end; ++step) values = chain.forward(step, values, pass);
    return values;
  }

  // Calls `take(from, to)` for all rows, as many at a time as memory has room for.
  template <class Take>
  void in_chunks(std::int64_t rows, const Take& take) {
    for (std::int64_t from = 0; from < rows;) {
      const std::int64_t to = std::min(rows, from + max_without_graph);
      try {
        take(from, to);
        from = to;
      } catch (const c10::OutOfMemoryError&) {
        if (to - from == 1)
          throw SystemError(
              "there is not enough memory to run one frame forward through the ViT; raise "
              "--memory-budget, or extract with smaller images, or with --cut where the trained "
              "blocks begin");
        max_without_graph = (to - from + 1) / 2;
      }
    }
  }

  // Gives what enters the first trained step: computed once where frozen ones go before it.
  TunedStep::Rows rows_of(const torch::Tensor& rows) {
    const std::size_t frozen = chain.first_trained();
    if (frozen == 0)
      return [this, rows](std::int64_t from, std::int64_t to) { return entering(rows, from, to); };
    Values all;
    in_chunks(rows.size(0), [&](std::int64_t from, std::int64_t to) {
      const Values part =
          forward(entering(rows, from, to), frozen, {.precision = options.precision});
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (all.size() == i) {
          std::vector<std::int64_t> shape = part[i].sizes().vec();
          shape[0] = rows.size(0);
          all.push_back(torch::empty(shape, part[i].options()));
        }
        all[i].slice(0, from, to).copy_(part[i]);
      }
    });
    return [all = std::move(all)](std::int64_t from, std::int64_t to) {
      Values part;
      for (const torch::Tensor& value : all) part.push_back(value.slice(0, from, to));
      return part;
    };
  }

  const TunedSource& source;
  TuneOptions options;
  torch::Device device;
  vit::VisionTransformer model;
  std::shared_ptr<torch::nn::Module> trainable;
  Chain chain;
  RecomputePlanner ways;
  std::int64_t max_without_graph;
  std::int64_t peak = 0;  // of a step
};

TunedVit::TunedVit(const TunedSource& source, const TuneOptions& options, std::uint64_t seed,
                   const torch::Device& device)
    : parts_(std::make_unique<Parts>(source, options, seed, device)) {}
TunedVit::~TunedVit() = default;

torch::nn::Module& TunedVit::trainable() {
  return *parts_->trainable;
}

std::int64_t TunedVit::dimension() const {
  const TunedSource& source = parts_->source;
  if (source.projected() > 0) return source.projected();
  const vit::Architecture& architecture = source.architecture();
  const std::int64_t patches = vit::Grid(source.image_size(), architecture.patch).patches();
  return vit::pooled_features(source.features().pooling, architecture, patches) *
         static_cast<std::int64_t>(vit::layers_of(source.features(), architecture).size());
}

torch::Tensor TunedVit::features(const torch::Tensor& rows) {
  torch::Tensor features = torch::empty({rows.size(0), dimension()}, parts_->device);
  parts_->in_chunks(rows.size(0), [&](std::int64_t from, std::int64_t to) {
    features.slice(0, from, to)
        .copy_(parts_->forward(parts_->entering(rows, from, to), parts_->chain.size(), {})[0]);
  });
  return features;
}

void TunedVit::step(const torch::Tensor& rows, std::span<const std::uint64_t> keys,
                    const temporal::Dropout& dropout, const Head& head) {
  if (parts_->chain.first_trained() == parts_->chain.size()) {
    head(features(rows));
    return;
  }
  const MemoryTrace trace(parts_->device);
  const std::uint64_t learnt = learnt_budget();
  const auto note = [&](auto*) {
    parts_->peak = std::max(parts_->peak, trace.peak());
    if (parts_->options.learnt && learnt_budget() != learnt)
      parts_->options.learnt->lower(learnt_budget());
  };
  const std::unique_ptr<TunedVit, decltype(note)> at_end(this, note);
  TunedStep step(parts_->chain, parts_->ways, parts_->rows_of(rows), keys, dropout,
                 parts_->options.precision);
  torch::Tensor features = step.features(dimension(), parts_->device);
  torch::Tensor gradient;
  try {
    gradient = head(features);
  } catch (const c10::OutOfMemoryError&) {
    if (parts_->ways.current().kept > 0) parts_->ways.shrink();
    throw;
  }
  features.reset();
  step.backward(gradient);
}

std::int64_t TunedVit::rows_at_once(std::int64_t rows) {
  return parts_->ways.frames_at_once(rows);
}

std::uint64_t TunedVit::predicted_bytes(std::int64_t rows, std::int64_t exam) const {
  return parts_->ways.predicted_bytes(rows, exam);
}

std::uint64_t TunedVit::peak_bytes() const {
  return static_cast<std::uint64_t>(parts_->peak);
}

std::uint64_t TunedVit::learnt_budget() const {
  return parts_->ways.learnt_budget();
}

void TunedVit::set_learnt_budget(std::uint64_t bytes) {
  parts_->ways.set_learnt_budget(bytes);
  if (parts_->options.learnt) parts_->options.learnt->lower(bytes);
}

std::uint64_t predicted_bytes(const TuneOptions& options, std::int64_t rows, std::int64_t exam) {
  const RecomputePlanner ways(tasks(options, [&] { return options.costs; }), options.budget,
                              options.strategy);
  return ways.predicted_bytes(rows, exam);
}

StateDict TunedVit::merged() const {
  return merged_tensors(parts_->source, parts_->model);
}

}  // namespace coldframe::tune
