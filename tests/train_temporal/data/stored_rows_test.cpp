#include "train_temporal/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cache/store/writer.h"
#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::temporal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One exam of three frames and two features; the frame in the middle is missing.
SequenceReader one_exam(const std::filesystem::path& path, DType storage) {
  cache::Recipe recipe;
  recipe.features = {{"pool", "mean"}};
  cache::ShardWriter writer(cache::locate(path), recipe, 2, {storage});
  cache::ExamFeatures exam;
  exam.info.id = "a";
  exam.info.source_kind = "images";
  exam.info.source_stamp = exam.info.source_digest = "made";
  exam.info.frame_width = exam.info.frame_height = 8;
  exam.info.time_s = {0, 1, 2};
  exam.info.present = {1, 0, 1};
  exam.info.frame_index = {0, 1, 2};
  exam.info.frame_source = {"x", "", "y"};
  exam.views.push_back({"clean", {1, 2, NAN, NAN, 5, 6}});
  writer.add(exam);
  writer.finish();
  return SequenceReader(path);
}

TEST(StoredRows, LeaveMissingFramesOut) {
  const coldframe::testing::TemporaryFolder folder;
  const auto cache = one_exam(folder.path() / "c.cache", DType::kFp32);
  const std::vector<float> stored = {1, 2, NAN, NAN, 5, 6};
  std::vector<float> rows(4);
  const auto to = std::as_writable_bytes(std::span(rows));
  EXPECT_EQ(copy_present_rows(cache.exams()[0], row_format(cache, RowKind::kFeatures),
                              std::as_bytes(std::span(stored)), to.data()),
            2);
  EXPECT_THAT(rows, ElementsAre(1, 2, 5, 6));
}

template <typename Value>
void expect_refused(DType storage, const std::vector<Value>& stored, const std::string& shown) {
  const coldframe::testing::TemporaryFolder folder;
  const auto cache = one_exam(folder.path() / "c.cache", storage);
  std::vector<Value> rows(4);
  const auto to = std::as_writable_bytes(std::span(rows));
  EXPECT_THAT(coldframe::testing::message_of<DataError>([&] {
                copy_present_rows(cache.exams()[0], row_format(cache, RowKind::kFeatures),
                                  std::as_bytes(std::span(stored)), to.data());
              }),
              HasSubstr("exam 'a': feature 1 of frame 2 is " + shown));
}

TEST(StoredRows, RefuseWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  expect_refused<float>(DType::kFp32, {1, 2, NAN, NAN, 5, kInfinity}, "inf");
  expect_refused<float>(DType::kFp32, {1, 2, NAN, NAN, 5, NAN}, "nan");
  constexpr std::uint16_t kOne = 0x3c00, kNan = 0x7e00, kMinusInfinity = 0xfc00;
  expect_refused<std::uint16_t>(DType::kFp16, {kOne, kOne, kNan, kNan, kOne, kMinusInfinity},
                                "-inf");
}

}  // namespace
}  // namespace coldframe::temporal
