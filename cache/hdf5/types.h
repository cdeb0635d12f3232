// HDF5's own names for our types. Internal to cache/hdf5.
#pragma once

#include "cache/hdf5/dataset.h"
#include "cache/hdf5/handle.h"

namespace coldframe::cache::hdf5 {

Handle make_type(Type type, std::size_t text_bytes);

}  // namespace coldframe::cache::hdf5
