#include "tests/cache/support.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

namespace coldframe::cache {

namespace fs = std::filesystem;

MemoryFolder::MemoryFolder()
    : TemporaryFolder(::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::path()) {}

Recipe make_recipe(const std::string& interpolation) {
  Recipe recipe;
  recipe.features["weights"] = "0123abcd";
  recipe.features["preprocessing"]["interpolation"] = interpolation;
  recipe.features["preprocessing"]["image_size"] = 224;
  recipe.storage["frames"] = 12;
  recipe.storage["store"] = "float16";
  return recipe;
}

Recipe make_recipe_with_thumbnails() {
  Recipe recipe = make_recipe();
  recipe.storage["thumbnails"] = 96;
  return recipe;
}

void add_thumbnails(ExamFeatures& exam) {
  exam.thumbnails.clear();
  for (std::size_t t = 0; t < exam.info.frames(); ++t) {
    std::string bytes;
    for (std::size_t i = 0; exam.info.present[t] && i <= 10 + 7 * t; ++i)
      bytes.push_back(static_cast<char>(exam.info.ordinal * 53 + t * 11 + i));
    exam.thumbnails.push_back(bytes);
  }
}

Recipe with_cut(Recipe recipe, const Cut& cut) {
  recipe.storage["cut"] = to_json(cut);
  return recipe;
}

void add_cut(ExamFeatures& exam, const Cut& cut) {
  for (std::size_t v = 0; v < exam.views.size(); ++v) {
    std::mt19937 random(static_cast<unsigned>(exam.info.ordinal * 64 + v));
    std::vector<std::byte>& rows = exam.views[v].cut;
    rows.resize(exam.info.frames() * cut.row_bytes());
    for (std::byte& byte : rows) byte = static_cast<std::byte>(random() % 61);
  }
}

ExamFeatures make_exam(const std::string& id, std::uint64_t ordinal, std::size_t frames,
                       std::size_t dimension, const std::vector<std::string>& views) {
  ExamFeatures exam;
  ExamInfo& info = exam.info;
  info.id = id;
  info.patient = "P" + std::to_string(ordinal / 2);
  info.ordinal = ordinal;
  info.start_time = 1.7e9 + static_cast<double>(ordinal);
  info.source_stamp = "1024@17";
  info.source_digest = "feedbeef";
  info.source_kind = "images";
  info.frame_width = 640;
  info.frame_height = 480;
  for (std::size_t t = 0; t < frames; ++t) {
    info.time_s.push_back(0.25 * static_cast<double>(t));
    info.present.push_back(frames > 3 && t % 4 == 3 ? 0 : 1);
    info.frame_index.push_back(static_cast<std::int64_t>(t * 2));
    info.frame_source.push_back(id + "/" + std::to_string(t) + ".png");
  }
  info.columns = {{"label", ordinal % 2 ? "yes" : "no"}, {"age", std::to_string(40 + ordinal)}};
  for (std::size_t v = 0; v < views.size(); ++v) {
    ViewFeatures view{views[v], {}};
    for (std::size_t t = 0; t < frames; ++t)
      for (std::size_t d = 0; d < dimension; ++d)
        view.values.push_back(
            info.present[t]
                ? static_cast<float>((ordinal * 31 + t * 7 + d * 3 + v) % 512) / 16.0f - 8.0f
                : std::numeric_limits<float>::quiet_NaN());
    exam.views.push_back(std::move(view));
  }
  return exam;
}

namespace {

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

}  // namespace

void expect_equal(const ExamInfo& actual, const ExamInfo& expected) {
  EXPECT_EQ(actual.id, expected.id);
  EXPECT_EQ(actual.patient, expected.patient);
  EXPECT_EQ(actual.ordinal, expected.ordinal);
  EXPECT_EQ(actual.revision, expected.revision);
  EXPECT_TRUE(same_bits(std::vector{actual.start_time}, std::vector{expected.start_time}));
  EXPECT_EQ(actual.source_stamp, expected.source_stamp);
  EXPECT_EQ(actual.source_digest, expected.source_digest);
  EXPECT_EQ(actual.source_kind, expected.source_kind);
  EXPECT_EQ(actual.frame_width, expected.frame_width);
  EXPECT_EQ(actual.frame_height, expected.frame_height);
  EXPECT_TRUE(same_bits(actual.time_s, expected.time_s));
  EXPECT_EQ(actual.present, expected.present);
  EXPECT_EQ(actual.frame_index, expected.frame_index);
  EXPECT_EQ(actual.frame_source, expected.frame_source);
  for (const ExamColumn& column : expected.columns)
    EXPECT_EQ(column_value(actual, column.name), column.value) << column.name;
  EXPECT_EQ(actual.frame_columns, expected.frame_columns);
}

namespace {

void expect_missing(std::span<const std::byte> row, const Cut& cut) {
  if (cut.is_pixels()) {
    EXPECT_TRUE(std::ranges::all_of(row, [](std::byte b) { return b == std::byte{0}; }));
  } else if (cut.storage == DType::kFp16) {
    std::vector<std::uint16_t> halves(row.size() / 2);
    std::memcpy(halves.data(), row.data(), row.size());
    EXPECT_TRUE(std::ranges::all_of(halves, [](std::uint16_t h) { return h == 0x7e00; }));
  } else {
    std::vector<float> floats(row.size() / 4);
    std::memcpy(floats.data(), row.data(), row.size());
    EXPECT_TRUE(std::ranges::all_of(floats, [](float f) { return std::isnan(f); }));
  }
}

void expect_equal_cut(const CacheReader& cache, std::size_t index, const ExamFeatures& exam) {
  const std::size_t row_bytes = cache.cut()->row_bytes();
  std::vector<std::byte> rows(exam.info.frames() * row_bytes);
  for (std::size_t view = 0; view < cache.views().size(); ++view) {
    const auto given = std::find_if(exam.views.begin(), exam.views.end(), [&](const auto& each) {
      return each.view == cache.views()[view];
    });
    ASSERT_NE(given, exam.views.end());
    cache.read_cut(index, view, rows);
    for (std::size_t t = 0; t < exam.info.frames(); ++t) {
      const auto row = std::span<const std::byte>(rows).subspan(t * row_bytes, row_bytes);
      if (exam.info.present[t])
        EXPECT_TRUE(
            std::ranges::equal(row, std::span(given->cut).subspan(t * row_bytes, row_bytes)));
      else
        expect_missing(row, *cache.cut());
    }
  }
}

}  // namespace

void expect_equal(const CacheReader& cache, const ExamFeatures& exam) {
  SCOPED_TRACE(exam.info.id);
  const std::size_t index = cache.find(exam.info.id);
  ASSERT_NE(index, CacheReader::npos);
  expect_equal(cache.exams()[index], exam.info);
  for (const ViewFeatures& view : exam.views)
    EXPECT_TRUE(same_bits(cache.features(index, view.view), view.values)) << view.view;
  if (cache.cut()) expect_equal_cut(cache, index, exam);
  EXPECT_EQ(cache.thumbnails(index), exam.thumbnails);
}

WriterOptions one_exam_a_shard() {
  WriterOptions options;
  options.max_shard_exams = 1;
  options.max_shard_bytes = 1 << 16;
  return options;
}

void write_cache(const fs::path& path, const std::vector<ExamFeatures>& exams,
                 const WriterOptions& options, const std::optional<Cut>& cut) {
  const std::size_t dimension = exams.at(0).views.at(0).values.size() / exams[0].info.frames();
  Recipe recipe = exams[0].thumbnails.empty() ? make_recipe() : make_recipe_with_thumbnails();
  if (cut) recipe = with_cut(std::move(recipe), *cut);
  ShardWriter writer(locate(path), recipe, static_cast<std::int64_t>(dimension), options);
  for (const ExamFeatures& exam : exams) writer.add(exam);
  writer.finish();
}

void extend_cache(const fs::path& path, const fs::path& log) {
  std::ofstream acknowledged(log);
  int next = 1;
  ShardWriter writer(locate(path), make_recipe(), 40, one_exam_a_shard());
  writer.on_published = [&](std::size_t exams) {
    for (std::size_t i = 0; i < exams; ++i) acknowledged << next++ << std::endl;
  };
  for (std::uint64_t i = 1; i <= 3; ++i) writer.add(make_exam(std::to_string(i), i, 5, 40));
  writer.finish();
}

void expect_acknowledged(const fs::path& path, const fs::path& log) {
  const CacheReader cache(path);
  expect_equal(cache, make_exam("0", 0, 5, 40));
  std::ifstream names(log);
  for (std::uint64_t i = 0; names >> i;)
    expect_equal(cache, make_exam(std::to_string(i), i, 5, 40));
}

std::vector<std::byte> read_bytes(const fs::path& path) {
  std::vector<std::byte> bytes(fs::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void write_bytes(const fs::path& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void flip_byte(const fs::path& path, std::size_t offset) {
  std::vector<std::byte> bytes = read_bytes(path);
  bytes.at(offset) ^= std::byte{0x10};
  write_bytes(path, bytes);
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace coldframe::cache
