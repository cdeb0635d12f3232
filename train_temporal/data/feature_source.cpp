#include "train_temporal/data/feature_source.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/threads/threads.h"
#include "common/torch/memory.h"

namespace coldframe::temporal {

namespace {

constexpr std::size_t kGroupsAhead = 2;
constexpr std::size_t kExamsAtOnce = 64;  // whose features are evaluated together

}  // namespace

FeatureStream::FeatureStream(const Dataset& dataset, RowKind kind, std::uint64_t ahead)
    : dataset_(dataset),
      views_(dataset.views),
      kind_(kind),
      format_(row_format(*dataset.cache, kind)),
      ahead_(ahead) {
  window_.sequences.resize(dataset.sequences.size());
  window_.device = dataset.device;
  window_.cache = dataset.cache;
}

FeatureStream::~FeatureStream() {
  stop();
}

std::size_t FeatureStream::exams_at_once() const {
  return kExamsAtOnce;
}

void FeatureStream::stop() {
  if (queue_) queue_->close();
  if (reader_.joinable()) reader_.join();
  queue_.reset();
}

// Prefetching must not take the memory that the current group needs: otherwise fits would fail
// depending on thread timing.
bool FeatureStream::may_read_ahead() const {
  const auto left = cpu_memory_left();
  if (!left && ahead_ == 0) return true;
  std::uint64_t largest = 0;
  for (const auto& group : groups_)
    largest = std::max(largest, stored_bytes(*window_.cache, group, kind_));
  constexpr std::uint64_t kAtOnce = kGroupsAhead + 2;  // with the one in use and the one being read
  return kAtOnce * largest <= (ahead_ > 0 ? ahead_ : *left / 2);
}

void FeatureStream::plan(Groups groups, ViewOf view_of) {
  stop();
  window_.features.reset();
  groups_ = std::move(groups);
  view_of_ = std::move(view_of);
  next_ = 0;
  if (!may_read_ahead()) return;
  queue_.emplace(kGroupsAhead);
  auto readers = start_threads(1, [this, begin = join_cpu_memory_share()] {
    begin();
    try {
      for (const auto& group : groups_) {
        if (!queue_->push(read(group))) return;  // the plan was replaced
      }
      queue_->close();
    } catch (...) {
      queue_->fail(std::current_exception());
    }
  });
  if (readers.empty())
    queue_.reset();  // then it is read when it is wanted
  else
    reader_ = std::move(readers.front());
}

FeatureStream::Group FeatureStream::read(const std::vector<std::size_t>& exams) const {
  const SequenceReader& cache = *window_.cache;
  std::vector<std::vector<std::size_t>> exams_of(views_.size());
  std::int64_t rows = 0;
  for (std::size_t exam : exams) {
    exams_of[view_of_(exam)].push_back(exam);
    rows += dataset_.sequences[exam].frames();
  }
  Group group{{}, {}, torch::empty(format_.table(rows), format_.type)};
  auto* const table = static_cast<std::byte*>(group.features.data_ptr());
  std::size_t row = 0;
  for (std::size_t view = 0; view < views_.size(); ++view) {
    if (exams_of[view].empty()) continue;
    const auto take = [&](std::size_t exam, std::span<const std::byte> stored) {
      group.exams.push_back(exam);
      group.first_rows.push_back(static_cast<std::int64_t>(row));
      row += static_cast<std::size_t>(
          copy_present_rows(cache.exams()[exam], format_, stored, table + row * format_.bytes()));
    };
    scan_rows(cache, kind_, views_[view], exams_of[view], take);
  }
  return group;
}

void FeatureStream::next() {
  window_.features.reset();  // before the wait: its memory may be wanted for what is read ahead
  std::optional<Group> group;
  if (queue_) {
    group = queue_->pop();
  } else if (next_ < groups_.size()) {
    group = read(groups_[next_++]);
  }
  if (!group) throw std::logic_error("no group of exams is planned");
  for (std::size_t exam : at_hand_) window_.sequences[exam] = {};
  at_hand_ = std::move(group->exams);
  for (std::size_t i = 0; i < at_hand_.size(); ++i) {
    Sequence& sequence = window_.sequences[at_hand_[i]] = dataset_.sequences[at_hand_[i]];
    sequence.first_row = group->first_rows[i];
  }
  window_.features = group->features;
}

std::unique_ptr<FeatureSource> source_of(const Dataset& dataset) {
  if (dataset.streamed()) return std::make_unique<FeatureStream>(dataset);
  return std::make_unique<LoadedFeatures>(dataset);
}

void visit_exams(const Dataset& dataset, const std::vector<std::size_t>& exams,
                 const std::function<void(std::size_t, const torch::Tensor&)>& visit) {
  const auto source = source_of(dataset);
  const auto groups = in_groups(exams, source->exams_at_once());
  source->plan(groups);
  for (const auto& group : groups) {
    source->next();
    const Dataset& window = source->window();
    for (const std::size_t exam : group) {
      const Sequence& sequence = window.sequences[exam];
      const torch::Tensor rows = window.features.narrow(0, sequence.first_row, sequence.frames());
      visit(exam, rows.cpu().to(torch::kFloat32).contiguous());
    }
  }
}

FeatureSource::Groups in_groups(const std::vector<std::size_t>& exams, std::size_t size) {
  FeatureSource::Groups groups;
  for (std::size_t start = 0; start < exams.size(); start += groups.back().size()) {
    const auto from = exams.begin() + static_cast<std::ptrdiff_t>(start);
    groups.emplace_back(from,
                        from + static_cast<std::ptrdiff_t>(std::min(size, exams.size() - start)));
  }
  return groups;
}

}  // namespace coldframe::temporal
