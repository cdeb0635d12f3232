#include "extract/pipeline/decode_stage.h"

#include <gtest/gtest.h>

#include "common/threads/threads.h"

namespace coldframe::extract {
namespace {

DecodedWindow frame(std::uint8_t level) {
  return {{}, std::vector<std::uint8_t>(12, level)};
}

TEST(DecodedQueue, TakesTwoBatchesOfEveryDevice) {
  DecodedQueue queue(12, 3);
  queue.deepen(100);
  queue.deepen(4);  // it never shrinks
  EXPECT_EQ(queue.capacity(), 600u);
}

TEST(DecodedQueue, StaysWithinItsBytesButForAFewFrames) {
  DecodedQueue large(DecodedQueue::kMaxBytes / 70, 8);
  large.deepen(4096);
  EXPECT_EQ(large.capacity(), 70u);
  DecodedQueue huge(DecodedQueue::kMaxBytes, 1);
  huge.deepen(4096);
  EXPECT_EQ(huge.capacity(), DecodedQueue::kLeast);
}

TEST(DecodedQueue, ADecoderThatWaitsGoesOnWhenItDeepens) {
  DecodedQueue queue(12, 1);
  std::jthread producer = start_thread([&] {
    for (std::size_t i = 0; i < DecodedQueue::kLeast + 6; ++i) queue.push(frame(1));
    queue.close();
  });
  queue.deepen(35);
  producer.join();  // without a single pop()
  std::size_t count = 0;
  while (queue.pop()) ++count;
  EXPECT_EQ(count, DecodedQueue::kLeast + 6);
}

TEST(DecodedQueue, MemoryOfFramesGoesRound) {
  DecodedQueue queue(12, 1);
  EXPECT_TRUE(queue.spare().empty());
  DecodedWindow used = frame(3);
  const std::uint8_t* const memory = used.pixels.data();
  std::vector<std::vector<std::uint8_t>> all;
  all.push_back(std::move(used.pixels));
  queue.recycle(std::move(all));
  EXPECT_EQ(queue.spare().data(), memory);
  EXPECT_TRUE(queue.spare().empty());
}

TEST(DecodedWindow, ItsDigestIsOfItsPixels) {
  EXPECT_EQ(frame(1).digest, frame(1).digest);
  EXPECT_NE(frame(1).digest, frame(2).digest);
}

}  // namespace
}  // namespace coldframe::extract
