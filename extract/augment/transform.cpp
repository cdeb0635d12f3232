#include "extract/augment/transform.h"

#include <cmath>

#include "common/files/fingerprint.h"
#include "common/threads/counter_random.h"

namespace coldframe::augment {
namespace {

// The last part of a key. What a number means never changes: caches depend on it.
enum class Part : std::uint64_t {
  kFlip = 1,
  kVflip,
  kRotate,
  kScale,
  kPlace,
  kBrightness,
  kContrast,
  kGamma,
  kNoise,
  kNoisePattern,
};

double between(const Range& range, double share) {
  return range.low + (range.high - range.low) * share;
}

}  // namespace

Transform draw_transform(const Augmentation& augmentation, const std::string& exam,
                         std::size_t view) {
  const std::uint64_t exam_key = xxh3_64(std::as_bytes(std::span(exam)));
  const auto random = [&](Part part) {
    return CounterRandom({augmentation.seed, exam_key, view, static_cast<std::uint64_t>(part)});
  };
  const auto draw = [&](Part part) { return random(part).uniform(); };
  Transform result;
  if (augmentation.flip) result.flip = draw(Part::kFlip) < *augmentation.flip;
  if (augmentation.vflip) result.vflip = draw(Part::kVflip) < *augmentation.vflip;
  if (augmentation.rotate) result.angle = between(*augmentation.rotate, draw(Part::kRotate));
  if (augmentation.scale) {
    result.side = std::sqrt(between(*augmentation.scale, draw(Part::kScale)));
    CounterRandom place = random(Part::kPlace);
    result.x = place.uniform();
    result.y = place.uniform();
  }
  if (augmentation.brightness)
    result.brightness = between(*augmentation.brightness, draw(Part::kBrightness));
  if (augmentation.contrast)
    result.contrast = between(*augmentation.contrast, draw(Part::kContrast));
  if (augmentation.gamma) {
    const auto [low, high] = *augmentation.gamma;
    result.gamma = std::exp(between({std::log(low), std::log(high)}, draw(Part::kGamma)));
  }
  if (augmentation.noise) result.noise = between(*augmentation.noise, draw(Part::kNoise));
  result.noise_key = random(Part::kNoisePattern).next();
  return result;
}

}  // namespace coldframe::augment
