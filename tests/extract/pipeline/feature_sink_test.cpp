// What waits for the disk, and what is on it after a stop request.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include "cache/store/reader.h"
#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "extract/pipeline/feature_sink.h"
#include "extract/pipeline/recipe.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

class Sink : public ::testing::Test {
 protected:
  void TearDown() override { clear_stop_request(); }

  cache::ShardWriter writer(const cache::WriterOptions& options = {}) {
    return {location, make_recipe(small_options(), backbone), 2, options};
  }
  // An exam of one frame.
  static DecodedExam exam(std::size_t task) {
    DecodedExam decoded{task, {}, {}, std::nullopt};
    decoded.info.id = concat("exam", task);
    decoded.info.ordinal = task;
    decoded.info.present = {1};
    decoded.info.time_s = {0};
    decoded.info.frame_index = {0};
    decoded.info.frame_source = {"a.png"};
    return decoded;
  }

  testing::TemporaryFolder scratch;
  const cache::Location location = cache::locate(scratch / "out.cache");
  MeanBackbone backbone;
  const std::vector<float> row{1, 2};
};

TEST_F(Sink, ADeviceThatWaitsForTheDiskHoldsUpNoOther) {
  constexpr std::size_t kExams = 100;  // more than may wait
  cache::ShardWriter disk = writer({.max_shard_exams = 1});
  std::latch is_slow(1), goes_on(1);
  std::atomic<bool> was_slow = false;
  disk.on_published = [&](std::size_t) {
    if (was_slow.exchange(true)) return;
    is_slow.count_down();
    goes_on.wait();
  };
  FeatureSink sink(kExams, backbone, disk, small_options());
  std::jthread device([&] {
    for (std::size_t task = 0; task < kExams; ++task) {
      sink.add_feature({task, 0}, row);
      sink.add_exam(exam(task));
    }
  });
  is_slow.wait();
  // Another device computes exam after exam that is not whole yet, while the first one fills the
  // queue and then waits. The bound ends the test where it waits as well.
  auto other = std::async(std::launch::async, [&] {
    for (std::size_t task = 0; task < 100 * kExams; ++task) {
      sink.add_feature({kExams + task, 0}, row);
      sink.tell_rate();
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(other.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  goes_on.count_down();
  device.join();
  other.wait();
  EXPECT_EQ(sink.finish().exams, kExams);
}

TEST_F(Sink, ExamsThatBecomeWholeAfterAStopRequestAreOneShard) {
  constexpr std::size_t kExams = 40;
  cache::ShardWriter disk = writer();
  FeatureSink sink(kExams, backbone, disk, small_options());
  for (std::size_t task = 0; task < kExams; ++task) {
    if (task == kExams / 4) request_stop();
    sink.add_feature({task, 0}, row);
    sink.add_exam(exam(task));
  }
  sink.finish();
  EXPECT_LE(location.files().size(), 1u) << "what was whole when a stop was asked for";
  disk.publish();
  EXPECT_LE(location.files().size(), 2u) << "and what became whole behind it";
  EXPECT_EQ(cache::CacheReader(location.path).exams().size(), kExams);
}

}  // namespace
}  // namespace coldframe::extract
