#include "train_temporal/data/batcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace coldframe::temporal {

namespace {

constexpr std::uint64_t id(RandomPurpose stream) {
  return static_cast<std::uint64_t>(stream);
}

std::vector<std::int64_t> all_positions(std::int64_t frames) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(frames));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

}  // namespace

// Selection sampling: Knuth, The Art of Computer Programming 2, algorithm 3.4.2 S.
std::vector<std::int64_t> draw_in_order(std::int64_t n, std::int64_t k, CounterRandom& random) {
  if (k >= n) return all_positions(n);
  std::vector<std::int64_t> chosen;
  for (std::int64_t position = 0; k > 0; ++position) {
    const auto left = static_cast<std::uint64_t>(n - position);
    if (random.below(left) >= static_cast<std::uint64_t>(k)) continue;
    chosen.push_back(position);
    --k;
  }
  return chosen;
}

DrawnFrames FrameSampler::for_training(std::int64_t frames, std::uint64_t exam_key,
                                       std::uint64_t epoch) const {
  CounterRandom draw({seed_, id(RandomPurpose::kFrames), epoch, exam_key});
  const std::int64_t wanted = train_frames_ > 0 ? train_frames_ : frames;
  return arranged(draw_in_order(frames, wanted, draw),
                  CounterRandom({seed_, id(RandomPurpose::kPermutation), epoch + 1, exam_key}));
}

DrawnFrames FrameSampler::for_evaluation(std::int64_t frames, std::uint64_t exam_key) const {
  return arranged(all_positions(frames),
                  CounterRandom({seed_, id(RandomPurpose::kPermutation), 0, exam_key}));
}

DrawnFrames FrameSampler::arranged(std::vector<std::int64_t> positions,
                                   CounterRandom random) const {
  DrawnFrames selection{positions, positions};
  if (is_one_frame(order_)) {
    const std::int64_t one = order_ == FrameOrder::kFirst    ? positions.front()
                             : order_ == FrameOrder::kMiddle ? positions[positions.size() / 2]
                                                             : positions.back();
    return {{one}, {one}};
  }
  if (order_ == FrameOrder::kShuffled) random.shuffle(selection.features);
  return selection;
}

std::size_t draw_view(std::size_t views, std::uint64_t seed, std::uint64_t exam_key,
                      std::uint64_t epoch) {
  return CounterRandom({seed, id(RandomPurpose::kView), epoch, exam_key}).below(views);
}

std::vector<std::size_t> epoch_order(std::vector<std::size_t> exams, std::uint64_t seed,
                                     std::uint64_t epoch) {
  CounterRandom random({seed, id(RandomPurpose::kExamOrder), epoch});
  random.shuffle(exams);
  return exams;
}

std::vector<std::size_t> balanced_order(std::vector<std::vector<std::size_t>> classes,
                                        std::uint64_t seed, std::uint64_t epoch) {
  std::erase_if(classes, [](const auto& exams) { return exams.empty(); });
  std::size_t count = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    count += classes[c].size();
    CounterRandom random({seed, id(RandomPurpose::kExamOrder), epoch, c + 1});
    random.shuffle(classes[c]);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& exams = classes[(i + epoch) % classes.size()];
    order.push_back(exams[i / classes.size() % exams.size()]);
  }
  return epoch_order(std::move(order), seed, epoch);
}

