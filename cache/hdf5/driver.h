// Our virtual file driver: HDF5's reads and writes go to a ByteStore. Internal to cache/hdf5.
//
// HDF5 1.10.8 crashes at exit after a write that failed at close. The driver therefore tells HDF5
// that every write succeeded, keeps the first error of the store, and writes nothing after it; the
// owner of the file asks for it at the end.
#pragma once

#include <H5Cpp.h>

#include <exception>

#include "cache/hdf5/byte_store.h"

namespace coldframe::cache::hdf5 {

struct DriverTarget {
  ByteStore* store = nullptr;
  std::exception_ptr first_error;
};

// A file access property list that leads to `target`, which must outlive the HDF5 file.
H5::FileAccPropList file_access(DriverTarget& target);

}  // namespace coldframe::cache::hdf5
