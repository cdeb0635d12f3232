#include "extract/plan/follow_config.h"

#include "common/cli/cli.h"

namespace coldframe::extract {

void follow_config(const vit::ModelConfig& config, ExtractOptions& options) {
  using namespace preprocess;
  const vit::PixelConfig& said = config.pixels;
  Preprocessing& pixels = options.preprocessing;
  if (said.image_size) pixels.image_size = *said.image_size;
  if (said.resize) pixels.resize = choice("resize", *said.resize, kResizes);
  if (said.crop_pct) pixels.crop_pct = *said.crop_pct;
  if (said.interpolation)
    pixels.interpolation = choice("interpolation", *said.interpolation, kInterpolations);
  if (said.resampler) pixels.resampler = choice("resampler", *said.resampler, kResamplers);
  if (said.mean) pixels.mean = *said.mean;
  if (said.std) pixels.std = *said.std;
  options.config = config.file;
  if (config.pool.empty()) return;
  options.backbone.features.pooling = vit::parse_pooling(config.pool);
  options.backbone.features.projection = config.projection;
}

}  // namespace coldframe::extract
