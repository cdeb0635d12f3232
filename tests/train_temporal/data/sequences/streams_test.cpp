// Frames of several streams, which lie one after the other in a cache, are read as one per
// instant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/cli/error.h"
#include "tests/cache/support.h"
#include "train_temporal/data/sequence_reader.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kDimension = 3;

// Frame f of an exam has the features 10 f, 10 f + 1, 10 f + 2.
cache::ExamFeatures exam_of(const std::string& id, std::uint64_t ordinal,
                            const std::vector<std::string>& streams,
                            const std::vector<double>& times,
                            const std::vector<std::uint8_t>& present) {
  cache::ExamFeatures exam = cache::make_exam(id, ordinal, streams.size(), kDimension, {"clean"});
  exam.info.time_s = times;
  exam.info.present = present;
  exam.info.frame_columns = {{"stream", streams}, {"eye", {}}};
  for (std::size_t f = 0; f < streams.size(); ++f) {
    exam.info.frame_columns[1].values.push_back("e" + std::to_string(f));
    for (std::size_t d = 0; d < kDimension; ++d)
      exam.views[0].values[f * kDimension + d] =
          present[f] ? static_cast<float>(10 * f + d) : std::nanf("");
  }
  return exam;
}

std::vector<float> to_floats(const SequenceReader& cache, std::span<const std::byte> rows) {
  std::vector<float> values(rows.size() / bytes_of(cache.storage()));
  convert(rows, cache.storage(), std::span(values));
  return values;
}

std::vector<float> features_of(const SequenceReader& cache, std::size_t exam) {
  std::vector<float> values;
  cache.scan_stored(
      "clean", std::span(&exam, 1),
      [&](std::size_t, std::span<const std::byte> rows) { values = to_floats(cache, rows); });
  return values;
}

// Rows as text, "FA ICGA", with the first feature of each stream and – where it is missing.
std::string rows_of(const SequenceReader& cache, std::size_t exam) {
  const std::vector<float> values = features_of(cache, exam);
  const std::size_t streams = cache.streams().size(), width = streams * (kDimension + 1);
  std::string text;
  for (std::size_t row = 0; row < values.size(); row += width) {
    if (row > 0) text += " | ";
    for (std::size_t s = 0; s < streams; ++s) {
      const float* own = &values[row + s * kDimension];
      const bool there = values[row + streams * kDimension + s] == 1;
      for (std::size_t d = 0; d < kDimension; ++d) {
        EXPECT_EQ(std::isnan(own[d]), !there);
        EXPECT_TRUE(!there || own[d] == own[0] + static_cast<float>(d));
      }
      text += (s > 0 ? " " : "") + (there ? std::to_string(std::lround(own[0])) : "–");
    }
  }
  return text;
}

class Streams : public ::testing::TestWithParam<DType> {
 protected:
  void write(const std::vector<cache::ExamFeatures>& exams) {
    cache::WriterOptions options;
    options.storage = GetParam();
    cache::write_cache(folder_ / "x.cache", exams, options);
  }
  SequenceReader open() const { return SequenceReader(folder_ / "x.cache"); }
  cache::MemoryFolder folder_;
};

TEST_P(Streams, FramesOfOneInstantAreOneRow) {
  const double unknown = cache::kUnknownTime;
  write({exam_of("times", 0, {"FA", "FA", "ICGA", "FA", "ICGA"}, {0, 5, 0.0005, 9, 7},
                 {1, 1, 1, 1, 0}),
         exam_of("order", 1, {"ICGA", "ICGA", "FA"}, {unknown, unknown, unknown}, {1, 1, 1}),
         exam_of("one stream", 2, {"FA", "FA"}, {0, 1}, {1, 1}),
         exam_of("same time", 3, {"FA", "FA", "ICGA"}, {2, 2, 2}, {1, 1, 1})});
  SequenceReader cache = open();
  cache.merge_streams("stream");
  EXPECT_EQ(cache.streams(), (std::vector<std::string>{"FA", "ICGA"}));
  EXPECT_EQ(cache.dimension(), 8);
  EXPECT_EQ(rows_of(cache, 0), "0 20 | 10 – | – – | 30 –");
  EXPECT_THAT(cache.exams()[0].time_s, ::testing::ElementsAre(0, 5, 7, 9));
  EXPECT_THAT(cache.exams()[0].present, ::testing::ElementsAre(1, 1, 0, 1));
  EXPECT_EQ(cache.exams()[0].frame_columns.size(), 1u);
  EXPECT_THAT(cache.exams()[0].frame_columns[0].values,
              ::testing::ElementsAre("e0", "e1", "e4", "e3"));
  EXPECT_EQ(rows_of(cache, 1), "20 0 | – 10");
  EXPECT_EQ(rows_of(cache, 2), "0 – | 10 –");
  EXPECT_EQ(rows_of(cache, 3), "0 20 | 10 –");
}