namespace {

constexpr double kMinInterval = 1e-4;  // seconds; frames at the same instant have a logarithm
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The frame of the partner that is as far into its sequence as `step` is into one of `steps`.
std::int64_t partner_row(const Dataset& dataset, const Partner& partner, std::size_t step,
                         std::size_t steps) {
  const double place = steps > 1 ? double(step) / double(steps - 1) : 0.5;
  const auto at =
      static_cast<std::size_t>(std::lround(place * double(partner.features.size() - 1)));
  return dataset.sequences[partner.exam].first_row + partner.features[at] +
         dataset.rows_before(partner.view);
}

std::vector<float> clock_rows(const Dataset& dataset, const PackedBatch& batch) {
  std::vector<float> values;
  for (std::size_t b = 0; b < batch.exams.size(); ++b) {
    const std::vector<float>& clock = dataset.sequences[batch.exams[b]].clock;
    values.insert(values.end(), clock.begin(), clock.end());
    if (!batch.mixed()) continue;
    const std::vector<float>& partner = dataset.sequences[batch.partners[b]].clock;
    const auto share = static_cast<float>(batch.shares[b]);
    float* own = values.data() + values.size() - clock.size();
    for (std::size_t i = 0; i < clock.size(); ++i)
      own[i] = share * own[i] + (1 - share) * partner[i];
  }
  return values;
}

std::vector<std::int64_t> last_rows(const PackedBatch& batch) {
  std::vector<std::int64_t> first(batch.batch_sizes.size()), last;  // rows of each step
  std::exclusive_scan(batch.batch_sizes.begin(), batch.batch_sizes.end(), first.begin(),
                      std::int64_t{0});
  for (const std::int64_t length : batch.lengths)
    last.push_back(first[static_cast<std::size_t>(length) - 1] + std::ssize(last));
  return last;
}

// Expands a value per exam to one per packed row.
std::vector<float> share_rows(const PackedBatch& batch) {
  std::vector<float> shares;
  for (std::int64_t reaching : batch.batch_sizes)
    for (std::size_t b = 0; b < static_cast<std::size_t>(reaching); ++b)
      shares.push_back(static_cast<float>(batch.shares[b]));
  return shares;
}

torch::Tensor rows_of(const torch::Tensor& table, const std::vector<std::int64_t>& rows) {
  return table.index_select(0, torch::tensor(rows, torch::kInt64));
}

// Time inputs of a frame from its time, that of the first and of the previous frame, and the exam's
// start relative to the common time zero; seconds, NaN if unknown and before the first frame.
std::array<float, kTimeColumns> time_row(double time, double first, double before,
                                         double elapsed_start) {
  std::array<float, kTimeColumns> row{};
  if (!std::isfinite(time)) return row;
  if (std::isfinite(first)) {
    row[kSinceFirst] = static_cast<float>(time - first);
    row[kTimeKnown] = 1;
  }
  if (std::isfinite(elapsed_start)) {
    row[kLogElapsed] = static_cast<float>(log_elapsed(elapsed_start + time));
    row[kElapsedKnown] = 1;
  }
  if (!std::isfinite(before)) return row;
  row[kLogInterval] = static_cast<float>(std::log(std::max(time - before, kMinInterval)));
  row[kIntervalKnown] = 1;
  return row;
}

}  // namespace

void pack(const Dataset& dataset, std::vector<BatchItem> items, PackedBatch& batch,
          std::size_t rows) {
  std::stable_sort(items.begin(), items.end(), [](const BatchItem& a, const BatchItem& b) {
    return a.frames.features.size() > b.frames.features.size();
  });
  for (auto* of_frames : {&batch.frame_rows, &batch.positions, &batch.batch_sizes, &batch.lengths,
                          &batch.partner_rows})
    of_frames->clear();
  batch.exams.clear();
  batch.visits.clear();
  batch.times.clear();
  batch.exam_keys.clear();
  batch.row_keys.clear();
  batch.partners.clear();
  batch.shares.clear();
  batch.padded = rows > 0;
  if (!batch.padded) rows = items.front().frames.features.size();
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t reaching = 0;
    for (const BatchItem& item : items) {
      const std::size_t frames = item.frames.features.size(), step = std::min(row, frames - 1);
      if (step < row && !batch.padded) break;
      const Sequence& sequence = dataset.sequences[item.exam];
      batch.frame_rows.push_back(sequence.first_row + item.frames.features[step]);
      batch.positions.push_back(item.frames.features[step]);
      const auto at = [&](std::size_t s) {
        return sequence.time_s[static_cast<std::size_t>(item.frames.times[s])];
      };
      batch.times.push_back(
          time_row(at(step), at(0), step > 0 ? at(step - 1) : kUnknown, sequence.elapsed_start));
      batch.row_keys.push_back(mix_bits(sequence.key + mix_bits(row + 1)));
      batch.frame_rows.back() += dataset.rows_before(item.view);
      if (item.partner) {
        batch.partner_rows.push_back(
            partner_row(dataset, *item.partner, step, item.frames.features.size()));
      }
      ++reaching;
    }
    batch.batch_sizes.push_back(reaching);
  }
  for (const BatchItem& item : items) {
    batch.exams.push_back(item.exam);
    batch.exam_keys.push_back(dataset.sequences[item.exam].key);
    batch.visits.push_back(dataset.sequences[item.exam].visits);
    batch.lengths.push_back(static_cast<std::int64_t>(item.frames.features.size()));
    if (!item.partner) continue;
    batch.partners.push_back(item.partner->exam);
    batch.shares.push_back(item.partner->share);
  }
}

