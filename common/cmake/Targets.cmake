# coldframe_library(NAME SOURCES... [LINK ...]) and coldframe_program(...): our own code, with
# our warnings as errors and the repository root as its include path. Among SOURCES, a folder (it ends in /) stands for
# its sources and those of its sub-folders, so that a new file is built where it lies: all but those that a target above
# took, main.cpp, which is a program's, and *_cuda.cpp, which needs the CUDA toolkit.
#
# Most of the time goes into headers that many sources include. Several sources of a target are therefore compiled as
# one (CMake's unity builds), so that names in the unnamed namespaces of one room differ from file to file, and the
# headers that most of them include are compiled once for all (headers.h, with LibTorch's for targets that link it).
# -DCOLDFRAME_UNITY=OFF compiles each file by itself, with what it includes itself. COLD marks code whose own loops take
# no time, since it runs once a job (options, reports) or LibTorch's operators do the work: it is compiled with -O1,
# which takes a third less time, as programs' mains and tests are.
find_package(Threads REQUIRED)

# Lists in `out` what SOURCES stand for, and notes them as taken. A folder stands for its files of that `pattern`.
function(coldframe_sources out pattern)
  get_property(taken GLOBAL PROPERTY COLDFRAME_TAKEN)
  set(sources "")
  foreach(entry ${ARGN})
    get_filename_component(path ${entry} ABSOLUTE)
    if(entry MATCHES "/$")
      file(GLOB_RECURSE found CONFIGURE_DEPENDS ${path}/${pattern})
      list(FILTER found EXCLUDE REGEX "/main\\.cpp$|_cuda\\.cpp$")
      if(taken)
        list(REMOVE_ITEM found ${taken})
      endif()
      if(NOT found)
        message(FATAL_ERROR "${entry}: no ${pattern} there that no target above has")
      endif()
      list(APPEND sources ${found})
    else()
      list(APPEND sources ${path})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES sources)
  set_property(GLOBAL APPEND PROPERTY COLDFRAME_TAKEN ${sources})
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

function(coldframe_own_code target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${COLDFRAME_UNITY} UNITY_BUILD_BATCH_SIZE 20)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror>)
  if(COLDFRAME_UNITY)  # GCC takes the sources behind the first one for headers.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# These sources hold vector code that is compiled for a processor of their own.
function(coldframe_sources_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endfunction()

function(coldframe_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

function(coldframe_share_headers target owner)
  if(COLDFRAME_UNITY)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# A target that uses LibTorch names coldframe_torch itself, not only what links it.
function(coldframe_link target)
  target_link_libraries(${target} PUBLIC ${ARGN})
  if("coldframe_torch" IN_LIST ARGN OR "coldframe_libtorch" IN_LIST ARGN)
    coldframe_share_headers(${target} coldframe_torch_headers)
  else()
    coldframe_share_headers(${target} coldframe_headers)
  endif()
endfunction()

function(coldframe_library target)
  cmake_parse_arguments(arg "COLD" "" "SOURCES;LINK" ${ARGN})
  get_property(taken GLOBAL PROPERTY COLDFRAME_TAKEN)
  coldframe_sources(sources *.cpp ${arg_SOURCES})
  foreach(source ${sources})
    if(source IN_LIST taken)
      message(FATAL_ERROR "${target}: a target above it has ${source}; name it in one target, above that of its folder")
    endif()
  endforeach()
  add_library(${target} STATIC ${sources})
  coldframe_own_code(${target})
  if(arg_COLD)
    coldframe_compile_quickly(${target})
  endif()
  coldframe_link(${target} ${arg_LINK})
endfunction()

function(coldframe_program target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  coldframe_sources(sources *.cpp ${arg_SOURCES})
  add_executable(${target} ${sources})
  coldframe_own_code(${target})
  coldframe_compile_quickly(${target})
  coldframe_link(${target} ${arg_LINK})
endfunction()

# coldframe_driver(...): a program that tests or measurements run.
function(coldframe_driver target)
  coldframe_program(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# coldframe_test(NAME SOURCES... [LINK ...] [APART SUITE...]): one GoogleTest program; of a folder, its *_test.cpp. CTest
# starts it once for all of its cases: most of a case would be that start. The suites in APART kill, fork or limit a
# process, or take long: each is a CTest entry of its own, NAME.SUITE. The others have the label `quick`. (What headers
# define is tested as -O1 makes it.)
function(coldframe_test target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;APART" ${ARGN})
  find_package(GTest REQUIRED)
  coldframe_sources(sources *_test.cpp ${arg_SOURCES})
  add_executable(${target} ${sources})
  coldframe_own_code(${target})
  coldframe_compile_quickly(${target})
  coldframe_link(${target} ${arg_LINK})
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

  set(entries ${target})
  list(TRANSFORM arg_APART REPLACE "(.+)" "*\\1.*" OUTPUT_VARIABLE patterns)  # parametrised suites have a prefix
  list(JOIN patterns ":" others)
  add_test(NAME ${target} COMMAND ${target} "--gtest_filter=-${others}")
  foreach(suite ${arg_APART})
    add_test(NAME ${target}.${suite} COMMAND ${target} "--gtest_filter=*${suite}.*")
    list(APPEND entries ${target}.${suite})
  endforeach()
  # A brief program names the cases that fail, and how many passed; a suite that nobody has is a mistake in the list.
  # OpenMP's threads wait asleep, since another test takes the other core.
  set_tests_properties(${entries} PROPERTIES ENVIRONMENT "GTEST_BRIEF=1;OMP_WAIT_POLICY=passive"
    FAIL_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests")
  set_tests_properties(${target} PROPERTIES LABELS quick)
endfunction()