TEST_P(Streams, AModelNamesThemInItsOwnOrder) {
  write({exam_of("a", 0, {"FA", "ICGA"}, {0, 0}, {1, 1}), exam_of("b", 1, {"FA"}, {0}, {1})});
  SequenceReader cache = open();
  cache.merge_streams("stream", {"ICGA", "OCT", "FA"});
  EXPECT_EQ(rows_of(cache, 0), "10 – 0");
  cache.merge_streams("stream", {"ICGA", "FA"});
  cache.join_exams({{0}, {0, 1}}, std::vector<double>{0, 60});
  EXPECT_EQ(rows_of(cache, 1), "10 0 | – 0");
  EXPECT_THAT(cache.exams()[1].time_s, ::testing::ElementsAre(0, 60));
  const std::vector<float> alone[] = {features_of(cache, 0), features_of(cache, 1)};
  std::vector<std::size_t> seen;
  cache.scan_stored("clean", std::vector<std::size_t>{1, 0},
                    [&](std::size_t exam, std::span<const std::byte> rows) {
                      EXPECT_THAT(
                          to_floats(cache, rows),
                          ::testing::Pointwise(::testing::NanSensitiveFloatEq(), alone[exam]));
                      seen.push_back(exam);
                    });
  EXPECT_THAT(seen, ::testing::ElementsAre(1, 0));
}

TEST_P(Streams, AnInstantHasTheFirstValueOfTheFramesThatAreThere) {
  cache::ExamFeatures exam = exam_of("a", 0, {"FA", "FA", "FA", "ICGA", "ICGA", "ICGA"},
                                     {0, 1, 2, 0, 1, 2}, {1, 0, 1, 1, 1, 1});
  exam.info.frame_columns[1].values = {"", "gone", "c", "a", "b", ""};
  exam.info.frame_source = {"f0", "f1", "f2", "f3", "f4", "f5"};
  write({exam});
  SequenceReader cache = open();
  cache.merge_streams("stream");
  const cache::ExamInfo& merged = cache.exams()[0];
  EXPECT_THAT(merged.frame_columns[0].values, ::testing::ElementsAre("a", "b", "c"));
  EXPECT_THAT(merged.frame_source, ::testing::ElementsAre("f0", "f4", "f2"));
  EXPECT_EQ(cache.disputed_in("eye"), "");
}

TEST_P(Streams, ValuesThatDifferWithinAnInstantAreKnown) {
  write({exam_of("fine", 0, {"FA", "FA"}, {0, 1}, {1, 1}),
         exam_of("two", 1, {"FA", "ICGA"}, {0, 0}, {1, 1})});
  SequenceReader cache = open();
  EXPECT_EQ(cache.disputed_in("eye"), "");
  cache.merge_streams("stream");
  EXPECT_EQ(cache.disputed_in("eye"), "two");
}

TEST_P(Streams, WhatIsReadIsToldFromTheSameFramesUnderOtherNames) {
  const auto told = [&](const std::vector<std::string>& streams, const std::string& source) {
    std::filesystem::remove_all(folder_ / "x.cache");
    cache::ExamFeatures earlier = exam_of("a", 0, {"FA", "ICGA"}, {0, 0}, {1, 1});
    earlier.info.source_digest = source;
    write({earlier, exam_of("b", 1, streams, {0, 0}, {1, 1})});
    SequenceReader cache = open();
    EXPECT_EQ(cache.provenance(1).size(), 2u);
    cache.merge_streams("stream");
    cache.join_exams({{0}, {0, 1}}, std::vector<double>{0, 60});
    EXPECT_TRUE(cache.has_stream(1, 0) && cache.has_stream(1, 1));
    return cache.provenance(1);
  };
  const auto made = told({"FA", "ICGA"}, "s");
  EXPECT_EQ(told({"FA", "ICGA"}, "s"), made);
  EXPECT_NE(told({"ICGA", "FA"}, "s"), made);
  EXPECT_NE(told({"FA", "ICGA"}, "t"), made);
}

TEST_P(Streams, WhatIsNoStreamIsRefused) {
  write({exam_of("a", 0, {"FA", "ICGA"}, {0, 0}, {1, 1}),
         exam_of("b", 1, {"", "FA"}, {0, 1}, {1, 1})});
  SequenceReader cache = open();
  const auto refused = [&](const std::string& column, std::vector<std::string> names,
                           const std::string& why) {
    try {
      cache.merge_streams(column, std::move(names));
      ADD_FAILURE() << why;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
    }
  };
  refused("modality", {}, "no frame column 'modality'");
  refused("stream", {}, "exam 'b': frame 0 has the stream '', expected one of FA, ICGA");
  refused("stream", {"FA", "OCT"}, "exam 'a': frame 1 has the stream 'ICGA'");
  refused("eye", {"only"}, "names 1 stream, expected two or more");
}

INSTANTIATE_TEST_SUITE_P(Storages, Streams, ::testing::Values(DType::kFp16, DType::kFp32));

}  // namespace
}  // namespace coldframe::temporal
