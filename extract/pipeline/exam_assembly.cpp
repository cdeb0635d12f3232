#include "extract/pipeline/exam_assembly.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace coldframe::extract {

ExamAssembly::ExamAssembly(std::int64_t dimension, std::vector<std::string> views,
                           std::optional<cache::Cut> cut)
    : dimension_(dimension), views_(std::move(views)), cut_(std::move(cut)) {}

std::vector<std::byte> ExamAssembly::stored_tokens(std::span<const float> row) const {
  if (!cut_ || cut_->is_pixels()) return {};
  const auto tokens = row.subspan(static_cast<std::size_t>(dimension_));
  std::vector<std::byte> bytes(tokens.size() * bytes_of(cut_->storage));
  store(tokens, cut_->storage, bytes);
  return bytes;
}

ExamAssembly::Whole ExamAssembly::add_feature(const FramePlace& place, std::span<const float> row,
                                              std::vector<std::byte>&& tokens) {
  if (dropped_.contains(place.task)) return std::nullopt;
  Pending& exam = pending_[place.task];
  const auto feature = row.first(static_cast<std::size_t>(dimension_));
  const Row to{place.view, place.slot};
  if (!tokens.empty()) exam.cuts.emplace(to, std::move(tokens));
  if (place.tiles == 1) {
    std::ranges::copy(feature, row_of(exam, to).begin());
    ++exam.complete;
  } else {
    pool(exam, place, feature);
  }
  return take_if_complete(place.task, exam);
}

std::span<float> ExamAssembly::row_of(Pending& exam, const Row& row) const {
  exam.features.resize(views_.size());
  std::vector<float>& values = exam.features[row.first];
  const auto width = static_cast<std::size_t>(dimension_), end = (row.second + 1) * width;
  if (values.size() < end) values.resize(end, std::numeric_limits<float>::quiet_NaN());
  return std::span(values).subspan(end - width, width);
}

void ExamAssembly::add_pixels(const FramePlace& place, std::vector<std::byte>&& pixels) {
  if (dropped_.contains(place.task)) return;
  pending_[place.task].cuts.emplace(Row{place.view, place.slot}, std::move(pixels));
}

void ExamAssembly::pool(Pending& exam, const FramePlace& place, std::span<const float> feature) {
  const Row row{place.view, place.slot};
  Pooled& pooled = exam.open[row];
  pooled.sum.resize(feature.size());
  for (std::size_t i = 0; i < feature.size(); ++i) pooled.sum[i] += feature[i];
  if (++pooled.tiles < place.tiles) return;
  const std::span<float> mean = row_of(exam, row);
  for (std::size_t i = 0; i < mean.size(); ++i)
    mean[i] = static_cast<float>(pooled.sum[i] / static_cast<double>(pooled.tiles));
  exam.open.erase(row);
  ++exam.complete;
}

ExamAssembly::Whole ExamAssembly::add_exam(std::size_t task, cache::ExamInfo info,
                                           std::vector<std::string> thumbnails) {
  Pending& pending = pending_[task];
  const auto present = std::ranges::count_if(info.present, [](auto mask) { return mask != 0; });
  pending.expected = static_cast<std::size_t>(present) * views_.size();
  pending.info = std::move(info);
  pending.thumbnails = std::move(thumbnails);
  return take_if_complete(task, pending);
}

void ExamAssembly::drop(std::size_t task) {
  pending_.erase(task);
  dropped_.insert(task);
}

cache::ExamFeatures ExamAssembly::put_together(Pending&& pending) const {
  cache::ExamFeatures exam{std::move(*pending.info), {}, std::move(pending.thumbnails)};
  const auto width = static_cast<std::size_t>(dimension_);
  pending.features.resize(views_.size());
  for (std::size_t view = 0; view < views_.size(); ++view) {
    std::vector<float>& values = pending.features[view];
    values.resize(exam.info.frames() * width, std::numeric_limits<float>::quiet_NaN());
    exam.views.push_back({views_[view], std::move(values)});
  }
  if (cut_) put_cuts(pending, exam);
  return exam;
}

// Gives the memory of each row back once it is in the exam: there may be much of it.
void ExamAssembly::put_cuts(Pending& pending, cache::ExamFeatures& exam) const {
  const std::size_t width = cut_->row_bytes();
  for (std::size_t view = 0; view < views_.size(); ++view) {
    std::vector<std::byte>& rows = exam.views[view].cut;
    rows.resize(exam.info.frames() * width);
    for (std::size_t slot = 0; slot < exam.info.frames(); ++slot)
      if (const auto row = pending.cuts.extract(Row{view, slot}))
        std::ranges::copy(row.mapped(), rows.begin() + static_cast<std::ptrdiff_t>(slot * width));
  }
}

ExamAssembly::Whole ExamAssembly::take_if_complete(std::size_t task, Pending& pending) {
  if (!pending.info || pending.complete < pending.expected) return std::nullopt;
  cache::ExamFeatures exam = put_together(std::move(pending));
  pending_.erase(task);
  return exam;
}

}  // namespace coldframe::extract
