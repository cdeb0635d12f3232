#include "extract/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/outputs.h"
#include "common/files/publish/publish.h"
#include "common/system/gpu_libraries.h"
#include "common/system/monitor.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/preset.h"
#include "extract/pipeline/thumbnail.h"
#include "extract/pipeline/volume_blocks.h"
#include "extract/preprocess/preprocessing.h"
#include "extract/vit/config/model_config.h"
#include "extract/vit/resolve_architecture.h"

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

constexpr const char* kPoolVolume = "volume";

// A compiled module is taken as it is.
void check_compiled(const GivenWords& given) {
  if (!given.contains("backbone")) return;
  for (const std::string option :
       {"pool", "layers", "projection", "heads", "activation", "architecture"})
    if (given.contains(option) && !(option == "pool" && given.contains("block")))
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
  if (given.contains("preset") || (given.contains("block") && given.contains("backbone"))) return;
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

// Reads the config that lies next to the weights, unless a preset describes them.
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

// Takes preprocessing, pooling and the config's name from the config next to the weights; other
// options stay. ConfigError for values that no option accepts.
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

constexpr std::size_t kMaxLicense = 200;  // characters
constexpr std::string_view kLicenseMarks = " .,:;/()+_-";

// It goes into pages, as it is.
bool is_license(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLicense &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) || kLicenseMarks.find(static_cast<char>(c)) != kLicenseMarks.npos;
         });
}

// The option goes before the card.
void take_license(ExtractOptions& options) {
  if (options.license.empty() && !options.backbone.weights.empty()) {
    const std::string stated =
        vit::license_in_card(vit::find_weight_files(options.backbone.weights));
    if (is_license(stated))
      options.license = stated;
    else if (!stated.empty())
      log_warning(concat("the card of the weights states a licence that is no name or link (",
                         printable(stated.substr(0, kMaxLicense)), "); give it with --license"));
  } else if (!options.license.empty() && !is_license(options.license)) {
    throw ConfigError(concat("--license '", printable(options.license.substr(0, kMaxLicense)),
                             "': expected a name or a link of at most ", kMaxLicense,
                             " letters, digits and ", kLicenseMarks));
  }
}

// A dry run needs no backbone, and takes what it can tell of it.
void look_at_config(const GivenWords& given, ExtractOptions& options) {
  try {
    if (const auto config = config_of(given)) follow_config(*config, options);
  } catch (const Error& error) {
    log_warning(concat("the dry run goes on without the backbone: ", error.what()));
    options.backbone.weights.clear();
  }
}

void finish_run(const GivenWords& given, const ExtractOptions& options) {
  if (options.dry_run && options.benchmark)
    throw ConfigError("--dry-run and --benchmark: give one of them");
  if (options.dry_run) return;
  if (!given.contains("out") && !options.benchmark)
    throw ConfigError("--out is missing: name the cache, x.h5 or a folder");
  check_backbone_choice(given);
}

// A config's projection belongs to its pooling: an explicit --pool yields unprojected tokens.
void choose_projection(const GivenWords& given, vit::FeatureOptions& features) {
  if ((given.contains("pool") || given.contains("layers")) && !given.contains("projection"))
    features.projection = false;
}

