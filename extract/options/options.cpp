#include "extract/options/options.h"

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/outputs.h"
#include "common/files/publish/publish.h"
#include "common/system/monitor.h"
#include "common/text/text.h"
#include "extract/options/option_groups.h"
#include "extract/pipeline/thumbnail.h"
#include "extract/plan/preset.h"
#include "extract/vit/config/model_config.h"

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

// A compiled module is taken as it is.
void check_compiled(const GivenWords& given) {
  if (!given.contains("backbone")) return;
  for (const char* option : {"pool", "layers", "projection", "heads", "activation", "architecture"})
    if (given.contains(option))
      throw ConfigError(concat("--", option, " does not go with --backbone, whose module decides ",
                               "it; leave it out"));
}

void check_backbone_choice(const GivenWords& given) {
  const std::size_t named =
      given.count("weights") + given.count("backbone") + given.count("random-weights");
  if (named == 1) return check_compiled(given);
  if (named == 0 && given.contains("preset"))
    throw ConfigError(concat("--preset ", word_of(given, "preset"),
                             " says how its weights are used, and they are not named; give "
                             "--weights FILE"));
  throw ConfigError(concat(named == 0 ? "no backbone is named" : "more than one backbone is named",
                           "; give one of --weights FILE (a ViT), --backbone FILE.pt "
                           "(a compiled module), or --random-weights SEED "
                           "with --architecture NAME (for tests)"));
}

// Never assumes normalisation or pooling for a checkpoint that neither a preset nor a config beside
// it describes.
void check_constants(const GivenWords& given, const std::optional<vit::ModelConfig>& config) {
  if (given.contains("preset")) return;
  std::vector<std::string> missing;
  if (!given.contains("mean") && !(config && config->pixels.mean)) missing.push_back("--mean");
  if (!given.contains("std") && !(config && config->pixels.std)) missing.push_back("--std");
  if (!given.contains("pool") && !given.contains("backbone") && !(config && !config->pool.empty()))
    missing.push_back("--pool");
  if (missing.empty()) return;
  throw ConfigError(concat(
      "without --preset", config ? " or a config that states them" : "", ", ", join(missing, ", "),
      " must be given: the right values belong to the checkpoint and are not guessed"));
}

void apply_preset(const GivenWords& given, ExtractOptions& options) {
  if (!given.contains("preset")) return;
  const Preset& preset = find_preset(word_of(given, "preset"));
  if (!preset.pooling && !given.contains("pool") && !given.contains("backbone") && !options.dry_run)
    throw ConfigError(concat("--preset ", preset.name,
                             " leaves the pooling open, as its authors do (", preset.source,
                             "); give --pool cls or --pool mean"));
  options.preprocessing = preset.preprocessing;
  options.backbone.features.pooling = preset.pooling.value_or(options.backbone.features.pooling);
  if (!given.contains("backbone")) options.backbone.architecture = preset.architecture;
}

// Reads the config that lies beside the weights, unless a preset describes them.
std::optional<vit::ModelConfig> config_of(const GivenWords& given) {
  if (!given.contains("weights") || given.contains("preset")) return std::nullopt;
  try {
    return vit::read_model_config(
        vit::find_weight_files(without_trailing_slash(word_of(given, "weights"))));
  } catch (const Error& error) {
    if (!given.contains("architecture")) throw;
    log_warning(concat("the config is ignored because --architecture is given: ", error.what()));
    return std::nullopt;
  }
}

// Takes preprocessing, pooling and the config's name from the config beside the weights; other
// options stay. ConfigError for words that no option knows.
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

void apply_config(const GivenWords& given, ExtractOptions& options) {
  const std::optional<vit::ModelConfig> config = config_of(given);
  check_constants(given, config);
  if (config) follow_config(*config, options);
}

void finish_run(const GivenWords& given, const ExtractOptions& options) {
  if (options.dry_run && options.benchmark)
    throw ConfigError("--dry-run and --benchmark: give one of them");
  if (options.dry_run) return;
  if (!given.contains("out") && !options.benchmark)
    throw ConfigError("--out is missing: name the cache, x.h5 or a folder");
  check_backbone_choice(given);
}

