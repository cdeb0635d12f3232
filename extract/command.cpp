#include "extract/command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "cache/store/lock.h"
#include "cache/store/pack.h"
#include "cache/store/parts.h"
#include "cache/store/reader.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/publish/atomic_file.h"
#include "common/system/monitor.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "extract/input/exam_list.h"
#include "extract/input/patients.h"
#include "extract/inspect/benchmark.h"
#include "extract/inspect/doctor.h"
#include "extract/inspect/dry_run.h"
#include "extract/options.h"
#include "extract/pipeline/devices.h"
#include "extract/pipeline/part_of_job.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/recipe.h"
#include "extract/pipeline/resume.h"
#include "extract/pipeline/window_frames.h"
#include "extract/vit/pooling.h"
#include "extract/vit/resolve_architecture.h"

namespace coldframe::extract {
namespace {

// What the next run builds on.
struct Found {
  std::optional<cache::CacheReader> cache;
  // A cache without exams does not fix the recipe: these files of failures alone, which have been
  // looked at, go once it is sure that a new one will be made.
  std::vector<std::filesystem::path> failures_alone = {};
};

Found open_to_continue(const cache::Location& location) {
  Found found;
  std::vector<std::filesystem::path> files = location.files();
  if (files.empty()) return found;
  found.cache.emplace(location.path);
  if (!found.cache->exams().empty()) return found;
  found.cache.reset();
  found.failures_alone = std::move(files);
  return found;
}

// The right to write to the cache, before anybody looks at what is there; parts share it.
cache::WriterLock lock_output(const cache::Location& location, const Part& part) {
  cache::refuse_foreign_folder(location);
  if (part.shared()) return cache::lock_part(location);
  cache::WriterLock lock = cache::lock_writer(location, part.index);
  cache::require_unshared(location);
  return lock;
}

void check_recipe(const cache::Recipe& now, const std::optional<cache::CacheReader>& cached,
                  const ExtractOptions& options) {
  if (!cached || cached->recipe().cache_digest() == now.cache_digest()) return;
  const std::vector<std::string> found = cache::differences(cached->recipe(), now);
  const auto differs = [&](const char* place) {
    const Json::json_pointer pointer(place);
    const Json nothing;
    return cached->recipe().features.value(pointer, nothing) !=
           now.features.value(pointer, nothing);
  };
  const bool config_decides = differs("/preprocessing") || differs("/backbone/pooling") ||
                              differs("/backbone/projection") || differs("/backbone/architecture");
  const std::string stated = options.config.empty() || !config_decides
                                 ? ""
                                 : concat(" (where none is given, '", options.config.string(),
                                          "' next to the weights says what holds; --pool goes "
                                          "before its pooling and projection)");
  throw CacheError(concat(options.out.string(),
                          " was made with another recipe; give the same options", stated,
                          " or another --out:\n  ", join(found, "\n  ")));
}

void tell_plan(const Plan& plan) {
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < plan.changes.size() && i < kShown; ++i) log_info(plan.changes[i]);
  if (plan.changes.size() > kShown)
    log_info(concat("… and ", plan.changes.size() - kShown, " more changes"));
  if (plan.not_in_input)
    log_warning(concat(plural(plan.not_in_input, "cached exam"),
                       plan.not_in_input == 1 ? " is not in the input; it stays in the cache"
                                              : " are not in the input; they stay in the cache"));
}

cache::WriterOptions writer_options(const ExtractOptions& options, const Part& part,
                                    Precision precision) {
  cache::WriterOptions writer;
  writer.worker = part.index;
  writer.shared = part.shared();
  writer.storage = options.storage;
  writer.precision = to_string(precision);
  return writer;
}

// A single-file cache whose last run was killed before its shards were packed.
bool has_unpacked_shards(const cache::Location& location) {
  const auto files = location.files();
  return location.single_file && !files.empty() && files != std::vector{location.path};
}

PipelineResult extract(const frames::ExamList& exams, const ExtractOptions& options,
                       const Part& part, const cache::Recipe& recipe,
                       const cache::Location& location, const FileLock* lock,
                       const ComputeDevices& devices) {
  const vit::Backbone& backbone = devices.backbone();
  PipelineResult result;
  result.row_name = row_name_of(backbone);
  if (exams.exams.empty() && !has_unpacked_shards(location)) return result;
  cache::ShardWriter writer(location, recipe, backbone.dimension(),
                            writer_options(options, part, backbone.precision()), lock);
  result = run_pipeline(exams, options, devices.all(), writer);
  const StageTimer timer(options.backbone.times.get(), "closing");
  if (result.stopped)
    writer.publish();
  else
    writer.finish();
  return result;
}

void describe_cache(const cache::Location& location, ExtractSummary& summary) {
  if (location.files().empty()) return;
  const cache::CacheReader cached(location.path, cache::Detail::kWithoutSources);
  summary.cached_exams = cached.exams().size();
  for (const auto& exam : cached.exams()) summary.cached_frames += exam.frames();
  summary.cache_bytes = cached.bytes_on_disk();
}

// Of the backbone that the options name, as far as that can be told without making it.
dry_run::FrameSizes sizes_of(const ExtractOptions& options) {
  const auto named = vit::named_architecture(options.backbone);
  const vit::Architecture shape = named.value_or(vit::Architecture());
  const std::int64_t steps =
      shape.takes_clips() ? std::max<std::int64_t>(1, options.backbone.clip_frames / shape.tubelet)
                          : 1;
  const std::int64_t patches =
      steps * (options.preprocessing.image_size.pixels() / (shape.patch * shape.patch));
  dry_run::FrameSizes sizes;
  sizes.assumed = !named;
  sizes.width = static_cast<std::size_t>(shape.width);
  sizes.tokens = static_cast<std::size_t>(shape.prefix_tokens() + patches);
  if (!named) return sizes;
  const vit::FeatureOptions& features = options.backbone.features;
  const std::int64_t rows = features.pooling == vit::Pooling::kTime ? steps : 1;  // of a window
  sizes.features =
      static_cast<std::size_t>(rows * vit::pooled_features(features.pooling, shape, patches)) *
      vit::layers_of(features, shape).size();
  return sizes;
}

// --dry-run. Times that decrease are among its findings, so they are let through here.
int look_only(const ExtractOptions& options) {
  frames::ExamListOptions listing = list_options(options);
  listing.allow_unordered = true;
  const frames::ExamList input = list_exams_salted(options.input, listing);
  frames::ReaderOptions reader = options.reader;
  reader.estimate = true;
  const dry_run::Survey survey =
      dry_run::survey(input, {options.selection, reader, options.preprocessing,
                              decode_threads_of(options), options.thumbnails});
  const dry_run::Report report{input,
                               survey,
                               dry_run::find_all(input, survey, options.allow_unordered),
                               bytes_of(options.storage),
                               1 + options.augmentation.views,
                               options.cut,
                               options.preprocessing.image_size,
                               sizes_of(options),
                               options.selection.windows.frames,
                               options.preprocessing.volume};
  for (const auto& warning : frames::shown_warnings(input)) log_warning(warning);
  std::cout << (options.json ? to_json(report).dump(2) + "\n" : to_text(report));
  const bool readable = std::all_of(
      survey.exams.begin(), survey.exams.end(),
      [](const dry_run::ExamSurvey& exam) { return exam.failure.empty() && exam.lost == 0; });
  return static_cast<int>(readable ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

frames::ExamList list_timed(const ExtractOptions& options, StageTimes& times) {
  const StageTimer timer(&times, "list");
  return list_exams_salted(options.input, list_options(options));
}

std::unique_ptr<Monitor> start_monitor(const ExtractOptions& options,
                                       const ComputeDevices& devices) {
  if (options.monitor.empty()) return nullptr;
  MonitorOptions settings;
  settings.csv = options.monitor;
  settings.gpus = devices.gpus();
  return std::make_unique<Monitor>(settings);
}

int benchmark(const frames::ExamList& input, ExtractOptions& options, ComputeDevices& devices) {
  load_backbones(devices, options, input, nullptr);
  settle_clips(devices.backbone(), options);
  const cache::Recipe recipe = make_recipe(options, devices.backbone());
  const BenchmarkReport report = run_benchmark(input, options, recipe, devices.all());
  std::cout << (options.json
                    ? to_json(report).dump(2) + "\n"
                    : concat(devices.names(), ", ", to_string(devices.backbone().precision()), "\n",
                             to_text(report)));
  return static_cast<int>(ExitCode::kDone);
}

// For `coldframe doctor`.
int tell_doctor() {
  std::cout << Json(check_engines_and_libraries()) << '\n';
  return static_cast<int>(ExitCode::kDone);
}

// A cache keeps the notes that it began with.
void keep_license(const cache::CacheReader& cached, cache::Recipe& recipe) {
  const std::string kept = cached.recipe().note(cache::kWeightsLicense),
                    now = recipe.note(cache::kWeightsLicense);
  if (kept == now) return;
  if (!now.empty())
    log_warning(concat("the cache states ", kept.empty() ? "no licence" : "the licence " + kept,
                       " of the weights, and keeps it: ", now, " is not stored"));
  recipe.notes.erase(cache::kWeightsLicense);
  if (!kept.empty()) recipe.notes[cache::kWeightsLicense] = kept;
}

}  // namespace

int run_extract(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"doctor"}) return tell_doctor();
  auto options = parse_extract_options(arguments);
  if (!options) return 0;
  if (options->dry_run) return look_only(*options);

