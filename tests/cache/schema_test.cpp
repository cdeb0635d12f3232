// The schema against the table of FORMAT.md, and against a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "cache/format/shard.h"
#include "common/text/text.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

std::string shape_text(const SchemaRow& row) {
  static const std::map<Axis, const char*> kLetters{
      {Axis::kExam, "N"},           {Axis::kExamBound, "N + 1"}, {Axis::kFrame, "F"},
      {Axis::kFrameBound, "F + 1"}, {Axis::kFailure, "K"},       {Axis::kThumbnailByte, "B"}};
  const bool has_arrays = !spec_of(row, {}, 2).row_shape.empty();
  return concat("[", kLetters.at(row.axis), has_arrays ? ", A]" : "]");
}

// "exams/id text [N]"
std::vector<std::string> lines_of_schema() {
  std::vector<std::string> lines;
  for (const SchemaRow& row : kSchema)
    lines.push_back(concat(row.path(), row.is_group() ? "/<name>" : "", " ",
                           hdf5::type_name(row.type()), " ", shape_text(row)));
  return lines;
}

// The same of the page's rows: | `/exams/id` | text | [N] | … |
std::vector<std::string> lines_of_page() {
  std::vector<std::string> lines;
  std::ifstream page(COLDFRAME_FORMAT_PAGE);
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `/") || line.find("<view>") != std::string::npos) continue;
    const std::vector<std::string> cells = split(line, '|');
    const std::string path = trim(cells.at(1));
    lines.push_back(
        concat(path.substr(2, path.size() - 3), " ", trim(cells.at(2)), " ", trim(cells.at(3))));
  }
  return lines;
}

TEST(Schema, IsTheTableOfThePage) {
  EXPECT_THAT(lines_of_page(), ::testing::UnorderedElementsAreArray(lines_of_schema()));
}

TEST(Schema, CountsTheBytesOfAFile) {
  const MemoryFolder folder;
  std::vector<ExamFeatures> exams;
  MetadataSize size;
  RowCounts counts{400, 0, 0, 0};
  for (std::uint64_t i = 0; i < counts.exams; ++i) {
    ExamFeatures& exam = exams.emplace_back(make_exam(concat("exam ", i), i, 1 + i % 60, 4));
    add_thumbnails(exam);
    exam.info.frame_columns = {{"phase", std::vector<std::string>(exam.info.frames(), "early")}};
    size.observe(exam.info);
    counts.frames += exam.info.frames();
    for (const std::string& file : exam.thumbnails) counts.thumbnail_bytes += file.size();
  }
  write_cache(folder / "x.h5", exams);
  const auto file = static_cast<double>(std::filesystem::file_size(folder / "x.h5"));
  const double features = 2.0 * 4 * static_cast<double>(counts.frames);
  const double metadata = static_cast<double>(size.bytes(counts, 1, true));
  // The rest: HDF5's structures, and the last chunk of each dataset, which is stored whole.
  EXPECT_GT(file, metadata + features);
  EXPECT_LT(file, 1.1 * (metadata + features));
  EXPECT_EQ(metadata - static_cast<double>(size.bytes(counts, 1, false)),
            8.0 * static_cast<double>(counts.frames + 1 + counts.exams) +
                static_cast<double>(counts.thumbnail_bytes));
}

}  // namespace
}  // namespace coldframe::cache
