#include "extract/pipeline/decode/read_ahead.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_folder.h"

namespace coldframe::extract {
namespace {

TEST(ReadAhead, RoomIsTakenUntilTheLastReaderOfAFileHasGone) {
  const testing::TemporaryFolder folder;
  const auto item = [&](const char* name, std::size_t bytes) {
    frames::ExamItem one;
    one.path = folder.write(name, std::string(bytes, 'x'));
    return one;
  };
  std::vector<frames::ExamSpec> exams(2);
  exams[0].items = {item("alone", 60), item("shared", 10)};
  exams[1].items = {item("next", 60)};
  const std::vector<ExamTask> tasks = {{&exams[0]}, {&exams[1]}};
  ReadAhead ahead(folder.path(), 100, tasks);
  ahead.wait_for(0);
  auto reader = find_copy(folder / "shared");
  ASSERT_NE(reader, nullptr);
  ahead.drop(0);
  EXPECT_EQ(ahead.bytes_taken(), 70u);  // both lie in one file
  EXPECT_EQ(find_copy(folder / "next"), nullptr);
  reader.reset();
  ahead.wait_for(1);
  EXPECT_NE(find_copy(folder / "next"), nullptr);
  EXPECT_EQ(ahead.bytes_taken(), 60u);
}

}  // namespace
}  // namespace coldframe::extract
