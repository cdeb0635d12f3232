#include "extract/options.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "common/cli.h"
#include "common/error.h"
#include "common/text.h"
#include "extract/preset.h"

namespace coldframe {
namespace {

namespace po = boost::program_options;

const CommandHelp kHelp{
    "coldframe extract --input PATH --out CACHE (--preset NAME --weights FILE | --weights FILE | "
    "--backbone FILE.pt | --random-weights SEED) [options]",
    "Runs a frozen backbone once over every frame of the input and stores the features in a cache. "
    "The same "
    "command again continues where it stopped and extracts only what is missing or has changed.",
    "coldframe extract --input exams.csv --preset dinov2-vits14-reg4 --weights model.safetensors "
    "--out exams.cache"};

// What the command line says before presets and defaults are applied; empty text means "not given".
constexpr int kNotGiven = std::numeric_limits<int>::min();

struct Words {
  std::string input, out, weights, backbone, random_weights, architecture, preset, pool;
  std::string resize, interpolation, resampler, mean, std, frame_columns;
  std::string store = "float16";
  int image_size = kNotGiven;
  double crop_pct = kNotGiven;
  std::int64_t heads = kNotGiven;
  std::int64_t frames = kNotGiven;
};

po::options_description describe(Words& words, ExtractOptions& options) {
  po::options_description description("Options");
  auto text = [](std::string& target, const char* name = "arg") {
    return po::value(&target)->value_name(name);
  };
  auto add = description.add_options();
  add("input", text(words.input, "PATH"), "folder, file or CSV manifest (columns exam, path, …)");
  add("out", text(words.out, "CACHE"), "x.h5 for one file, any other name for a folder of shards");
  add("weights", text(words.weights, "FILE"),
      "ViT weights with timm's names: .safetensors or .pth");
  add("backbone", text(words.backbone, "FILE.pt"),
      "a TorchScript module [B,3,S,S] -> [B,D] instead");
  add("random-weights", text(words.random_weights, "SEED"),
      "seeded random weights of --architecture instead");
  add("architecture", text(words.architecture, "NAME"), "timm's name, e.g. vit_small_patch16_224");
  add("heads", po::value(&words.heads)->value_name("N"), "attention heads (default: width / 64)");
  add("preset", text(words.preset, "NAME"), preset_names().c_str());
  add("pool", text(words.pool, "KIND"), "cls, mean or cls+mean");
  add("image-size", po::value(&words.image_size)->value_name("S"),
      "the backbone's input is S x S (default 224)");
  add("resize", text(words.resize, "KIND"), "shortest (then centre crop; default), squash or pad");
  add("crop-pct", po::value(&words.crop_pct)->value_name("F"),
      "resize to S / F before the crop (default 1)");
  add("interpolation", text(words.interpolation, "KIND"), "bicubic (default) or bilinear");
  add("resampler", text(words.resampler, "KIND"),
      "pillow (default), torch, or pillow12 (Pillow before 13)");
  add("mean", text(words.mean, "V[,V,V]"), "subtracted from pixels scaled to 0…1");
  add("std", text(words.std, "V[,V,V]"), "divides them");
  add("frames", po::value(&words.frames)->value_name("N"),
      "N frames spread evenly over an exam (default: all)");
  add("frame-columns", text(words.frame_columns, "A,B"),
      "manifest columns that hold one value per frame");
  add("allow-unordered", po::bool_switch(&options.allow_unordered),
      "accept times that decrease within an exam");
  add("store", text(words.store, "TYPE"), "float16 (default) or float32");
  add("device", po::value(&options.device)->value_name("NAME"),
      "auto (default), cpu, cuda or cuda:N");
  add("precision", po::value(&options.precision)->value_name("TYPE"),
      "auto (default), fp32, bf16 or fp16");
  add("allow-mixed-precision", po::bool_switch(&options.allow_mixed_precision),
      "extend a cache that was computed in another precision");
  add("batch", po::value(&options.batch)->value_name("N"), "frames per forward pass (default 32)");
  add("decode-threads", po::value(&options.decode_threads)->value_name("N"),
      "threads that decode and resize");
  add("threads", po::value(&options.threads)->value_name("N"), "threads of a backbone on the CPU");
  add("strict", po::bool_switch(&options.strict), "stop at the first exam that cannot be read");
  add("json", po::bool_switch(&options.json), "print the summary as JSON");
  return description;
}

std::array<float, 3> parse_channels(const std::string& option, const std::string& text,
                                    bool positive) {
  const auto parts = split(text, ',');
  std::array<float, 3> values{};
  if (parts.size() != 1 && parts.size() != 3)
    throw ConfigError(
        concat("--", option, " '", text, "': expected one value or three, separated by commas"));
  for (std::size_t channel = 0; channel < 3; ++channel) {
    double value = 0;
    const auto& part = parts[parts.size() == 1 ? 0 : channel];
    if (!parse_double(trim(part), value) || !std::isfinite(value) || (positive && value <= 0))
      throw ConfigError(concat("--", option, " '", text, "': '", part, "' is not a ",
                               positive ? "positive " : "", "number"));
    values[channel] = static_cast<float>(value);
  }
  return values;
}

void check_backbone_choice(const Words& words) {
  const int given =
      !words.weights.empty() + !words.backbone.empty() + !words.random_weights.empty();
  if (given == 1) return;
  throw ConfigError(concat(given == 0 ? "no backbone is named" : "more than one backbone is named",
                           "; give one of --weights FILE (a ViT), --backbone FILE.pt "
                           "(TorchScript), or --random-weights SEED "
                           "with --architecture NAME (for tests)"));
}

// A TorchScript module is taken as it is.
void check_torchscript(const Words& words) {
  if (words.backbone.empty()) return;
  for (const auto& [option, given] :
       {std::pair{"--pool", !words.pool.empty()}, std::pair{"--heads", words.heads != kNotGiven},
        std::pair{"--architecture", !words.architecture.empty()}}) {
    if (given)
      throw ConfigError(
          concat(option, " does not go with --backbone, whose module decides it; leave it out"));
  }
}

// Never assumes normalisation or pooling for a checkpoint that no preset describes.
void check_constants(const Words& words) {
  if (!words.preset.empty()) return;
  std::vector<std::string> missing;
  if (words.mean.empty()) missing.push_back("--mean");
  if (words.std.empty()) missing.push_back("--std");
  if (words.pool.empty() && words.backbone.empty()) missing.push_back("--pool");
  if (missing.empty()) return;
  throw ConfigError(
      concat("without --preset, ", join(missing, ", "),
             " must be given: the right values belong to the checkpoint and are not guessed"));
}

void apply_preprocessing(const Words& words, preprocess::Preprocessing& p) {
  using namespace preprocess;
  if (words.image_size != kNotGiven) p.image_size = words.image_size;
  if (!words.resize.empty())
    p.resize = static_cast<Resize>(choice("resize", words.resize, {"shortest", "squash", "pad"}));
  if (words.crop_pct != kNotGiven) p.crop_pct = words.crop_pct;
  if (!words.interpolation.empty())
    p.interpolation = static_cast<Interpolation>(
        choice("interpolation", words.interpolation, {"bicubic", "bilinear"}));
  if (!words.resampler.empty())
    p.resampler = static_cast<Resampler>(
        choice("resampler", words.resampler, {"pillow", "torch", "pillow12"}));
  if (!words.mean.empty()) p.mean = parse_channels("mean", words.mean, false);
  if (!words.std.empty()) p.std = parse_channels("std", words.std, true);
  if (p.image_size < 8 || p.image_size > 4096)
    throw ConfigError(concat("--image-size ", p.image_size, ": expected 8 to 4096 pixels"));
  if (!(p.crop_pct > 0 && p.crop_pct <= 1))
    throw ConfigError(concat("--crop-pct ", p.crop_pct, ": expected more than 0 and at most 1"));
}

void apply_backbone(const Words& words, vit::BackboneOptions& backbone) {
  backbone.weights = words.weights;
  backbone.torchscript = words.backbone;
  if (!words.random_weights.empty()) {
    std::int64_t seed = 0;
    if (!parse_int(words.random_weights, seed) || seed < 0)
      throw ConfigError(concat("--random-weights '", words.random_weights,
                               "': expected a seed, a whole number from 0"));
    backbone.random_seed = static_cast<std::uint64_t>(seed);
  }
  if (!words.architecture.empty()) backbone.architecture = words.architecture;
  if (backbone.random_seed && backbone.architecture.empty())
    throw ConfigError("--random-weights needs --architecture NAME or --preset NAME");
  if (words.heads != kNotGiven) {
    if (words.heads < 1) throw ConfigError(concat("--heads ", words.heads, ": expected 1 or more"));
    backbone.heads = words.heads;
  }
  if (!words.pool.empty()) backbone.pooling = vit::parse_pooling(words.pool);
}

void check_ranges(const ExtractOptions& options) {
  if (options.batch < 1 || options.batch > 65536)
    throw ConfigError(concat("--batch ", options.batch, ": expected 1 to 65536 frames"));
  if (options.decode_threads < 0 || options.decode_threads > 256)
    throw ConfigError(concat("--decode-threads ", options.decode_threads, ": expected 1 to 256"));
  if (options.threads < 0 || options.threads > 1024)
    throw ConfigError(concat("--threads ", options.threads, ": expected 1 to 1024"));
}

}  // namespace

std::optional<ExtractOptions> parse_extract_options(const std::vector<std::string>& arguments) {
  Words words;
  ExtractOptions options;
  if (!parse_command_line(kHelp, describe(words, options), arguments)) return std::nullopt;

  if (words.input.empty())
    throw ConfigError("--input is missing: name a folder, a file or a CSV manifest");
  if (words.out.empty()) throw ConfigError("--out is missing: name the cache, x.h5 or a folder");
  check_backbone_choice(words);
  check_torchscript(words);
  check_constants(words);
  check_ranges(options);

  if (words.frames != kNotGiven) {
    if (words.frames < 1)
      throw ConfigError(concat("--frames ", words.frames, ": expected 1 or more"));
    options.frames = words.frames;
  }
  options.input = words.input;
  options.out = words.out;
  options.preset = words.preset;
  if (!words.preset.empty()) {
    const Preset& preset = find_preset(words.preset);
    options.preprocessing = preset.preprocessing;
    options.backbone.pooling = preset.pooling;
    if (words.backbone.empty()) options.backbone.architecture = preset.architecture;
  }
  apply_preprocessing(words, options.preprocessing);
  apply_backbone(words, options.backbone);
  options.backbone.image_size = options.preprocessing.image_size;
  options.storage =
      static_cast<cache::StorageType>(choice("store", words.store, {"float16", "float32"}));
  if (!words.frame_columns.empty()) options.frame_columns = split(words.frame_columns, ',');
  if (!options.decode_threads)
    options.decode_threads = std::max(1u, std::thread::hardware_concurrency() / 2);
  return options;
}

}  // namespace coldframe
