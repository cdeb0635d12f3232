#include "extract/pipeline/pipeline.h"

#include <algorithm>
#include <set>

#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "extract/input/exam_list.h"
#include "extract/input/patients.h"
#include "extract/pipeline/decode_stage.h"
#include "extract/pipeline/feature_sink.h"
#include "extract/pipeline/window_frames.h"

namespace coldframe::extract {

namespace {

DecodeSettings decode_settings(const ExtractOptions& options, const vit::Backbone& backbone) {
  DecodeSettings settings;
  settings.preprocessing = options.preprocessing;
  settings.selection = options.selection;
  settings.reader = options.reader;
  settings.augmentation = options.augmentation;
  settings.steps = static_cast<std::size_t>(backbone.clip_steps());
  settings.thumbnails = options.thumbnails;
  settings.min_frames = options.min_frames;
  settings.threads = decode_threads_of(options);
  return settings;
}

// "16 frames per forward pass (auto)" where all agree, else one clause for each.
std::string join_batches(const std::vector<DeviceResult>& results) {
  std::vector<std::string> distinct;
  for (const DeviceResult& result : results)
    if (std::find(distinct.begin(), distinct.end(), result.batch) == distinct.end())
      distinct.push_back(result.batch);
  return join(distinct, " and ");
}

}  // namespace

PipelineResult run_pipeline(const frames::ExamList& exams, const ExtractOptions& options,
                            std::span<const ComputeDevice> devices, cache::ShardWriter& writer) {
  const vit::Backbone& backbone = *devices.front().backbone;
  const auto frames = static_cast<std::size_t>(backbone.clip_frames());
  FeatureSink sink(exams.exams.size(), backbone, writer, options);
  std::vector<DeviceResult> results(devices.size());
  {
    constexpr std::size_t kLeastWindows = 4;
    const bool of_blocks = backbone.takes_blocks();
    DecodedQueue queue(
        input_shape(options.preprocessing, backbone.clip_frames()).bytes(), devices.size(),
        of_blocks ? kLeastWindows : std::max(kLeastWindows, DecodedQueue::kLeast / frames));
    const DecodeStage decoder(exams, decode_settings(options, backbone), queue);
    const auto work = [&](std::size_t i) {
      try {
        results[i] = compute(devices[i], options, queue, sink);
      } catch (...) {
        queue.fail(std::current_exception());  // the other devices stop, with this error
        throw;
      }
    };
    parallel_for(devices.size(), work, devices.size());
  }

  PipelineResult result = sink.finish();
  result.views = 1 + options.augmentation.views;
  result.input_name = input_name_of(backbone);
  result.row_name = row_name_of(backbone);
  const std::size_t done = result.exams + result.failures.size() + result.unchanged;
  result.stopped = stop_requested() && done < exams.exams.size();
  result.seconds = sink.seconds();
  for (const DeviceResult& device : results) {
    result.compute_s += device.counts.compute_s / static_cast<double>(devices.size());
    result.repeated += static_cast<std::size_t>(device.counts.repeated);
    result.peak_device_bytes = std::max(result.peak_device_bytes, device.counts.peak);
  }
  result.batch = join_batches(results);
  return result;
}

namespace {

// Each view of a frame counts.
double frames_per_second(const PipelineResult& result) {
  const std::size_t computed = result.frames * result.views;
  return result.seconds > 0 ? static_cast<double>(computed) / result.seconds : 0;
}

// Says how busy the backbone was, and with how much at once.
std::string computed(const ExtractSummary& summary) {
  const PipelineResult& result = summary.result;
  const double busy = result.seconds > 0 ? 100 * result.compute_s / result.seconds : 0;
  return concat("computed   ", result.batch, ", busy ", fixed(busy, 0), " % of the time, at most ",
                human_bytes(result.peak_device_bytes), " in tensors",
                result.repeated ? concat("; ", plural(result.repeated, result.input_name),
                                         " seen before were not computed again")
                                : "",
                "\n");
}

// "gelu", "gated silu, rotary positions".
std::string parts_of(const Json& shape) {
  return concat(shape.contains("gated_mlp") ? "gated " : "", shape.value("activation", "gelu"),
                shape.contains("rotary") ? ", rotary positions" : "");
}

// "pooling mean", "pooling cls of blocks 9,10,11,12", "pooling cls, projected to 512".
std::string features_of(const Json& backbone) {
  std::string text = "pooling " + backbone["pooling"].get<std::string>();
  const char* before = " of blocks ";
  for (const Json& layer : backbone.value("layers", Json::array())) {
    text += concat(before, layer.get<std::int64_t>());
    before = ",";
  }
  if (backbone.contains("projection"))
    text += concat(", projected to ", backbone["projection"].get<std::int64_t>());
  return text;
}

// "12 blocks of width 384, 6 heads, patches of 16 pixels, gelu, pooling mean"; empty for a
// compiled module, which does not tell.
std::string shape_of(const Json& backbone) {
  if (!backbone.contains("architecture")) return "";
  const Json& shape = backbone["architecture"];
  const auto number = [&](const char* key) { return shape[key].get<std::int64_t>(); };
  return concat(number("depth"), " blocks of width ", number("width"), ", ", number("heads"),
                " heads, patches of ", number("patch"), " pixels, ", parts_of(shape), ", ",
                features_of(backbone), ", ");
}

// Says what the features come from: enough to see a wrong file or a wrong guess at once.
std::string describe_backbone(const ExtractSummary& summary) {
  const Json& backbone = summary.backbone;
  const std::string source =
      backbone.contains("seed")
          ? concat("random weights of seed ", backbone["seed"].get<std::uint64_t>())
          : concat(summary.weights, " (SHA-256 ",
                   backbone["sha256"].get<std::string>().substr(0, 12), "…)",
                   summary.license.empty() ? "" : ", licence " + summary.license);
  const std::string clip =
      summary.clip_frames > 1 ? concat("windows of ", summary.clip_frames, " ") : "";
  const auto& [x, y, z] = summary.block;
  const std::string input = x > 0 ? concat("blocks of ", x, "×", y, "×", z, " voxels")
                                  : concat(clip, "images of ", summary.image_size);
  return concat("backbone   ", shape_of(backbone), input, "; ", source, "\n");
}

constexpr std::size_t kShown = 20;

std::size_t lost_frames(const PipelineResult& result) {
  std::size_t frames = 0;
  for (const cache::Failure& lost : result.lost) frames += lost.frames;
  return frames;
}

std::string lost_text(const PipelineResult& result) {
  if (result.lost.empty()) return "";
  std::set<std::string> exams;
  for (const cache::Failure& lost : result.lost) exams.insert(lost.exam);
  std::string text = concat("masked     ", plural(lost_frames(result), result.row_name), " of ",
                            plural(exams.size(), "exam"), " that cannot be read\n");
  for (std::size_t i = 0; i < result.lost.size() && i < kShown; ++i)
    text +=
        concat("lost       exam '", result.lost[i].exam, "', ",
               plural(result.lost[i].frames, result.row_name), ": ", result.lost[i].reason, "\n");
  if (result.lost.size() > kShown)
    text += concat("           and ", result.lost.size() - kShown, " more (--json lists all)\n");
  return text;
}

std::string partly_finite_text(const PipelineResult& result) {
  if (result.partly_finite == 0) return "";
  return concat("not finite ", plural(result.partly_finite, "frame"),
                " with values that are NaN (shown black) or infinite (black or white)\n");
}

// "order      by acquisition time 3 exams, by place 2"
std::string orders_text(const PipelineResult& result) {
  std::vector<std::string> parts;
  for (const auto& [order, exams] : result.orders)
    parts.push_back(
        concat("by ", order, " ", parts.empty() ? plural(exams, "exam") : concat(exams)));
  return parts.empty() ? "" : concat("order      ", join(parts, ", "), "\n");
}

// "note       3 exams, 'a.mp4' first: frames are interlaced"
std::string notes_text(const PipelineResult& result) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [note, of] : result.notes) {
    if (shown++ == kShown)
      return text +
             concat("           and ", result.notes.size() - kShown, " more (--json lists all)\n");
    text +=
        concat("note       ", plural(of.exams, "exam"), ", '", of.file, "' first: ", note, "\n");
  }
  return text;
}