// Resumes the cache and the monitor's table.
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
  const auto set_pool = [&options](const std::string&, const std::string& word) {
    bool& is_pooled = options.preprocessing.volume.is_pooled = word == kPoolVolume;
    if (!is_pooled) options.backbone.features.pooling = vit::parse_pooling(word);
  };
  const auto restore_pool = [set_pool](const std::string& option, const Json& recorded) {
    set_pool(option, recorded.get<std::string>());
  };
  return {
      {"weights", "FILE|FOLDER", local(parsed(backbone.weights, without_trailing_slash)),
       "weights of a ViT: .safetensors, .pth, .bin, .ckpt, an index of shards, or a folder of the "
       "Hugging Face hub, whose config states model and pixels"},
      {"backbone", "FILE.pt|FILE.pt2", local(text(backbone.module)),
       "a compiled module [B,3,H,W] -> [B,D] instead: TorchScript, or a package of AOTInductor "
       "(.pt2); with --clip one of clips, with --block one of volumes"},
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
      {"license", "ID", text(options.license),
       "licence of the weights, e.g. cc-by-nc-4.0 (default: what the card in their folder, "
       "README.md, states)"},
      {"pool", "KIND", with_restore(set_pool, restore_pool),
       concat(vit::list_poolings(), ", ", kPoolVolume, " (with --block: one row for a volume)"), "",
       "features.backbone.pooling"},
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

namespace {

// A time bound; infinite: none.
Json recorded(double seconds) {
  return std::isfinite(seconds) ? Json(seconds) : Json(nullptr);
}

constexpr std::int64_t kMostFramesApart = 65536;
constexpr double kShortestStep = 1e-3;  // seconds

// True if an option says how windows lie, other than their length.
bool places_windows(const ExtractOptions& options) {
  frames::WindowRule plain;
  plain.frames = options.selection.windows.frames;
  return options.clip_every > 0 || options.clip_step > 0 || options.backbone.clip_axes ||
         options.selection.windows != plain;
}

void refuse_both(bool both, const char* one, const char* other) {
  if (both) throw ConfigError(concat(one, " and ", other, " contradict each other; give one"));
}

// Fills in what follows from other options.
void complete_rule(ExtractOptions& options) {
  frames::WindowRule& rule = options.selection.windows;
  refuse_both(options.clip_every > 0 && rule.fps > 0, "--clip-every", "--clip-fps");
  refuse_both(options.clip_step > 0 && rule.step_s > 0, "--clip-step", "--clip-step-seconds");
  refuse_both(rule.fps > 0 && rule.sampling == frames::WindowSampling::kLinspace, "--clip-fps",
              "--clip-sampling linspace");
  if (options.clip_every == 0 && rule.fps == 0)
    throw ConfigError(concat("windows of ", rule.frames,
                             " frames: no file says how far apart these lie; give --clip-every N "
                             "(as the encoder was trained: 4 for VideoMAE and V-JEPA on "
                             "Kinetics, 2 for most of echocardiography), or --clip-fps R frames "
                             "a second"));
  if (rule.fps == 0) rule.every = options.clip_every;
  // Without a step windows follow each other; those that are counted may begin anywhere.
  if (options.clip_step == 0 && rule.step_s == 0) {
    if (rule.count == 0 && rule.fps > 0) rule.step_s = static_cast<double>(rule.frames) / rule.fps;
    if (rule.step_s > 0 && rule.step_s < kShortestStep)
      throw ConfigError(concat("--clip-fps ", rule.fps, ": windows of ", rule.frames,
                               " frames are shorter than 1 ms; give a lower rate"));
    if (rule.count == 0 && rule.fps == 0) options.clip_step = rule.frames * rule.every;
    if (rule.count > 0) options.clip_step = 1;
  }
  if (options.clip_step > 0) rule.step = options.clip_step;
}

}  // namespace

OptionRows clip_options(ExtractOptions& options) {
  frames::WindowRule& rule = options.selection.windows;
  vit::BackboneOptions& backbone = options.backbone;
  const bool of_clips = rule.is_of_clips();
  const auto kept = [&](const Json& value) { return of_clips ? value : Json(nullptr); };
  const auto axes =
      backbone.clip_axes ? Json(word_for(vit::kClipAxes, *backbone.clip_axes)) : Json(nullptr);
  return {
      {"clip", "N", number(backbone.clip_frames, between(1, vit::kMostClipFrames)),
       "frames of a window, which becomes one row of the cache (default: as many as the backbone "
       "states)",
       "", "features.clip.frames", kept(rule.frames)},
      {"clip-every", "N", number(options.clip_every, between(1, kMostFramesApart)),
       "a window takes every N-th frame", "", "features.clip.every",
       kept(unless<std::int64_t>(0, options.clip_every))},
      {"clip-fps", "R", number(rule.fps, {0, 1e6, "frames a second", true}),
       "a window takes the frames shown R times a second from its first one on, by their times", "",
       "features.clip.fps", kept(unless(0.0, rule.fps))},
      {"clip-sampling", "KIND", one_of(rule.sampling, frames::kWindowSamplings),
       "every (default), or linspace: frames as the loaders of V-JEPA and VideoMAE space them", "",
       "features.clip.sampling",
       kept(unless<std::string>("every", word_for(frames::kWindowSamplings, rule.sampling)))},
      {"clip-pad", "KIND", one_of(rule.pad, frames::kWindowPads),
       "at the end of too short exams: repeat-last (default), zero (once normalised), wrap, or "
       "refuse",
       "", "features.clip.pad", kept(word_for(frames::kWindowPads, rule.pad))},
      {"clip-step", "N", number(options.clip_step, at_least(1)),
       "frames from the beginning of a window to the next one's (default: windows follow each "
       "other)",
       "", "storage.clip.step", kept(unless<std::int64_t>(0, options.clip_step))},
      {"clip-step-seconds", "S", number(rule.step_s, at_least(kShortestStep, "seconds")),
       "the same in seconds, by the frames' times", "", "storage.clip.step_s",
       kept(unless(0.0, rule.step_s))},
      {"clips", "N", number(rule.count, at_least(1)), "N windows spread evenly over an exam", "",
       "storage.clip.count", kept(unless<std::int64_t>(0, rule.count))},
      {"clip-gap", "S", number(rule.gap_s, above(0, "seconds")),
       "no window spans neighbours that are more than S seconds apart", "", "storage.clip.gap_s",
       kept(recorded(rule.gap_s))},
      {"clip-axes", "ORDER", one_of(backbone.clip_axes, vit::kClipAxes),
       "of a compiled module's input: bcthw or btchw (default: the one in which it runs)", "",
       "features.backbone.axes", axes},
  };
}

// The frames of a window are those of a config or of a name, unless they were asked for.
void follow_length(vit::BackboneOptions& backbone) {
  if (backbone.clip_frames > 0 || backbone.takes_blocks()) return;
  const auto named = vit::named_architecture(backbone);
  if (named && named->takes_clips() && !named->takes_volumes())
    backbone.clip_frames = named->frames;
}

// The rule of a length that is not known yet is settled with the backbone.
void finish_clips(ExtractOptions& options) {
  frames::WindowRule& rule = options.selection.windows;
  const std::int64_t asked = options.backbone.clip_frames;
  if (asked > 0) rule.frames = asked;
  const bool is_known = asked > 0 || options.dry_run || !options.backbone.module.empty();
  if (rule.is_of_clips())
    complete_rule(options);
  else if (is_known && places_windows(options))
    throw ConfigError(
        asked == 1 ? "--clip 1 takes single frames; choose them with --every, --fps and --frames, "
                     "without other options of --clip"
                   : "options of --clip without it: say how many frames a window has, --clip N");
  for (const std::string& column : options.frame_columns)
    if (rule.is_of_clips() && frames::is_window_column(column))
      throw ConfigError(concat("--frame-columns ", column,
                               ": the rows of windows have a column of this name already; give "
                               "yours another one"));
  if (options.backbone.clip_axes && options.backbone.module.empty())
    throw ConfigError("--clip-axes is for a compiled module: give --backbone, or leave it out");
  if (rule.is_of_clips() && options.benchmark)
    throw ConfigError("--benchmark measures single frames; leave it out where there is --clip");
  if (rule.is_of_clips() && options.cut)
    throw ConfigError("--cut cannot be combined with --clip: tuning takes single frames");
}

void settle_clips(const vit::Backbone& backbone, ExtractOptions& options) {
  const std::int64_t frames = backbone.clip_frames(), asked = options.backbone.clip_frames;
  if (asked == 0 && frames > 1) throw vit::unknown_length(frames);
  if (asked > 0 && asked != frames)
    throw ConfigError(concat("--clip ", asked, ": the backbone takes ",
                             frames == 1 ? "single frames; leave --clip out"
                                         : concat("windows of ", frames, " frames")));
  if (frames == 1 && places_windows(options))
    throw ConfigError("the backbone takes single frames; leave out the options of --clip");
  options.backbone.clip_frames = frames;
  finish_clips(options);
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
    throw ConfigError("--cut cannot be combined with --tiles: tuning needs whole frames");
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
       "extract/pipeline/JOBS.md)"},
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
                   clips = clip_options(options), volumes = volume_options(options),
                   pixels = pixel_options(options), views = view_options(options),
                   storage = storage_options(options), machine = machine_options(options),
                   run = run_options(options);
  const std::initializer_list<std::pair<const char*, const OptionRows*>> groups = {
      {"Input", &input},     {"Backbone", &backbone}, {"Clips", &clips},
      {"Volumes", &volumes}, {"Pixels", &pixels},     {"Views", &views},
      {"Storage", &storage}, {"Machine", &machine},   {"Run", &run}};
  po::options_description description;
  for (const auto& [caption, rows] : groups) {
    po::options_description group(caption);
    describe_options(*rows, given, group);
    description.add(group);
  }
  if (!parse_command_line(kHelp, description, arguments)) return std::nullopt;

  OptionRows repeated;
  for (const OptionRows* rows : {&input, &backbone, &clips, &volumes, &pixels, &views, &storage})
    repeated.insert(repeated.end(), rows->begin(), rows->end());
  if (const auto lines = ini_text(repeated, given))
    options.repeated = concat("# besides: ", local_names(repeated, given), "\n", *lines);
  for (const OptionRows* rows : {&input, &storage, &machine, &run}) set_options(*rows, given);
  finish_input(options);
  require_one_choice_of_devices(given);
  refuse_frames_with_blocks(given);
  finish_run(given, options);
  // Given options override preset and config.
  apply_preset(given, options);
  if (!options.dry_run) apply_config(given, options);
  if (options.dry_run) look_at_config(given, options);
  for (const OptionRows* rows : {&backbone, &clips, &volumes, &pixels, &views})
    set_options(*rows, given);
  size_tiles(given, options);
  finish_volumes(options);
  finish_pixels(options);
  finish_views(given, options);
  choose_projection(given, options.backbone.features);
  follow_length(options.backbone);
  finish_clips(options);
  finish_backbone(options);
  if (!options.dry_run) take_license(options);
  check_named_files(options);
  return options;
}

