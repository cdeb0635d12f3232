// Our virtual file driver: HDF5's reads and writes go to a ByteStore.
//
// HDF5 1.10.8 crashes at exit after a write that failed at close. The driver therefore tells HDF5
// that every write succeeded, keeps the first error of the store, and writes nothing after it; the
// owner of the file asks for it at the end.
#pragma once

#include <hdf5.h>

#include <exception>
#include <mutex>

#include "cache/hdf5/byte_store.h"

namespace coldframe::cache::hdf5 {

struct DriverTarget {
  ByteStore* store = nullptr;
  std::exception_ptr first_error;
};

// What the first file needs. HDF5 1.10.8 crashes when it runs out of memory while it starts, or
// ends after it did: a writer starts it before the job takes memory, and nothing ends it.
void start_library();

// A file access property list that leads to `target`, which must outlive the HDF5 file.
hid_t file_access(DriverTarget& target);

// Debian's HDF5 is not thread-safe: whoever calls it holds this lock.
std::unique_lock<std::recursive_mutex> library_lock();

}  // namespace coldframe::cache::hdf5