// A config's projection belongs to its pooling: who names tokens gets them as they are.
void choose_projection(const GivenWords& given, vit::FeatureOptions& features) {
  if ((given.contains("pool") || given.contains("layers")) && !given.contains("projection"))
    features.projection = false;
}

// The cache is gone on with, and so is the monitor's table.
void check_named_files(const ExtractOptions& options) {
  const auto is_judged_later = [](const std::filesystem::path&) { return true; };
  check_outputs(
      {{"--out", options.out, is_judged_later}, {"--monitor", options.monitor, is_monitor_table}},
      {{"--input", options.input},
       {"--weights", options.backbone.weights},
       {"--backbone", options.backbone.module},
       {"--mask", options.mask},
       {"--survey", options.survey}},
      Overwrite::kCannot);
}

}  // namespace

OptionRows backbone_options(ExtractOptions& options) {
  vit::BackboneOptions& backbone = options.backbone;
  std::vector<std::int64_t>& layers = backbone.features.layers;
  const auto restore_layers = [&layers](const std::string&, const Json& recorded) {
    layers = recorded.get<std::vector<std::int64_t>>();
    vit::require_layers(layers, recorded.dump());
  };
  return {
      {"weights", "FILE|FOLDER", local(parsed(backbone.weights, without_trailing_slash)),
       "weights of a ViT: .safetensors, .pth, .bin, .ckpt, an index of shards, or a folder of the "
       "Hugging Face hub, whose config states model and pixels"},
      {"backbone", "FILE.pt|FILE.pt2", local(text(backbone.module)),
       "a compiled module [B,3,H,W] -> [B,D] instead: TorchScript, or a package of AOTInductor "
       "(.pt2)"},
      {"random-weights", "SEED", number(backbone.random_seed, at_least(0)),
       "seeded random weights of --architecture instead", "", "features.backbone.seed"},
      {"architecture", "NAME", text(backbone.architecture),
       "timm's name, e.g. vit_small_patch16_224"},
      {"heads", "N", number(backbone.heads, at_least(1)),
       "attention heads (default: what name, config or published models of these shapes have)", "",
       "features.backbone.architecture.heads"},
      {"activation", "KIND", one_of(backbone.activation, vit::kActivations),
       "gelu, gelu_tanh, quick_gelu or silu (default likewise)", "",
       "features.backbone.architecture.activation"},
      {"preset", "NAME", text(options.preset), preset_names()},
      {"pool", "KIND", parsed(backbone.features.pooling, vit::parse_pooling), vit::list_poolings(),
       "", "features.backbone.pooling"},
      {"layers", "N,N,…", with_restore(parsed(layers, vit::parse_layers), restore_layers),
       "blocks, counted from 1, whose pooled outputs are put side by side, as in DINO's linear "
       "probing: 9,10,11,12 (default: the last block)",
       "", "features.backbone.layers"},
      {"projection", nullptr, flag(backbone.features.projection),
       "project the pooled features to the space that a CLIP's images share with its texts, as a "
       "CLIP's config does by itself where neither --pool nor --layers is given",
       "", "features.backbone.projection"},
  };
}

void finish_backbone(ExtractOptions& options) {
  vit::BackboneOptions& backbone = options.backbone;
  if (!options.dry_run && backbone.random_seed && backbone.architecture.empty() && !backbone.stated)
    throw ConfigError("--random-weights needs --architecture NAME or --preset NAME");
  backbone.image_size = options.preprocessing.image_size;
  if (!options.cut) return;
  if (*options.cut > 0 && !backbone.module.empty())
    throw ConfigError(concat("--cut ", *options.cut,
                             ": a compiled module does not show what enters its blocks; give its "
                             "weights with --weights, or --cut 0 to store the pixels"));
  if (options.preprocessing.tiles.size > 0)
    throw ConfigError("--cut and --tiles do not go together: it is whole frames that are tuned on");
  backbone.features.cut = *options.cut;
}