namespace {

constexpr const char* kSaltVariable = "COLDFRAME_PATIENT_SALT";

const WordTable<int> kAxes{{"x", 0},        {"y", 1},       {"z", 2},
                           {"sagittal", 0}, {"coronal", 1}, {"axial", 2}};
const WordTable<frames::DicomGrouping> kGroupings{{"series", frames::DicomGrouping::kSeries},
                                                  {"study", frames::DicomGrouping::kStudy}};

void require_slices(bool valid, const frames::SliceRange& range, const std::string& text) {
  if (valid && range.begin >= 0 && range.step > 0 && (range.end < 0 || range.end > range.begin))
    return;
  throw ConfigError(concat("--slices '", text,
                           "': expected BEGIN:END:STEP as in Python, counted from 0, END "
                           "excluded, e.g. 20:140:4 or ::2, or one index"));
}

// BEGIN:END:STEP as Python's slices, each part optional, without negative numbers; or one index.
frames::SliceRange parse_slices(const std::string& text) {
  const auto parts = split(text, ':');
  frames::SliceRange range;
  std::array<std::int64_t*, 3> targets{&range.begin, &range.end, &range.step};
  bool valid = parts.size() <= targets.size();
  for (std::size_t i = 0; valid && i < parts.size(); ++i) {
    const std::string part = trim(parts[i]);
    if (part.empty() && parts.size() > 1) continue;
    valid = parse_int(part, *targets[i]) && *targets[i] >= 0;
  }
  if (parts.size() == 1) range.end = range.begin + 1;
  require_slices(valid, range, text);
  return range;
}

// "exam=ID,path=File"
std::vector<std::pair<std::string, std::string>> parse_columns(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> columns;
  for (const std::string& pair : split(text, ',')) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      throw ConfigError(
          concat("--columns '", pair, "': expected our name and yours, as in exam=ID"));
    columns.emplace_back(trim(pair.substr(0, equals)), trim(pair.substr(equals + 1)));
  }
  return columns;
}

void require_phases(bool valid, const std::vector<double>& bounds, const std::string& text) {
  const auto falls = [](double before, double bound) { return bound <= before; };
  if (valid && std::ranges::adjacent_find(bounds, falls) == bounds.end()) return;
  throw ConfigError(concat("--phases '", text, "': expected rising seconds, as in 103,518"));
}

// Ascending bounds, "103,518".
std::vector<double> parse_phases(const std::string& text) {
  std::vector<double> bounds;
  bool valid = true;
  for (const std::string& word : split(text, ','))
    valid =
        parse_double(trim(word), bounds.emplace_back()) && std::isfinite(bounds.back()) && valid;
  require_phases(valid, bounds, text);
  return bounds;
}

