#include "common/files/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
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

TEST(InputFile, HidesItsEndAndRefusesInTheWordsOfItsUser) {
  const testing::TemporaryFolder folder;
  InputFile file(folder.write("a", "0123456789"), refuse_unnamed);
  file.set_end(4);
  EXPECT_EQ(file.size(), 4u);
  EXPECT_EQ(file.read(1, 3), "123");
  std::vector<std::byte> bytes(10);
  EXPECT_EQ(file.read_some(2, bytes), 2u);
  EXPECT_EQ(
      message_of<DataError>([&] { file.read(3, std::uint64_t{1} << 60); }).find("it is trunc"), 0u);
  EXPECT_EQ(InputFile(folder / "a").identity(), file.identity());
}

TEST(InputFile, SaysThatItBecameShorter) {
  const testing::TemporaryFolder folder;
  const InputFile file(folder.write("a", "0123456789"));
  std::filesystem::resize_file(folder / "a", 5);
  EXPECT_THAT(message_of<DataError>([&] { file.read(0, 10); }), HasSubstr("became shorter"));
}

TEST(ByteCursor, ReadsBothByteOrdersAndNeverBeyondTheEnd) {
  const std::string_view text("\x01\x02\x03\x04name", 8);
  ByteCursor cursor(text, std::endian::big);
  EXPECT_EQ(cursor.number(2), 0x0102u);
  EXPECT_EQ(cursor.number(2, std::endian::little), 0x0403u);
  EXPECT_EQ(cursor.text(4), "name");
  EXPECT_EQ(cursor.left(), 0u);
  EXPECT_EQ(cursor.u32(0), 0x01020304u);
  EXPECT_EQ(ByteCursor(text).u24(1), 0x040302u);
  EXPECT_TRUE(cursor.holds(4, "na"));
  EXPECT_FALSE(cursor.holds(9, ""));
  EXPECT_THAT(message_of<DataError>([&] { cursor.take(1); }),
              HasSubstr("it ends at byte 8 of at least 9"));
  EXPECT_THROW(cursor.u16(7), DataError);
  EXPECT_THROW(cursor.u8(~std::uint64_t{0}), DataError);
  EXPECT_THROW(cursor.require(1, ~std::uint64_t{0}), DataError);
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
