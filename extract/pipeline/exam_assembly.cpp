#include "extract/pipeline/exam_assembly.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace coldframe::extract {

ExamAssembly::ExamAssembly(std::int64_t dimension, std::function<void(Finished&&)> release,
                           std::vector<std::string> views)
    : dimension_(dimension), release_(std::move(release)), views_(std::move(views)) {}

void ExamAssembly::add_feature(const FramePlace& place, std::span<const float> feature) {
  if (failed_.contains(place.task)) return;
  Pending& exam = pending_[place.task];
  if (place.tiles == 1)
    exam.features.emplace(Row{place.view, place.slot},
                          std::vector<float>(feature.begin(), feature.end()));
  else
    pool(exam, place, feature);
  release_if_complete(place.task);
}

void ExamAssembly::pool(Pending& exam, const FramePlace& place, std::span<const float> feature) {
  const Row row{place.view, place.slot};
  Pooled& pooled = exam.open[row];
  pooled.sum.resize(feature.size());
  for (std::size_t i = 0; i < feature.size(); ++i) pooled.sum[i] += feature[i];
  if (++pooled.tiles < place.tiles) return;
  std::vector<float> mean;
  for (const double sum : pooled.sum)
    mean.push_back(static_cast<float>(sum / static_cast<double>(pooled.tiles)));
  exam.open.erase(row);
  exam.features.emplace(row, std::move(mean));
}

void ExamAssembly::add_exam(std::size_t task, cache::ExamInfo info,
                            std::vector<std::string> thumbnails, KnownFeatures known) {
  Pending& pending = pending_[task];
  for (std::size_t slot = 0; slot < info.frames(); ++slot)
    if (info.present[slot] != 0) pending.expected += views_.size() - known.of_slot(slot);
  pending.info = std::move(info);
  pending.thumbnails = std::move(thumbnails);
  pending.known = std::move(known);
  release_if_complete(task);
}

void ExamAssembly::add_failure(std::size_t task, cache::Failure failure) {
  pending_.erase(task);
  failed_.insert(task);
  release_(std::move(failure));
}

cache::ExamFeatures ExamAssembly::put_together(Pending&& pending) const {
  cache::ExamFeatures exam{std::move(*pending.info), {}, std::move(pending.thumbnails)};
  const auto width = static_cast<std::size_t>(dimension_);
  const std::vector<float> missing(exam.info.frames() * width,
                                   std::numeric_limits<float>::quiet_NaN());
  for (const std::string& view : views_) exam.views.push_back({view, missing});
  const auto put = [&](const Row& row, std::span<const float> feature) {
    std::ranges::copy(feature, exam.views[row.first].values.begin() +
                                   static_cast<std::ptrdiff_t>(row.second * width));
  };
  for (std::size_t slot = 0; slot < exam.info.frames(); ++slot) {
    if (exam.info.present[slot] == 0) continue;
    for (std::size_t view = 0; view < pending.known.of_slot(slot); ++view)
      put({view, slot}, std::span(pending.known.views[view]).subspan(slot * width, width));
  }
  for (const auto& [row, feature] : pending.features) put(row, feature);
  return exam;
}

void ExamAssembly::release_if_complete(std::size_t task) {
  Pending& pending = pending_[task];
  if (!pending.info || pending.features.size() < pending.expected) return;
  cache::ExamFeatures exam = put_together(std::move(pending));
  pending_.erase(task);
  release_(std::move(exam));
}

}  // namespace coldframe::extract
