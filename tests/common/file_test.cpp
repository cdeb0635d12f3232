#include "common/files/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(InputFile, ReadsRangesAndSaysWhereTheFileEnds) {
  const testing::TemporaryFolder folder;
  const InputFile file(folder.write("a", "0123456789"));
  EXPECT_EQ(file.size(), 10u);
  std::vector<std::byte> bytes(4);
  file.read_at(6, bytes);
  EXPECT_EQ(bytes.front(), std::byte{'6'});
  EXPECT_EQ(file.read_some(8, bytes), 2u);
  EXPECT_EQ(file.read_some(100, bytes), 0u);
  EXPECT_THAT(message_of<DataError>([&] { file.read_at(8, bytes); }),
              HasSubstr("it ends at byte 10; at least 12 bytes were expected"));
}

TEST(InputFile, RefusesFoldersPipesAndDevicesWithoutWaiting) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] { InputFile file(folder / "pipe"); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_of<DataError>([&] { InputFile file(folder / ""); }), HasSubstr("a folder"));
  EXPECT_THAT(message_of<DataError>([&] { InputFile file("/dev/zero"); }),
              HasSubstr("not a regular file"));
}

TEST(ReadTextFile, BoundsTheSize) {
  const testing::TemporaryFolder folder;
  folder.write("a", "12345");
  EXPECT_EQ(read_text_file(folder / "a", 5), "12345");
  EXPECT_THAT(message_of<DataError>([&] { read_text_file(folder / "a", 4); }),
              HasSubstr("it has 5 B; at most 4 B"));
}

}  // namespace
}  // namespace coldframe
