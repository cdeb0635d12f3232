#include "train_temporal/training/objective/mixup.h"

#include <algorithm>
#include <cmath>

namespace coldframe::temporal {

double draw_beta(double alpha, CounterRandom& random) {
  for (;;) {
    const double x = std::pow(random.uniform(), 1 / alpha);
    const double y = std::pow(random.uniform(), 1 / alpha);
    if (x + y > 0 && x + y <= 1) return x / (x + y);
  }
}

void draw_partners(std::span<BatchItem> items, const Dataset& dataset, double alpha,
                   std::uint64_t seed, std::uint64_t epoch) {
  for (BatchItem& item : items) {
    CounterRandom random({seed, static_cast<std::uint64_t>(RandomPurpose::kMixup), epoch,
                          dataset.sequences[item.exam].key});
    const BatchItem& other = items[random.below(items.size())];
    const double share = draw_beta(alpha, random);
    item.partner =
        Partner{other.exam, other.frames.features, other.view, std::max(share, 1 - share)};
  }
}

}  // namespace coldframe::temporal
