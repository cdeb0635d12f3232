// The reader against the library that writes: every shape of an index of chunks, rows across
// chunks, many columns.
#include <gtest/gtest.h>

#include <cstring>

#include "cache/hdf5/file_reader.h"
#include "cache/hdf5/file_writer.h"
#include "common/cli/error.h"

namespace coldframe::cache::hdf5 {
namespace {

struct Shape {
  const char* name;
  std::uint64_t rows;
  std::vector<std::uint64_t> row;
};

class Chunks : public ::testing::TestWithParam<Shape> {};

// Values are uint32, each its own number.
TEST_P(Chunks, AreFoundWhereTheLibraryPutThem) {
  const auto [name, rows, row_shape] = GetParam();
  DatasetSpec spec{DType::kUint32, 0, rows, row_shape};
  const std::uint64_t width = spec.row_bytes() / 4;
  const auto row_of = [&](std::uint64_t row) {
    std::vector<std::uint32_t> values(width);
    for (std::uint64_t i = 0; i < width; ++i)
      values[i] = static_cast<std::uint32_t>(row * width + i);
    return values;
  };
  MemoryStore store;
  {
    FileWriter file(store);
    DatasetWriter writer = file.add_dataset("x", spec);
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::vector<std::uint32_t> values = row_of(row);
      writer.append(std::as_bytes(std::span(values)));
    }
    writer.finish();
    file.close();
  }
  const FileReader file(store);
  const DatasetReader dataset = file.dataset("x");
  ASSERT_EQ(dataset.spec().rows, rows);
  ASSERT_EQ(dataset.spec().row_shape, row_shape);
  const std::uint64_t count = std::min<std::uint64_t>(rows, 3);
  std::vector<std::uint32_t> values(count * width);
  for (std::uint64_t first = 0; first + count <= rows; first += std::max<std::uint64_t>(1, count)) {
    dataset.read_rows(first, count, std::as_writable_bytes(std::span(values)));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::vector<std::uint32_t> expected = row_of(first + i);
      ASSERT_EQ(std::memcmp(&values[i * width], expected.data(), width * 4), 0) << first + i;
    }
    if (rows == 0) break;
  }
  EXPECT_THROW(dataset.read_rows(rows, 1, std::as_writable_bytes(std::span(values).first(width))),
               CacheError);
}

// A chunk has 128 KiB or one row; an index of more than 1024 chunks has pages.
const Shape kShapes[] = {{"Nothing", 0, {}},
                         {"NothingWide", 0, {5}},
                         {"NothingLarge", 0, {197, 384}},
                         {"OneValue", 1, {}},
                         {"OneChunk", 1000, {7}},
                         {"FullChunks", 65536, {}},
                         {"LastChunkPartly", 70000, {3}},
                         {"RowsLargerThanAChunk", 5, {40000}},
                         {"OnePage", 1024, {32769}},
                         {"SeveralPages", 2100, {16385}},
                         {"Matrices", 300, {17, 24}},
                         {"LargeMatrices", 40, {197, 200}},
                         {"Images", 50, {20, 30, 3}}};
INSTANTIATE_TEST_SUITE_P(Shapes, Chunks, ::testing::ValuesIn(kShapes),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(FileReader, ReadsThousandsOfColumnsInTheirOrder) {
  constexpr int kColumns = 3000;
  MemoryStore store;
  const std::byte value{7};
  {
    FileWriter file(store);
    std::vector<std::string> names;
    for (int i = kColumns; i > 0; --i) names.push_back(std::to_string(i));
    file.add_group("g", names);
    for (const std::string& name : names)
      file.add_dataset("g/" + name, {DType::kUint8, 0, 1}, std::span(&value, 1));
    file.close();
  }
  const FileReader file(store);
  const std::vector<std::string> names = file.names("g");
  ASSERT_EQ(names.size(), static_cast<std::size_t>(kColumns));
  for (int i = 0; i < kColumns; ++i) {
    ASSERT_EQ(names[static_cast<std::size_t>(i)], std::to_string(kColumns - i));
    std::byte read{0};
    file.dataset("g/" + names[static_cast<std::size_t>(i)]).read_rows(0, 1, std::span(&read, 1));
    ASSERT_EQ(read, value);
  }
}

}  // namespace
}  // namespace coldframe::cache::hdf5
