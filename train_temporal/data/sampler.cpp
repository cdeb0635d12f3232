#include "train_temporal/data/sampler.h"

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

}  // namespace coldframe::temporal
