#include "extract/pipeline/feature_sink.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "extract/pipeline/recipe.h"

namespace coldframe::extract {

ExamAssembly::ExamAssembly(std::int64_t dimension, std::vector<std::string> views,
                           std::optional<cache::Cut> cut, std::size_t steps)
    : dimension_(dimension), views_(std::move(views)), cut_(std::move(cut)), steps_(steps) {}

std::vector<std::byte> ExamAssembly::stored_tokens(std::span<const float> row) const {
  if (!cut_ || cut_->is_pixels()) return {};
  const auto tokens = row.subspan(width());
  std::vector<std::byte> bytes(tokens.size() * bytes_of(cut_->storage));
  store(tokens, cut_->storage, bytes);
  return bytes;
}

ExamAssembly::Whole ExamAssembly::add_feature(const FeatureIndex& place, std::span<const float> row,
                                              std::vector<std::byte>&& tokens) {
  if (dropped_.contains(place.task)) return std::nullopt;
  Pending& exam = pending_[place.task];
  const auto feature = row.first(width());
  const Row to{place.view, place.window};
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
  const std::size_t end = (row.second + 1) * width();
  if (values.size() < end) values.resize(end, std::numeric_limits<float>::quiet_NaN());
  return std::span(values).subspan(end - width(), width());
}

void ExamAssembly::add_pixels(const FeatureIndex& place, std::vector<std::byte>&& pixels) {
  if (dropped_.contains(place.task)) return;
  pending_[place.task].cuts.emplace(Row{place.view, place.window}, std::move(pixels));
}

void ExamAssembly::pool(Pending& exam, const FeatureIndex& place, std::span<const float> feature) {
  const Row row{place.view, place.window};
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

// All rows of a window are present, or none.
std::size_t ExamAssembly::windows_with_rows(const Pending& exam) const {
  std::set<std::size_t> windows;
  for (std::size_t row = 0; row < exam.info->frames(); ++row)
    if (exam.info->present[row])
      windows.insert((exam.features_of_rows.empty() ? row : exam.features_of_rows[row]) / steps_);
  return windows.size();
}

ExamAssembly::Whole ExamAssembly::add_exam(std::size_t task, cache::ExamInfo info,
                                           std::vector<std::string> thumbnails,
                                           std::vector<std::size_t> features_of_rows) {
  Pending& pending = pending_[task];
  pending.info = std::move(info);
  pending.thumbnails = std::move(thumbnails);
  pending.features_of_rows = std::move(features_of_rows);
  pending.expected = windows_with_rows(pending) * views_.size();
  return take_if_complete(task, pending);
}

void ExamAssembly::drop(std::size_t task) {
  pending_.erase(task);
  dropped_.insert(task);
}

std::vector<float> ExamAssembly::rows_in_order(const Pending& exam,
                                               std::vector<float>&& features) const {
  constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
  const auto dimension = static_cast<std::size_t>(dimension_);
  if (exam.features_of_rows.empty()) {
    features.resize(exam.info->frames() * dimension, kMissing);
    return std::move(features);
  }
  std::vector<float> rows(exam.info->frames() * dimension, kMissing);
  for (std::size_t row = 0; row < exam.features_of_rows.size(); ++row) {
    const std::size_t from = exam.features_of_rows[row] * dimension;
    if (from < features.size())
      std::copy_n(features.begin() + static_cast<std::ptrdiff_t>(from), dimension,
                  rows.begin() + static_cast<std::ptrdiff_t>(row * dimension));
  }
  return rows;
}

cache::ExamFeatures ExamAssembly::put_together(Pending&& pending) const {
  cache::ExamFeatures exam{{}, {}, std::move(pending.thumbnails)};
  pending.features.resize(views_.size());
  for (std::size_t view = 0; view < views_.size(); ++view)
    exam.views.push_back({views_[view], rows_in_order(pending, std::move(pending.features[view]))});
  exam.info = std::move(*pending.info);
  if (cut_) put_cuts(pending, exam);
  return exam;
}

// Frees each row once it is in the exam, because rows may be large.
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

namespace {

// Max exams that wait for the disk. With a cut, each may take some hundred megabytes.
constexpr std::size_t kWaiting = 64, kWaitingWithCut = 1;
constexpr std::chrono::milliseconds kBetweenRates(100);

// The message of a failure names its exam already: "exam 'a', frame 2: …" becomes "frame 2: …".
std::string without_exam(const std::string& reason, const std::string& exam) {
  const std::string name = concat("exam '", exam, "'");
  if (!reason.starts_with(name)) return reason;
  const std::size_t rest = reason.find_first_not_of(" ,:", name.size());
  return rest == std::string::npos ? reason : reason.substr(rest);
}

}  // namespace

FeatureSink::FeatureSink(std::size_t tasks, const vit::Backbone& backbone,
                         cache::ShardWriter& writer, const ExtractOptions& options)
    : times_(options.backbone.times),
      progress_("extract", "exams", tasks),
      assembly_(backbone.dimension(), augment::view_names(options.augmentation),
                cut_of(options, backbone), static_cast<std::size_t>(backbone.clip_steps())),
      map_(backbone.map()),
      keeps_pixels_(options.cut == 0),
      row_name_(row_name_of(backbone)),
      input_name_(input_name_of(backbone)),
      writer_(writer),
      strict_(options.strict),
      queue_(options.cut ? kWaitingWithCut : kWaiting),
      thread_(start_thread([this] { write_all(); })) {}

FeatureSink::~FeatureSink() {
  queue_.close();
}

void FeatureSink::add_pixels(const DecodedWindow& window) {
  if (!keeps_pixels_) return;
  const auto pixels = std::as_bytes(std::span(window.pixels));
  std::vector<std::byte> stored(pixels.begin(), pixels.end());
  const std::lock_guard lock(mutex_);
  assembly_.add_pixels(window.place, std::move(stored));
}

namespace {

// The features of a map [D, positions], summed with the weights of its positions.
std::vector<float> weighted_sum(std::span<const float> map, std::span<const float> weights) {
  std::vector<float> sums(map.size() / weights.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto values = map.subspan(i * weights.size(), weights.size());
    sums[i] =
        static_cast<float>(std::inner_product(values.begin(), values.end(), weights.begin(), 0.0));
  }
  return sums;
}

}  // namespace

void FeatureSink::add_feature(const FeatureIndex& place, std::span<const float> row) {
  std::vector<float> pooled;
  if (place.blocks && map_[0] > 0) {
    pooled = weighted_sum(row, place.blocks->map_weights(place.block, map_));
    row = pooled;
  }
  std::vector<std::byte> tokens = assembly_.stored_tokens(row);
  std::optional<Work> whole;
  {
    const std::lock_guard lock(mutex_);
    if (computed_++ == 0 && times_) times_->add("first_batch", seconds());
    whole = take(assembly_.add_feature(place, row, std::move(tokens)));
  }
  push_exam(std::move(whole));
}

// Pushes lost frames before their exam can be completed, so that no crash omits them.
void FeatureSink::add_exam(DecodedExam&& exam) {
  for (cache::Failure& lost : exam.lost) push({std::move(lost), exam.as_before});
  push_exam(take(std::move(exam)));
}

std::optional<FeatureSink::Work> FeatureSink::take(DecodedExam&& exam) {
  const std::lock_guard lock(mutex_);
  if (exam.as_before) {
    assembly_.drop(exam.task);
    ++result_.unchanged;
    progress_.add();
    return {};
  }
  if (exam.failure) {
    assembly_.drop(exam.task);
    return Work{std::move(*exam.failure)};
  }
  result_.partly_finite += exam.partly_finite;
  if (!exam.basis.order.empty() && exam.info.frames() > 1) ++result_.orders[exam.basis.order];
  for (frames::Note& note : exam.notes)
    ++result_.notes.try_emplace(note.text, NoteCount{0, std::move(note.file)}).first->second.exams;
  return take(assembly_.add_exam(exam.task, std::move(exam.info), std::move(exam.thumbnails),
                                 std::move(exam.features_of_rows)));
}

void FeatureSink::tell_rate() {
  const std::lock_guard lock(mutex_);
  progress_.set_note(
      concat(fixed(static_cast<double>(computed_) / seconds(), 1), " ", input_name_, "s/s"));
}

std::size_t FeatureSink::unfinished() {
  const std::lock_guard lock(mutex_);
  return assembly_.unfinished();
}

double FeatureSink::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

PipelineResult FeatureSink::finish() {
  progress_.finish();
  end_writing();
  return std::move(result_);
}

std::optional<FeatureSink::Work> FeatureSink::take(ExamAssembly::Whole&& exam) {
  if (!exam) return {};
  result_.frames += exam->info.frames();
  return Work{std::move(*exam)};
}

void FeatureSink::push(Work&& work) {
  if (!queue_.push(std::move(work))) end_writing();
}

void FeatureSink::push_exam(std::optional<Work>&& work) {
  if (!work) return;
  push(std::move(*work));
  const std::lock_guard lock(mutex_);
  progress_.add();
}

void FeatureSink::end_writing() {
  queue_.close();
  {
    const std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }
  if (error_) std::rethrow_exception(error_);
}

void FeatureSink::write_all() {
  try {
    while (auto work = queue_.pop()) {
      if (auto* failure = std::get_if<cache::Failure>(&work->what))
        record(std::move(*failure), work->is_known);
      else
        write(std::move(std::get<cache::ExamFeatures>(work->what)));
    }
  } catch (...) {
    error_ = std::current_exception();
    queue_.close();
  }
}

void FeatureSink::write(cache::ExamFeatures&& exam) {
  cache::Failure unstorable{exam.info.id, exam.info.ordinal, exam.info.revision,
                            exam.info.frame_source.front(), ""};
  try {
    writer_.add(std::move(exam));
    ++result_.exams;
    // A scheduler that stops the job may not wait for the rest, which is published together.
    if (stop_requested() && !std::exchange(stop_seen_, true)) writer_.publish();
  } catch (const DataError& error) {  // features that the storage type cannot hold
    unstorable.reason = error.what();
    record(std::move(unstorable), false);
  }
}

void FeatureSink::record(cache::Failure&& failure, bool is_known) {
  const bool of_frames = failure.frames > 0;
  if (!of_frames) failure.reason = without_exam(failure.reason, failure.exam);
  if (strict_)
    throw DataError(concat("exam '", failure.exam, "': ", failure.reason, " (--strict)"));
  log_warning(concat(
      "exam '", failure.exam, "'",
      of_frames ? concat(", ", plural(failure.frames, row_name_), " that cannot be read and keep",
                         failure.frames == 1 ? "s its slot" : " their slots")
                : " failed",
      ": ", failure.reason));
  if (!is_known) writer_.add_failure(failure);
  (of_frames ? result_.lost : result_.failures).push_back(std::move(failure));
}

DeviceResult compute(const ComputeDevice& device, const ExtractOptions& options,
                     DecodedQueue& queue, FeatureSink& sink) {
  using Clock = std::chrono::steady_clock;
  BackboneBatch batch(
      *device.backbone, device.device, options.preprocessing, options.batch,
      [&](const FeatureIndex& place, std::span<const float> row) { sink.add_feature(place, row); });
  queue.deepen(static_cast<std::size_t>(batch.size()));
  auto told = Clock::now();
  while (auto decoded = queue.pop()) {
    if (auto* window = std::get_if<DecodedWindow>(&*decoded)) {
      sink.add_pixels(*window);
      batch.add(std::move(*window));
      if (auto used = batch.take_used(); !used.empty()) {
        queue.recycle(std::move(used));
        queue.deepen(static_cast<std::size_t>(batch.size()));
      }
      if (const auto now = Clock::now(); now - told >= kBetweenRates) {
        sink.tell_rate();
        told = now;
      }
    } else {
      sink.add_exam(std::move(std::get<DecodedExam>(*decoded)));
    }
  }
  batch.compute();
  sink.tell_rate();
  return {batch.counts(), batch.learnt()};
}

}  // namespace coldframe::extract
