#include "extract/exam_assembly.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace coldframe {

ExamAssembly::ExamAssembly(std::int64_t dimension, std::function<void(Finished&&)> release)
    : dimension_(dimension), release_(std::move(release)) {}

void ExamAssembly::add_feature(std::size_t task, std::size_t slot, std::span<const float> feature) {
  if (task < next_) return;  // its exam failed and is gone
  Pending& pending = pending_[task];
  if (pending.failure) return;
  pending.features.emplace(slot, std::vector<float>(feature.begin(), feature.end()));
  if (pending.complete()) release_in_order();
}

void ExamAssembly::add_exam(std::size_t task, cache::ExamInfo info) {
  Pending& pending = pending_[task];
  pending.expected =
      static_cast<std::size_t>(std::count(info.present.begin(), info.present.end(), 1));
  pending.info = std::move(info);
  if (pending.complete()) release_in_order();
}

void ExamAssembly::add_failure(std::size_t task, cache::Failure failure) {
  Pending& pending = pending_[task];
  pending.features.clear();
  pending.failure = std::move(failure);
  release_in_order();
}

void ExamAssembly::release_in_order() {
  for (auto first = pending_.begin();
       first != pending_.end() && first->first == next_ && first->second.complete();
       first = pending_.begin(), ++next_) {
    Pending pending = std::move(first->second);
    pending_.erase(first);
    release(std::move(pending));
  }
}

void ExamAssembly::release_rest() {
  for (auto& [task, pending] : pending_)
    if (pending.complete()) release(std::move(pending));
  pending_.clear();
}

void ExamAssembly::release(Pending&& pending) {
  if (pending.failure) return release_(std::move(*pending.failure));
  cache::ExamFeatures exam{std::move(*pending.info), {cache::ViewFeatures{}}};
  auto& values = exam.views.front().values;
  values.assign(exam.info.frames() * static_cast<std::size_t>(dimension_),
                std::numeric_limits<float>::quiet_NaN());
  for (const auto& [slot, feature] : pending.features)
    std::copy(feature.begin(), feature.end(),
              values.begin() + static_cast<std::ptrdiff_t>(slot * feature.size()));
  release_(std::move(exam));
}

}  // namespace coldframe
