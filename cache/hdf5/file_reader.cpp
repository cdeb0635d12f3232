#include "cache/hdf5/file_reader.h"

#include <algorithm>
#include <cstring>

#include "cache/format.h"
#include "cache/hdf5/driver.h"
#include "cache/hdf5/handle.h"
#include "cache/hdf5/types.h"
#include "common/error.h"
#include "common/text.h"

namespace coldframe::cache::hdf5 {
namespace {

constexpr hsize_t kMostLinks = 1u << 16;

void require(bool condition, const std::string& what) {
  if (!condition) throw CacheError(what);
}

// A hard link to an object that has no other name.
void check_link(hid_t file, const std::string& path, H5O_type_t expected) {
  H5L_info_t link;
  check(H5Lget_info(file, path.c_str(), &link, H5P_DEFAULT), "find " + path);
  require(link.type == H5L_TYPE_HARD, path + " is a soft or an external link");
  H5O_info_t object;
  check(H5Oget_info_by_name2(file, path.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT),
        "open " + path);
  require(object.type == expected,
          path + (expected == H5O_TYPE_GROUP ? " is not a group" : " is not a dataset"));
  require(object.rc == 1, path + " has several names");
}

DatasetSpec read_shape(hid_t dataset, const std::string& path, std::uint64_t file_size) {
  DatasetSpec spec;
  const Handle type(check_id(H5Dget_type(dataset), "read the type of " + path), H5Tclose);
  require(H5Tcommitted(type) == 0, path + " shares a named type");
  try {
    spec.type = known_type(type, spec.text_bytes);
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " has ", error.what()));
  }
  const Handle space(check_id(H5Dget_space(dataset), "read the shape of " + path), H5Sclose);
  require(H5Sget_simple_extent_type(space) == H5S_SIMPLE, path + " is not an array");
  const int rank = H5Sget_simple_extent_ndims(space);
  require(rank == 1 || rank == 2, concat(path, " has ", rank, " dimensions"));
  hsize_t size[2] = {0, 0}, largest[2] = {0, 0};
  check(H5Sget_simple_extent_dims(space, size, largest), "read the shape of " + path);
  require(size[0] == largest[0] && size[1] == largest[1], path + " may grow");
  spec.rows = size[0];
  spec.columns = rank == 2 ? size[1] : 0;
  require(rank == 1 || spec.columns > 0, path + " has rows without columns");
  const std::uint64_t element = element_bytes(spec.type, spec.text_bytes);
  require(spec.columns <= file_size / element, path + " claims more columns than fit in the file");
  require(spec.rows <= file_size / spec.row_bytes(),
          path + " claims more rows than fit in the file");
  return spec;
}

void check_storage(hid_t dataset, const std::string& path, const DatasetSpec& spec) {
  const Handle made(check_id(H5Dget_create_plist(dataset), "read the layout of " + path), H5Pclose);
  require(H5Pget_layout(made) == H5D_CHUNKED, path + " is not chunked");
  require(H5Pget_external_count(made) <= 0, path + " lies in an external file");
  require(H5Pget_nfilters(made) == 1, path + " has filters other than fletcher32");
  unsigned flags = 0, config = 0;
  size_t values = 0;
  const H5Z_filter_t filter =
      H5Pget_filter2(made, 0, &flags, &values, nullptr, 0, nullptr, &config);
  require(filter == H5Z_FILTER_FLETCHER32, path + " has filters other than fletcher32");
  hsize_t chunk[2] = {0, 0};
  const int rank = H5Pget_chunk(made, 2, chunk);
  require(rank == (spec.columns == 0 ? 1 : 2), path + " has odd chunks");
  require(chunk[0] >= 1 && chunk[0] <= std::max<std::uint64_t>(1, spec.rows) &&
              (rank == 1 || chunk[1] == spec.columns),
          path + " has odd chunks");
  const std::uint64_t chunks = (spec.rows + chunk[0] - 1) / chunk[0];
  const std::uint64_t stored = chunks * (chunk[0] * spec.row_bytes() + kFletcherBytes);
  require(H5Dget_storage_size(dataset) == stored, path + " has missing chunks");
}

}  // namespace

struct FileReader::State {
  DriverTarget target;
  Handle file;
};

struct DatasetReader::State {
  DatasetSpec spec;
  std::string path;
  const DriverTarget* target = nullptr;
  Handle type, dataset;
};

std::string unpad(std::span<const std::byte> field) {
  const char* text = reinterpret_cast<const char*>(field.data());
  std::size_t length = field.size();
  while (length > 0 && text[length - 1] == '\0') --length;
  return {text, length};
}

DatasetReader::DatasetReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DatasetReader::DatasetReader(DatasetReader&&) noexcept = default;
DatasetReader& DatasetReader::operator=(DatasetReader&&) noexcept = default;

DatasetReader::~DatasetReader() {
  const auto lock = library_lock();
  state_.reset();
}

const DatasetSpec& DatasetReader::spec() const {
  return state_->spec;
}

void DatasetReader::read_rows(std::uint64_t first, std::uint64_t count,
                              std::span<std::byte> destination) const {
  const auto lock = library_lock();
  const DatasetSpec& spec = state_->spec;
  require(first <= spec.rows && count <= spec.rows - first &&
              destination.size() == count * spec.row_bytes(),
          state_->path + ": rows outside the dataset were asked for");
  if (count == 0) return;
  const hsize_t start[2] = {first, 0}, size[2] = {count, spec.columns};
  const int rank = spec.columns == 0 ? 1 : 2;
  const Handle memory(check_id(H5Screate_simple(rank, size, nullptr), "make a space"), H5Sclose);
  const Handle space(check_id(H5Dget_space(state_->dataset), "get a data space"), H5Sclose);
  check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, size, nullptr), "select rows");
  const herr_t code =
      H5Dread(state_->dataset, state_->type, memory, space, H5P_DEFAULT, destination.data());
  if (state_->target->first_error) std::rethrow_exception(state_->target->first_error);
  check(code, "read " + state_->path);
}