Json recorded(const frames::Window& window) {
  if (window.kind == frames::Window::Kind::kFile) return nullptr;
  if (window.kind == frames::Window::Kind::kFixed)
    return concat(exact(window.center), ',', exact(window.width));
  return concat(exact(window.low), "%,", exact(window.high), '%');
}

Json recorded(const frames::SliceRange& slices) {
  if (slices == frames::SliceRange{}) return nullptr;
  return {{"begin", slices.begin},
          {"end", slices.end < 0 ? Json("last") : Json(slices.end)},
          {"step", slices.step}};
}

frames::SliceRange restored_slices(const Json& recorded) {
  const Json& end = recorded.at("end");
  const frames::SliceRange range{recorded.at("begin").get<std::int64_t>(),
                                 end == "last" ? -1 : end.get<std::int64_t>(),
                                 recorded.at("step").get<std::int64_t>()};
  require_slices(end == "last" || range.end >= 0, range, recorded.dump());
  return range;
}

}  // namespace

OptionRows input_options(ExtractOptions& options) {
  frames::FrameSelection& selection = options.selection;
  frames::ReaderOptions& reader = options.reader;
  const auto list = [](const std::string& word) { return split(word, ','); };
  const bool has_streams = !options.streams.empty() && options.streams != frames::kNoStreams;
  const NumberBounds some = at_least(1);
  const auto restore_frames = [&selection, some](const std::string& option, const Json& recorded) {
    selection.count = recorded == "all" ? 0 : restored_number<std::int64_t>(option, recorded, some);
  };
  const auto restore_phases = [&selection](const std::string&, const Json& recorded) {
    selection.phases = recorded.get<std::vector<double>>();
    require_phases(true, selection.phases, recorded.dump());
  };
  const auto restore_slices = [&reader](const std::string&, const Json& recorded) {
    reader.slices = restored_slices(recorded);
  };
  const auto restore_exif = [&reader](const std::string&, const Json&) {
    reader.ignore_exif = false;
  };
  return {
      {"input", "PATH", local(text(options.input)),
       "folder, file, CSV manifest (columns exam, path, …) or split (.json, as MedNet has it)"},
      {"frames", "N", with_restore(number(selection.count, some), restore_frames),
       "N frames spread evenly over an exam (default: all)", "", "storage.frames",
       selection.count == 0 ? Json("all") : Json(selection.count)},
      {"phases", "S,…", with_restore(parsed(selection.phases, parse_phases), restore_phases),
       "bounds of phases in elapsed seconds, e.g. 103,518: --frames takes an equal number of each",
       "", "storage.selection.phases",
       selection.phases.empty() ? Json(nullptr) : Json(selection.phases)},
      {"every", "N", number(selection.every, at_least(1)), "every N-th frame only, before --frames",
       "", "storage.selection.every", unless<std::int64_t>(1, selection.every)},
      {"fps", "R", number(selection.fps, {0, 1e6, "frames a second", true}),
       "the frames nearest to R a second, by their times, before --frames", "",
       "storage.selection.fps", unless(0.0, selection.fps)},
      {"start", "S", number(selection.start_s),
       "leave out what lies before S seconds after the exam's first frame", "",
       "storage.selection.start_s", recorded(selection.start_s)},
      {"end", "S", number(selection.end_s), "leave out what lies at S seconds or later", "",
       "storage.selection.end_s", recorded(selection.end_s)},
      {"accept-broken-tail", nullptr, flag(reader.accept_broken_tail),
       "take the frames that can be read of a clip that is cut off for all that there are", "",
       "storage.broken_tail", reader.accept_broken_tail ? Json("accepted") : Json(nullptr)},
      {"columns", "A=B,...", parsed(options.columns, parse_columns),
       "what the manifest calls its columns: exam=ID,path=File for exam, path, frame, time, "
       "patient, crop"},
      {"frame-columns", "A,B", parsed(options.frame_columns, list),
       "manifest columns that hold one value per frame"},
      {"streams", "COLUMN", text(options.streams),
       "the one of --frame-columns that names each frame's stream: --frames, --every and --fps "
       "then choose instants (default: stream, if it is among them; none: of all frames alike)",
       "", "storage.selection.instants_of",
       selection.chooses() && has_streams ? Json(options.streams) : Json(nullptr)},
      {"allow-unordered", nullptr, flag(options.allow_unordered),
       "accept times that decrease within an exam"},
      {"root", "FOLDER", local(text(options.root)),
       "where the paths of a manifest or a split begin (default: where it lies)"},
      {"exam-from", "REGEX", local(text(options.exam_from)),
       "of a folder or a split: exams and patients by their paths, e.g. "
       "'P(?<patient>\\d+)/(?<exam>.+)'"},
      {"sort", "time", one_of(options.sort_by_time, WordTable<bool>{{"time", true}}),
       "bring each exam's frames into the order of their times"},
      {"window", "W", parsed(reader.window, frames::parse_window),
       "values that become black and white: file (default), CENTER,WIDTH or LOW%,HIGH%", "",
       "features.reading.window", recorded(reader.window)},
      {"axis", "A", one_of(reader.axis, kAxes),
       "volumes are cut along x (sagittal), y (coronal) or z (axial, default)", "",
       "features.reading.axis", unless<std::string>("z", word_for(kAxes, reader.axis))},
      {"square-pixels", nullptr, flag(reader.square_pixels),
       "clips whose pixels are not square become as wide as they are meant to be shown", "",
       "features.reading.pixels", reader.square_pixels ? Json("square") : Json(nullptr)},
      {"deinterlace", nullptr, flag(reader.deinterlace),
       "interlaced frames of clips: the first field, the lines between as means of neighbours", "",
       "features.reading.fields", reader.deinterlace ? Json("first") : Json(nullptr)},
      // Caches without the key hold JPEG images as they were stored.
      {"ignore-exif", nullptr, with_restore(flag(reader.ignore_exif), restore_exif),
       "leave JPEG images as they are stored, whatever turn their EXIF data states, as caches made "
       "before this option have them",
       "", "features.reading.exif", reader.ignore_exif ? Json(nullptr) : Json("upright")},
      {"slices", "B:E:S", with_restore(parsed(reader.slices, parse_slices), restore_slices),
       "slices of a volume, as in Python, e.g. 20:140:4", "", "storage.slices",
       recorded(reader.slices)},
      {"group", "KIND", one_of(reader.grouping, kGroupings),
       "single-frame DICOM files form an exam per series (default) or study", "", "storage.group",
       unless<std::string>("series", word_for(kGroupings, reader.grouping))},
      {"keep-patient-id", nullptr, flag(reader.keep_patient_id),
       "store patients as DICOM, paths or the manifest name them, instead of salted hashes"},
      {"patient-salt", "TEXT", local(text(reader.patient_salt)),
       "of these hashes (default: $COLDFRAME_PATIENT_SALT, else one kept in your home)"},
      {"equal-numbers", "ANSWER", one_of(reader.equal_numbers, kEqualNumbers),
       "patients whose ids are equal as numbers (0123, 123, 123.0): ask (default), or they are "
       "the same, or different people"},
  };
}

