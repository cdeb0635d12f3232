#include "cache/hdf5/handle.h"

#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {
namespace {

// The innermost entry of HDF5's error stack says what went wrong.
herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* text) {
  if (entry->desc != nullptr) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

}  // namespace

void check(herr_t code, std::string_view action) {
  if (code >= 0) return;
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  throw CacheError(concat("HDF5 cannot ", action, ": ", reason));
}

hid_t check_id(hid_t id, std::string_view action) {
  if (id < 0) check(-1, action);
  return id;
}

}  // namespace coldframe::cache::hdf5
