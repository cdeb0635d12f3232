#include "cache/tool/exchange/feature_file.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "cache/format/float16.h"
#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/files/bytes/npy_header.h"
#include "common/files/bytes/zip_archive.h"
#include "common/files/csv.h"
#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::uint64_t kMostJson = 100'000'000;  // as the reference implementation of safetensors
constexpr std::uint64_t kMostColumns = 1u << 20;

// The entry `features`, or the only one; `names` are those that could be meant.
std::string choose_array(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return std::find(names.begin(), names.end(), "features") == names.end() ? "" : "features";
}

std::int64_t as_size(const Json& value) {
  return value.is_number_unsigned() ? value.get<std::int64_t>() : -1;
}

}  // namespace

FeatureFile::FeatureFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::string ending = lower(path.extension().string());
  if (ending == ".csv")
    open_csv();
  else if (ending == ".npz")
    open_npz();
  else if (ending == ".safetensors")
    open_safetensors();
  else
    open_npy(0, file_.size());
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

void FeatureFile::open_npy(std::uint64_t begin, std::uint64_t end) {
  const NpyHeader header = in_context(
      path_.string(), [&] { return read_npy_header(InputFile(path_, refuse_unnamed), begin); });
  data_ = header.data;
  require(data_ <= end, "its header is damaged");
  const std::string& type = header.type;
  bytes_ = type == "<f2" ? 2 : type == "<f4" ? 4 : type == "<f8" ? 8 : 0;
  require(bytes_ != 0, concat("its values are '", type,
                              "' where '<f2', '<f4' or '<f8' (little-endian floats) was expected"));
  require(!header.fortran_order, "is in Fortran order; save numpy.ascontiguousarray(x)");
  const std::vector<std::int64_t>& shape = header.shape;
  require(shape.size() == 2 && shape[0] >= 0 && shape[1] >= 0,
          concat("has the shape (", header.shape_text, ") where (frames, dimension) was expected"));
  set_shape(shape[0], shape[1], end - data_);
}

void FeatureFile::open_npz() {
  const ZipArchive archive(file_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : archive.entries())
    if (name.ends_with(".npy")) names.push_back(name.substr(0, name.size() - 4));
  const std::string name = choose_array(names);
  require(!name.empty(), "has no array `features`, but " + join(names, ", "));
  const ZipEntry& entry = archive.entry(name + ".npy");
  require(entry.stored, "is compressed; write it with numpy.savez");
  constexpr std::uint64_t kLocalHeader = 30, kNameLength = 26, kExtraLength = 28;
  std::vector<std::byte> head(kLocalHeader);
  file_.read_at(entry.header, head);
  const ByteCursor fields(head);
  const std::uint64_t begin = entry.header + kLocalHeader + fields.number_at(kNameLength, 2) +
                              fields.number_at(kExtraLength, 2);
  require(begin <= file_.size() && entry.size <= file_.size() - begin, "is truncated");
  open_npy(begin, begin + entry.size);
}

void FeatureFile::open_safetensors() {
  std::vector<std::byte> head(8);
  file_.read_at(0, head);
  const std::uint64_t length = ByteCursor(head).number_at(0, 8);
  require(length <= kMostJson && length <= file_.size() - 8, "its header is damaged");
  const Json header = parse_json(file_.read(8, length), path_.string());
  require(header.is_object(), "its header is damaged");
  std::vector<std::string> names;
  for (const auto& [key, value] : header.items())
    if (key != "__metadata__") names.push_back(key);
  const std::string name = choose_array(names);
  require(!name.empty(), "has no tensor `features`, but " + join(names, ", "));
  const Json& tensor = header[name];
  for (const char* key : {"dtype", "shape", "data_offsets"})
    require(tensor.is_object() && tensor.contains(key), "its header is damaged");
  const Json &type = tensor["dtype"], &shape = tensor["shape"], &place = tensor["data_offsets"];
  bytes_ = type == "F16" ? 2 : type == "F32" ? 4 : type == "F64" ? 8 : 0;
  require(bytes_ != 0,
          concat("its values are ", type.dump(), " where F16, F32 or F64 was expected"));
  require(shape.is_array() && shape.size() == 2 && as_size(shape[0]) >= 0 && as_size(shape[1]) >= 0,
          concat("has the shape ", shape.dump(), " where [frames, dimension] was expected"));
  require(place.is_array() && place.size() == 2 && as_size(place[0]) >= 0 &&
              as_size(place[1]) >= as_size(place[0]),
          "its header is damaged");
  const auto begin = static_cast<std::uint64_t>(as_size(place[0])),
             end = static_cast<std::uint64_t>(as_size(place[1]));
  data_ = 8 + length;
  require(end <= file_.size() - data_, "is truncated");
  data_ += begin;
  set_shape(as_size(shape[0]), as_size(shape[1]), end - begin);
}

void FeatureFile::open_csv() {
  const CsvTable table = read_csv(path_);
  const std::size_t first = table.require_column("f0");
  std::size_t count = 0;
  while (first + count < table.header.size() && table.header[first + count] == concat('f', count))
    ++count;
  for (std::size_t row = 0; row < table.rows.size(); ++row)
    for (std::size_t d = 0; d < count; ++d) {
      const std::string& text = table.rows[row][first + d];
      float value = std::numeric_limits<float>::quiet_NaN();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      require(text.empty() || (error == std::errc() && end == text.data() + text.size()),
              concat("line ", table.lines[row], ": '", text, "' is not a number"));
      parsed_.push_back(value);
    }
  bytes_ = sizeof(float);
  set_shape(static_cast<std::int64_t>(table.rows.size()), static_cast<std::int64_t>(count),
            parsed_.size() * sizeof(float));
}

const char* FeatureFile::type_name() const {
  return bytes_ == 2 ? "float16" : bytes_ == 4 ? "float32" : "float64";
}

void FeatureFile::read_row(std::uint64_t row, std::span<float> values) const {
  if (!parsed_.empty()) {
    std::copy_n(parsed_.begin() + static_cast<std::ptrdiff_t>(row * columns_), columns_,
                values.begin());
    return;
  }
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
