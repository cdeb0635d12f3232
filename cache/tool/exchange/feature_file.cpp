#include "cache/tool/exchange/feature_file.h"

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
  require(header.dtype && is_float(*header.dtype) && header.type.starts_with('<'),
          concat("its values are '", header.type,
                 "' where '<f2', '<f4' or '<f8' (little-endian floats) was expected"));
  type_ = *header.dtype;
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
  const std::uint64_t row_bytes = columns_ * bytes_of(type_);
  require(rows_ <= bytes_there / row_bytes && rows_ * row_bytes == bytes_there,
          concat("has ", bytes_there, " bytes of data where (", rows, ", ", columns, ") needs ",
                 bytes_of(type_), " × ", rows, " × ", columns));
}

void FeatureFile::read_row(std::uint64_t row, std::span<float> values) const {
  std::vector<std::byte> bytes(values.size() * bytes_of(type_));
  file_.read_at(data_ + row * bytes.size(), bytes);
  convert(bytes, type_, values);
}

}  // namespace coldframe::cache::tool
