#include "extract/options/options.h"

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/outputs.h"
#include "common/system/monitor.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"
#include "extract/pipeline/thumbnail.h"
#include "extract/plan/follow_config.h"
#include "extract/plan/preset.h"

namespace coldframe::extract {
namespace {

namespace po = boost::program_options;

const CommandHelp kHelp{
    "coldframe extract --input PATH --out CACHE (--preset NAME --weights FILE | "
    "--weights FILE|FOLDER | --backbone FILE.pt|FILE.pt2 | --random-weights SEED) [options]",
    "Runs a frozen backbone once over every frame of the input and stores the features in a cache. "
    "The same command again continues where it stopped and extracts only what is missing or has "
    "changed. --dry-run needs --input only and tells what would be extracted and what looks wrong.",
    "coldframe extract --input exams.csv --preset dinov2-vits14-reg4 --weights model.safetensors "
    "--out exams.cache"};

// The command line as it was given, before presets and defaults are applied; empty text means "not
// given".
struct RawOptions {
  std::string out, weights, backbone, random_weights, architecture, activation, preset, pool,
      layers;
  bool projection = false;
  std::string store = "float16";
  std::int64_t heads = kNotGiven, cut = kNotGiven;
  int thumbnails = kNotGiven;
  std::int64_t min_frames = 1;
  InputOptions input;
  PixelOptions pixels;
  ViewOptions views;
  MachineOptions machine;
};

void describe_backbone(RawOptions& words, po::options_description& description) {
  const auto text = [](std::string& target, const char* name) {
    return po::value(&target)->value_name(name);
  };
  auto add = description.add_options();
  add("out", text(words.out, "CACHE"), "x.h5 for one file, any other name for a folder of shards");
  add("weights", text(words.weights, "FILE|FOLDER"),
      "weights of a ViT: .safetensors, .pth, .bin, .ckpt, an index of shards, or a folder of the "
      "Hugging Face hub, whose config states model and pixels");
  add("backbone", text(words.backbone, "FILE.pt|FILE.pt2"),
      "a compiled module [B,3,H,W] -> [B,D] instead: TorchScript, or a package of AOTInductor "
      "(.pt2)");
  add("random-weights", text(words.random_weights, "SEED"),
      "seeded random weights of --architecture instead");
  add("architecture", text(words.architecture, "NAME"), "timm's name, e.g. vit_small_patch16_224");
  add("heads", po::value(&words.heads)->value_name("N"),
      "attention heads (default: what name, config or published models of these shapes have)");
  add("activation", text(words.activation, "KIND"),
      "gelu, gelu_tanh, quick_gelu or silu (default likewise)");
  add("preset", text(words.preset, "NAME"), preset_names().c_str());
  add("pool", text(words.pool, "KIND"),
      "cls, mean (of the patches), cls+mean, register-mean, prefix-mean (of class token and "
      "registers, as a distilled DeiT has it), map (SigLIP's attention pooling), or none: every "
      "token of the frame, one behind the other");
  add("layers", text(words.layers, "N,N,…"),
      "blocks, counted from 1, whose pooled outputs are put side by side, as in DINO's linear "
      "probing: 9,10,11,12 (default: the last block)");
  add("projection", po::bool_switch(&words.projection),
      "project the pooled features to the space that a CLIP's images share with its texts, as a "
      "CLIP's config does by itself where neither --pool nor --layers is given");
}

void describe_run(RawOptions& words, ExtractOptions& options,
                  po::options_description& description) {
  auto add = description.add_options();
  add("store", po::value(&words.store)->value_name("TYPE"), "float16 (default) or float32");
  add("cut", po::value(&words.cut)->value_name("BLOCK"),
      "also store what enters this block of the ViT, counted from 0, for `train --tune`: its "
      "tokens "
      "as --store says, or for 0 the prepared pixels. 8 of 12 leaves the last 4 blocks to train. "
      "The "
      "cache becomes some 200 times larger (151 kB a frame for a ViT-S/16)");
  add("thumbnails",
      po::value(&words.thumbnails)->value_name("SIDE")->implicit_value(kUsualThumbnail),
      "also store a small JPEG of each frame, after mask and crop, for reports: SIDE pixels on its "
      "longer side (96). Off by default for privacy: without it the cache holds no pixels");
  add("min-frames", po::value(&words.min_frames)->value_name("N"),
      "fail an exam of which fewer than N frames can be read (default 1); the others keep the "
      "slots of unreadable frames, masked");
  add("strict", po::bool_switch(&options.strict),
      "stop at the first exam or frame that cannot be read");
  add("rename", po::bool_switch(&options.rename),
      "exams that are cached under other ids than they have now keep their features");
  add("replace", po::bool_switch(&options.replace),
      "extract again exams whose ids name another source or patient than the cached ones");
  add("part", po::value(&options.part)->value_name("I/N"),
      "extract the I-th of N parts of the exams alone, counted from 0, into a cache that all parts "
      "share; off: all exams (default: as SLURM's array, srun and torchrun say, see "
      "extract/README.md)");
  add("survey", po::value(&options.survey)->value_name("FILE"),
      "what --dry-run --json printed: parts then have about as many frames");
  add("dry-run", po::bool_switch(&options.dry_run),
      "only look at the input: exams, frames, times, sizes and what looks wrong");
  add("benchmark", po::bool_switch(&options.benchmark),
      "extract nothing; measure each stage on a sample of the input and estimate the whole");
  add("json", po::bool_switch(&options.json), "print the summary as JSON");
}

po::options_description describe(RawOptions& words, ExtractOptions& options) {
  po::options_description description("Options");
  words.input.describe(description, options);
  describe_backbone(words, description);
  words.pixels.describe(description);
  words.views.describe(description);
  words.machine.describe(description, options);
  describe_run(words, options, description);
  return description;
}

void check_backbone_choice(const RawOptions& words) {
  const int given =
      !words.weights.empty() + !words.backbone.empty() + !words.random_weights.empty();
  if (given == 1) return;
  if (given == 0 && !words.preset.empty())
    throw ConfigError(concat("--preset ", words.preset, " says how its weights are used, and they ",
                             "are not named; give --weights FILE"));
  throw ConfigError(concat(given == 0 ? "no backbone is named" : "more than one backbone is named",
                           "; give one of --weights FILE (a ViT), --backbone FILE.pt "
                           "(a compiled module), or --random-weights SEED "
                           "with --architecture NAME (for tests)"));
}

// A compiled module is taken as it is.
void check_compiled(const RawOptions& words) {
  if (words.backbone.empty()) return;
  for (const auto& [option, given] :
       {std::pair{"--pool", !words.pool.empty()}, std::pair{"--layers", !words.layers.empty()},
        std::pair{"--projection", words.projection}, std::pair{"--heads", words.heads != kNotGiven},
        std::pair{"--activation", !words.activation.empty()},
        std::pair{"--architecture", !words.architecture.empty()}}) {
    if (given)
      throw ConfigError(
          concat(option, " does not go with --backbone, whose module decides it; leave it out"));
  }
}

// Never assumes normalisation or pooling for a checkpoint that neither a preset nor a config beside
// it describes.
void check_constants(const RawOptions& words, const std::optional<vit::ModelConfig>& config) {
  if (!words.preset.empty()) return;
  std::vector<std::string> missing;
  if (words.pixels.mean.empty() && !(config && config->pixels.mean)) missing.push_back("--mean");
  if (words.pixels.std.empty() && !(config && config->pixels.std)) missing.push_back("--std");
  if (words.pool.empty() && words.backbone.empty() && !(config && !config->pool.empty()))
    missing.push_back("--pool");
  if (missing.empty()) return;
  throw ConfigError(concat(
      "without --preset", config ? " or a config that states them" : "", ", ", join(missing, ", "),
      " must be given: the right values belong to the checkpoint and are not guessed"));
}

void check_pooling(const RawOptions& words, const Preset& preset, bool dry_run) {
  if (preset.pooling || !words.pool.empty() || !words.backbone.empty() || dry_run) return;
  throw ConfigError(concat("--preset ", preset.name,
                           " leaves the pooling open, as its authors do (", preset.source,
                           "); give --pool cls or --pool mean"));
}

// Reads the config that lies beside the weights, unless a preset describes them.
std::optional<vit::ModelConfig> config_of(const RawOptions& words) {
  if (words.weights.empty() || !words.preset.empty()) return std::nullopt;
  try {
    return vit::read_model_config(vit::find_weight_files(words.weights));
  } catch (const Error& error) {
    if (words.architecture.empty()) throw;
    log_warning(concat("left aside, as --architecture is given: ", error.what()));
    return std::nullopt;
  }
}

void check_thumbnails(int side) {
  if (side != kNotGiven && (side < kSmallestThumbnail || side > kLargestThumbnail))
    throw ConfigError(concat("--thumbnails ", side, ": expected ", kSmallestThumbnail, " to ",
                             kLargestThumbnail, " pixels"));
}

void apply_cut(const RawOptions& words, ExtractOptions& options) {
  if (words.cut == kNotGiven) return;
  if (words.cut < 0)
    throw ConfigError(concat("--cut ", words.cut, ": expected a block of the ViT, counted from 0"));
  if (words.cut > 0 && !words.backbone.empty())
    throw ConfigError(concat("--cut ", words.cut,
                             ": a compiled module does not show what enters its blocks; give its "
                             "weights with --weights, or --cut 0 to store the pixels"));
  if (options.preprocessing.tiles.size > 0)
    throw ConfigError("--cut and --tiles do not go together: it is whole frames that are tuned on");
  options.cut = words.cut;
  options.backbone.features.cut = words.cut;
}

// Requires what only a dry run can do without.
void check_required(const RawOptions& words, const ExtractOptions& options) {
  if (words.out.empty() && !options.benchmark)
    throw ConfigError("--out is missing: name the cache, x.h5 or a folder");
  check_backbone_choice(words);
  check_compiled(words);
}

// A folder's name is its last part, with or without a slash behind it.
std::filesystem::path without_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

// A config's projection belongs to its pooling: who names tokens gets them as they are.
void apply_features(const RawOptions& words, vit::FeatureOptions& features) {
  const bool names_tokens = !words.pool.empty() || !words.layers.empty();
  if (!words.pool.empty()) features.pooling = vit::parse_pooling(words.pool);
  if (!words.layers.empty()) features.layers = vit::parse_layers(words.layers);
  features.projection = words.projection || (features.projection && !names_tokens);
}

void apply_backbone(const RawOptions& words, vit::BackboneOptions& backbone) {
  backbone.weights = without_slash(words.weights);
  backbone.module = words.backbone;
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
  if (!words.activation.empty())
    backbone.activation = choice("activation", words.activation, vit::kActivations);
}

// The cache is gone on with, and so is the monitor's table.
void check_named_files(const RawOptions& words, const ExtractOptions& options) {
  const auto is_judged_later = [](const std::filesystem::path&) { return true; };
  check_outputs(
      {{"--out", options.out, is_judged_later}, {"--monitor", options.monitor, is_monitor_table}},
      {{"--input", options.input},
       {"--weights", words.weights},
       {"--backbone", words.backbone},
       {"--mask", words.pixels.mask},
       {"--survey", options.survey},
       {"--reuse", words.views.reuse}},
      Overwrite::kCannot);
}

}  // namespace

std::optional<ExtractOptions> parse_extract_options(const std::vector<std::string>& arguments) {
  RawOptions words;
  ExtractOptions options;
  if (!parse_command_line(kHelp, describe(words, options), arguments)) return std::nullopt;

  words.input.apply(options);
  words.machine.apply(options);
  check_thumbnails(words.thumbnails);
  if (words.min_frames < 1)
    throw ConfigError(concat("--min-frames ", words.min_frames, ": expected 1 or more"));
  options.min_frames = static_cast<std::size_t>(words.min_frames);
  if (options.dry_run && options.benchmark)
    throw ConfigError("--dry-run and --benchmark: give one of them");
  if (!words.views.reuse.empty() && (options.dry_run || options.benchmark))
    throw ConfigError(
        "--reuse is for jobs that write a cache; leave it out with --dry-run and --benchmark");
  if (!options.dry_run) check_required(words, options);
  options.out = words.out;
  options.preset = words.preset;
  if (!words.preset.empty()) {
    const Preset& preset = find_preset(words.preset);
    check_pooling(words, preset, options.dry_run);
    options.preprocessing = preset.preprocessing;
    options.backbone.features.pooling = preset.pooling.value_or(options.backbone.features.pooling);
    if (words.backbone.empty()) options.backbone.architecture = preset.architecture;
  }
  if (!options.dry_run) {
    const std::optional<vit::ModelConfig> config = config_of(words);
    check_constants(words, config);
    if (config) follow_config(*config, options);
  }
  words.pixels.apply(options);
  words.views.apply(options);
  apply_features(words, options.backbone.features);
  if (!options.dry_run) apply_backbone(words, options.backbone);
  options.backbone.image_size = options.preprocessing.image_size;
  if (words.thumbnails != kNotGiven) options.thumbnails = words.thumbnails;
  options.storage = choice("store", words.store, cache::kStorageTypes);
  apply_cut(words, options);
  check_named_files(words, options);
  return options;
}

}  // namespace coldframe::extract
