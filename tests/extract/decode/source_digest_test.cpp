// Stamps and digests of an exam's files, also as they are taken while the files are read.
#include "extract/decode/exam_spec.h"
#include "extract/decode/source_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::TemporaryFolder;

ExamItem digested_item(const std::filesystem::path& path) {
  ExamItem item;
  item.path = path;
  item.name = path.filename().string();
  return item;
}

TEST(SourceStamp, ChangesWithTheFilesAndTheDigestWithTheirContent) {
  const TemporaryFolder folder;
  ExamSpec exam;
  exam.items = {digested_item(folder.write("a.png", "one")),
                digested_item(folder.write("b.png", "two"))};
  const auto stamp = source_stamp(exam), digest = source_digest(exam);
  EXPECT_EQ(source_stamp(exam), stamp);
  folder.write("b.png", "three");
  EXPECT_NE(source_stamp(exam), stamp);
  EXPECT_NE(source_digest(exam), digest);
  folder.write("b.png", "two");
  EXPECT_EQ(source_digest(exam), digest);
  const auto readable = source_stamp(exam);
  std::filesystem::remove(folder / "b.png");
  EXPECT_NE(source_stamp(exam), readable);
  EXPECT_NE(source_digest(exam), digest);
}

TEST(SourceDigest, DoesNotLetFilesFlowIntoEachOther) {
  const TemporaryFolder folder;
  ExamSpec one, other;
  one.items = {digested_item(folder.write("a", "ab")), digested_item(folder.write("b", "c"))};
  other.items = {digested_item(folder.write("c", "a")), digested_item(folder.write("d", "bc"))};
  EXPECT_NE(source_digest(one), source_digest(other));
}

// Three files; the first two are longer than the digest's blocks.
struct DigestedFiles {
  TemporaryFolder folder;
  std::string first = std::string(3 << 20, 'a') + "b", second = std::string(2 << 20, 'c');
  ExamSpec exam;

  DigestedFiles() {
    exam.items = {digested_item(folder.write("1", first)), digested_item(folder.write("2", second)),
                  digested_item(folder.write("3", "short"))};
  }
  SourceFile file(std::size_t item, SourceDigest& digest) const {
    return SourceFile(exam.items[item].path, &digest);
  }
};

constexpr std::uint64_t kMaxContent = 1 << 30;

// What was read before a file was written over is in the digest: nothing is read twice.
TEST(SourceDigest, IsTakenAsFilesAreRead) {
  DigestedFiles files;
  const std::string whole = source_digest(files.exam);
  SourceDigest digest(files.exam);
  for (std::size_t item = 0; item < 3; ++item) {
    EXPECT_GT(files.file(item, digest).content(kMaxContent).size(), 4u);
    files.folder.write(std::to_string(item + 1), "other");
  }
  EXPECT_EQ(digest.finish(), whole);
  EXPECT_NE(source_digest(files.exam), whole);
}

TEST(SourceDigest, CompletesWhatReadersLeaveOut) {
  DigestedFiles files;
  const std::string whole = source_digest(files.exam);
  SourceDigest digest(files.exam);
  EXPECT_EQ(files.file(0, digest).head().size(), 4096u);
  EXPECT_EQ(files.file(2, digest).content(kMaxContent), "short");  // before its turn
  const auto first = files.file(0, digest).open();
  first->read(2 << 20, 100);  // too far ahead
  first->read(4000, 200);     // some of it once more
  first->read(5000, 1000);    // a gap
  first->read(7000, 10);      // one that is longer than what is read
  digest.turn_to(files.exam.items[1].path);
  const auto second = files.file(1, digest).open();
  for (std::uint64_t at = 0; at < second->size(); at += 1 << 16) second->read(at, 1 << 16);
  EXPECT_EQ(digest.finish(), whole);
}

TEST(SourceDigest, CountsAFileThatIsGoneUnlessItWasRead) {
  DigestedFiles files;
  const std::filesystem::path second = files.exam.items[1].path;
  std::filesystem::remove(second);
  SourceDigest digest(files.exam), strict(files.exam);
  files.file(0, digest).content(kMaxContent);
  EXPECT_EQ(digest.finish(), source_digest(files.exam));
  EXPECT_THROW(strict.finish({second}), DataError);
}

