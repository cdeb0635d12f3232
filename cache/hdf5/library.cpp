#include "cache/hdf5/library.h"

#include <new>
#include <string>
#include <utility>

#include "common/cli/error.h"
#include "common/cli/leave.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {
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

}  // namespace coldframe::cache::hdf5