  const auto times = options->backbone.times = std::make_shared<StageTimes>();
  budget_device_memory(options->devices, options->batch.memory_budget);
  begin_loading_cuda(options->devices, times);
  frames::ExamList input = list_timed(*options, *times);
  for (const auto& warning : frames::shown_warnings(input)) log_warning(warning);
  if (options->streams.empty()) options->streams = input.streams;

  ComputeDevices devices(options->devices, options->threads);
  if (options->benchmark) return benchmark(input, *options, devices);
  const cache::Location location = cache::locate(options->out);
  const Part part = part_of_job(*options, location);
  const cache::WriterLock lock = lock_output(location, part);
  auto [cached, failures_alone] = open_to_continue(location);
  const cache::CacheReader* const continued = cached ? &*cached : nullptr;
  load_backbones(devices, *options, input, continued, part.shared() ? &location : nullptr);
  vit::Backbone& backbone = devices.backbone();
  settle_clips(backbone, *options);
  cache::Recipe recipe = make_recipe(*options, backbone);
  if (const std::string note = patients_note(input.patients); !note.empty())
    recipe.notes["patients"] = note;
  check_recipe(recipe, cached, *options);

  if (cached) check_patients(input.patients, *cached, options->out);
  if (cached) keep_license(*cached, recipe);
  TakenPart taken(part, *options, input, location);
  ExtractSummary summary;
  summary.patients = frames::count_patients(input);
  summary.patient_names = input.patients;
  const Plan plan = plan_extraction(
      std::move(input),
      {options->selection, options->reader, static_cast<std::size_t>(backbone.clip_steps()),
       backbone.takes_blocks(), taken.mine()},
      continued);
  if (stop_requested()) throw Interrupted("stopped; run the same command again to continue");
  if (!part.shared())
    for (const auto& file : failures_alone) remove_file_durably(file);
  cached.reset();
  tell_plan(plan);
  if (!part.shared())
    cache::update_metadata(location, plan.metadata);
  else if (!plan.metadata.empty())
    log_warning(concat("labels, patients or times of ", plural(plan.metadata.size(), "exam"),
                       " changed: run the job once with --part off when it is finished, which "
                       "stores them without extracting"));

  const auto monitor = start_monitor(*options, devices);
  summary.cache = options->out;
  summary.device = devices.names();
  summary.precision = to_string(backbone.precision());
  summary.dimension = backbone.dimension();
  summary.cut = cut_of(*options, backbone);
  summary.backbone = backbone.describe();
  summary.weights = recipe.note("weights");
  summary.license = recipe.note(cache::kWeightsLicense);
  summary.image_size = options->backbone.image_size;
  summary.clip_frames = backbone.clip_frames();
  summary.block = backbone.block();
  summary.metadata_updated = part.shared() ? 0 : plan.metadata.size();
  summary.result = extract(plan.extract, *options, part, recipe, location, lock.get(), devices);
  summary.unchanged = plan.unchanged + summary.result.unchanged;
  summary.stages = times->seconds();
  if (monitor) summary.resources = monitor->finish();
  describe_cache(location, summary);
  std::cout << (options->json ? to_json(summary).dump(2) + "\n" : to_text(summary));

  if (!summary.result.stopped) taken.finished();
  if (summary.result.stopped) throw Interrupted("stopped; run the same command again to continue");
  const bool clean = summary.result.failures.empty() && summary.result.lost.empty();
  return static_cast<int>(clean ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace coldframe::extract