void finish_input(ExtractOptions& options) {
  const frames::FrameSelection& selection = options.selection;
  if (options.input.empty())
    throw ConfigError("--input is missing: name a folder, a file, a CSV manifest or a split");
  if (selection.every > 1 && selection.fps > 0)
    throw ConfigError("--every and --fps both thin out; give one of them");
  if (!(selection.start_s < selection.end_s))
    throw ConfigError(concat("--start ", selection.start_s, " and --end ", selection.end_s,
                             " leave no time between them"));
  if (!selection.phases.empty() && selection.count == 0)
    throw ConfigError("--phases divides --frames among phases; say how many, e.g. --frames 12");
  const auto is_frame_column = [&](const std::string& name) {
    return std::ranges::find(options.frame_columns, name) != options.frame_columns.end();
  };
  if (options.streams.empty() && is_frame_column("stream")) options.streams = "stream";
  const bool is_named = !options.streams.empty() && options.streams != frames::kNoStreams;
  if (is_named && !is_frame_column(options.streams))
    throw ConfigError(
        concat("--streams ", options.streams, ": name the column in --frame-columns, too"));
  options.reader.from_s = selection.start_s;
  options.reader.until_s = selection.end_s;
  if (const char* salt = std::getenv(kSaltVariable); salt && options.reader.patient_salt.empty())
    options.reader.patient_salt = salt;
}

namespace {

constexpr std::int64_t kMaxFrames = 65536;
constexpr int kMaxDecodeThreads = 256;

std::int64_t parse_batch(const std::string& word) {
  std::int64_t batch = 0;
  if (word == "auto") return 0;
  if (parse_int(word, batch) && batch >= 1 && batch <= kMaxFrames) return batch;
  throw ConfigError(concat("--batch '", word, "': expected auto, or 1 to ", kMaxFrames, " frames"));
}

// "0,1", "cuda:0,cuda:1" or "all"; "cpu,cpu" has two workers on the CPU, for tests.
std::vector<std::string> parse_devices(const std::string& list) {
  std::vector<std::string> devices;
  if (list == "all") {
    for (int i = 0; i < cuda_driver::device_count(); ++i) devices.push_back(concat("cuda:", i));
    if (devices.empty())
      throw SystemError(concat("--devices all: ", cuda_driver::reason_for_none(),
                               "; --device cpu computes without a GPU"));
    return devices;
  }
  for (const std::string& word : split(list, ',')) {
    std::int64_t index = 0;
    const std::string digits = word.starts_with("cuda:") ? word.substr(5) : word;
    const bool number = parse_int(digits, index) && index >= 0;
    const std::string name = number ? concat("cuda:", index) : word;
    if (!number && word != "cpu")
      throw ConfigError(concat("--devices '", list, "': '", word,
                               "' is not a device; expected all, or numbers such as 0,1"));
    if (name != "cpu" && std::find(devices.begin(), devices.end(), name) != devices.end())
      throw ConfigError(concat("--devices '", list, "' names ", name, " twice"));
    devices.push_back(name);
  }
  return devices;
}

}  // namespace

// A GPU's worker submits batches and polls.
int decode_threads_of(const ExtractOptions& options) {
  if (options.decode_threads > 0) return options.decode_threads;
  const std::vector<std::string>& devices = options.devices;
  const auto cores = static_cast<std::int64_t>(usable_processors());
  const auto on_gpus = std::count_if(devices.begin(), devices.end(), [](const std::string& name) {
    return name.starts_with("cuda") || (name == "auto" && cuda_driver::device_count() > 0);
  });
  const bool all = on_gpus == static_cast<std::ptrdiff_t>(devices.size());
  const std::int64_t threads = all ? cores - on_gpus : cores / 2;
  return static_cast<int>(std::clamp<std::int64_t>(threads, 1, kMaxDecodeThreads));
}

