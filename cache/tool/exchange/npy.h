// Reads a two-dimensional array of floats from a .npy file, row by row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "common/files/file.h"

namespace coldframe::cache::tool {

// NPY format 1.0 to 3.0 (numpy.lib.format): float16, float32 or float64, little-endian, C order,
// [rows, columns]. DataError for everything else.
class NpyMatrix {
 public:
  explicit NpyMatrix(const std::filesystem::path& path);
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }
  const char* type_name() const;
  // Gives float32; what float32 cannot hold becomes infinite.
  void read_row(std::uint64_t row, std::span<float> values) const;

 private:
  InputFile file_;
  std::uint64_t data_ = 0, rows_ = 0, columns_ = 0;
  int bytes_ = 0;  // of one element
};

}  // namespace coldframe::cache::tool
