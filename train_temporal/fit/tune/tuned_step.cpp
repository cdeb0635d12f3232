#include "train_temporal/fit/tune/tuned_step.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace coldframe::tune {

TunedStep::TunedStep(const Chain& chain, RecomputePlanner& ways, Rows rows,
                     std::span<const std::uint64_t> keys, const temporal::Dropout& dropout,
                     torch::ScalarType precision)
    : chain_(chain),
      ways_(ways),
      rows_(std::move(rows)),
      keys_(keys),
      dropout_(dropout),
      precision_(precision),
      n_(static_cast<std::int64_t>(keys.size())),
      steps_(chain.size() - chain.first_trained()) {}

Pass TunedStep::pass_of(std::int64_t from, std::int64_t to) const {
  return {&dropout_,
          keys_.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)),
          precision_};
}

std::unique_ptr<ChunkRun> TunedStep::run_of(std::int64_t from, std::int64_t to,
                                            std::size_t steps) const {
  return std::make_unique<ChunkRun>(chain_, steps, ways_.schedule(to - from, steps),
                                    rows_(from, to), pass_of(from, to));
}

torch::Tensor TunedStep::features(std::int64_t dimension, const torch::Device& device) {
  torch::Tensor features = torch::empty({n_, dimension}, device);
  for (;;) {
    try {
      compute_features(features);
      return features;
    } catch (const c10::OutOfMemoryError&) {
      kept_.clear();
    }
    ways_.shrink();
  }
}

void TunedStep::compute_features(torch::Tensor& features) {
  const Way& way = ways_.choose(n_);
  const torch::NoGradGuard no_grad;
  const std::int64_t chunks = (n_ + way.chunk - 1) / way.chunk;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t from = i * way.chunk, to = std::min(n_, from + way.chunk);
    if (i >= chunks - way.kept) {
      auto run = run_of(from, to, steps_);
      features.slice(0, from, to).copy_(run->forward()[0]);
      kept_[from] = std::move(run);
      continue;
    }
    Values values = rows_(from, to);
    for (std::size_t step = 0; step < steps_; ++step)
      values = chain_.forward(chain_.first_trained() + step, values, pass_of(from, to));
    features.slice(0, from, to).copy_(values[0]);
  }
}

std::vector<TunedStep::Piece> TunedStep::chunks_of(const Piece& piece) const {
  std::vector<Piece> chunks;
  for (std::int64_t from = piece.from; from < piece.to; from += ways_.current().chunk) {
    const std::int64_t to = std::min(piece.to, from + ways_.current().chunk);
    Piece& chunk = chunks.emplace_back(Piece{from, to, piece.steps, {}});
    for (const torch::Tensor& gradient : piece.gradient)
      chunk.gradient.push_back(gradient.slice(0, from - piece.from, to - piece.from));
  }
  return chunks;
}

// From the last chunk to the first: kept ones are the last, and the sums are the same however many
// there are.
void TunedStep::backward(const torch::Tensor& gradient) {
  std::vector<Piece> waiting = chunks_of({0, n_, steps_, {gradient}});
  while (!waiting.empty()) {
    const Piece piece = std::move(waiting.back());
    waiting.pop_back();
    take_back(piece, waiting);
  }
}

void TunedStep::take_back(const Piece& piece, std::vector<Piece>& waiting) {
  std::unique_ptr<ChunkRun> run;
  Piece rest = piece;
  try {
    if (const auto kept = kept_.find(piece.from); kept != kept_.end()) {
      run = std::move(kept->second);
      kept_.erase(kept);
    } else {
      run = run_of(piece.from, piece.to, piece.steps);
      run->forward();
    }
    run->backward(piece.gradient);
    return;
  } catch (const c10::OutOfMemoryError&) {
    kept_.clear();
    if (run && run->remaining() < piece.steps) {
      rest.steps = run->remaining();
      rest.gradient = run->gradient();
    }
  }
  run.reset();
  ways_.shrink();
  for (Piece& chunk : chunks_of(rest)) waiting.push_back(std::move(chunk));
}

}  // namespace coldframe::tune