FileReader::FileReader(ByteStore& store) : state_(std::make_unique<State>()) {
  const auto lock = library_lock();
  state_->target.store = &store;
  const Handle access(file_access(state_->target), H5Pclose);
  const hid_t file = H5Fopen("shard", H5F_ACC_RDONLY, access);
  if (state_->target.first_error) std::rethrow_exception(state_->target.first_error);
  state_->file = Handle(check_id(file, "open the file"), H5Fclose);
}

FileReader::~FileReader() {
  const auto lock = library_lock();
  state_.reset();
}

std::vector<std::string> FileReader::names(const std::string& group) const {
  const auto lock = library_lock();
  const hid_t file = state_->file;
  if (group != "/") check_link(file, group, H5O_TYPE_GROUP);
  const Handle opened(check_id(H5Gopen2(file, group.c_str(), H5P_DEFAULT), "open group " + group),
                      H5Gclose);
  const Handle made(check_id(H5Gget_create_plist(opened), "read group " + group), H5Pclose);
  unsigned order = 0;
  check(H5Pget_link_creation_order(made, &order), "read group " + group);
  const H5_index_t index = (order & H5P_CRT_ORDER_INDEXED) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  H5G_info_t info;
  check(H5Gget_info(opened, &info), "read group " + group);
  require(info.nlinks <= kMostLinks, group + " has too many links");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[kLongestLinkName + 1];
    const ssize_t length =
        H5Lget_name_by_idx(opened, ".", index, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    check(length < 0 ? -1 : 0, "read group " + group);
    require(static_cast<std::size_t>(length) < sizeof name, group + " has too long a name");
    names.emplace_back(name);
  }
  return names;
}

DatasetReader FileReader::dataset(const std::string& path) const {
  const auto lock = library_lock();
  check_link(state_->file, path, H5O_TYPE_DATASET);
  auto opened = std::make_unique<DatasetReader::State>();
  opened->path = path;
  opened->target = &state_->target;
  opened->dataset =
      Handle(check_id(H5Dopen2(state_->file, path.c_str(), H5P_DEFAULT), "open " + path), H5Dclose);
  opened->spec = read_shape(opened->dataset, path, state_->target.store->size());
  check_storage(opened->dataset, path, opened->spec);
  opened->type = make_type(opened->spec.type, opened->spec.text_bytes);
  return DatasetReader(std::move(opened));
}

namespace {

struct AttributeValue {
  Type type;
  std::size_t text_bytes = 0;
  bool scalar = false;
  std::vector<std::byte> bytes;
};

AttributeValue read_attribute(hid_t file, const std::string& name) {
  require(H5Aexists(file, name.c_str()) > 0, "attribute " + name + " is missing");
  const Handle attribute(
      check_id(H5Aopen(file, name.c_str(), H5P_DEFAULT), "open attribute " + name), H5Aclose);
  const Handle type(check_id(H5Aget_type(attribute), "read attribute " + name), H5Tclose);
  AttributeValue value;
  try {
    value.type = known_type(type, value.text_bytes);
  } catch (const CacheError& error) {
    throw CacheError(concat("attribute ", name, " has ", error.what()));
  }
  const Handle space(check_id(H5Aget_space(attribute), "read attribute " + name), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  const std::size_t bytes = element_bytes(value.type, value.text_bytes);
  require(count >= 0 && static_cast<std::size_t>(count) <= kLargestAttribute / bytes,
          "attribute " + name + " is too large");
  value.scalar = H5Sget_simple_extent_type(space) == H5S_SCALAR;
  value.bytes.resize(static_cast<std::size_t>(count) * bytes);
  const Handle memory = make_type(value.type, value.text_bytes);
  if (count > 0) check(H5Aread(attribute, memory, value.bytes.data()), "read attribute " + name);
  return value;
}

}  // namespace

std::int64_t FileReader::integer_attribute(const std::string& name) const {
  const auto lock = library_lock();
  const AttributeValue value = read_attribute(state_->file, name);
  require(value.type == Type::kInt64 && value.scalar, "attribute " + name + " is not an int64");
  std::int64_t number = 0;
  std::memcpy(&number, value.bytes.data(), sizeof number);
  return number;
}

std::string FileReader::text_attribute(const std::string& name) const {
  const auto lock = library_lock();
  const AttributeValue value = read_attribute(state_->file, name);
  require(value.type == Type::kText && value.scalar, "attribute " + name + " is not a text");
  return unpad(value.bytes);
}

std::vector<std::string> FileReader::texts_attribute(const std::string& name) const {
  const auto lock = library_lock();
  const AttributeValue value = read_attribute(state_->file, name);
  require(value.type == Type::kText && !value.scalar,
          "attribute " + name + " is not a list of texts");
  std::vector<std::string> texts;
  const std::span<const std::byte> bytes(value.bytes);
  for (std::size_t at = 0; at < bytes.size(); at += value.text_bytes)
    texts.push_back(unpad(bytes.subspan(at, value.text_bytes)));
  return texts;
}

}  // namespace coldframe::cache::hdf5
