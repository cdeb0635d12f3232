// HDF5's own names for our types. Internal to cache/hdf5.
#pragma once

#include <H5Cpp.h>

#include "cache/hdf5/dataset.h"

namespace coldframe::cache::hdf5 {

H5::DataType make_type(Type type, std::size_t text_bytes);

}  // namespace coldframe::cache::hdf5
