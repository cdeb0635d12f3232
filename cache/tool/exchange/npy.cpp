#include "cache/tool/exchange/npy.h"

#include <cstring>
#include <regex>
#include <vector>

#include "cache/format/float16.h"
#include "common/cli/error.h"
#include "common/files/byte_cursor.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostHeader = 4096;
constexpr std::uint64_t kMostColumns = 1u << 20;

std::string value_of(const std::string& header, const char* pattern) {
  std::smatch found;
  return std::regex_search(header, found, std::regex(pattern)) ? found[1].str() : "";
}

}  // namespace

NpyMatrix::NpyMatrix(const std::filesystem::path& path) : file_(path) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) throw DataError(concat(path.string(), ": ", what));
  };
  std::vector<std::byte> head(12);
  const bool enough = file_.read_some(0, head) == head.size();
  require(enough && std::memcmp(head.data(), "\x93NUMPY", 6) == 0,
          "not a .npy file; write it with numpy.save");
  const int version = std::to_integer<int>(head[6]);
  require(version >= 1 && version <= 3, concat("version ", version, " of the .npy format"));
  const std::uint64_t length_bytes = version == 1 ? 2 : 4;
  const std::uint64_t length = ByteCursor(head).number_at(8, length_bytes);
  data_ = 8 + length_bytes + length;
  require(length <= kMostHeader && data_ <= file_.size(), "its header is damaged");
  const std::string header = file_.read(8 + length_bytes, length);

  const std::string type = value_of(header, "'descr'\\s*:\\s*'([^']*)'");
  bytes_ = type == "<f2" ? 2 : type == "<f4" ? 4 : type == "<f8" ? 8 : 0;
  require(bytes_ != 0, concat("its values are '", type,
                              "' where '<f2', '<f4' or '<f8' (little-endian floats) was expected"));
  require(value_of(header, "'fortran_order'\\s*:\\s*(\\w+)") == "False",
          "is in Fortran order; save numpy.ascontiguousarray(x)");
  const std::string shape = value_of(header, "'shape'\\s*:\\s*\\(([^)]*)\\)");
  std::int64_t rows = -1, columns = -1;
  const std::vector<std::string> sizes = split(shape, ',');
  const bool two = sizes.size() == 2 && parse_int(trim(sizes[0]), rows) &&
                   parse_int(trim(sizes[1]), columns) && rows >= 0 && columns >= 0;
  require(two, concat("has the shape (", shape, ") where (frames, dimension) was expected"));
  rows_ = static_cast<std::uint64_t>(rows);
  columns_ = static_cast<std::uint64_t>(columns);
  require(columns_ >= 1 && columns_ <= kMostColumns, concat("has ", columns, " columns"));
  const std::uint64_t row_bytes = columns_ * static_cast<std::uint64_t>(bytes_);
  require(rows_ <= (file_.size() - data_) / row_bytes && rows_ * row_bytes == file_.size() - data_,
          concat("has ", file_.size() - data_, " bytes of data where (", shape, ") needs ", bytes_,
                 " × ", rows, " × ", columns));
}

const char* NpyMatrix::type_name() const {
  return bytes_ == 2 ? "float16" : bytes_ == 4 ? "float32" : "float64";
}

void NpyMatrix::read_row(std::uint64_t row, std::span<float> values) const {
  const std::uint64_t at = data_ + row * columns_ * static_cast<std::uint64_t>(bytes_);
  if (bytes_ == 4) return file_.read_at(at, std::as_writable_bytes(values));
  if (bytes_ == 2) {
    std::vector<std::uint16_t> halves(values.size());
    file_.read_at(at, std::as_writable_bytes(std::span(halves)));
    return from_half(halves, values);
  }
  std::vector<double> doubles(values.size());
  file_.read_at(at, std::as_writable_bytes(std::span(doubles)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(doubles[i]);
}

}  // namespace coldframe::cache::tool
