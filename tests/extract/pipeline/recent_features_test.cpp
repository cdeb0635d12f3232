#include "extract/pipeline/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coldframe::extract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

InputDigest digest(int value) {
  InputDigest result{};
  result[3] = static_cast<std::byte>(value);
  return result;
}

void add(RecentFeatures& recent, int name) {
  const float value = static_cast<float>(name);
  recent.add(digest(name), std::vector{value, value + 0.5f});
}

TEST(RecentFeatures, FindsWhatWasAdded) {
  RecentFeatures recent(4, 2);
  EXPECT_THAT(recent.find(digest(1)), IsEmpty());
  add(recent, 1);
  add(recent, 2);
  EXPECT_THAT(recent.find(digest(1)), ElementsAre(1.0f, 1.5f));
  EXPECT_THAT(recent.find(digest(2)), ElementsAre(2.0f, 2.5f));
}

TEST(RecentFeatures, ForgetsTheOldest) {
  RecentFeatures recent(3, 2);
  for (int name = 0; name < 8; ++name) add(recent, name);
  for (int name = 0; name < 5; ++name) EXPECT_THAT(recent.find(digest(name)), IsEmpty()) << name;
  for (int name = 5; name < 8; ++name)
    EXPECT_FLOAT_EQ(recent.find(digest(name))[0], static_cast<float>(name));
}

}  // namespace
}  // namespace coldframe::extract