// "what enters block 8 (197 × 384), "
std::string cut_text(const ExtractSummary& summary) {
  if (!summary.cut) return "";
  std::vector<std::string> sides;
  for (const std::int64_t side : summary.cut->shape) sides.push_back(concat(side));
  return concat(
      summary.cut->is_pixels() ? "pixels" : concat("what enters block ", summary.cut->block), " (",
      join(sides, " × "), "), ");
}

Json lost_json(const PipelineResult& result) {
  Json lost = Json::array();
  for (const cache::Failure& failure : result.lost)
    lost.push_back({{"exam", failure.exam},
                    {"source", failure.source},
                    {"frames", failure.frames},
                    {"reason", failure.reason}});
  return lost;
}

Json notes_json(const PipelineResult& result) {
  Json notes = Json::array();
  for (const auto& [note, of] : result.notes)
    notes.push_back({{"note", note}, {"exams", of.exams}, {"file", of.file}});
  return notes;
}

Json seconds_json(const std::map<std::string, double>& stages) {
  Json json = Json::object();
  for (const auto& [stage, taken] : stages) json[stage] = json_number(taken);
  return json;
}

}  // namespace

std::string to_text(const ExtractSummary& summary) {
  const PipelineResult& result = summary.result;
  std::string text = describe_backbone(summary);
  if (result.exams)
    text += concat("extracted  ", plural(result.exams, "exam"), ", ",
                   plural(result.frames, result.row_name),
                   result.views > 1 ? concat(" in ", result.views, " views") : "", " in ",
                   human_duration(result.seconds), " (", fixed(frames_per_second(result), 1), " ",
                   result.row_name, "s/s on ", summary.device, ", ", summary.precision, ")\n");
  if (result.exams) text += computed(summary);
  if (summary.resources) text += concat("machine    ", to_text(*summary.resources), "\n");
  if (summary.unchanged)
    text += concat("unchanged  ", plural(summary.unchanged, "exam"), ", nothing to extract\n");
  if (summary.patients)
    text += concat("patients   ", summary.patients, ", ",
                   frames::patients_text(summary.patient_names), "\n");
  if (summary.metadata_updated)
    text +=
        concat("updated    ", plural(summary.metadata_updated, "exam"), " without extraction\n");
  text += orders_text(result) + notes_text(result) + partly_finite_text(result) + lost_text(result);
  for (std::size_t i = 0; i < result.failures.size() && i < kShown; ++i)
    text += concat("failed     exam '", result.failures[i].exam, "': ", result.failures[i].reason,
                   "\n");
  if (result.failures.size() > kShown)
    text += concat("           and ", result.failures.size() - kShown,
                   " more: coldframe cache info --json ", summary.cache, "\n");
  text += concat("cache      ", summary.cache, ": ", plural(summary.cached_exams, "exam"), ", ",
                 plural(summary.cached_frames, result.row_name), ", ", summary.dimension,
                 " features each, ", cut_text(summary), human_bytes(summary.cache_bytes), "\n");
  return text;
}

