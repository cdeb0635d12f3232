// Mixup (Zhang et al. 2018) of sequences: an exam is trained as a mixture with another one of its
// batch. Features are mixed frame by frame, the partner's sequence being stretched or shrunk to the
// exam's length; times, length and mask stay the exam's, whose share is therefore half or more; the
// loss is that of both labels, with the same shares.
#pragma once

#include <cstdint>
#include <span>

#include "train_temporal/data/batcher.h"

namespace coldframe::temporal {

// Gives every item its partner and the share of its own, max(λ, 1 − λ) with λ from Beta(α, α). They
// depend on the seed, the epoch, the exam and the batch, never on micro-batches.
void draw_partners(std::span<BatchItem> items, const Dataset& dataset, double alpha,
                   std::uint64_t seed, std::uint64_t epoch);

// Beta(α, α) by Jöhnk's rejection (1964), for α from kLeastMixup to kMostMixup.
inline constexpr double kLeastMixup = 0.01, kMostMixup = 4;
double draw_beta(double alpha, CounterRandom& random);

}  // namespace coldframe::temporal