OptionRows machine_options(ExtractOptions& options) {
  const auto one = [](const std::string& word) { return std::vector{word}; };
  return {
      {"device", "NAME", parsed(options.devices, one), "auto (default), cpu, cuda or cuda:N"},
      {"devices", "LIST", parsed(options.devices, parse_devices),
       "several devices that share the work: all, or numbers of CUDA devices such as 0,1"},
      {"precision", "TYPE", text(options.precision),
       "auto (default: the quickest on this device), fp32, bf16 or fp16; features of the first "
       "frames are compared with fp32"},
      {"allow-mixed-precision", nullptr, flag(options.allow_mixed_precision),
       "extend a cache that was computed in another precision"},
      {"batch", "N", parsed(options.batch.batch, parse_batch),
       "frames per forward pass; auto (default): as many as make it faster and fit"},
      {"memory-budget", "SIZE", parsed(options.batch.memory_budget, parse_bytes),
       "the most that tensors may take on the device, e.g. 4GiB (default: all)"},
      {"decode-threads", "N", number(options.decode_threads, {0, kMaxDecodeThreads}),
       "threads that decode and resize (default: half of the cores, beside GPUs all but one for "
       "each)"},
      {"threads", "N", number(options.threads, {0, 1024}), "threads of a backbone on the CPU"},
      {"monitor", "FILE.csv", text(options.monitor),
       "write memory, CPU and GPU load once a second"},
  };
}

void require_one_choice_of_devices(const GivenWords& given) {
  if (given.contains("device") && given.contains("devices"))
    throw ConfigError("--device and --devices: give one of them");
}

namespace {

float channel_of(const std::string& option, double value, bool positive, const std::string& text,
                 const std::string& part) {
  if (std::isfinite(value) && (!positive || value > 0)) return static_cast<float>(value);
  throw ConfigError(concat("--", option, " '", text, "': '", part, "' is not a ",
                           positive ? "positive " : "", "number"));
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
    if (!parse_double(trim(part), value)) value = std::nan("");
    values[channel] = channel_of(option, value, positive, text, part);
  }
  return values;
}

std::array<float, 3> restored_channels(const std::string& option, const Json& recorded,
                                       bool positive) {
  std::array<float, 3> values{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const Json& value = recorded.at(channel);
    values[channel] =
        channel_of(option, value.get<double>(), positive, recorded.dump(), value.dump());
  }
  return values;
}

// "0.485,0.456,0.406", each number divided by `by`.
std::string channels_text(const std::array<float, 3>& values, double by) {
  return concat(values[0] / by, ",", values[1] / by, ",", values[2] / by);
}

// Normalised with constants meant for 0…255, all images look the same. For pixels in 0…1, the mean
// is at most 1 and the std at most 0.5; --std 1 leaves them unscaled.
void refuse_constants_of_levels(const std::array<float, 3>& mean, const std::array<float, 3>& std) {
  constexpr float kGreatestMean = 1, kGreatestStd = 3, kGreatestOfPixels = 0.5;
  constexpr double kLevels = 255;
  const auto above = [](const std::array<float, 3>& values, float greatest) {
    return std::ranges::any_of(values, [&](float value) { return std::abs(value) > greatest; });
  };
  const bool wrong_mean = above(mean, kGreatestMean), wrong_std = above(std, kGreatestStd);
  if (!wrong_mean && !wrong_std) return;
  const bool scale_std = wrong_std || (wrong_mean && above(std, kGreatestOfPixels));
  const bool of_levels = !above(mean, kLevels) && !above(std, kLevels);
  throw ConfigError(
      concat("mean ", channels_text(mean, 1), " and std ", channels_text(std, 1),
             of_levels ? " are for levels of 0…255" : " are for other numbers than 0…1",
             ", and pixels are scaled to 0…1 before; give ",
             of_levels ? concat("--mean ", channels_text(mean, wrong_mean ? kLevels : 1), " --std ",
                                channels_text(std, scale_std ? kLevels : 1))
                       : "a --mean and a --std of 0…1"));
}

std::shared_ptr<const preprocess::Mask> load_mask(const std::string& path,
                                                  const frames::ReaderOptions& reader) {
  const frames::SourceFile file(path);
  const auto source = frames::require_kind(file).open(file, reader);
  if (source->frame_count() != 1)
    throw DataError(concat("--mask '", path, "' holds several frames; expected one image"));
  std::shared_ptr<const preprocess::Mask> mask;
  constexpr std::int64_t kFirst = 0;
  source->read(std::span(&kFirst, 1), [&](frames::Frame&& frame) {
    mask = std::make_shared<const preprocess::Mask>(preprocess::make_mask(frame.pixels));
  });
  return mask;
}

constexpr const char* kCropBody = "body";

// One number, or one for each axis of a volume.
void require_spacing(const std::vector<double>& spacing, const std::string& text) {
  const auto is_length = [](double mm) { return mm > 0 && std::isfinite(mm); };
  if ((spacing.size() == 1 || spacing.size() == 3) && std::ranges::all_of(spacing, is_length))
    return;
  throw ConfigError(
      concat("--spacing '", text, "': expected millimetres above 0, or three of them with commas"));
}

std::vector<double> parse_spacing(const std::string& text) {
  std::vector<double> spacing;
  for (const std::string& part : split(text, ','))
    if (!parse_double(trim(part), spacing.emplace_back())) spacing.back() = 0;
  require_spacing(spacing, text);
  return spacing;
}

frames::CropRule parse_crop(const std::string& word) {
  if (const auto rule = frames::parse_crop(word)) return *rule;
  throw ConfigError(concat("--crop '", word, "': expected ", frames::kCropHelp));
}

}  // namespace

