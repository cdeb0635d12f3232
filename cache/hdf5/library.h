// The HDF5 library as a whole: one caller at a time, errors as exceptions, no end. Internal to
// cache/hdf5.
#pragma once

#include <H5Cpp.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "common/cli/leave.h"

namespace coldframe::cache::hdf5 {

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

}  // namespace coldframe::cache::hdf5
