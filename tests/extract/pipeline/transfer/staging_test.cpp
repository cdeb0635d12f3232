#include "extract/pipeline/transfer.h"

#include <gtest/gtest.h>

#include "tests/extract/pipeline/transfer/fake_streams.h"
#include "tests/support/gpu_test.h"

namespace coldframe::extract {
namespace {

using Eager = FakeStreams::Eager;

// Frame i of round r shows the level 3·r + i in all its pixels; its feature is that level.
torch::Tensor level_of(const torch::Tensor& frames, int, std::int64_t) {
  return frames.to(torch::kFloat).mean({1, 2, 3}).unsqueeze(1);
}

void fill(Staging& staging, int slot, int round) {
  for (int i = 0; i < 3; ++i) staging.frames(slot)[i].fill_(3 * round + i);
}

void expect_features(const torch::Tensor& features, int round) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(features[i].item<float>(), 3 * round + i) << round;
}

class StagingOrders : public ::testing::TestWithParam<Eager> {};

TEST_P(StagingOrders, EveryFrameMeetsItsFeature) {
  FakeStreams streams(GetParam());
  Staging staging(streams, {{4, 4, 3}}, 1, level_of);
  for (int round = 0; round < 9; ++round) {
    const int slot = round % 2;
    if (round >= 2) expect_features(staging.collect(slot), round - 2);
    staging.reserve(slot, 3);
    fill(staging, slot, round);
    staging.submit(slot, 0, 2);
    staging.submit(slot, 2, 1);
  }
  expect_features(staging.collect(1), 7);
  expect_features(staging.collect(0), 8);
  EXPECT_EQ(staging.seconds(0), 0.5);
}

TEST_P(StagingOrders, BuffersGrowBetweenBatches) {
  FakeStreams streams(GetParam());
  Staging staging(streams, {{4, 4, 3}}, 1, level_of);
  for (int round = 0; round < 4; ++round) {
    staging.reserve(0, 3 + round);
    fill(staging, 0, round);
    staging.submit(0, 0, 3);
    expect_features(staging.collect(0), round);
  }
  EXPECT_EQ(staging.capacity(0), 6);
}

TEST_P(StagingOrders, WhatDidNotFitIsHandedOverAgain) {
  FakeStreams streams(GetParam());
  Staging staging(streams, {{4, 4, 3}}, 1, level_of);
  staging.reserve(1, 3);
  fill(staging, 1, 5);
  streams.out_of_memory = 2;
  EXPECT_THROW(staging.submit(1, 0, 3), c10::OutOfMemoryError);
  EXPECT_THROW(staging.submit(1, 0, 2), c10::OutOfMemoryError);
  for (int i = 0; i < 3; ++i) staging.submit(1, i, 1);
  expect_features(staging.collect(1), 5);
}

// A part takes its own room on the device, not that of the whole slot.
TEST_P(StagingOrders, PartsFitWhereTheWholeDoesNot) {
  FakeStreams streams(GetParam());
  streams.device_frames = 2;
  Staging staging(streams, {{4, 4, 3}}, 1, level_of);
  for (int round = 0; round < 3; ++round) {
    staging.reserve(0, 3);
    fill(staging, 0, round);
    EXPECT_THROW(staging.submit(0, 0, 3), c10::OutOfMemoryError);
    staging.submit(0, 0, 1);
    staging.submit(0, 1, 2);
    expect_features(staging.collect(0), round);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StagingOrders,
                         ::testing::Values(Eager::kNone, Eager::kCopy, Eager::kCompute));

class StagingOnGpu : public testing::GpuTest {};

TEST_F(StagingOnGpu, EveryFrameMeetsItsFeature) {
  const auto streams = make_streams(device_);
  Staging staging(*streams, {{224, 224, 3}}, 1, level_of);
  for (int round = 0; round < 60; ++round) {
    const int slot = round % 2;
    if (round >= 2) expect_features(staging.collect(slot), round - 2);
    staging.reserve(slot, 3);
    fill(staging, slot, round);
    staging.submit(slot, 0, 3);
  }
  expect_features(staging.collect(0), 58);
  expect_features(staging.collect(1), 59);
  EXPECT_GT(staging.seconds(1), 0);
}

}  // namespace
}  // namespace coldframe::extract
