#include "cache/hdf5/file_writer.h"

#include <H5Cpp.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "cache/format/format.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/numbers/dtype.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {

// The HDF5 library as a whole: one caller at a time, errors as exceptions, no end.

// Debian's HDF5 is not thread-safe: whoever calls it holds this lock.
std::unique_lock<std::recursive_mutex> library_lock();

// Keeps HDF5's words on an error for throw_reason() from now on, unprinted.
void keep_reasons();

// CacheError "HDF5 cannot <action>: <HDF5's own words>", of the last C function that failed.
[[noreturn]] void throw_reason(std::string_view action);

// Checks the C functions that H5Cpp has no name for: H5::Exception for a negative code or
// identifier.
template <typename Code>
Code check(Code code) {
  if (code < 0) throw H5::Exception("check", "a function of HDF5 failed");
  return code;
}

// HDF5 1.10.8 crashes when it closes again what it could not close, as H5Cpp's destructors do, and
// they print: what cannot be closed is leaked. At the program's end H5Cpp has HDF5 close all that
// is open, so the program leaves without that.
struct CloseQuietly {
  template <typename Object>
  void operator()(Object* object) const noexcept {
    try {
      object->close();
      delete object;
    } catch (const H5::Exception&) {
      leaves_without_destructors = true;
    }
  }
};

template <typename Object>
using Owned = std::unique_ptr<Object, CloseQuietly>;

template <typename Object>
void close_or_throw(Owned<Object>& owner) {
  Object* object = owner.release();
  object->close();
  delete object;
}

// Our virtual file driver: HDF5's reads and writes go to a ByteStore.
//
// HDF5 1.10.8 crashes at exit after a write that failed at close. The driver therefore tells HDF5
// that every write succeeded, keeps the first error of the store, and writes nothing after it; the
// owner of the file asks for it at the end.

struct DriverTarget {
  ByteStore* store = nullptr;
  std::exception_ptr first_error;
};

// A file access property list that leads to `target`, which must outlive the HDF5 file.
H5::FileAccPropList file_access(DriverTarget& target);

std::size_t ByteStore::read_some(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::uint64_t there = offset < size() ? size() - offset : 0;
  const auto wanted = bytes.first(std::min<std::uint64_t>(there, bytes.size()));
  read_at(offset, wanted);
  return wanted.size();
}

void MemoryStore::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  const std::uint64_t there = offset < bytes_.size() ? bytes_.size() - offset : 0;
  const std::size_t copied = std::min<std::uint64_t>(there, bytes.size());
  if (copied > 0) std::memcpy(bytes.data(), bytes_.data() + offset, copied);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(copied), bytes.end(), std::byte{0});
}

void MemoryStore::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (offset + bytes.size() > bytes_.size()) bytes_.resize(offset + bytes.size());
  std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
}

void AtomicFileStore::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  file_.read_at(offset, bytes);
}

void AtomicFileStore::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  file_.write_at(offset, bytes);
}

void AtomicFileStore::truncate(std::uint64_t size) {
  file_.truncate(size);
}

namespace {

std::string& last_reason() {
  static std::string reason;
  return reason;
}

// The innermost entry of HDF5's error stack says what went wrong.
herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void*) {
  try {
    if (entry->desc != nullptr) last_reason() = entry->desc;
  } catch (const std::bad_alloc&) {  // the error is told without its reason
  }
  return 0;
}

herr_t keep_reason(hid_t stack, void*) {
  return H5Ewalk2(stack, H5E_WALK_DOWNWARD, keep_innermost, nullptr);
}

}  // namespace

std::string library_version() {
  const auto lock = library_lock();
  unsigned major = 0, minor = 0, release = 0;
  check(::H5get_libversion(&major, &minor, &release));
  return concat(major, ".", minor, ".", release);
}

std::unique_lock<std::recursive_mutex> library_lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

void keep_reasons() {
  H5E_auto2_t keep = keep_reason;
  H5::Exception::setAutoPrint(keep, nullptr);
}

void throw_reason(std::string_view action) {
  leaves_without_destructors = true;
  const std::string reason = std::exchange(last_reason(), {});
  throw CacheError(
      concat("HDF5 cannot ", action, ": ", reason.empty() ? "no reason given" : reason));
}