OptionRows pixel_options(ExtractOptions& options) {
  using namespace preprocess;
  Preprocessing& p = options.preprocessing;
  const auto channels = [](std::array<float, 3>& place, bool positive) {
    return with_restore(
        [&place, positive](const std::string& option, const std::string& word) {
          place = parse_channels(option, word, positive);
        },
        [&place, positive](const std::string& option, const Json& recorded) {
          place = restored_channels(option, recorded, positive);
        });
  };
  const auto restore_size = [&p](const std::string&, const Json& recorded) {
    p.image_size = recorded.get<ImageSize>();
    require_image_size(p.image_size, recorded.dump());
  };
  const auto set_crop = [&p](const std::string&, const std::string& word) {
    p.volume.crop_to_body = word == kCropBody;
    p.crop = p.volume.crop_to_body ? frames::CropRule{} : parse_crop(word);
  };
  const auto restore_crop = [set_crop](const std::string& option, const Json& recorded) {
    set_crop(option, recorded.get<std::string>());
  };
  const auto restore_spacing = [&options](const std::string&, const Json& recorded) {
    options.spacing_mm = recorded.is_array() ? recorded.get<std::vector<double>>()
                                             : std::vector{recorded.get<double>()};
    require_spacing(options.spacing_mm, recorded.dump());
  };
  return {
      {"mask", "FILE", local(text(options.mask)),
       "image of the frames' size: what is black there becomes black"},
      {"crop", "X,Y,W,H", with_restore(set_crop, restore_crop),
       "keep this rectangle of each frame, in pixels or fractions (50%, 100%-50); auto: fundus "
       "disc, ultrasound sector, no borders; with --block body: the box of all voxels above the "
       "window's lower end",
       "", "features.preprocessing.crop"},
      {"spacing", "MM[,MM,MM]",
       with_restore(parsed(options.spacing_mm, parse_spacing), restore_spacing),
       "resample to MM millimetres per pixel, after the crop; with --block per voxel, or along "
       "each axis of --orientation",
       "", "features.preprocessing.spacing_mm"},
      {"tiles", "OVERLAP", number(p.tiles.overlap, {0, 0.9}),
       "slide a window over large frames and average its features, e.g. 0.25 (default overlap)",
       "0.25", "features.preprocessing.tiles.overlap"},
      {"tile-size", "PX", number(p.tiles.size, {8, 65536, "pixels"}),
       "the window's side in pixels of the frame (default: --image-size)", "",
       "features.preprocessing.tiles.size"},
      {"image-size", "S|HxW", with_restore(parsed(p.image_size, parse_image_size), restore_size),
       "the backbone's input is S x S pixels (default 224), or H high and W wide", "",
       "features.preprocessing.image_size"},
      {"resize", "KIND", one_of(p.resize, kResizes),
       "shortest (then centre crop; default), squash or pad", "", "features.preprocessing.resize"},
      {"crop-pct", "F", number(p.crop_pct, {0, 1, "", true}),
       "resize to the size divided by F before the crop (default 1)", "",
       "features.preprocessing.crop_pct"},
      {"interpolation", "KIND", one_of(p.interpolation, kInterpolations),
       "bicubic (default) or bilinear", "", "features.preprocessing.interpolation"},
      {"resampler", "KIND", one_of(p.resampler, kResamplers),
       "pillow (default), torch, pillow12 (Pillow before 13), or transformers (version 5)", "",
       "features.preprocessing.resampler"},
      {"mean", "V[,V,V]", channels(p.mean, false), "subtracted from pixels scaled to 0…1", "",
       "features.preprocessing.mean"},
      {"std", "V[,V,V]", channels(p.std, true), "divides them", "", "features.preprocessing.std"},
  };
}

void size_tiles(const GivenWords& given, ExtractOptions& options) {
  preprocess::Preprocessing& p = options.preprocessing;
  if (given.contains("tile-size") && !given.contains("tiles"))
    throw ConfigError("--tile-size needs --tiles");
  if (given.contains("tiles") && p.tiles.size == 0)
    p.tiles.size = static_cast<int>(p.image_size.width);
}

namespace {

constexpr std::int64_t kMaxBlockSide = 512;

void require_block(const preprocess::Size3& block, const std::string& text) {
  const auto is_side = [](std::int64_t side) { return side >= 1 && side <= kMaxBlockSide; };
  if (std::ranges::all_of(block, is_side)) return;
  throw ConfigError(concat("--block '", text, "': expected voxels of an edge, 1 to ", kMaxBlockSide,
                           ", or three of them with commas, such as 96 or 128,128,64"));
}

preprocess::Size3 parse_block(const std::string& text) {
  preprocess::Size3 block{};
  const auto parts = split(text, ',');
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (parts.size() != 1 && parts.size() != 3)
      block[axis] = 0;
    else if (!parse_int(trim(parts[parts.size() == 1 ? 0 : axis]), block[axis]))
      block[axis] = 0;
  require_block(block, text);
  return block;
}

std::string parse_orientation(const std::string& word) {
  preprocess::require_orientation(word);
  return word;
}

}  // namespace

OptionRows volume_options(ExtractOptions& options) {
  preprocess::VolumeRule& rule = options.preprocessing.volume;
  const auto restore_block = [&rule](const std::string&, const Json& recorded) {
    rule.block = recorded.get<preprocess::Size3>();
    require_block(rule.block, recorded.dump());
  };
  return {
      {"block", "N|X,Y,Z", with_restore(parsed(rule.block, parse_block), restore_block),
       "read NIfTI files and DICOM series as volumes, in blocks of N x N x N voxels, each a row of "
       "the cache; with --window, and a --backbone of volumes",
       "", "features.preprocessing.block"},
      {"orientation", "AXES", parsed(rule.orientation, parse_orientation),
       "of a block's axes, the slowest in memory first: RAS (default) runs to the right, anterior, "
       "superior",
       "", "features.preprocessing.orientation"},
      {"block-overlap", "F", number(rule.overlap, {0, 1, "", false, true}),
       "of neighbouring blocks, as a fraction of their edges (default 0.25)", "",
       "features.preprocessing.overlap"},
      {"blend", "KIND", one_of(rule.blend, preprocess::kBlends),
       "how blocks share a voxel under --pool volume: constant (default) or gaussian", "",
       "features.preprocessing.blend"},
  };
}

