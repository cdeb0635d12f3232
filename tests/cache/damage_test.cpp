// Flipping any byte of a shard and cutting it at any length is found, and nothing crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/format/format.h"
#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/numbers/dtype.h"
#include "tests/cache/malformed.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Damage : public ::testing::Test {
 protected:
  Damage() {
    std::vector<ExamFeatures> exams{make_exam("a", 0, 4, 3), make_exam("b", 1, 2, 3)};
    const Cut cut{2, {2, 3}};
    for (ExamFeatures& exam : exams) {
      add_thumbnails(exam);
      add_cut(exam, cut);
    }
    write_cache(path_, exams, {}, cut);
    bytes_ = read_bytes(path_);
  }
  MemoryFolder folder_;
  fs::path path_ = folder_ / "x.h5";
  std::vector<std::byte> bytes_;
};

// The ids, features, cut and thumbnails that a reader gives.
std::vector<std::string> read_everything(const fs::path& path) {
  const CacheReader cache(path);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < cache.exams().size(); ++i) {
    const ExamInfo& exam = cache.exams()[i];
    all.insert(all.end(), {exam.id, exam.patient, to_hex(std::as_bytes(std::span(exam.time_s)))});
    for (const ExamColumn& column : exam.columns) all.push_back(column.name + "=" + column.value);
    const std::vector<float> values = cache.features(i);
    all.push_back(to_hex(std::as_bytes(std::span(values))));
    for (const std::string& file : cache.thumbnails(i)) all.push_back(file);
    std::vector<std::byte> rows(cache.exams()[i].frames() * cache.cut()->row_bytes());
    cache.read_cut(i, 0, rows);
    all.push_back(to_hex(rows));
  }
  return all;
}

// A reader compares what it reads. The checksums that HDF5 adds to chunks and the one of the whole
// file are for others and for `verify`.
TEST_F(Damage, IsFoundInEveryByte) {
  ASSERT_TRUE(verify(locate(path_)).findings.empty());
  const auto before = read_everything(path_);
  std::uint64_t unseen = 0;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<std::byte> damaged = bytes_;
    damaged[i] ^= std::byte{static_cast<unsigned char>(1u << (i % 8))};
    write_bytes(path_, damaged);
    ASSERT_EQ(verify(locate(path_)).findings.size(), 1u) << "byte " << i;
    try {
      ASSERT_EQ(read_everything(path_), before) << "byte " << i;
      ++unseen;
    } catch (const CacheError&) {
      // As it should be.
    }
  }
  EXPECT_EQ(unseen, 3 * kFletcherBytes + kDigestBytes) << "a chunk each of features, cut and JPEGs";
}

// As h5py and HDFView leave a file that they had open for writing.
TEST_F(Damage, AMissingTrailerIsWrittenAnew) {
  const std::vector<std::byte> cut(bytes_.begin(), bytes_.end() - kTrailerBytes);
  write_bytes(path_, cut);
  EXPECT_THROW(read_everything(path_), CacheError);
  const auto found = verify(locate(path_)).findings;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].problem, HasSubstr("verify --repair"));
  EXPECT_EQ(read_bytes(path_), cut);
  const VerifyReport repaired = verify(locate(path_), Repair::kTrailers);
  EXPECT_TRUE(repaired.findings.empty());
  EXPECT_THAT(repaired.repaired, ::testing::ElementsAre(path_.string()));
  EXPECT_EQ(read_bytes(path_), bytes_);
  EXPECT_TRUE(verify(locate(path_), Repair::kTrailers).repaired.empty());
}

TEST_F(Damage, IsRepairedByNoTrailer) {
  const auto before = read_everything(path_);
  const std::size_t end = bytes_.size() - kTrailerBytes;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < end; ++i) {
    std::vector<std::byte> damaged(bytes_.begin(),
                                   bytes_.begin() + static_cast<std::ptrdiff_t>(end));
    damaged[i] ^= std::byte{static_cast<unsigned char>(1u << (i % 8))};
    write_bytes(path_, damaged);
    const VerifyReport report = verify(locate(path_), Repair::kTrailers);
    if (report.repaired.empty()) {
      ASSERT_EQ(read_bytes(path_), damaged) << "byte " << i;
      ASSERT_FALSE(report.findings.empty()) << "byte " << i;
      ++refused;
    } else {  // a byte between HDF5's objects
      ASSERT_EQ(read_everything(path_), before) << "byte " << i;
    }
  }
  EXPECT_GT(refused, end / 2);
  write_bytes(path_, {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(end / 2)});
  EXPECT_FALSE(verify(locate(path_), Repair::kTrailers).findings.empty());
  EXPECT_EQ(read_bytes(path_).size(), end / 2);
}

