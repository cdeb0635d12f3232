#include "train_temporal/explain/patch_contributions.h"

#include <torch/csrc/autograd/autograd.h>
#include <algorithm>
#include <cmath>

#include "train_temporal/explain/integrated_gradients.h"
#include "train_temporal/tune/trained_parameters.h"

namespace coldframe::temporal {
namespace {

constexpr std::int64_t kMostTokens = 4096;  // of a batch of points

// Two thirds of the depth: there tokens still stand for their places, and few blocks are left for
// them to mix in. No later than the first layer of which features are made.
std::int64_t late_block(const tune::TunedSource& source) {
  const vit::Architecture& shape = source.architecture();
  const std::int64_t first_layer = vit::layers_of(source.features(), shape).front();
  return std::max({source.cut(), std::min(shape.depth * 2 / 3, first_layer), std::int64_t{1}});
}

tune::Chain chain_from(std::int64_t block, const tune::TunedSource& source,
                       const torch::Device& device) {
  return {tune::make_tuned_model(source, {}, 0, device), source.features(), block,
          source.levels().to(device)};
}

}  // namespace

// From `base` to base + step, tokens [1, N, D].
struct LateBlocks::Way {
  torch::Tensor base, step;
  torch::Tensor weights;  // [F]
};

LateBlocks::LateBlocks(const tune::TunedSource& source, const torch::Device& device)
    : source_(source),
      device_(device),
      block_(late_block(source)),
      grid_(source.image_size(), source.architecture().patch),
      early_(chain_from(source.cut(), source, device)),
      late_(chain_from(block_, source, device)) {}

// A frame as the cut stores it, [1, …] -> the tokens that enter the block, [1, N, D].
torch::Tensor LateBlocks::entering(const torch::Tensor& row) const {
  const torch::NoGradGuard no_grad;
  tune::Values values = {row.to(device_)};
  if (source_.cut() > 0)
    values[0] = values[0].to(torch::kFloat32).view({1, -1, source_.architecture().width});
  const std::size_t steps = early_.size() - late_.size();
  for (std::size_t step = 0; step < steps; ++step) values = early_.forward(step, values, {});
  return values[0];
}

// tokens [B, N, D] -> [B]
torch::Tensor LateBlocks::number(torch::Tensor tokens, const torch::Tensor& weights) const {
  tune::Values values = {std::move(tokens)};
  for (std::size_t step = 0; step < late_.size(); ++step) values = late_.forward(step, values, {});
  return values[0].mv(weights);
}

// What each token adds, [N] float64.
torch::Tensor LateBlocks::integrate(const Way& way, std::size_t points) const {
  const Quadrature quadrature = gauss_legendre(points);
  const auto column = [&](const std::vector<double>& values) {  // [points, 1, 1]
    return torch::tensor(values, torch::kFloat32).to(device_).view({-1, 1, 1});
  };
  const torch::Tensor places = column(quadrature.points), weights = column(quadrature.weights);
  const std::int64_t at_once = std::max<std::int64_t>(kMostTokens / way.step.size(1), 1);
  torch::Tensor sum = torch::zeros_like(way.step);
  for (std::int64_t from = 0; from < places.size(0); from += at_once) {
    const torch::Tensor input =
        (way.base + places.slice(0, from, from + at_once) * way.step).detach().requires_grad_();
    const torch::Tensor output = number(input, way.weights).sum();
    const torch::Tensor gradient = torch::autograd::grad({output}, {input}).front();
    sum += (gradient * weights.slice(0, from, from + at_once)).sum(0, true);
  }
  return (sum.to(torch::kFloat64) * way.step.to(torch::kFloat64)).sum(2).squeeze(0);
}

LateBlocks::Added LateBlocks::added_on(const Way& way, double tolerance) const {
  double explained = 0;
  {
    const torch::NoGradGuard no_grad;
    const torch::Tensor ends = number(torch::cat({way.base, way.base + way.step}), way.weights);
    explained = (ends[1] - ends[0]).item<double>();
  }
  Added added;
  for (std::size_t points = kFewestPoints;; points *= 2) {
    added.tokens = integrate(way, points);
    added.gap = std::abs(added.tokens.sum().item<double>() - explained);
    if (added.gap <= tolerance || 2 * points > kMostPoints) return added;
  }
}

std::vector<PatchContributions> LateBlocks::explain(const torch::Tensor& rows,
                                                    std::span<const FrameNumber> numbers,
                                                    const std::function<void()>& done) const {
  const std::int64_t n = rows.size(0), prefix = source_.architecture().prefix_tokens();
  std::vector<PatchContributions> results(numbers.size());
  for (PatchContributions& result : results)
    result.patches = torch::zeros({n, grid_.rows, grid_.columns}, torch::kFloat64);
  for (std::int64_t frame = 0; frame < n; ++frame) {
    const torch::Tensor tokens = entering(rows.slice(0, frame, frame + 1));
    torch::Tensor base = tokens.clone();
    torch::Tensor patches = base.narrow(1, prefix, grid_.patches());
    patches.copy_(patches.mean(1, true).expand_as(patches));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const torch::Tensor weights = numbers[i].weights[frame].to(device_, torch::kFloat32);
      const Added added = added_on({base, tokens - base, weights}, numbers[i].tolerance);
      results[i].largest_gap = std::max(results[i].largest_gap, added.gap);
      results[i].patches[frame].copy_(
          added.tokens.narrow(0, prefix, grid_.patches()).view({grid_.rows, grid_.columns}));
      done();
    }
  }
  return results;
}

}  // namespace coldframe::temporal
