#include "cache/tool/exchange/feature_file.h"

#include "cache/format/float16.h"
#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/bytes/npy_header.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::uint64_t kMostColumns = 1u << 20;

}  // namespace

FeatureFile::FeatureFile(const std::filesystem::path& path) : path_(path), file_(path) {
  if (lower(path.extension().string()) != ".npy")
    throw DataError(
        concat(path.string(), ": features are imported from .npy; numpy.save writes it"));
  const NpyHeader header =
      in_context(path_.string(), [&] { return read_npy_header(InputFile(path_, refuse_unnamed)); });
  data_ = header.data;
  const std::string& type = header.type;
  bytes_ = type == "<f2" ? 2 : type == "<f4" ? 4 : type == "<f8" ? 8 : 0;
  require(bytes_ != 0, concat("its values are '", type,
                              "' where '<f2', '<f4' or '<f8' (little-endian floats) was expected"));
  require(!header.fortran_order, "is in Fortran order; save numpy.ascontiguousarray(x)");
  const std::vector<std::int64_t>& shape = header.shape;
  require(shape.size() == 2 && shape[0] >= 0 && shape[1] >= 0,
          concat("has the shape (", header.shape_text, ") where (frames, dimension) was expected"));
  set_shape(shape[0], shape[1], file_.size() - data_);
}

void FeatureFile::require(bool condition, const std::string& what) const {
  if (!condition) throw DataError(concat(path_.string(), ": ", what));
}

void FeatureFile::set_shape(std::int64_t rows, std::int64_t columns, std::uint64_t bytes_there) {
  rows_ = static_cast<std::uint64_t>(rows);
  columns_ = static_cast<std::uint64_t>(columns);
  require(columns_ >= 1 && columns_ <= kMostColumns, concat("has ", columns, " columns"));
  const std::uint64_t row_bytes = columns_ * static_cast<std::uint64_t>(bytes_);
  require(rows_ <= bytes_there / row_bytes && rows_ * row_bytes == bytes_there,
          concat("has ", bytes_there, " bytes of data where (", rows, ", ", columns, ") needs ",
                 bytes_, " × ", rows, " × ", columns));
}

const char* FeatureFile::type_name() const {
  return bytes_ == 2 ? "float16" : bytes_ == 4 ? "float32" : "float64";
}

void FeatureFile::read_row(std::uint64_t row, std::span<float> values) const {
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
