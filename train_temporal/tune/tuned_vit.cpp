#include "train_temporal/tune/tuned_vit.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "train_temporal/tune/trained_parameters.h"
#include "train_temporal/tune/tuned_step.h"

namespace coldframe::tune {

class TunedVit::Parts {
 public:
  Parts(const TunedSource& shared, const TuneOptions& wanted, std::uint64_t seed,
        const torch::Device& where)
      : source(shared),
        options(wanted),
        device(where),
        model(make_tuned_model(shared, wanted, seed, where)),
        trainable(trained_parameters(model)),
        chain(model, shared.features(), shared.cut(), shared.levels().to(where)),
        ways(wanted.strategy, wanted.chunk) {}

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

  // What enters the first trained step: computed once where frozen ones go before it.
  TunedStep::Rows rows_of(const torch::Tensor& rows) const {
    const std::size_t frozen = chain.first_trained();
    if (frozen == 0)
      return [this, rows](std::int64_t from, std::int64_t to) { return entering(rows, from, to); };
    constexpr std::int64_t kFrozenChunk = 4;
    Values all;
    for (std::int64_t from = 0; from < rows.size(0); from += kFrozenChunk) {
      const std::int64_t to = std::min(rows.size(0), from + kFrozenChunk);
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
    }
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
  Ways ways;
  std::int64_t evaluated = 16;  // frames at a time
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
  const std::int64_t n = rows.size(0);
  torch::Tensor features = torch::empty({n, dimension()}, parts_->device);
  for (std::int64_t from = 0; from < n;) {
    const std::int64_t to = std::min(n, from + parts_->evaluated);
    try {
      const Values found =
          parts_->forward(parts_->entering(rows, from, to), parts_->chain.size(), {});
      features.slice(0, from, to).copy_(found[0]);
      from = to;
    } catch (const c10::OutOfMemoryError&) {
      if (to - from == 1) throw;
      parts_->evaluated = (to - from + 1) / 2;
    }
  }
  return features;
}

void TunedVit::step(const torch::Tensor& rows, std::span<const std::uint64_t> keys,
                    const temporal::Dropout& dropout, const Head& head) {
  TunedStep step(parts_->chain, parts_->ways, parts_->rows_of(rows), keys, dropout,
                 parts_->options.precision);
  torch::Tensor features = step.features(dimension(), parts_->device);
  const torch::Tensor gradient = head(features);
  features.reset();
  if (parts_->chain.first_trained() < parts_->chain.size()) step.backward(gradient);
}

std::uint64_t TunedVit::predicted_bytes(std::int64_t) const {
  return 0;
}

StateDict TunedVit::merged() const {
  return merged_tensors(parts_->source, parts_->model);
}

}  // namespace coldframe::tune
