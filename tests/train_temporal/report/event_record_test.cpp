// Records of TensorBoard files, byte by byte; test_tensorboard.py lets TensorBoard read whole
// files.
#include "train_temporal/tensorboard/event_record.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "common/files/file.h"
#include "tests/support/temporary_folder.h"
#include "train_temporal/tensorboard/event_file.h"

namespace coldframe::temporal {
namespace {

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, EqualsPublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(EventRecord, ReadsBackItsStep) {
  const std::vector<Scalar> scalars = {{"loss/train", 0.5f}, {"learning_rate", 1e-3f}};
  for (const std::int64_t step : {0, 1, 127, 128, 1'000'000}) {
    const std::string record = scalar_record(1.5e9, step, scalars);
    const auto head = read_record_head(record + "more");
    ASSERT_TRUE(head.has_value());
    EXPECT_EQ(head->size, record.size());
    EXPECT_EQ(head->step, step);
  }
}

TEST(EventRecord, EveryFlippedByteAndEveryCutIsSeen) {
  const std::vector<Scalar> scalars = {{"loss/train", 0.5f}};
  const std::string record = scalar_record(1.5e9, 300, scalars);
  for (std::size_t i = 0; i < record.size(); ++i) {
    std::string damaged = record;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(read_record_head(damaged).has_value()) << "byte " << i;
    EXPECT_FALSE(read_record_head(std::string_view(record).substr(0, i)).has_value()) << i;
  }
}

std::string content(const std::filesystem::path& path) {
  return read_text_file(path, 1 << 20);
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& path) {
  const std::string bytes = content(path);
  std::string_view left = bytes;
  std::vector<std::int64_t> steps;
  while (const auto head = read_record_head(left)) {
    steps.push_back(head->step);
    left.remove_prefix(head->size);
  }
  EXPECT_TRUE(left.empty()) << left.size() << " bytes behind the last record";
  steps.erase(steps.begin());  // the version
  return steps;
}

struct Resume {
  const char* what;
  std::int64_t keep;    // steps of the checkpoint
  std::size_t cut;      // bytes lost at the file's end
  std::string garbage;  // written behind it
  std::int64_t left;    // steps of the file that hold
};

TEST(EventFile, ContinuesWhereAFitResumes) {
  const std::vector<Scalar> scalars = {{"loss/train", 0.5f}};
  const Resume cases[] = {
      {"as it was left", 5, 0, "", 5},
      {"steps to be done again", 3, 0, "", 3},
      {"from the start", 0, 0, "", 0},
      {"a torn event", 5, 7, "", 4},
      {"rubbish at the end", 5, 0, "rubbish, rubbish, rubbish", 5},
      {"more steps than it has", 9, 0, "", 5},
      {"all but nothing", 5, 100000, "", 0},
  };
  for (const Resume& resume : cases) {
    SCOPED_TRACE(resume.what);
    const coldframe::testing::TemporaryFolder folder;
    const auto path = folder / "deeper" / "events.out.tfevents.coldframe";
    {
      EventFile file(path, 0);
      for (int i = 0; i < 5; ++i) file.add(scalars);
      file.flush();
    }
    std::string bytes = content(path);
    bytes.resize(bytes.size() - std::min(bytes.size(), resume.cut));
    std::ofstream(path, std::ios::binary) << bytes << resume.garbage;
    {
      EventFile file(path, resume.keep);
      EXPECT_EQ(file.steps(), resume.left);
      while (file.steps() < 7) file.add(scalars);
    }
    EXPECT_EQ(steps_in(path), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  }
}

}  // namespace
}  // namespace coldframe::temporal
