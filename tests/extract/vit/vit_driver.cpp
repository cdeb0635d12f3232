// Runs the backbone and the checkpoint reader for the Python cross-checks.
//   vit_driver features KEY=VALUE… : images (raw float32 [B, 3, S, S]), clips [B, T, 3, S, S], or
//                                    blocks [B, 1, X, Y, Z] -> features (raw float32)
//   vit_driver convert FILE OUT    : any checkpoint -> safetensors
// Prints the backbone's description as JSON.

#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <numeric>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/tensor.h"
#include "extract/vit/backbone.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "tests/support/driver.h"

namespace coldframe::vit {
namespace {

using Settings = std::map<std::string, std::string>;

BackboneOptions options_from(Settings& settings) {
  BackboneOptions options;
  options.weights = settings["weights"];
  options.module = settings["module"];
  options.architecture = settings["architecture"];
  if (settings.contains("seed")) options.random_seed = std::stoull(settings["seed"]);
  if (settings.contains("heads")) options.heads = std::stoll(settings["heads"]);
  if (settings.contains("activation"))
    options.activation = choice("activation", settings["activation"], kActivations);
  options.features.pooling = parse_pooling(settings.contains("pool") ? settings["pool"] : "cls");
  if (settings.contains("layers")) options.features.layers = parse_layers(settings["layers"]);
  if (settings.contains("cut")) options.features.cut = std::stoll(settings["cut"]);
  options.features.projection = settings.contains("projection");
  if (settings.contains("size")) options.image_size = std::stoll(settings["size"]);
  if (settings.contains("width")) options.image_size.width = std::stoll(settings["width"]);
  if (settings.contains("block"))
    options.block = {std::stoll(settings["block"]), options.image_size.height,
                     options.image_size.width};
  if (settings.contains("frames")) options.clip_frames = std::stoll(settings["frames"]);
  return options;
}

int features(const std::vector<std::string>& arguments) {
  Settings settings;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    if (equals == std::string::npos) throw ConfigError("expected KEY=VALUE: " + arguments[i]);
    settings[arguments[i].substr(0, equals)] = arguments[i].substr(equals + 1);
  }
  const BackboneOptions options = options_from(settings);
  const torch::Device device =
      resolve_device(settings.contains("device") ? settings["device"] : "cpu");
  const auto backbone = make_backbone(
      options, device,
      parse_precision(settings.contains("precision") ? settings["precision"] : "fp32", device));
  std::ifstream in(settings.at("input"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto [height, width] = options.image_size;
  std::vector<std::int64_t> sizes{-1, 3, height, width};
  if (const std::int64_t frames = backbone->clip_frames(); frames > 1)
    sizes.insert(sizes.begin() + 1, frames);
  if (backbone->takes_blocks()) sizes = {-1, 1, backbone->block()[0], height, width};
  const auto numbers = static_cast<std::int64_t>(bytes.size() / sizeof(float));
  const torch::Tensor images = torch::from_blob(bytes.data(), {numbers});
  sizes[0] = numbers /
             std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{1}, std::multiplies<>());
  const torch::Tensor output = backbone->forward(images.view(sizes));
  std::ofstream out(settings.at("output"), std::ios::binary);
  out.write(static_cast<const char*>(output.data_ptr()),
            static_cast<std::streamsize>(output.nbytes()));
  Json description = backbone->describe();
  description["dimension"] = backbone->dimension();
  description["clip_frames"] = backbone->clip_frames();
  description["clip_steps"] = backbone->clip_steps();
  description["cut_shape"] = backbone->cut_shape();
  std::cout << description.dump() << '\n';
  return out ? 0 : 3;
}

int run_vit(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "features") return features(arguments);
  if (arguments.size() == 3 && arguments[0] == "convert") {
    write_safetensors(arguments[2], load_checkpoint(arguments[1]), {});
    return 0;
  }
  throw ConfigError("usage: vit_driver features KEY=VALUE… | convert FILE OUT");
}

const testing::Driver kVitDriver{"vit_driver", run_vit};

}  // namespace
}  // namespace coldframe::vit
