#include "train_temporal/tune/tuned_vit.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "train_temporal/models/mixed_precision.h"
#include "train_temporal/tune/chain.h"
#include "train_temporal/tune/trained_parameters.h"

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
        chain(model, shared.features(), shared.cut(), shared.levels().to(where)) {}

  std::int64_t chunk_of(std::int64_t rows) const {
    constexpr std::int64_t kUsual = 8;
    return std::min(rows, options.chunk > 0 ? options.chunk : kUsual);
  }

  Values forward(const torch::Tensor& rows, const Draw& draw) const {
    const temporal::Autocast autocast({options.precision}, device);
    Values values{rows};
    for (std::size_t step = 0; step < chain.size(); ++step)
      values = chain.forward(step, values, draw);
    return values;
  }

  // Rows [from, to) as the chain takes them.
  torch::Tensor entering(const torch::Tensor& rows, std::int64_t from, std::int64_t to) const {
    const torch::Tensor chunk = rows.slice(0, from, to).to(device);
    if (source.cut() == 0) return chunk;
    return chunk.to(torch::kFloat32).view({to - from, -1, source.architecture().width});
  }

  const TunedSource& source;
  TuneOptions options;
  torch::Device device;
  vit::VisionTransformer model;
  std::shared_ptr<torch::nn::Module> trainable;
  Chain chain;
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
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> found;
  const std::int64_t n = rows.size(0), chunk = parts_->chunk_of(n);
  for (std::int64_t from = 0; from < n; from += chunk)
    found.push_back(
        parts_->forward(parts_->entering(rows, from, std::min(n, from + chunk)), {})[0]);
  return torch::cat(found);
}

void TunedVit::step(const torch::Tensor& rows, std::span<const std::uint64_t> keys,
                    const temporal::Dropout& dropout, const Head& head) {
  const std::int64_t n = rows.size(0), chunk = parts_->chunk_of(n);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return Draw{&dropout,
                keys.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from))};
  };
  std::vector<torch::Tensor> found;
  {
    const torch::NoGradGuard no_grad;
    for (std::int64_t from = 0; from < n; from += chunk) {
      const std::int64_t to = std::min(n, from + chunk);
      found.push_back(parts_->forward(parts_->entering(rows, from, to), draw(from, to))[0]);
    }
  }
  const torch::Tensor gradient = head(torch::cat(found));
  const torch::AutoGradMode with_graph(true);
  for (std::int64_t from = 0; from < n; from += chunk) {
    const std::int64_t to = std::min(n, from + chunk);
    const Values output = parts_->forward(parts_->entering(rows, from, to), draw(from, to));
    torch::autograd::backward({output[0]}, {gradient.slice(0, from, to)});
  }
}

std::uint64_t TunedVit::predicted_bytes(std::int64_t) const {
  return 0;
}

StateDict TunedVit::merged() const {
  return merged_tensors(parts_->source, parts_->model);
}

}  // namespace coldframe::tune
