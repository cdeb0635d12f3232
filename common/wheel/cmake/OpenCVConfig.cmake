# Found before Debian's own by the build of a wheel: OpenCV's archives as common/wheel/dependencies has prepared them.
set(OpenCV_INCLUDE_DIRS /usr/include/opencv4)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
foreach(module core imgproc)
  if(NOT TARGET opencv_${module})
    add_library(opencv_${module} STATIC IMPORTED)
    set_target_properties(opencv_${module} PROPERTIES
      IMPORTED_LOCATION ${COLDFRAME_WHEEL_PREFIX}/lib/libopencv_${module}.a
      INTERFACE_INCLUDE_DIRECTORIES ${OpenCV_INCLUDE_DIRS})
  endif()
endforeach()
set_target_properties(opencv_core PROPERTIES INTERFACE_LINK_LIBRARIES
  "${COLDFRAME_WHEEL_PREFIX}/lib/libtbb.so.12;ZLIB::ZLIB;Threads::Threads;${CMAKE_DL_LIBS}")
set_target_properties(opencv_imgproc PROPERTIES INTERFACE_LINK_LIBRARIES opencv_core)
set(OpenCV_FOUND TRUE)
