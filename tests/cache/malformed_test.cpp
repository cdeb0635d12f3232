// Files with a matching checksum whose content nobody vouches for: they are refused with a
// CacheError or read, and nothing else happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/format/format.h"
#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "tests/cache/malformed.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;

class Malformed : public ::testing::Test {
 protected:
  Malformed() {
    std::vector<ExamFeatures> exams{make_exam("a", 0, 4, 3, {"clean", "flip"}),
                                    make_exam("b", 1, 2, 3, {"clean", "flip"})};
    const Cut cut{0, {3, 2, 3}};
    for (ExamFeatures& exam : exams) add_thumbnails(exam);
    for (ExamFeatures& exam : exams) add_cut(exam, cut);
    for (ExamFeatures& exam : exams)
      exam.info.frame_columns = {{"phase", std::vector<std::string>(exam.info.frames(), "é")}};
    write_cache(path_, exams, {}, cut);
    valid_ = read_bytes(path_);
  }

  // True when the file could be read as a whole. Anything but a CacheError fails the test.
  bool reads(const FileBytes& file) {
    write_bytes(path_, file);
    try {
      const CacheReader cache(path_);
      for (const std::string& view : cache.views())
        for (std::size_t exam = 0; exam < cache.exams().size(); ++exam) cache.features(exam, view);
      for (std::size_t exam = 0; exam < cache.exams().size(); ++exam) cache.thumbnails(exam);
      for (std::size_t exam = 0; cache.cut() && exam < cache.exams().size(); ++exam) {
        std::vector<std::byte> rows(cache.exams()[exam].frames() * cache.cut()->row_bytes());
        for (std::size_t view = 0; view < cache.views().size(); ++view)
          cache.read_cut(exam, view, rows);
      }
      return true;
    } catch (const CacheError&) {
      return false;
    }
  }

  MemoryFolder folder_;
  fs::path path_ = folder_ / "x.h5";
  FileBytes valid_;
};

TEST_F(Malformed, FilesAreRefusedOrRead) {
  int refused = 0;
  constexpr int kFiles = 2000;
  for (int seed = 0; seed < kFiles; ++seed) {
    SCOPED_TRACE(seed);
    refused += !reads(malformed(valid_, static_cast<std::uint64_t>(seed)));
    const VerifyReport report = verify(locate(path_));
    if (report.files == 0) {
      EXPECT_EQ(report.findings.size(), 1u);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, kFiles / 4);
  EXPECT_LT(refused, kFiles) << "some changes concern bytes that nothing depends on";
}

// One value a byte here, all that matter in tests/soak.
TEST_F(Malformed, EveryByteMayBeAnother) {
  const FileBytes content(valid_.begin(), valid_.end() - kTrailerBytes);
  int refused = 0;
  for (std::size_t i = 0; i < content.size(); ++i) {
    FileBytes changed = content;
    changed[i] ^= std::byte{static_cast<unsigned char>(i % 2 == 0 ? 0xff : 1u << (i / 2 % 8))};
    refused += !reads(sealed(std::move(changed)));
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Malformed, EveryLengthEnds) {
  const FileBytes content(valid_.begin(), valid_.end() - kTrailerBytes);
  for (std::size_t length = 0; length < content.size(); ++length)
    ASSERT_FALSE(
        reads(sealed({content.begin(), content.begin() + static_cast<std::ptrdiff_t>(length)})))
        << length;
}

}  // namespace
}  // namespace coldframe::cache