Json to_json(const ExtractSummary& summary) {
  const PipelineResult& result = summary.result;
  Json failures = Json::array();
  for (const auto& failure : result.failures)
    failures.push_back(
        {{"exam", failure.exam}, {"source", failure.source}, {"reason", failure.reason}});
  Json json{{"cache", summary.cache},
            {"device", summary.device},
            {"precision", summary.precision},
            {"dimension", summary.dimension},
            {"cut", summary.cut ? cache::to_json(*summary.cut) : Json(nullptr)},
            {"backbone", summary.backbone},
            {"weights", summary.weights},
            {cache::kWeightsLicense, summary.license},
            {"image_size", summary.image_size},
            {"clip_frames", summary.clip_frames},
            {"block", summary.block[0] > 0 ? Json(summary.block) : Json(nullptr)},
            {"extracted", {{"exams", result.exams}, {"frames", result.frames}}},
            {"views", result.views},
            {"seconds", json_number(result.seconds)},
            {"frames_per_second", json_number(frames_per_second(result))},
            {"compute_seconds", json_number(result.compute_s)},
            {"stage_seconds", seconds_json(summary.stages)},
            {"repeated_frames", result.repeated},
            {"batch", result.batch},
            {"peak_device_bytes", result.peak_device_bytes},
            {"unchanged", summary.unchanged},
            {"patients", summary.patients},
            {"patients_hashed", summary.patient_names.hashed.value_or(false)},
            {"exams_that_show_patients", summary.patient_names.shown_by_names},
            {"metadata_updated", summary.metadata_updated},
            {"failures", failures},
            {"lost", lost_json(result)},
            {"lost_frames", lost_frames(result)},
            {"partly_finite_frames", result.partly_finite},
            {"orders", result.orders},
            {"notes", notes_json(result)},
            {"stopped", result.stopped},
            {"cached",
             {{"exams", summary.cached_exams},
              {"frames", summary.cached_frames},
              {"bytes", summary.cache_bytes}}}};
  if (summary.resources) json["resources"] = to_json(*summary.resources);
  return json;
}

}  // namespace coldframe::extract
