#include "extract/pipeline/preset.h"

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
constexpr std::array<float, 3> kClipMean{0.48145466f, 0.4578275f, 0.40821073f};
constexpr std::array<float, 3> kClipStd{0.26862954f, 0.26130258f, 0.27577711f};

constexpr auto kCls = vit::Pooling::kCls;
constexpr auto kMean = vit::Pooling::kMean;

// torchvision's Resize of the shortest edge to size / crop_pct, and CenterCrop, on PIL images.
Preprocessing crop(Interpolation interpolation, int size, double crop_pct,
                   const std::array<float, 3>& mean, const std::array<float, 3>& std) {
  return {size, Resize::kShortest, crop_pct, interpolation, Resampler::kPillow, mean, std};
}

Preprocessing bicubic_crop(int size, double crop_pct, const std::array<float, 3>& mean,
                           const std::array<float, 3>& std) {
  return crop(Interpolation::kBicubic, size, crop_pct, mean, std);
}

// Resize((size, size)).
Preprocessing squash(Interpolation interpolation, int size, Resampler resampler,
                     const std::array<float, 3>& mean, const std::array<float, 3>& std) {
  return {size, Resize::kSquash, 1.0, interpolation, resampler, mean, std};
}

std::vector<Preset> natural_presets() {
  const std::string timm = "pretrained_cfg of timm 1.0's ";
  return {
      {"dino-vits16", "vit_small_patch16_224", kCls,
       bicubic_crop(224, 0.9, kImageNetMean, kImageNetStd), timm + "vit_small_patch16_224.dino"},
      {"dinov2-vits14", "vit_small_patch14_dinov2", kCls,
       bicubic_crop(518, 1.0, kImageNetMean, kImageNetStd),
       timm + "vit_small_patch14_dinov2.lvd142m"},
      {"dinov2-vits14-reg4", "vit_small_patch14_reg4_dinov2", kCls,
       bicubic_crop(518, 1.0, kImageNetMean, kImageNetStd),
       timm + "vit_small_patch14_reg4_dinov2.lvd142m"},
      {"augreg-vits16", "vit_small_patch16_224", kCls, bicubic_crop(224, 0.9, kHalf, kHalf),
       timm + "vit_small_patch16_224.augreg_in21k_ft_in1k"},
      {"deit-s16", "deit_small_patch16_224", kCls,
       bicubic_crop(224, 0.9, kImageNetMean, kImageNetStd),
       timm + "deit_small_patch16_224.fb_in1k"},
  };
}

// Encoders of the eye, the chest, the gut, and of all kinds of medical images.
std::vector<Preset> medical_presets() {
  const Preprocessing retfound = bicubic_crop(224, 0.875, kImageNetMean, kImageNetStd);
  Preprocessing rad_dino =
      bicubic_crop(518, 1.0, {0.5307f, 0.5307f, 0.5307f}, {0.2583f, 0.2583f, 0.2583f});
  rad_dino.resampler = Resampler::kTransformers;
  return {
      {"retfound-green", "vit_small_patch14_reg4_dinov2", kMean,
       squash(Interpolation::kBilinear, 392, Resampler::kTorch, kHalf, kHalf),
       "README of github.com/justinengelmann/RETFound_Green: torchvision v2 Resize((392, 392), "
       "antialias=True) on a uint8 tensor, Normalize(0.5, 0.5), global_pool = 'avg'"},
      {"retfound-mae", "vit_large_patch16_224", std::nullopt, retfound,
       "util/datasets.py and models_vit.py of github.com/rmaphoh/RETFound_MAE: Resize(256, "
       "bicubic), CenterCrop(224), ImageNet's constants. It pools by the class token, or by the "
       "mean of patches after a norm that is trained with the task; --pool mean has the "
       "checkpoint's own norm before"},
      {"retfound-dinov2", "vit_large_patch14_dinov2", kCls, retfound,
       "the same; RETFound_dinov2 is timm's vit_large_patch14_dinov2.lvd142m with img_size=224"},
      {"rad-dino", "vit_base_patch14_dinov2", kCls, rad_dino,
       "huggingface.co/microsoft/rad-dino: Dinov2 ViT-B/14, BitImageProcessor of shortest_edge "
       "518, bicubic, crop 518, mean 0.5307, std 0.2583; features are the class token"},
      {"endovit", "vit_base_patch16_224", std::nullopt,
       squash(Interpolation::kBilinear, 224, Resampler::kPillow, {0.3464f, 0.2280f, 0.2228f},
              {0.2520f, 0.2128f, 0.2093f}),
       "huggingface.co/egeozsoy/EndoViT: Resize((224, 224)), mean, std, timm's VisionTransformer; "
       "it gives all tokens and names no pooling"},
      {"biomedclip", "vit_base_patch16_224", kCls, bicubic_crop(224, 1.0, kClipMean, kClipStd),
       "open_clip_config.json of huggingface.co/microsoft/"
       "BiomedCLIP-PubMedBERT_256-vit_base_patch16_224: timm's vit_base_patch16_224, before its "
       "projection; preprocessing by open_clip's defaults"},
      {"medsiglip", "medsiglip", vit::Pooling::kMap,
       squash(Interpolation::kBicubic, 448, Resampler::kTransformers, kHalf, kHalf),
       "python/serving/predictor.py of github.com/Google-Health/medsiglip: transformers' "
       "SiglipImageProcessor with its defaults at 448 × 448 (behind padding to a square, which is "
       "left out here), features of get_image_features"},
  };
}

