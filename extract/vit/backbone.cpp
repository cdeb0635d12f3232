#include "extract/vit/backbone.h"

#include <c10/util/Exception.h>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/vit/cpu/choose.h"

namespace coldframe::vit {

namespace {

// Several only where the fastest of them is to be found out.
std::vector<Precision> candidates(const BackboneOptions& options, const torch::Device& device,
                                  std::optional<Precision> precision) {
  if (precision) return {*precision};
  if (options.module.empty() && device.is_cpu()) return cpu::quick_precisions();
  return {parse_precision("auto", device)};
}

}  // namespace

ConfigError unknown_length(std::int64_t frames) {
  return ConfigError(
      concat("the weights take clips, and neither a config next to them nor a name "
             "says how long; give --clip N (their models usually take ",
             frames, "), or --architecture NAME"));
}

std::int64_t Backbone::row_values() const {
  const std::vector<std::int64_t> kept = cut_shape();
  const std::int64_t positions = map()[0] > 0 ? map()[0] * map()[1] * map()[2] : 1;
  return clip_steps() * dimension() * positions + (kept.empty() ? 0 : kept[0] * kept[1]);
}

torch::Tensor Backbone::forward_frames(const torch::Tensor&, const torch::Tensor&) {
  throw std::logic_error("this backbone takes images, no frames");
}

void require_images(const torch::Tensor& images, const ImageSize& image_size,
                    std::int64_t clip_frames) {
  std::vector<std::int64_t> expected{3, image_size.height, image_size.width};
  if (clip_frames > 1) expected.insert(expected.begin(), clip_frames);
  if (images.dim() > 1 && images.scalar_type() == torch::kFloat32 &&
      images.sizes().slice(1) == torch::IntArrayRef(expected))
    return;
  std::ostringstream found;
  found << images.sizes();
  std::vector<std::string> sizes;
  for (const std::int64_t size : expected) sizes.push_back(std::to_string(size));
  throw DataError(concat("the backbone was given ", images.dtype().name(), " images of shape ",
                         found.str(), ", expected float [B, ", join(sizes, ", "), "]"));
}

std::string strays_by(double cosine, const torch::Device& device) {
  return concat("features of the first frames have a cosine of ", fixed(cosine, 4),
                " to those of fp32", device.is_cpu() ? "" : " on the CPU", ", expected at least ",
                fixed(kMinCosine, 3));
}

bool is_compared(const BackboneOptions& options, const torch::Device& device,
                 std::optional<Precision> precision) {
  if (options.module.empty() && device.is_cuda()) return true;
  return candidates(options, device, precision) != std::vector{Precision::kFp32};
}

void leave_precision(Precision precision, const std::string& how, bool named, Precision other) {
  if (named)
    throw SystemError(concat("--precision ", to_string(precision), ": ", how,
                             "; give --precision fp32, or auto"));
  log_warning(concat(to_string(precision), " ", how, "; computing in ", to_string(other)));
}

std::unique_ptr<Backbone> make_backbone(const BackboneOptions& options, const torch::Device& device,
                                        std::optional<Precision> precision) {
  const int sources =
      !options.weights.empty() + !options.module.empty() + options.random_seed.has_value();
  if (sources != 1)
    throw ConfigError(
        concat(sources == 0 ? "no backbone was chosen" : "several backbones were chosen",
               "; give exactly one of --weights FILE, --backbone FILE and "
               "--random-weights SEED"));
  if (options.image_size.height < 1 || options.image_size.width < 1)
    throw ConfigError(concat("--image-size ", options.image_size, " is not positive"));
  try {
    const std::vector<Precision> precisions = candidates(options, device, precision);
    if (!options.module.empty()) return make_compiled_backbone(options, device, precisions.front());
    return make_vit_backbone(options, device, precisions);
  } catch (const c10::OutOfMemoryError& error) {
    throw SystemError(concat("the backbone does not fit on ", device.str(), " (",
                             std::string_view(error.what_without_backtrace()).substr(0, 200),
                             "); free memory there, or raise --memory-budget",
                             device.is_cpu() ? "" : ", or use --device cpu"));
  }
}

}  // namespace coldframe::vit