namespace {

constexpr haddr_t kLargestAddress = std::numeric_limits<std::int64_t>::max();

// HDF5 knows the file by its first member.
struct DriverFile {
  H5FD_t base{};
  DriverTarget* target = nullptr;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
};

DriverFile& ours(H5FD_t* file) {
  return *reinterpret_cast<DriverFile*>(file);
}
const DriverFile& ours(const H5FD_t* file) {
  return *reinterpret_cast<const DriverFile*>(file);
}

template <typename Operation>
bool attempt(DriverTarget& target, Operation operation) {
  if (target.first_error) return false;
  try {
    operation();
    return true;
  } catch (...) {
    target.first_error = std::current_exception();
    return false;
  }
}

H5FD_t* driver_open(const char*, unsigned, hid_t access, haddr_t) {
  const void* info = H5Pget_driver_info(access);
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) DriverFile;
  if (file == nullptr) return nullptr;
  file->target = *static_cast<DriverTarget* const*>(info);
  file->end_of_file = file->target->store->size();
  return &file->base;
}

herr_t driver_close(H5FD_t* file) {
  delete &ours(file);
  return 0;
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t driver_get_eoa(const H5FD_t* file, H5FD_mem_t) {
  return ours(file).end_of_allocation;
}

herr_t driver_set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  ours(file).end_of_allocation = address;
  return 0;
}

haddr_t driver_get_eof(const H5FD_t* file, H5FD_mem_t) {
  return ours(file).end_of_file;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* buffer) {
  DriverFile& self = ours(file);
  if (address > kLargestAddress || size > kLargestAddress - address) return -1;
  const std::span<std::byte> bytes(static_cast<std::byte*>(buffer), size);
  return attempt(*self.target, [&] { self.target->store->read_at(address, bytes); }) ? 0 : -1;
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size,
                    const void* buffer) {
  DriverFile& self = ours(file);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(buffer), size);
  attempt(*self.target, [&] { self.target->store->write_at(address, bytes); });
  self.end_of_file = std::max<haddr_t>(self.end_of_file, address + size);
  return 0;
}

herr_t driver_truncate(H5FD_t* file, hid_t, hbool_t) {
  DriverFile& self = ours(file);
  if (self.end_of_file == self.end_of_allocation) return 0;
  attempt(*self.target, [&] { self.target->store->truncate(self.end_of_allocation); });
  self.end_of_file = self.end_of_allocation;
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
  driver.name = "coldframe";
  driver.maxaddr = kLargestAddress;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverTarget*);
  driver.open = driver_open;
  driver.close = driver_close;
  driver.query = driver_query;
  driver.get_eoa = driver_get_eoa;
  driver.set_eoa = driver_set_eoa;
  driver.get_eof = driver_get_eof;
  driver.read = driver_read;
  driver.write = driver_write;
  driver.truncate = driver_truncate;
  std::fill(std::begin(driver.fl_map), std::end(driver.fl_map), H5FD_MEM_DEFAULT);
  return driver;
}

hid_t registered_driver() {
  static const H5FD_class_t driver = driver_class();
  static const hid_t id = [] {
    keep_reasons();
    return check(H5FDregister(&driver));
  }();
  return id;
}

// While a file is written, its metadata stay in memory until they are complete: nothing is read
// back from a store that has failed.
void keep_metadata_in_memory(hid_t access) {
  H5AC_cache_config_t config{};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check(H5Pget_mdc_config(access, &config));
  config.incr_mode = H5C_incr__off;
  config.flash_incr_mode = H5C_flash_incr__off;
  config.decr_mode = H5C_decr__off;
  config.evictions_enabled = false;
  check(H5Pset_mdc_config(access, &config));
}

}  // namespace

H5::FileAccPropList file_access(DriverTarget& target) {
  const hid_t driver = registered_driver();
  H5::FileAccPropList access;
  DriverTarget* pointer = &target;
  access.setDriver(driver, &pointer);
  access.setLibverBounds(H5F_LIBVER_V110, H5F_LIBVER_V110);
  access.setFcloseDegree(H5F_CLOSE_STRONG);
  keep_metadata_in_memory(access.getId());
  return access;
}