// Encoders of tiles of histology slides. TRIDENT is github.com/mahmoodlab/TRIDENT
// (trident/patch_encoder_models/load.py), STAMP github.com/KatherLab/STAMP.
std::vector<Preset> pathology_presets() {
  const auto bilinear_tile = [](const std::array<float, 3>& mean, const std::array<float, 3>& std) {
    return crop(Interpolation::kBilinear, 224, 1.0, mean, std);
  };
  const Preprocessing image_net = bilinear_tile(kImageNetMean, kImageNetStd);
  const Preprocessing optimus =
      bilinear_tile({0.707223f, 0.578729f, 0.703617f}, {0.211883f, 0.230117f, 0.177517f});
  const std::string optimus_source =
      ": timm's vit_giant_patch14_reg4_dinov2 at 224, mean, std, class token; it takes tiles of "
      "224 × 224 pixels as they are, others are resized as TRIDENT does";
  return {
      {"uni", "uni", kCls, image_net,
       "README and uni/get_encoder of github.com/mahmoodlab/UNI: vit_large_patch16_224 with layer "
       "scale, Resize(224), CenterCrop(224), ImageNet's constants, class token"},
      {"uni2-h", "uni2_h", kCls, image_net,
       "README of github.com/mahmoodlab/UNI: timm_kwargs, Resize(224), CenterCrop(224), ImageNet's "
       "constants, class token"},
      {"virchow2", "virchow2", vit::Pooling::kClsMean,
       bicubic_crop(224, 1.0, kImageNetMean, kImageNetStd),
       "huggingface.co/paige-ai/Virchow2 as TRIDENT has it: class token, and the mean of patch "
       "tokens without 4 registers (2560 features)"},
      {"h-optimus-0", "vit_giant_patch14_reg4_dinov2", kCls, optimus,
       "models/h-optimus/v0/README.md of github.com/bioptimus/releases" + optimus_source},
      {"h-optimus-1", "vit_giant_patch14_reg4_dinov2", kCls, optimus,
       "huggingface.co/bioptimus/H-optimus-1 as TRIDENT and STAMP have it" + optimus_source},
      {"prov-gigapath", "prov_gigapath", kCls,
       bicubic_crop(224, 0.875, kImageNetMean, kImageNetStd),
       "demo/3_load_tile_encoder.py of github.com/prov-gigapath/prov-gigapath: Resize(256, "
       "bicubic), CenterCrop(224), ImageNet's constants"},
      {"phikon-v2", "phikon_v2", kCls, image_net,
       "huggingface.co/owkin/phikon-v2: Dinov2 ViT-L/16 at 224, class token; ImageNet's constants; "
       "tiles of other sizes are resized as TRIDENT does"},
  };
}

std::vector<Preset> make_presets() {
  std::vector<Preset> all = natural_presets();
  for (auto make : {medical_presets, pathology_presets})
    for (Preset& preset : make()) all.push_back(std::move(preset));
  return all;
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