// Of frames, clips and their features.
void refuse_frames_with_blocks(const GivenWords& given) {
  if (!given.contains("block")) {
    for (const char* option : {"orientation", "block-overlap", "blend"})
      if (given.contains(option))
        throw ConfigError(concat("--", option, " needs --block, the voxels of a block's edge"));
    return;
  }
  for (const char* option : {"preset",        "clip",          "clip-every", "clip-fps",
                             "clip-sampling", "clip-pad",      "clip-step",  "clip-step-seconds",
                             "clips",         "clip-gap",      "clip-axes",  "frames",
                             "phases",        "every",         "fps",        "start",
                             "end",           "axis",          "slices",     "mask",
                             "tiles",         "tile-size",     "image-size", "resize",
                             "crop-pct",      "interpolation", "resampler",  "views",
                             "augment",       "augment-seed",  "cut",        "thumbnails",
                             "layers",        "projection",    "benchmark"})
    if (given.contains(option))
      throw ConfigError(concat("--", option, " is for frames and does not go with --block; leave ",
                               "one of them out"));
  const std::string pool = word_of(given, "pool");
  const bool of_module = given.contains("backbone");
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::ranges::count(words, pool) > 0;
  };
  if (pool.empty() || is({"mean", kPoolVolume}) || (!of_module && is({"cls", "cls+mean"}))) return;
  throw ConfigError(concat("--pool '", pool, "': of volumes it is ",
                           of_module ? "mean, a row for each block (default)"
                                     : "cls, mean or cls+mean, a row for each block",
                           ", or volume"));
}

void finish_volumes(ExtractOptions& options) {
  preprocess::Preprocessing& p = options.preprocessing;
  preprocess::VolumeRule& rule = p.volume;
  const std::vector<double>& spacing = options.spacing_mm;
  if (!rule.is_on()) {
    if (rule.is_pooled) throw ConfigError("--pool volume needs --block");
    if (rule.crop_to_body) throw ConfigError("--crop body needs --block");
    if (spacing.size() == 3)
      throw ConfigError("--spacing with three numbers needs --block; frames take one");
    if (!spacing.empty()) p.spacing_mm = spacing.front();
    return;
  }
  for (std::size_t axis = 0; axis < 3 && !spacing.empty(); ++axis)
    rule.spacing_mm[axis] = spacing[spacing.size() == 1 ? 0 : axis];
  if (options.reader.window.kind == frames::Window::Kind::kFile)
    throw ConfigError(
        "--block needs --window CENTER,WIDTH or LOW%,HIGH%: these values become 0 and 1, and the "
        "right ones belong to the encoder (37.5,425 are -175 to 250 HU)");
  if (p.crop != frames::CropRule{})
    throw ConfigError(concat("--crop '", preprocess::to_text(p.crop),
                             "' is of frames; with --block give body, or leave it out"));
  if (rule.is_pooled && options.min_frames > 1)
    throw ConfigError(concat("--min-frames ", options.min_frames,
                             " counts rows, and --pool volume gives one; leave it out"));
  if (!rule.is_pooled && rule.blend != preprocess::Blend::kConstant)
    throw ConfigError("--blend needs --pool volume: a row for each block is of that block alone");
  for (auto* channels : {&p.mean, &p.std})
    if (channels->front() != channels->at(1) || channels->front() != channels->at(2))
      throw ConfigError("--mean and --std of volumes are one number each");
  if (p.std.front() == 0) p.std.fill(1);  // not given
  options.backbone.block = rule.block;
  options.backbone.pools_volumes = rule.is_pooled;
  for (const std::string& column : options.frame_columns)
    if (is_block_column(column))
      throw ConfigError(concat("--frame-columns ", column,
                               ": the rows of blocks have a column of this name already; give "
                               "yours another one"));
}

void finish_pixels(ExtractOptions& options) {
  preprocess::Preprocessing& p = options.preprocessing;
  refuse_constants_of_levels(p.mean, p.std);
  if (p.tiles.size > 0 && !p.image_size.is_square())
    throw ConfigError(concat("--tiles are squares, and the backbone's input is ", p.image_size,
                             "; give --image-size S"));
  if (!options.mask.empty()) p.mask = load_mask(options.mask, options.reader);
}

OptionRows view_options(ExtractOptions& options) {
  augment::Augmentation& augmentation = options.augmentation;
  const auto parse_list = [&augmentation](const std::string&, const std::string& word) {
    augment::parse_list(word, augmentation);
  };
  return {
      {"views", "K", number(augmentation.views, {0, 64}),
       "store K augmented views of every exam next to the clean one, for `train` to draw from", "",
       "storage.views", augment::view_names(augmentation)},
      {"augment", "LIST", parse_list,
       concat("what may change in views, the same for all frames of an exam: flip, vflip, rotate "
              "(degrees), scale (least area of a crop), brightness, contrast, gamma, noise, each "
              "NAME, NAME=STRENGTH or NAME=LOW:HIGH (default ",
              augment::kDefaultList, ")"),
       "", "storage.augment",
       augmentation.views > 0 ? augment::to_json(augmentation) : Json(nullptr)},
      {"augment-seed", "N", number(augmentation.seed, at_least(0)),
       "of the random views (default 0)"},
  };
}

void finish_views(const GivenWords& given, ExtractOptions& options) {
  if (options.augmentation.views > 0) {
    if (!given.contains("augment"))
      augment::parse_list(augment::kDefaultList, options.augmentation);
    return;
  }
  for (const char* option : {"augment", "augment-seed"})
    if (given.contains(option))
      throw ConfigError(
          concat("--", option, " needs --views K, the number of augmented views, e.g. --views 4"));
}

}  // namespace coldframe::extract
