#include "common/threads/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace coldframe {
namespace {

TEST(BoundedQueue, HandsEveryItemOverOnceBetweenManyThreads) {
  BoundedQueue<int> queue(3);
  constexpr int kThreads = 4, kItems = 2000;
  std::vector<std::thread> producers, consumers;
  std::vector<std::atomic<int>> seen(kThreads * kItems);
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) EXPECT_TRUE(queue.push(t * kItems + i));
    });
    consumers.emplace_back([&] {
      while (const auto item = queue.pop()) ++seen[static_cast<std::size_t>(*item)];
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(BoundedQueue, KeepsTheOrderOfOneProducerAndTakesMoveOnlyItems) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  std::thread producer([&] {
    for (int i = 0; i < 100; ++i) queue.push(std::make_unique<int>(i));
    queue.close();
  });
  for (int i = 0; i < 100; ++i) {
    const auto item = queue.pop();
    ASSERT_TRUE(item);
    EXPECT_EQ(**item, i);
  }
  EXPECT_FALSE(queue.pop());
  producer.join();
}

TEST(BoundedQueue, NeverHoldsMoreThanItsCapacity) {
  BoundedQueue<int> queue(2);
  std::atomic<int> pushed{0};
  std::thread producer([&] {
    while (queue.push(0)) ++pushed;
  });
  while (pushed < 2) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(pushed, 2);
  queue.close();
  producer.join();
  EXPECT_EQ(pushed, 2);
}

TEST(BoundedQueue, DrainsAfterCloseAndRefusesMore) {
  BoundedQueue<int> queue(4);
  queue.push(1);
  queue.push(2);
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, TheFirstErrorStopsBothEndsAndIsTheOneReported) {
  BoundedQueue<int> queue(1);
  queue.push(1);
  bool pushed = true;
  std::thread blocked([&] { pushed = queue.push(2); });
  queue.fail(std::make_exception_ptr(std::runtime_error("first")));
  queue.fail(std::make_exception_ptr(std::runtime_error("second")));
  blocked.join();
  EXPECT_FALSE(pushed);
  for (int i = 0; i < 2; ++i) {
    try {
      queue.pop();
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
  }
}

TEST(BoundedQueue, AnErrorWakesAWaitingConsumer) {
  BoundedQueue<int> queue(1);
  std::thread consumer([&] { EXPECT_THROW(queue.pop(), std::runtime_error); });
  queue.fail(std::make_exception_ptr(std::runtime_error("stop")));
  consumer.join();
}

}  // namespace
}  // namespace coldframe
