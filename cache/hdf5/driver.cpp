#include "cache/hdf5/driver.h"

#include <algorithm>
#include <limits>
#include <new>

#include "cache/hdf5/library.h"

namespace coldframe::cache::hdf5 {
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

}  // namespace coldframe::cache::hdf5
