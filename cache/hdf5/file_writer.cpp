#include "cache/hdf5/file_writer.h"

#include <algorithm>
#include <limits>

#include "cache/format/format.h"
#include "cache/hdf5/driver.h"
#include "cache/hdf5/handle.h"
#include "cache/hdf5/types.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {
namespace {

// Links and attributes stay in the group's header, never in a heap, which our reader does not know;
// this is the largest number that HDF5 takes. Creation order is the order of the columns.
constexpr unsigned kCompactLinks = 65535;

// With `names` the header gets its room at once: HDF5 takes time with the cube of their number to
// find room for one link after another.
Handle group_properties(const std::vector<std::string>& names) {
  Handle properties(check_id(H5Pcreate(H5P_GROUP_CREATE), "create a property list"), H5Pclose);
  check(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "track the order of columns");
  check(H5Pset_link_phase_change(properties, kCompactLinks, kCompactLinks / 2), "set up a group");
  check(H5Pset_obj_track_times(properties, false), "leave out times");
  if (names.empty()) return properties;
  std::size_t bytes = 0;
  for (const std::string& name : names) bytes += name.size();
  const auto count = static_cast<unsigned>(std::min<std::size_t>(names.size(), kCompactLinks));
  const auto length = static_cast<unsigned>((bytes + names.size() - 1) / names.size());
  check(H5Pset_est_link_info(properties, count, length), "set up a group");
  return properties;
}

std::uint64_t rows_per_chunk(const DatasetSpec& spec) {
  const std::uint64_t wanted = std::max<std::uint64_t>(1, kChunkBytes / spec.row_bytes());
  return std::min(wanted, std::max<std::uint64_t>(1, spec.rows));
}

Handle dataset_properties(const DatasetSpec& spec, hid_t type) {
  Handle properties(check_id(H5Pcreate(H5P_DATASET_CREATE), "create a property list"), H5Pclose);
  const hsize_t chunk[2] = {rows_per_chunk(spec), std::max<std::uint64_t>(1, spec.columns)};
  check(H5Pset_chunk(properties, spec.columns == 0 ? 1 : 2, chunk), "choose chunks");
  check(H5Pset_fletcher32(properties), "choose checksums");
  check(H5Pset_obj_track_times(properties, false), "leave out times");
  const std::uint16_t half_nan = kHalfNaN;
  const float float_nan = std::numeric_limits<float>::quiet_NaN();
  const double double_nan = std::numeric_limits<double>::quiet_NaN();
  const void* fill = spec.type == Type::kFloat16   ? static_cast<const void*>(&half_nan)
                     : spec.type == Type::kFloat32 ? static_cast<const void*>(&float_nan)
                     : spec.type == Type::kFloat64 ? static_cast<const void*>(&double_nan)
                                                   : nullptr;
  if (fill != nullptr) check(H5Pset_fill_value(properties, type, fill), "set the fill value");
  return properties;
}

Handle make_space(const DatasetSpec& spec, std::uint64_t rows) {
  const hsize_t size[2] = {rows, spec.columns};
  return {check_id(H5Screate_simple(spec.columns == 0 ? 1 : 2, size, nullptr), "make a data space"),
          H5Sclose};
}

}  // namespace

struct FileWriter::State {
  DriverTarget target;
  Handle file;

  void rethrow_store_error() const {
    if (target.first_error) std::rethrow_exception(target.first_error);
  }
};

struct DatasetWriter::State {
  DatasetSpec spec;
  FileWriter::State* file = nullptr;
  std::string path;
  Handle type, dataset;
  std::uint64_t written = 0, block_bytes = 0;
  std::vector<std::byte> pending;

  void write_block(std::span<const std::byte> bytes);
};

void DatasetWriter::State::write_block(std::span<const std::byte> bytes) {
  const std::uint64_t rows = bytes.size() / spec.row_bytes();
  if (rows == 0) return;
  if (rows > spec.rows - written) throw CacheError(concat(path, ": more rows than announced"));
  const Handle memory = make_space(spec, rows);
  const Handle space(check_id(H5Dget_space(dataset), "get a data space"), H5Sclose);
  const hsize_t start[2] = {written, 0}, count[2] = {rows, spec.columns};
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr), "select rows");
  check(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, bytes.data()), "write " + path);
  written += rows;
  file->rethrow_store_error();
}

DatasetWriter::DatasetWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;
DatasetWriter& DatasetWriter::operator=(DatasetWriter&&) noexcept = default;

DatasetWriter::~DatasetWriter() {
  const auto lock = library_lock();
  state_.reset();
}