namespace {

// Links and attributes stay in the group's header, never in a heap, which our reader does not know;
// this is the largest number that HDF5 takes. Creation order is the order of the columns.
constexpr unsigned kCompactLinks = 65535;

// Gives the header room for all `names` at once: HDF5 takes time with the cube of their number to
// find room for one link after another.
H5::ObjCreatPropList group_properties(const std::vector<std::string>& names) {
  const H5::ObjCreatPropList properties(H5P_GROUP_CREATE);
  const hid_t id = properties.getId();
  check(H5Pset_link_creation_order(id, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED));
  check(H5Pset_link_phase_change(id, kCompactLinks, kCompactLinks / 2));
  check(H5Pset_obj_track_times(id, false));
  if (names.empty()) return properties;
  std::size_t bytes = 0;
  for (const std::string& name : names) bytes += name.size();
  const auto count = static_cast<unsigned>(std::min<std::size_t>(names.size(), kCompactLinks));
  const auto length = static_cast<unsigned>((bytes + names.size() - 1) / names.size());
  check(H5Pset_est_link_info(id, count, length));
  return properties;
}

static_assert(std::endian::native == std::endian::little,
              "rows are handed to HDF5 as they lie in memory");

// IEEE binary16, which HDF5 1.10 has no name for: sign 15, exponent 10…14, mantissa 0…9, bias 15.
H5::DataType make_half() {
  H5::FloatType half(H5::PredType::IEEE_F32LE);
  half.setFields(15, 10, 5, 0, 10);
  half.setSize(2);
  half.setEbias(15);
  return half;
}

H5::DataType make_text(std::size_t bytes) {
  H5::StrType text(H5::PredType::C_S1, bytes);
  text.setStrpad(H5T_STR_NULLPAD);
  text.setCset(H5T_CSET_UTF8);
  return text;
}

// HDF5's own name for a type.
H5::DataType make_type(Type type, std::size_t text_bytes) {
  if (!type) return make_text(text_bytes);
  switch (*type) {
    case DType::kUint8:
      return H5::PredType::STD_U8LE;
    case DType::kInt32:
      return H5::PredType::STD_I32LE;
    case DType::kInt64:
      return H5::PredType::STD_I64LE;
    case DType::kUint32:
      return H5::PredType::STD_U32LE;
    case DType::kUint64:
      return H5::PredType::STD_U64LE;
    case DType::kFp16:
      return make_half();
    case DType::kFp32:
      return H5::PredType::IEEE_F32LE;
    case DType::kFp64:
      return H5::PredType::IEEE_F64LE;
    default:  // the format has no others
      return {};
  }
}

std::uint64_t rows_per_chunk(const DatasetSpec& spec) {
  const std::uint64_t wanted = std::max<std::uint64_t>(1, kChunkBytes / spec.row_bytes());
  return std::min(wanted, std::max<std::uint64_t>(1, spec.rows));
}

std::vector<hsize_t> shape_of(const DatasetSpec& spec, std::uint64_t rows) {
  std::vector<hsize_t> shape{rows};
  shape.insert(shape.end(), spec.row_shape.begin(), spec.row_shape.end());
  return shape;
}

H5::DSetCreatPropList dataset_properties(const DatasetSpec& spec, const H5::DataType& type) {
  const H5::DSetCreatPropList properties;
  const std::vector<hsize_t> chunk = shape_of(spec, rows_per_chunk(spec));
  properties.setChunk(static_cast<int>(chunk.size()), chunk.data());
  properties.setFletcher32();
  check(H5Pset_obj_track_times(properties.getId(), false));
  const std::uint16_t half_nan = kHalfNaN;
  const float float_nan = std::numeric_limits<float>::quiet_NaN();
  const double double_nan = std::numeric_limits<double>::quiet_NaN();
  const void* fill = spec.type == DType::kFp16   ? static_cast<const void*>(&half_nan)
                     : spec.type == DType::kFp32 ? static_cast<const void*>(&float_nan)
                     : spec.type == DType::kFp64 ? static_cast<const void*>(&double_nan)
                                                 : nullptr;
  if (fill != nullptr) properties.setFillValue(type, fill);
  return properties;
}

H5::DataSpace make_space(const DatasetSpec& spec, std::uint64_t rows) {
  const std::vector<hsize_t> size = shape_of(spec, rows);
  return {static_cast<int>(size.size()), size.data()};
}

}  // namespace

struct FileWriter::State {
  DriverTarget target;
  Owned<H5::H5File> file;

  // Runs `body` as the library's one caller. The store's first error says more than what HDF5 made
  // of it.
  template <typename Body>
  void call(std::string_view action, Body body) const {
    const auto lock = library_lock();
    try {
      body();
    } catch (const H5::Exception&) {
      rethrow_store_error();
      throw_reason(action);
    }
    rethrow_store_error();
  }

  void rethrow_store_error() const {
    if (target.first_error) std::rethrow_exception(target.first_error);
  }

  // `count`: of the values in a list; nullptr for one value.
  void write_attribute(const std::string& name, Type type, std::size_t text_bytes,
                       const hsize_t* count, const void* values) const {
    call("write attribute " + name, [&] {
      const H5::DataType stored = make_type(type, text_bytes);
      const H5::DataSpace space =
          count == nullptr ? H5::DataSpace(H5S_SCALAR) : H5::DataSpace(1, count);
      file->createAttribute(name, stored, space).write(stored, values);
    });
  }
};

