# coldframe_library(NAME [COLD] SOURCES file… [LINK …]) and coldframe_program(…): our own code, with the repository root as
# its include path. A library is a room: its sources are listed by name, and it links the rooms that it may use.
#
# COLD marks code whose own loops take no time, since it runs once a job (options, reports) or LibTorch's operators do the
# work: it is compiled with -O1, which takes a third less time, as programs' mains and tests are.
#
# COLDFRAME_UNITY compiles several sources of a target as one, and the headers that most of them include once for all
# (headers.h, with LibTorch's for targets that link it): names in the unnamed namespaces of one room differ from file to
# file for it. COLDFRAME_WERROR makes warnings errors.
find_package(Threads REQUIRED)

function(coldframe_own_code target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${COLDFRAME_UNITY} UNITY_BUILD_BATCH_SIZE 20)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
    $<$<BOOL:${COLDFRAME_WERROR}>:-Werror>>)
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
  add_library(${target} STATIC ${arg_SOURCES})
  coldframe_own_code(${target})
  if(arg_COLD)
    coldframe_compile_quickly(${target})
  endif()
  coldframe_link(${target} ${arg_LINK})
endfunction()

function(coldframe_program target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  coldframe_own_code(${target})
  coldframe_compile_quickly(${target})
  coldframe_link(${target} ${arg_LINK})
endfunction()

# coldframe_driver(...): a program that tests or measurements run.
function(coldframe_driver target)
  coldframe_program(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# coldframe_test(NAME SOURCES... [LINK ...] [APART SUITE...]): one GoogleTest program. CTest starts it once for all of its cases: most of a case would be that start. The suites in APART kill, fork or limit a
# process, or take long: each is a CTest entry of its own, NAME.SUITE. The others have the label `quick`. (What headers
# define is tested as -O1 makes it.)
function(coldframe_test target)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;APART" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${target} ${arg_SOURCES})
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