void add_tensors(const Dataset& dataset, PackedBatch& batch, Parcel& parcel) {
  const std::int64_t size = batch.size(), frames = std::ssize(batch.frame_rows);
  const std::vector<float> clock = clock_rows(dataset, batch);
  BatchTensors& tensors = batch.tensors;
  const float* const times = batch.times.data()->data();
  parcel.add(std::span(times, batch.times.size() * kTimeColumns), {frames, kTimeColumns},
             tensors.time);
  parcel.add<float>(clock, {size, std::ssize(clock) / size}, tensors.clock);
  parcel.add<std::int64_t>(batch.frame_rows, {frames}, tensors.feature_rows);
  parcel.add<std::int64_t>(last_rows(batch), {size}, tensors.last_rows);
  parcel.add<std::int64_t>(batch.lengths, {size}, tensors.lengths);
  const std::vector<std::int64_t> exams(batch.exams.begin(), batch.exams.end());
  parcel.add<std::int64_t>(exams, {size}, tensors.exams);
  if (batch.mixed()) {
    parcel.add<std::int64_t>(batch.partner_rows, {frames}, tensors.partner_rows);
    parcel.add<float>(share_rows(batch), {frames, 1}, tensors.shares);
  }
  if (dataset.features.defined() && dataset.features.device() != dataset.device)
    parcel.add(rows_of(dataset.features, batch.frame_rows), tensors.features);
}

PackedBatch make_batch(const Dataset& dataset, std::vector<BatchItem> items) {
  PackedBatch batch;
  pack(dataset, std::move(items), batch);
  Parcel parcel;
  add_tensors(dataset, batch, parcel);
  parcel.send(dataset.device);
  return batch;
}

torch::Tensor gather_features(const Dataset& dataset, const PackedBatch& batch,
                              const torch::Tensor& mean) {
  const torch::Tensor& all = dataset.features;
  const bool is_there = all.device() == dataset.device;
  // Both are copies: they may be written to.
  torch::Tensor own =
      is_there ? all.index_select(0, batch.tensors.feature_rows) : batch.tensors.features;
  own = own.to(torch::kFloat32);
  if (!batch.mixed()) return own;
  const torch::Tensor& share = batch.tensors.shares;
  torch::Tensor other = is_there ? all.index_select(0, batch.tensors.partner_rows)
                                 : to_device(rows_of(all, batch.partner_rows), dataset.device);
  other = other.to(torch::kFloat32);
  if (!mean.defined()) return own.mul_(share).add_(other.mul_(1 - share));
  const torch::Tensor nowhere = own.isnan().logical_and_(other.isnan());
  const auto known = [&](torch::Tensor& rows) { return rows.sub_(mean).nan_to_num_(0.0); };
  own = known(own).mul_(share).add_(known(other).mul_(1 - share));
  return own.add_(mean).masked_fill_(nowhere, kUnknown);
}

}  // namespace coldframe::temporal