struct DatasetWriter::State {
  DatasetSpec spec;
  FileWriter::State* file = nullptr;
  std::string path;
  H5::DataType type;
  Owned<H5::DataSet> dataset;
  std::uint64_t written = 0, block_bytes = 0;
  std::vector<std::byte> pending;

  void write_block(std::span<const std::byte> bytes);
};

void DatasetWriter::State::write_block(std::span<const std::byte> bytes) {
  const std::uint64_t rows = bytes.size() / spec.row_bytes();
  if (rows == 0) return;
  if (rows > spec.rows - written) throw CacheError(concat(path, ": more rows than announced"));
  file->call("write " + path, [&] {
    const H5::DataSpace space = dataset->getSpace();
    const std::vector<hsize_t> count = shape_of(spec, rows);
    std::vector<hsize_t> start(count.size());
    start[0] = written;
    space.selectHyperslab(H5S_SELECT_SET, count.data(), start.data());
    dataset->write(bytes.data(), type, make_space(spec, rows), space);
  });
  written += rows;
}

DatasetWriter::DatasetWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;
DatasetWriter& DatasetWriter::operator=(DatasetWriter&&) noexcept = default;

DatasetWriter::~DatasetWriter() {
  const auto lock = library_lock();
  state_.reset();
}

void DatasetWriter::append(std::span<const std::byte> rows) {
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
  state_->write_block(state_->pending);
  if (state_->written != state_->spec.rows)
    throw CacheError(concat(state_->path, ": ", state_->written, " rows came where ",
                            state_->spec.rows, " were announced"));
  state_->file->call("write " + state_->path, [&] { close_or_throw(state_->dataset); });
}

FileWriter::FileWriter(ByteStore& store) : state_(std::make_unique<State>()) {
  state_->target.store = &store;
  state_->call("create a file", [&] {
    const H5::FileAccPropList access = file_access(state_->target);
    const H5::FileCreatPropList creation;
    check(H5Pset_obj_track_times(creation.getId(), false));
    // Attributes stay in the root group's header.
    check(H5Pset_attr_phase_change(creation.getId(), kCompactLinks, 0));
    state_->file.reset(new H5::H5File("shard", H5F_ACC_TRUNC, creation, access));
  });
}

FileWriter::~FileWriter() {
  const auto lock = library_lock();
  state_.reset();
}

void FileWriter::add_group(const std::string& path, const std::vector<std::string>& names) {
  state_->call("create group " + path, [&] {
    const H5::ObjCreatPropList properties = group_properties(names);
    check(H5Gclose(check(H5Gcreate2(state_->file->getId(), path.c_str(), H5P_DEFAULT,
                                    properties.getId(), H5P_DEFAULT))));
  });
}

DatasetWriter FileWriter::add_dataset(const std::string& path, const DatasetSpec& spec) {
  auto state = std::make_unique<DatasetWriter::State>();
  state->spec = spec;
  state->file = state_.get();
  state->path = path;
  state->block_bytes = rows_per_chunk(spec) * spec.row_bytes();
  state_->call("create dataset " + path, [&] {
    state->type = make_type(spec.type, spec.text_bytes);
    state->dataset.reset(new H5::DataSet(state_->file->createDataSet(
        path, state->type, make_space(spec, spec.rows), dataset_properties(spec, state->type))));
  });
  return DatasetWriter(std::move(state));
}

void FileWriter::add_dataset(const std::string& path, const DatasetSpec& spec,
                             std::span<const std::byte> rows) {
  DatasetWriter writer = add_dataset(path, spec);
  writer.append(rows);
  writer.finish();
}

void FileWriter::set_attribute(const std::string& name, std::int64_t value) {
  state_->write_attribute(name, DType::kInt64, 0, nullptr, &value);
}

void FileWriter::set_attribute(const std::string& name, const std::string& value) {
  const std::string text = value.empty() ? std::string(1, '\0') : value;
  state_->write_attribute(name, kText, text.size(), nullptr, text.data());
}

void FileWriter::set_attribute(const std::string& name, const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  std::string padded;
  for (const std::string& value : values) padded.append(value).append(width - value.size(), '\0');
  const hsize_t count = values.size();
  state_->write_attribute(name, kText, width, &count, padded.data());
}

void FileWriter::close() {
  state_->call("close the file", [&] { close_or_throw(state_->file); });
}

}  // namespace coldframe::cache::hdf5
