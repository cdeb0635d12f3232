# In the place of CMake's own in the build of a wheel: HDF5's archives without what Debian's need for storage in a cloud,
# which nothing here calls.
set(HDF5_INCLUDE_DIRS /usr/include/hdf5/serial)
set(HDF5_CXX_INCLUDE_DIRS ${HDF5_INCLUDE_DIRS})
find_package(ZLIB REQUIRED)
set(HDF5_LIBRARIES ${COLDFRAME_WHEEL_PREFIX}/lib/libhdf5_cpp.a ${COLDFRAME_WHEEL_PREFIX}/lib/libhdf5.a ZLIB::ZLIB ${CMAKE_DL_LIBS} m)
set(HDF5_CXX_LIBRARIES ${HDF5_LIBRARIES})
set(HDF5_C_LIBRARIES ${HDF5_LIBRARIES})
set(HDF5_FOUND TRUE)
