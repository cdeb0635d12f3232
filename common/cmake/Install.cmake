# `cmake --install build --prefix P` gives a folder that may be moved: P/bin, P/lib/coldframe, P/share. Programs that use
# LibTorch lie in P/lib/coldframe/torch-VERSION with the libraries that do, since one P may hold those of several builds
# (`--component libtorch` installs these alone). `coldframe` finds a LibTorch, and takes the programs that fit it
# (common/cli/dispatch/find_libtorch.h): in a folder torch beside P, as a wheel's P lies beside it in site-packages, in
# the one that COLDFRAME_LIBTORCH names, or where `coldframe setup` puts one.
#
# With COLDFRAME_WHEEL the programs hold all libraries but FFmpeg, which lies in P/lib/coldframe, and LibTorch.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/coldframe:$ORIGIN/../../torch/lib")

if(COLDFRAME_WHEEL)
  set(COLDFRAME_WHEEL_PREFIX ${CMAKE_SOURCE_DIR}/build/wheel/prefix)
  if(NOT EXISTS ${COLDFRAME_WHEEL_PREFIX}/lib)
    message(FATAL_ERROR "the libraries of the wheel are not in ${COLDFRAME_WHEEL_PREFIX}: run common/bootstrap and "
                        "common/wheel/dependencies first, or common/wheel/make, which does all of it")
  endif()
  list(PREPEND CMAKE_PREFIX_PATH ${COLDFRAME_WHEEL_PREFIX})
  set(OpenCV_DIR ${CMAKE_SOURCE_DIR}/common/wheel/cmake)
  list(PREPEND CMAKE_MODULE_PATH ${CMAKE_SOURCE_DIR}/common/wheel/cmake)
  set(Boost_USE_STATIC_LIBS ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
  add_link_options(-Wl,--as-needed -Wl,--gc-sections)
  # What these archives define is for the program alone: a function that it exports would be taken by shared libraries that
  # have one of this name themselves, as LibTorch has LAPACK's. FFmpeg's libraries take zlib from the program.
  file(GLOB archives RELATIVE ${COLDFRAME_WHEEL_PREFIX}/lib ${COLDFRAME_WHEEL_PREFIX}/lib/*.a)
  list(REMOVE_ITEM archives libz.a)
  list(JOIN archives ":" archives)
  add_link_options(-Wl,--exclude-libs,${archives})
  file(GLOB libraries ${COLDFRAME_WHEEL_PREFIX}/lib/lib*.so.[0-9]*)
  list(FILTER libraries EXCLUDE REGEX "\\.so\\.[0-9]+\\..*")  # only the names by which programs load them
  foreach(library ${libraries})
    file(REAL_PATH ${library} file)
    get_filename_component(name ${library} NAME)
    install(PROGRAMS ${file} DESTINATION lib/coldframe RENAME ${name})
  endforeach()
  install(DIRECTORY ${COLDFRAME_WHEEL_PREFIX}/licences DESTINATION share/doc/coldframe)
  if(COLDFRAME_WHEEL_PROGRAMS)  # for other versions of LibTorch, which common/wheel/make has built before
    install(DIRECTORY ${COLDFRAME_WHEEL_PROGRAMS}/ DESTINATION . USE_SOURCE_PERMISSIONS)
  endif()
endif()

# coldframe_install(TARGET…): programs, and the libraries that they open.
function(coldframe_install)
  foreach(target ${ARGN})
    if(TARGET ${target})
      install(TARGETS ${target} RUNTIME DESTINATION bin LIBRARY DESTINATION lib/coldframe)
    endif()
  endforeach()
endfunction()

# The same of those that use LibTorch.
function(coldframe_install_with_libtorch)
  set(folder lib/coldframe/torch-${COLDFRAME_TORCH_VERSION})
  foreach(target ${ARGN})
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/..")
      install(TARGETS ${target} RUNTIME DESTINATION ${folder} COMPONENT libtorch LIBRARY DESTINATION ${folder} COMPONENT libtorch)
    endif()
  endforeach()
endfunction()

# Man pages of what the programs say: into P/share, of a wheel into the environment's share, where man looks.
function(coldframe_install_help_pages)
  set(pages ${CMAKE_BINARY_DIR}/help_pages)
  install(CODE "execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/common/cli/dispatch/help_pages.py ${CMAKE_BINARY_DIR}/bin/coldframe
                                ${pages} COMMAND_ERROR_IS_FATAL ANY)")
  if(SKBUILD)
    install(DIRECTORY ${pages}/ DESTINATION ${SKBUILD_DATA_DIR}/share)
  else()
    install(DIRECTORY ${pages}/ DESTINATION share)
  endif()
endfunction()
