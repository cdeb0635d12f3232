#include "common/processes/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/cli/error.h"

namespace coldframe {
namespace {

// One that was free a moment ago.
std::uint16_t free_port() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options)->getPort();
}

// Each rank is a thread here; Python tests run processes.
class Ranks {
 public:
  explicit Ranks(int size, ProcessGroupOptions options = {}) : size_(size), options_(options) {
    port_ = free_port();
  }

  // Returns what each rank's body threw, "" for nothing.
  std::vector<std::string> run(const std::function<void(ProcessGroup&)>& body) {
    std::vector<std::string> errors(static_cast<std::size_t>(size_));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ProcessGroup group({rank, size_, rank, size_, "127.0.0.1", port_, ""}, options_);
          body(group);
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

 private:
  int size_;
  ProcessGroupOptions options_;
  std::uint16_t port_;
};

float value(int part, std::size_t i) {
  return std::sin(static_cast<float>(part * 7919) + static_cast<float>(i) * 0.37f) * 1e3f /
         static_cast<float>(1 + i % 13);
}

class SumOf : public ::testing::TestWithParam<int> {};

// Five parts, divided over the ranks in different ways, give the bits of one process.
TEST_P(SumOf, PartsComesInTheOrderOfRanks) {
  constexpr int kParts = 5;
  const int size = GetParam();
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{300001}}) {
    std::vector<std::vector<float>> parts(kParts, std::vector<float>(count));
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (int part = 0; part < kParts; ++part) {
        parts[std::size_t(part)][i] = value(part, i);
        expected[i] = part == 0 ? value(0, i) : expected[i] + value(part, i);
      }
    }
    const auto errors = Ranks(size).run([&](ProcessGroup& group) {
      std::vector<std::vector<float>> own;
      for (int part = kParts * group.rank() / size; part < kParts * (group.rank() + 1) / size;
           ++part) {
        own.push_back(parts[std::size_t(part)]);
      }
      std::vector<const float*> pointers;
      for (const auto& part : own) pointers.push_back(part.data());
      std::vector<float> apart(count);
      group.sum(pointers, std::span(own.empty() ? apart : own.front()));
      EXPECT_EQ(own.empty() ? apart : own.front(), expected);
      EXPECT_EQ(group.sum(double(group.rank() + 1)), size * (size + 1) / 2);
      group.leave();
    });
    EXPECT_THAT(errors, ::testing::Each(""));
  }
}

TEST_P(SumOf, RankZeroTellsAll) {
  const std::string text(100000, 'x');
  const auto errors = Ranks(GetParam()).run([&](ProcessGroup& group) {
    EXPECT_EQ(group.broadcast(group.leads() ? text : std::string("other")), text);
    EXPECT_TRUE(group.broadcast(group.leads()));
    torch::Tensor tensor = torch::full({7, 3}, group.rank());
    group.broadcast(tensor);
    EXPECT_TRUE(torch::equal(tensor, torch::zeros({7, 3}, tensor.options())));
    tensor = torch::full({5}, 0.5f);
    group.sum(tensor);
    EXPECT_TRUE(torch::equal(tensor, torch::full({5}, 0.5f * float(GetParam()))));
    group.leave();
  });
  EXPECT_THAT(errors, ::testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(Processes, SumOf, ::testing::Values(2, 3, 5, 8));

TEST(ProcessGroup, TellsWhyAnotherEnded) {
  const auto errors = Ranks(3).run([](ProcessGroup& group) {
    if (group.rank() == 2) {
      group.fail("the cache is not there");
      throw DataError("the cache is not there");
    }
    for (;;) group.sum(1.0);
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(errors[std::size_t(rank)], ::testing::HasSubstr("rank 2"));
    EXPECT_THAT(errors[std::size_t(rank)], ::testing::HasSubstr("the cache is not there"));
    EXPECT_THAT(errors[std::size_t(rank)], ::testing::HasSubstr("--resume"));
  }
}

TEST(ProcessGroup, NoticesThatAnotherEnded) {
  for (int gone : {0, 1, 2}) {
    const auto errors = Ranks(3).run([gone](ProcessGroup& group) {
      if (group.rank() == gone) throw std::runtime_error("left");
      for (;;) group.sum(1.0);
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == gone) continue;
      EXPECT_THAT(errors[std::size_t(rank)], ::testing::HasSubstr("rank " + std::to_string(gone)));
    }
  }
}

TEST(ProcessGroup, DoesNotWaitForeverForTheOthers) {
  const auto port = free_port();
  ProcessGroupOptions options;
  options.join = std::chrono::seconds(1);
  try {
    ProcessGroup group({0, 2, 0, 2, "127.0.0.1", port, ""}, options);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("2 processes"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("start all of them"));
  }
}

TEST(ProcessGroup, NamesAHostThatDoesNotExist) {
  ProcessGroupOptions options;
  options.join = std::chrono::seconds(1);
  EXPECT_THROW(ProcessGroup({1, 2, 1, 2, "no-such-host.invalid", 4000, ""}, options), SystemError);
}

}  // namespace
}  // namespace coldframe