void DatasetWriter::append(std::span<const std::byte> rows) {
  const auto lock = library_lock();
  State& state = *state_;
  while (!rows.empty()) {
    if (state.pending.empty() && rows.size() >= state.block_bytes) {
      const std::size_t whole = rows.size() / state.block_bytes * state.block_bytes;
      state.write_block(rows.first(whole));
      rows = rows.subspan(whole);
      continue;
    }
    const std::size_t room = state.block_bytes - state.pending.size();
    const auto part = rows.first(std::min<std::size_t>(room, rows.size()));
    state.pending.insert(state.pending.end(), part.begin(), part.end());
    rows = rows.subspan(part.size());
    if (state.pending.size() == state.block_bytes) {
      state.write_block(state.pending);
      state.pending.clear();
    }
  }
}

void DatasetWriter::finish() {
  const auto lock = library_lock();
  state_->write_block(state_->pending);
  if (state_->written != state_->spec.rows)
    throw CacheError(concat(state_->path, ": ", state_->written, " rows came where ",
                            state_->spec.rows, " were announced"));
  state_->dataset.reset();
  state_->file->rethrow_store_error();
}

FileWriter::FileWriter(ByteStore& store) : state_(std::make_unique<State>()) {
  const auto lock = library_lock();
  state_->target.store = &store;
  const Handle access(file_access(state_->target), H5Pclose);
  Handle creation(check_id(H5Pcreate(H5P_FILE_CREATE), "create a property list"), H5Pclose);
  check(H5Pset_obj_track_times(creation, false), "leave out times");
  // Attributes stay in the root group's header.
  check(H5Pset_attr_phase_change(creation, kCompactLinks, 0), "set up attributes");
  state_->file = Handle(
      check_id(H5Fcreate("shard", H5F_ACC_TRUNC, creation, access), "create a file"), H5Fclose);
}

FileWriter::~FileWriter() {
  const auto lock = library_lock();
  state_.reset();
}

void FileWriter::add_group(const std::string& path, const std::vector<std::string>& names) {
  const auto lock = library_lock();
  const Handle group(check_id(H5Gcreate2(state_->file, path.c_str(), H5P_DEFAULT,
                                         group_properties(names), H5P_DEFAULT),
                              "create group " + path),
                     H5Gclose);
}

DatasetWriter FileWriter::add_dataset(const std::string& path, const DatasetSpec& spec) {
  const auto lock = library_lock();
  auto state = std::make_unique<DatasetWriter::State>();
  state->spec = spec;
  state->file = state_.get();
  state->path = path;
  state->type = make_type(spec.type, spec.text_bytes);
  state->block_bytes = rows_per_chunk(spec) * spec.row_bytes();
  const Handle space = make_space(spec, spec.rows);
  const Handle properties = dataset_properties(spec, state->type);
  state->dataset = Handle(check_id(H5Dcreate2(state_->file, path.c_str(), state->type, space,
                                              H5P_DEFAULT, properties, H5P_DEFAULT),
                                   "create dataset " + path),
                          H5Dclose);
  return DatasetWriter(std::move(state));
}

void FileWriter::add_dataset(const std::string& path, const DatasetSpec& spec,
                             std::span<const std::byte> rows) {
  DatasetWriter writer = add_dataset(path, spec);
  writer.append(rows);
  writer.finish();
}

namespace {

void write_attribute(hid_t file, const std::string& name, hid_t type, hid_t space,
                     const void* value) {
  const Handle attribute(
      check_id(H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
               "create attribute " + name),
      H5Aclose);
  check(H5Awrite(attribute, type, value), "write attribute " + name);
}

}  // namespace

void FileWriter::set_attribute(const std::string& name, std::int64_t value) {
  const auto lock = library_lock();
  const Handle space(check_id(H5Screate(H5S_SCALAR), "make a data space"), H5Sclose);
  write_attribute(state_->file, name, make_type(Type::kInt64, 0), space, &value);
}

void FileWriter::set_attribute(const std::string& name, const std::string& value) {
  const auto lock = library_lock();
  const Handle space(check_id(H5Screate(H5S_SCALAR), "make a data space"), H5Sclose);
  const std::string text = value.empty() ? std::string(1, '\0') : value;
  write_attribute(state_->file, name, make_type(Type::kText, text.size()), space, text.data());
}

void FileWriter::set_attribute(const std::string& name, const std::vector<std::string>& values) {
  const auto lock = library_lock();
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  std::string padded;
  for (const std::string& value : values) padded.append(value).append(width - value.size(), '\0');
  const hsize_t size = values.size();
  const Handle space(check_id(H5Screate_simple(1, &size, nullptr), "make a data space"), H5Sclose);
  write_attribute(state_->file, name, make_type(Type::kText, width), space, padded.data());
}

void FileWriter::close() {
  const auto lock = library_lock();
  const herr_t closed = H5Fclose(state_->file.release());
  state_->rethrow_store_error();
  check(closed, "close the file");
}

}  // namespace coldframe::cache::hdf5