OptionRows storage_options(ExtractOptions& options) {
  return {
      {"out", "CACHE", local(text(options.out)),
       "x.h5 for one file, any other name for a folder of shards"},
      {"store", "TYPE", one_of(options.storage, cache::kStorageTypes),
       "float16 (default) or float32", "", "storage.store", dtype_name(options.storage)},
      {"cut", "BLOCK", number(options.cut, at_least(0)),
       "also store what enters this block of the ViT, counted from 0, for `train --tune`: its "
       "tokens as --store says, or for 0 the prepared pixels. 8 of 12 leaves the last 4 blocks to "
       "train. The cache becomes some 200 times larger (151 kB a frame for a ViT-S/16)"},
      {"thumbnails", "SIDE",
       number(options.thumbnails, {kSmallestThumbnail, kLargestThumbnail, "pixels"}),
       "also store a small JPEG of each frame, after mask and crop, for reports: SIDE pixels on "
       "its longer side (96). Off by default for privacy: without it the cache holds no pixels",
       concat(kUsualThumbnail), "storage.thumbnails", unless(0, options.thumbnails)},
      {"min-frames", "N", number(options.min_frames, at_least(1)),
       "fail exams with fewer than N readable frames (default 1); the others keep the slots of "
       "unreadable frames, masked"},
  };
}

OptionRows run_options(ExtractOptions& options) {
  return {
      {"strict", nullptr, flag(options.strict),
       "stop at the first exam or frame that cannot be read"},
      {"part", "I/N", text(options.part),
       "extract the I-th of N parts of the exams alone, counted from 0, into a cache that all "
       "parts "
       "share; off: all exams (default: as SLURM's array, srun and torchrun say, see "
       "extract/plan/README.md)"},
      {"survey", "FILE", text(options.survey),
       "what --dry-run --json printed: parts then have about as many frames"},
      {"dry-run", nullptr, flag(options.dry_run),
       "only look at the input: exams, frames, times, sizes and what looks wrong"},
      {"benchmark", nullptr, flag(options.benchmark),
       "extract nothing; measure each stage on a sample of the input and estimate the whole"},
      {"json", nullptr, flag(options.json), "print the summary as JSON"},
  };
}

frames::ExamListOptions list_options(const ExtractOptions& options) {
  return {options.frame_columns, options.allow_unordered, options.reader,  options.sort_by_time,
          options.columns,       options.exam_from,       options.streams, options.root};
}

std::optional<ExtractOptions> parse_extract_options(const std::vector<std::string>& arguments) {
  ExtractOptions options;
  GivenWords given;
  const OptionRows input = input_options(options), backbone = backbone_options(options),
                   pixels = pixel_options(options), views = view_options(options),
                   storage = storage_options(options), machine = machine_options(options),
                   run = run_options(options);
  const std::initializer_list<std::pair<const char*, const OptionRows*>> groups = {
      {"Input", &input},     {"Backbone", &backbone}, {"Pixels", &pixels}, {"Views", &views},
      {"Storage", &storage}, {"Machine", &machine},   {"Run", &run}};
  po::options_description description;
  for (const auto& [caption, rows] : groups) {
    po::options_description group(caption);
    describe_options(*rows, given, group);
    description.add(group);
  }
  if (!parse_command_line(kHelp, description, arguments)) return std::nullopt;

  OptionRows repeated;
  for (const OptionRows* rows : {&input, &backbone, &pixels, &views, &storage})
    repeated.insert(repeated.end(), rows->begin(), rows->end());
  if (const auto lines = ini_text(repeated, given))
    options.repeated = concat("# besides: ", local_names(repeated, given), "\n", *lines);
  for (const OptionRows* rows : {&input, &storage, &machine, &run}) set_options(*rows, given);
  finish_input(options);
  require_one_choice_of_devices(given);
  finish_run(given, options);
  // What was given goes before what preset and config say.
  apply_preset(given, options);
  if (!options.dry_run) apply_config(given, options);
  for (const OptionRows* rows : {&backbone, &pixels, &views}) set_options(*rows, given);
  size_tiles(given, options);
  finish_pixels(options);
  finish_views(given, options);
  choose_projection(given, options.backbone.features);
  finish_backbone(options);
  check_named_files(options);
  return options;
}

}  // namespace coldframe::extract
