#include "extract/plan/preset.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::extract {
namespace {

using preprocess::Interpolation;
using preprocess::Preprocessing;
using preprocess::Resampler;
using preprocess::Resize;

constexpr std::array<float, 3> kHalf{0.5f, 0.5f, 0.5f};
constexpr std::array<float, 3> kImageNetMean{0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kImageNetStd{0.229f, 0.224f, 0.225f};

Preprocessing bicubic_crop(int size, double crop_pct, const std::array<float, 3>& mean,
                           const std::array<float, 3>& std) {
  return {size, Resize::kShortest, crop_pct, Interpolation::kBicubic, Resampler::kPillow, mean,
          std};
}

std::vector<Preset> make_presets() {
  const vit::Pooling cls = vit::Pooling::kCls;
  const std::string timm = "pretrained_cfg of timm 1.0's ";
  return {
      {"retfound-green", "vit_small_patch14_reg4_dinov2", vit::Pooling::kMean,
       Preprocessing{392, Resize::kSquash, 1.0, Interpolation::kBilinear, Resampler::kTorch, kHalf,
                     kHalf},
       "README of github.com/justinengelmann/RETFound_Green: torchvision v2 Resize((392, 392), "
       "antialias=True) on a uint8 tensor, Normalize(0.5, 0.5), global_pool = 'avg'"},
      {"dino-vits16", "vit_small_patch16_224", cls,
       bicubic_crop(224, 0.9, kImageNetMean, kImageNetStd), timm + "vit_small_patch16_224.dino"},
      {"dinov2-vits14", "vit_small_patch14_dinov2", cls,
       bicubic_crop(518, 1.0, kImageNetMean, kImageNetStd),
       timm + "vit_small_patch14_dinov2.lvd142m"},
      {"dinov2-vits14-reg4", "vit_small_patch14_reg4_dinov2", cls,
       bicubic_crop(518, 1.0, kImageNetMean, kImageNetStd),
       timm + "vit_small_patch14_reg4_dinov2.lvd142m"},
      {"augreg-vits16", "vit_small_patch16_224", cls, bicubic_crop(224, 0.9, kHalf, kHalf),
       timm + "vit_small_patch16_224.augreg_in21k_ft_in1k"},
      {"deit-s16", "deit_small_patch16_224", cls,
       bicubic_crop(224, 0.9, kImageNetMean, kImageNetStd),
       timm + "deit_small_patch16_224.fb_in1k"},
  };
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = make_presets();
  return all;
}

const Preset& find_preset(const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
  }
  throw ConfigError(concat("no preset is called '", name, "'; there are ", preset_names()));
}

std::string preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return join(names, ", ");
}

}  // namespace coldframe::extract