TEST_F(Damage, OfOneExamsFeaturesLeavesTheOthersReadable) {
  const CacheReader whole(path_);
  const auto values = whole.features(1);  // one row at least is stored in no other exam
  std::vector<std::uint16_t> stored(values.size());
  to_half(values, stored);
  const auto pattern = std::as_bytes(std::span(stored));
  const auto found = std::search(bytes_.begin(), bytes_.end(), pattern.begin(), pattern.end());
  ASSERT_NE(found, bytes_.end());
  flip_byte(path_, static_cast<std::size_t>(found - bytes_.begin()));
  const CacheReader cache(path_);
  EXPECT_EQ(cache.exams().size(), 2u);
  EXPECT_NO_THROW(cache.features(0));
  EXPECT_THROW(cache.features(1), CacheError);
  const VerifyReport report = verify(locate(path_));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].exam, "b");
}

TEST_F(Damage, IsFoundAtEveryLength) {
  for (std::size_t length = 0; length < bytes_.size(); ++length) {
    write_bytes(path_, {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(length)});
    ASSERT_EQ(verify(locate(path_)).findings.size(), 1u) << length << " bytes";
  }
  std::vector<std::byte> longer = bytes_;
  longer.push_back(std::byte{0});
  write_bytes(path_, longer);
  EXPECT_EQ(verify(locate(path_)).findings.size(), 1u);
}

TEST_F(Damage, OfOneShardDoesNotHideTheOthers) {
  std::vector<ExamFeatures> exams;
  for (std::size_t i = 0; i < 4; ++i) exams.push_back(make_exam(std::to_string(i), i, 3, 4));
  write_cache(folder_ / "y.cache", exams, one_exam_a_shard());
  flip_byte(folder_ / "y.cache" / shard_name(0, 1), 500);
  const VerifyReport report = verify(locate(folder_ / "y.cache"));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].file, HasSubstr(shard_name(0, 1)));
  EXPECT_EQ(report.exams, 3u);
}

TEST_F(Damage, ToAnOpenCacheIsNoticed) {
  const CacheReader cache(path_);
  for (std::size_t i = 0; i + 16 < bytes_.size(); ++i) bytes_[i] ^= std::byte{1};
  write_bytes(path_, bytes_);  // in place, behind the reader's back
  EXPECT_THROW(cache.features(0), CacheError);
  EXPECT_THROW(cache.thumbnails(0), CacheError);
}

struct NotACache {
  const char* name;
  void (*make)(const fs::path& folder);
  const char* path;
  const char* message;
};

class Opening : public ::testing::TestWithParam<NotACache> {};

TEST_P(Opening, ExplainsWhatIsThere) {
  const MemoryFolder folder;
  GetParam().make(folder.path());
  for (const bool verifying : {false, true}) {
    try {
      if (verifying) {
        const VerifyReport report = verify(locate(folder / GetParam().path));
        ASSERT_EQ(report.findings.size(), 1u);
        throw CacheError(report.findings[0].problem);
      }
      const CacheReader cache(folder / GetParam().path);
      ADD_FAILURE() << "was opened";
    } catch (const CacheError& error) {
      EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
    }
  }
}

const NotACache kNotCaches[] = {
    {"NothingThere", [](const fs::path&) {}, "x.h5", "there is no such cache"},
    {"EmptyFolder", [](const fs::path& f) { fs::create_directory(f / "x.cache"); }, "x.cache",
     "a folder without shards"},
    {"EmptyFile", [](const fs::path& f) { write_bytes(f / "x.h5", {}); }, "x.h5", "is empty"},
    {"OtherFile", [](const fs::path& f) { write_bytes(f / "x.h5", std::vector<std::byte>(99)); },
     "x.h5", "not an HDF5 file"},
    {"OtherName", [](const fs::path& f) { write_bytes(f / "x.npy", std::vector<std::byte>(99)); },
     "x.npy", "ends in .h5, or a folder of shards"},
    {"FolderCalledH5", [](const fs::path& f) { fs::create_directory(f / "x.h5"); }, "x.h5",
     "not a regular file"},
};
INSTANTIATE_TEST_SUITE_P(Paths, Opening, ::testing::ValuesIn(kNotCaches),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace coldframe::cache