TEST(SourceDigest, CountsAFileThatGoesWhileItIsReadAsOneThatIsGone) {
  DigestedFiles files;
  const std::filesystem::path first = files.exam.items[0].path;
  SourceDigest digest(files.exam);
  EXPECT_EQ(files.file(0, digest).head().size(), 4096u);
  std::filesystem::remove(first);
  EXPECT_EQ(digest.finish(), source_digest(files.exam));
}

// Its first half cannot be read at times.
class HalfLost : public MemoryBytes {
 public:
  using MemoryBytes::MemoryBytes;
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override {
    if (lost && offset < size() / 2) throw DataError("an input or output error");
    return MemoryBytes::read_some(offset, bytes);
  }
  bool lost = true;
};

// The reader that is followed has what it asked for; who completes the digest asks again.
TEST(SourceDigest, LeavesAGapThatCannotBeReadForLater) {
  DigestedFiles files;
  const std::filesystem::path third = files.exam.items[2].path;
  const std::string whole = source_digest(files.exam);
  SourceDigest digest(files.exam);
  digest.turn_to(third);
  HalfLost bytes("short");
  const auto follow_the_end = [&] {
    digest.follow(third, bytes, 2, std::as_bytes(std::span(std::string_view("ort"))));
  };
  EXPECT_NO_THROW(follow_the_end());
  bytes.lost = false;
  follow_the_end();
  std::filesystem::remove(third);
  EXPECT_EQ(digest.finish(), whole);
}

// A picture of 1 TB, nearly all of it a hole.
struct HugePicture {
  TemporaryFolder folder;
  ExamSpec exam;
  HugePicture() {
    exam.items = {digested_item(folder.write("huge.png", "\x89PNG\r\n\x1a\n")),
                  digested_item(folder.write("b.png", "small"))};
    const std::filesystem::path huge = exam.items[0].path;
    std::filesystem::resize_file(huge, std::uintmax_t{1} << 40);
    std::ofstream(huge, std::ios::app) << "the end";
  }
  bool knows_holes() const {
    const int file = ::open(exam.items[0].path.c_str(), O_RDONLY | O_CLOEXEC);
    const off_t hole = ::lseek(file, 0, SEEK_HOLE);
    ::close(file);
    return hole >= 0 && hole < off_t{1} << 30;
  }
};

TEST(SourceDigest, PassesOverLongHolesWhoeverReadsInThem) {
  HugePicture huge;
  if (!huge.knows_holes()) GTEST_SKIP() << "this file system does not tell of holes";
  const std::string whole = source_digest(huge.exam);  // in no hour
  SourceDigest digest(huge.exam);
  const SourceFile file(huge.exam.items[0].path, &digest);
  const auto held = file.hold();
  held->read(1 << 20, 1 << 20);
  EXPECT_THROW(file.content(kMaxContent), DataError);
  EXPECT_EQ(digest.finish(), whole);
  std::ofstream(huge.exam.items[0].path, std::ios::in).seekp(std::streamoff{1} << 39) << "changed";
  const std::string changed = source_digest(huge.exam);
  EXPECT_NE(changed, whole);
  std::ofstream(huge.exam.items[0].path, std::ios::app) << " comes later";
  EXPECT_NE(source_digest(huge.exam), changed);
}

TEST(SourceDigest, IsOfWholeFilesOrNone) {
  DigestedFiles files;
  request_stop();
  EXPECT_THROW(source_digest(files.exam), Interrupted);
  EXPECT_THROW(sha256_file(files.exam.items[0].path), Interrupted);
  clear_stop_request();
}

TEST(SourceFile, ReadsItsHeadAgainAfterAFault) {
  const TemporaryFolder folder;
  const SourceFile file(folder / "late");
  EXPECT_THROW(file.head(), DataError);
  folder.write("late", "there");
  EXPECT_EQ(file.head(), "there");
}

TEST(SourceFile, IsOpenedOnceForAllWhoHoldIt) {
  DigestedFiles files;
  const SourceFile file(files.exam.items[2].path), copy = file;
  const auto held = file.hold();
  std::filesystem::remove(file.path());
  EXPECT_EQ(file.head(), "short");
  EXPECT_EQ(file.content(kMaxContent), "short");
  EXPECT_THROW(copy.open(), DataError);
}

}  // namespace
}  // namespace coldframe::frames
