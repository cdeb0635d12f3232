#include "extract/inspect/recheck.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <unordered_map>

#include "cache/read/cosine.h"
#include "cache/write/writer.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/scratch_folder.h"
#include "common/text/text.h"

namespace coldframe::extract {
namespace {

struct CachedFrame {
  std::size_t exam, frame;  // index in the cache, row in the exam
};

// Returns the drawn frames in the order of the cache.
std::vector<CachedFrame> draw_frames(const cache::CacheReader& cached,
                                     const std::unordered_map<std::string, std::size_t>& input,
                                     std::size_t count, std::uint64_t seed) {
  std::vector<CachedFrame> all, drawn;
  for (std::size_t exam = 0; exam < cached.exams().size(); ++exam) {
    const cache::ExamInfo& info = cached.exams()[exam];
    if (input.count(info.id) == 0) continue;
    for (std::size_t frame = 0; frame < info.frames(); ++frame)
      if (info.present[frame] != 0) all.push_back({exam, frame});
  }
  std::sample(all.begin(), all.end(), std::back_inserter(drawn), count, std::mt19937_64(seed));
  return drawn;
}

std::vector<ExamTask> tasks_of(const std::vector<CachedFrame>& drawn,
                               const cache::CacheReader& cached, const frames::ExamList& input,
                               const std::unordered_map<std::string, std::size_t>& places) {
  std::vector<ExamTask> tasks;
  std::size_t last = cache::CacheReader::npos;
  for (const CachedFrame& frame : drawn) {
    if (frame.exam == last) continue;
    last = frame.exam;
    const std::size_t place = places.at(cached.exams()[frame.exam].id);
    tasks.push_back({&input.exams[place], place, 0});
  }
  return tasks;
}

// Compares the drawn frames of one exam with those extracted just now, in one view.
void compare_view(std::span<const CachedFrame> drawn, const std::string& view,
                  const cache::CacheReader& cached, const cache::CacheReader& now,
                  RecheckResult& result) {
  const std::string& id = cached.exams()[drawn[0].exam].id;
  const auto dimension = static_cast<std::size_t>(cached.dimension());
  const std::vector<float> before = cached.features(drawn[0].exam, view),
                           after = now.features(now.find(id), view);
  for (const CachedFrame& frame : drawn) {
    const auto row = [&](const std::vector<float>& features) {
      return std::span(features).subspan(frame.frame * dimension, dimension);
    };
    result.identical += std::ranges::equal(row(before), row(after));
    result.frames.push_back({id, frame.frame, view, cache::cosine(row(before), row(after))});
  }
}

// The frames [first, last) of one exam, in every view.
void compare_exam(std::span<const CachedFrame> drawn, const cache::CacheReader& cached,
                  const cache::CacheReader& now, RecheckResult& result) {
  const cache::ExamInfo& info = cached.exams()[drawn[0].exam];
  const std::size_t again = now.find(info.id);
  if (again == cache::CacheReader::npos) return;  // among the failures
  if (now.exams()[again].frames() != info.frames()) {
    result.problems.push_back(concat("exam '", info.id, "' has ", info.frames(),
                                     " frames in the cache and ", now.exams()[again].frames(),
                                     " in its sources"));
    return;
  }
  for (const std::string& view : cached.views()) compare_view(drawn, view, cached, now, result);
}

}  // namespace

RecheckResult recheck(const frames::ExamList& input, const ExtractOptions& options,
                      const cache::CacheReader& cached, vit::Backbone& backbone,
                      const torch::Device& device, std::size_t count, std::uint64_t seed) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < input.exams.size(); ++i) places.emplace(input.exams[i].id, i);
  const std::vector<CachedFrame> drawn = draw_frames(cached, places, count, seed);
  if (drawn.empty())
    throw DataError(
        "--recheck: no exam of the input has a frame in the cache; give the input that "
        "the cache was made from");
  const std::vector<ExamTask> tasks = tasks_of(drawn, cached, input, places);

  const ScratchFolder folder;
  const cache::Location location = cache::locate(folder.path() / "again.cache");
  RecheckResult result;
  result.views = cached.views().size();
  {
    cache::WriterOptions stored;
    stored.storage = cached.storage();
    cache::ShardWriter writer(location, cached.recipe(), backbone.dimension(), stored);
    const PipelineResult run = run_pipeline(input, tasks, options, backbone, device, writer);
    writer.finish();
    result.exams = run.exams;
    result.stopped = run.stopped;
    for (const cache::Failure& failure : run.failures)
      result.problems.push_back(
          concat("exam '", failure.exam, "' can no longer be read: ", failure.reason));
    for (const LostFrames& lost : run.lost)
      log_warning(concat("exam '", lost.failure.exam, "', ", plural(lost.frames, "frame"),
                         " that cannot be read: ", lost.failure.reason));
  }
  if (result.exams == 0) return result;
  const cache::CacheReader now(location.path);
  for (std::size_t i = 0, end = 0; i < drawn.size(); i = end) {
    while (end < drawn.size() && drawn[end].exam == drawn[i].exam) ++end;
    compare_exam(std::span(drawn).subspan(i, end - i), cached, now, result);
  }
  // A NaN, of a frame that is missing now, is the worst.
  std::stable_sort(result.frames.begin(), result.frames.end(),
                   [](const FrameComparison& a, const FrameComparison& b) {
                     return (std::isnan(a.cosine) ? -2 : a.cosine) <
                            (std::isnan(b.cosine) ? -2 : b.cosine);
                   });
  return result;
}

bool is_clean(const RecheckResult& result) {
  return result.problems.empty() &&
         (result.frames.empty() || result.frames.front().cosine >= kSameFrameCosine);
}

std::string to_text(const RecheckResult& result) {
  constexpr std::size_t kShown = 20;
  double sum = 0;
  for (const FrameComparison& frame : result.frames) sum += frame.cosine;
  std::string text = concat("rechecked  ", plural(result.frames.size() / result.views, "frame"),
                            " of ", plural(result.exams, "exam"),
                            result.views > 1 ? concat(" in ", result.views, " views") : "", ", ",
                            result.identical, " bit for bit as in the cache\n");
  if (!result.frames.empty())
    text += concat("cosine     lowest ", fixed(result.frames.front().cosine, 6), ", mean ",
                   fixed(sum / static_cast<double>(result.frames.size()), 6), "\n");
  for (std::size_t i = 0; i < result.frames.size() && i < kShown; ++i)
    if (const FrameComparison& frame = result.frames[i]; !(frame.cosine >= kSameFrameCosine))
      text += concat(
          "differs    exam '", frame.exam, "', frame ", frame.frame,
          frame.view == "clean" ? "" : concat(", ", frame.view), ": ",
          std::isnan(frame.cosine) ? "missing now" : concat("cosine ", fixed(frame.cosine, 4)),
          "\n");
  for (std::size_t i = 0; i < result.problems.size() && i < kShown; ++i)
    text += concat("problem    ", result.problems[i], "\n");
  return text;
}

Json to_json(const RecheckResult& result) {
  Json frames = Json::array();
  for (const FrameComparison& frame : result.frames)
    frames.push_back({{"exam", frame.exam},
                      {"frame", frame.frame},
                      {"view", frame.view},
                      {"cosine", json_number(frame.cosine)}});
  return {{"exams", result.exams},     {"identical", result.identical},
          {"frames", frames},          {"problems", result.problems},
          {"clean", is_clean(result)}, {"stopped", result.stopped}};
}

}  // namespace coldframe::extract
