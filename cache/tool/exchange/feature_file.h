// Reads the features of a .npy file, row by row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/files/file.h"
#include "common/numbers/dtype.h"

namespace coldframe::cache::tool {

// [rows, columns] of float16, float32 or float64, little-endian, in C order. DataError for
// everything else.
class FeatureFile {
 public:
  explicit FeatureFile(const std::filesystem::path& path);
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }
  DType type() const { return type_; }
  // Gives float32; what float32 cannot hold becomes infinite.
  void read_row(std::uint64_t row, std::span<float> values) const;

 private:
  void set_shape(std::int64_t rows, std::int64_t columns, std::uint64_t bytes_there);
  void require(bool condition, const std::string& what) const;

  std::filesystem::path path_;
  InputFile file_;
  std::uint64_t data_ = 0, rows_ = 0, columns_ = 0;
  DType type_ = DType::kFp32;
};

}  // namespace coldframe::cache::tool
