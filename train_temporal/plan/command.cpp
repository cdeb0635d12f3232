#include "train_temporal/plan/command.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cache/store/reader.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/published/published.h"
#include "extract/vit/resolve_architecture.h"
#include "train_temporal/fit/tune/tuned_source.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/plan/measure.h"
#include "train_temporal/plan/report.h"

namespace coldframe::plan {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr std::int64_t kEpochExams = 1000;

struct Options {
  std::string model;
  std::string cache;         // instead of the model: one with a cut
  std::string architecture;  // of weights that do not say it
  std::string image_size;    // pixels, S or H×W; empty: the model's own
  std::string pool;          // empty: the cache's, or cls
  std::string precision = "fp32";
  std::string optimizer = "adamw";
  std::string device = "auto";
  std::string memory;  // a question
  std::string tune_blocks = "all";
  fs::path html;
  Query query;
  std::int64_t lora = 0;
  std::int64_t layers = 0;       // 0: the temporal model's own
  std::int64_t threads = 0;      // 0: LibTorch's own choice
  std::int64_t frames = 0;       // 0: the cache's, or the query's
  std::int64_t epoch_exams = 0;  // 0: the cache's, or kEpochExams
  std::int64_t behind_cut = 0;   // blocks of the cache's ViT; 0: no cache
  Steps steps;                   // of --measure
  bool measure = false, json = false, overwrite = false, all = false;
};

po::options_description described(Options& options) {
  Query& query = options.query;
  po::options_description all("Options");
  auto add = all.add_options();
  add("model", po::value(&options.model),
      "timm's name of a ViT, or its weights: a file or a folder");
  add("cache", po::value(&options.cache),
      "or a cache of `extract --cut`, which says the ViT, the images, the pooling, the frames of "
      "its longest exam, the exams of an epoch, and the blocks behind the cut");
  add("architecture", po::value(&options.architecture),
      "timm's name, for weights that do not say what they are of");
  add("exams", po::value(&query.exams)->default_value(query.exams),
      "exams in a step (train's --batch)");
  add("frames", po::value(&options.frames)->default_value(options.frames),
      "frames of an exam; 0: 20, or of the cache's longest");
  add("image-size", po::value(&options.image_size),
      "pixels, SIDE or HEIGHTxWIDTH; default: the model's");
  add("pool", po::value(&options.pool), "cls, mean, cls+mean, …; default: cls, or the cache's");
  add("precision", po::value(&options.precision)->default_value(options.precision),
      "fp32, or bf16 or fp16 for matrix products (train's --amp)");
  add("optimizer", po::value(&options.optimizer)->default_value(options.optimizer),
      "adamw, momentum or sgd: 2, 1 or 0 tensors for each parameter");
  add("device", po::value(&options.device)->default_value(options.device),
      "cuda or cpu, that the plan is for; auto: cuda where a GPU is there. It measures on a GPU "
      "where there is one, else on the CPU");
  add("tune-blocks", po::value(&options.tune_blocks)->default_value(options.tune_blocks),
      "what --memory and --measure are about: the last K blocks, or all (behind the cut)");
  add("lora", po::value(&options.lora)->default_value(options.lora),
      "with a rank: LoRA in these blocks");
  add("temporal", po::value(&query.temporal)->default_value(query.temporal),
      "the temporal model (train's --model; auto: its GRU): gru, lstm, transformer, tcn, …");
  add("hidden", po::value(&query.hidden)->default_value(query.hidden), "of the temporal model");
  add("layers", po::value(&options.layers)->default_value(options.layers),
      "of the temporal model; 0: as many as train's --layers 0");
  add("bidirectional", po::bool_switch(&query.bidirectional), "the GRU or LSTM runs both ways");
  add("coupled", po::bool_switch(&query.coupled),
      "the loss is Cox's, or train has --mixup: a step cannot go in micro-batches of exams");
  add("dropout", po::bool_switch(&query.dropout), "the trained blocks have dropout");
  add("memory", po::value(&options.memory), "say whether it fits: 24GiB; exit code 1 if not");
  add("measure", po::bool_switch(&options.measure),
      "run whole steps, too, and compare what they took with the plan");
  Steps& steps = options.steps;
  add("measure-exams", po::value(&steps.exams)->default_value(steps.exams),
      "in each of these steps");
  add("measure-frames", po::value(&steps.frames)->default_value(steps.frames), "of each exam");
  add("measure-rounds", po::value(&steps.rounds)->default_value(steps.rounds),
      "of which --measure takes the median");
  add("measure-budgets", po::value(&steps.budgets)->default_value(steps.budgets),
      "steps within so many budgets, from the smallest to all; 0: 1/2, 1/3, 1/5 and 1/10 of all");
  add("epoch-exams", po::value(&options.epoch_exams)->default_value(options.epoch_exams),
      "exams of an epoch, whose time is stated; 0: 1000, or the cache's");
  add("threads", po::value(&options.threads)->default_value(options.threads),
      "of the CPU; 0: one for each core");
  add("all", po::bool_switch(&options.all),
      "print every way with its parts, and how many exams fit on cards of 8 to 80 GiB");
  add("json", po::bool_switch(&options.json), "print JSON");
  add("html", po::value(&options.html), "write a page with charts");
  add("overwrite", po::bool_switch(&options.overwrite), "replace that page");
  return all;
}

void require_at_least(const char* option, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw ConfigError(concat("--", option, " ", value, ": expected a whole number from ", least));
}

void check_image_size(const ImageSize& size, std::int64_t patch) {
  for (const std::int64_t side : {size.height, size.width}) {
    if (side < patch || side > kMaxImageSide || side % patch != 0)
      throw ConfigError(concat("images of ", size, ": expected sides that are multiples of ", patch,
                               ", the ViT's patch, up to ", kMaxImageSide,
                               "; give them as --image-size"));
  }
}

// As extract takes it from what lies next to the weights; else absolute positions show it, or a
// published model's name says it.
ImageSize image_size_of(const Query& query, const std::string& architecture,
                        const std::optional<vit::ModelConfig>& config) {
  if (config && config->pixels.image_size) return *config->pixels.image_size;
  if (const std::int64_t grid = query.architecture.position_grid; grid > 0)
    return grid * query.architecture.patch;
  if (!architecture.empty()) return vit::find_published(architecture).image;
  throw ConfigError(concat("the weights '", query.model,
                           "' do not show what size their images have; give it as ",
                           "--image-size, or their model as --architecture"));
}

// A cache with a cut, whose recipe says all.
ImageSize find_cache(Options& options) {
  Query& query = options.query;
  const cache::CacheReader cached(options.cache, cache::Detail::kWithoutSources);
  if (!cached.cut())
    throw ConfigError(concat("--cache '", options.cache,
                             "' holds features alone; give one of `extract --cut BLOCK`, or the "
                             "ViT's name or weights instead"));
  const tune::RecipeShape shape = tune::read_shape(cached.recipe().features);
  query.model = options.cache;
  query.architecture = shape.architecture;
  query.features = shape.features;
  options.behind_cut = shape.architecture.depth - cached.cut()->block;
  std::size_t frames = 1;
  for (const cache::ExamInfo& exam : cached.exams()) frames = std::max(frames, exam.frames());
  if (options.frames == 0) options.frames = static_cast<std::int64_t>(frames);
  if (options.epoch_exams == 0)
    options.epoch_exams = static_cast<std::int64_t>(cached.exams().size());
  if (options.behind_cut == 0)
    throw ConfigError(concat("--cache '", options.cache, "' is cut after the last of ",
                             shape.architecture.depth, " blocks, so that none can be trained"));
  return shape.image_size;
}

// A file or a folder of weights.
ImageSize find_weights(Options& options) {
  vit::BackboneOptions backbone;
  backbone.weights = options.model;
  backbone.architecture = options.architecture;
  const vit::WeightFiles files = vit::find_weight_files(backbone.weights);
  const vit::CanonicalWeights weights = vit::canonical_names(vit::load_weights(files));
  std::optional<vit::ModelConfig> config;
  if (options.architecture.empty()) config = vit::read_model_config(files);
  options.query.architecture = vit::resolve_architecture(weights, backbone, config);
  if (!options.image_size.empty()) return parse_image_size(options.image_size);
  return image_size_of(options.query, options.architecture, config);
}

ImageSize find_named(Options& options) {
  const vit::Published& published = vit::find_published(options.model);
  options.query.architecture = published.architecture;
  return published.image;
}

void find_model(Options& options) {
  Query& query = options.query;
  if (options.model.empty() == options.cache.empty())
    throw ConfigError(options.model.empty()
                          ? "name a model: coldframe plan vit_small_patch16_224, a file of "
                            "weights, or --cache with one of `extract --cut`"
                          : "MODEL and --cache: give one of them; the cache says which ViT it is");
  query.model = options.model;
  std::error_code ignored;
  if (!options.cache.empty())
    query.image_size = find_cache(options);
  else if (fs::exists(options.model, ignored))
    query.image_size = find_weights(options);
  else
    query.image_size = find_named(options);
  if (!options.image_size.empty()) query.image_size = parse_image_size(options.image_size);
  check_image_size(query.image_size, query.architecture.patch);
  if (!options.pool.empty()) query.features.pooling = vit::parse_pooling(options.pool);
  vit::check_features(query.features, query.architecture);
  if (options.frames != 0) query.frames = options.frames;
  if (options.epoch_exams == 0) options.epoch_exams = kEpochExams;
}

Trained trained_of(const Options& options) {
  const std::int64_t depth = options.query.architecture.depth;
  const std::int64_t most = options.behind_cut > 0 ? options.behind_cut : depth;
  std::int64_t blocks = most;
  if (options.tune_blocks != "all" &&
      (!parse_int(options.tune_blocks, blocks) || blocks < 1 || blocks > most))
    throw ConfigError(concat("--tune-blocks ", options.tune_blocks, ": expected all, or 1 to ",
                             most, ", the ViT's blocks",
                             options.behind_cut > 0 ? " behind the cache's cut" : ""));
  if (options.lora < 0 || options.lora > options.query.architecture.width)
    throw ConfigError(concat("--lora ", options.lora, ": expected a rank from 1 to ",
                             options.query.architecture.width));
  return {blocks, options.lora};
}

void check(Options& options) {
  Query& query = options.query;
  choice("temporal", query.temporal, temporal::model_names());
  temporal::ModelConfig temporal;
  set_model(temporal, query.temporal);
  query.layers = options.layers != 0 ? options.layers : temporal.architecture->layers;
  find_model(options);
  for (const auto& [option, value] : {std::pair{"exams", query.exams},
                                      {"frames", query.frames},
                                      {"hidden", query.hidden},
                                      {"layers", query.layers},
                                      {"measure-exams", options.steps.exams},
                                      {"measure-frames", options.steps.frames},
                                      {"measure-rounds", options.steps.rounds},
                                      {"epoch-exams", options.epoch_exams}}) {
    require_at_least(option, value, 1);
    if (value > 1'000'000)
      throw ConfigError(concat("--", option, " ", value, ": expected at most 1000000"));
  }
  require_at_least("threads", options.threads, 0);
  require_at_least("measure-budgets", options.steps.budgets, 0);
  query.half = choice<bool>("precision", options.precision,
                            {{"fp32", false}, {"bf16", true}, {"fp16", true}});
  query.moments = choice<std::int64_t>("optimizer", options.optimizer,
                                       {{"adamw", 2}, {"momentum", 1}, {"sgd", 0}});
  const bool has_gpu = query.machine->device().is_cuda();
  query.cuda =
      choice<bool>("device", options.device, {{"auto", has_gpu}, {"cuda", true}, {"cpu", false}});
  if (options.lora > 0) query.lora_rank = options.lora;
  check_countable(query);
  if (options.threads > 0) set_torch_threads(static_cast<int>(options.threads));
}

// Before LibTorch does anything else, as resolve_device() wants it. Memory and libraries are those
// of a training.
torch::Device measuring_device(const Options& options) {
  const std::string word = options.device == "cpu" ? "cpu" : "auto";
  keep_freed_memory();
  bound_cuda_workspaces();
  budget_device_memory(word, 0);
  return resolve_device(word);
}

Answer answer_of(const Query& query, const Trained& trained, std::uint64_t memory) {
  Answer answer;
  answer.memory = memory;
  answer.trained = trained;
  answer.plain = plan_row(query, trained, {tune::Strategy::kCheap, query.all_frames(), 1, 0});
  std::vector<Row> rows = rows_within(query, trained, memory);
  if (!rows.empty()) answer.fastest = std::move(rows.front());
  if (!answer.takes_plain()) answer.changes = changes(query, trained, memory);
  return answer;
}

const CommandHelp kHelp = {
    "coldframe plan (MODEL | --cache CACHE) [options]",
    "Says what every way of training a ViT with a temporal model would take: on cached features, "
    "the last\nblocks, LoRA, or end to end, with everything kept, kept cheaply, exam by exam, or "
    "in part computed again.\nA block of each kind runs on this machine, for a few frames; larger "
    "steps follow from it.",
    "coldframe plan vit_small_patch16_224 --exams 16 --frames 20 --memory 24GiB --html plan.html"};

}  // namespace

int run_plan(const std::vector<std::string>& arguments) {
  Options options;
  if (!parse_command_line(kHelp, described(options), arguments, "model")) return 0;
  options.query.machine = std::make_shared<Machine>(measuring_device(options));
  check(options);
  check_outputs({{"--html", options.html}}, {{"MODEL", options.model}, {"--cache", options.cache}},
                overwrite_said(options.overwrite));
  const Trained trained = trained_of(options);
  Plan plan;
  plan.query = options.query;
  plan.epoch_exams = options.epoch_exams;
  if (!options.memory.empty())
    plan.answer = answer_of(options.query, trained, parse_bytes(options.memory));
  if (options.measure) plan.measured = measure(options.query, trained, options.steps);
  plan.rows = plan_rows(options.query);
  if (options.json)
    std::cout << to_json(plan).dump(2) << "\n";
  else
    write_text(plan, options.all, std::cout);
  if (!options.html.empty())
    write_file_atomically(options.html, to_page(plan), existing_for(options.overwrite));
  const bool fits = !plan.answer || plan.answer->fastest;
  return static_cast<int>(fits ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace coldframe::plan
