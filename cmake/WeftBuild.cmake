# SPDX-License-Identifier: Apache-2.0
# Functions that make of a folder a library, its tests and its benchmarks. Files are globbed, so adding one touches no CMake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(CTest)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Flags that ccache needs to keep objects compiled with precompiled headers.
  set(sloppiness pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=${sloppiness})
  if(WEFT_PRECOMPILE STREQUAL "all")
    # No preprocessing before each compilation that is not in the cache: such a build expects none of them there.
    list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_DEPEND=1)
  endif()
  list(APPEND CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_CCACHE})
endif()

# Exactness: a compiler that fuses a*b+c on its own changes bits (docs/numerics.md).
add_compile_options(-ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter
                    # -Wrestrict: g++ 12 warns of its own std::string (GCC bug 105651)
                    $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Loops over a few vectors must not depend on where the file's other code leaves them (64 floats: 0.78 to 1.05 of the
# speed).
set_source_files_properties(kernels/unary.cpp kernels/math_rows.cpp PROPERTIES COMPILE_OPTIONS
                            $<$<CXX_COMPILER_ID:GNU>:-falign-loops=32>)
# -g1: lines are enough for a report; tracking variables through the unrolled kernels takes g++ minutes.
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
  add_compile_definitions(WEFT_SANITIZED)
endif()
if(WEFT_SANITIZE MATCHES undefined)
  # Its checks of undefined behaviour would take compilers minutes for each of these files.
  file(GLOB wide CONFIGURE_DEPENDS kernels/linear_integer_*.cpp)
  set_source_files_properties(${wide} PROPERTIES COMPILE_OPTIONS -fno-sanitize=undefined)
  # oneTBB's flow_graph.h casts a task that it has just destroyed, in order to free it: not our undefined behaviour.
  set_source_files_properties(scheduler/region_graph.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=vptr)
endif()

set(WEFT_MODULES "" CACHE STRING "Build these modules only (all when empty)")
set_property(GLOBAL PROPERTY WEFT_BUILT_MODULES "")

include(WeftDependencies)
include(WeftShaders)
include(WeftEmbed)

# Rooms that no foreign byte reaches: their branches need not steer a fuzzer.
set(WEFT_NOT_FUZZED "^(topology|kernels|gpu|scheduler|actors)$")
# Rooms that read foreign bytes: a fuzzer sees what they compare, too. All others count their branches alone, since each
# comparison that is seen is a call, and the tests of these rooms run in the same build.
set(WEFT_FUZZED_BY_VALUES "^(core|storage|formats|text|server)$")
# Rooms that are compiled for size, to half or less: they read files, keep books, hand on calls and ask the system.
set(WEFT_COMPILED_SMALL "^(topology|text|models|gpu|agent|bridge|server|capi)$")
# Files of those that walk over all cells of a mesh.
set_source_files_properties(server/cell_frames.cpp server/heat_map.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)

# Links a target against modules (weft::x) and named third parties (WeftDependencies.cmake).
function(weft_link target visibility)
  foreach(dependency ${ARGN})
    if(TARGET weft_${dependency})
      target_link_libraries(${target} ${visibility} weft_${dependency})
    else()
      weft_link_dependency(${target} ${dependency})
    endif()
  endforeach()
endfunction()

# weft_precompile(target group <gtest/gtest.h>...): the standard library's headers and those given, precompiled once for
# a group of targets with the same options. Ours are not: they change. No header that only some files include, either:
# each file pays for what is in there (CLI11 in it took every file 3 s; docs/building.md). Kernels have Highway beside it.
set(WEFT_PRECOMPILE programs CACHE STRING "Precompile the standard library's headers for: nothing, programs, all. What \
builds once and cold (tools/run.sh, tools/test.sh) asks for all; where libraries are not among them, the build shows that \
their files include what they use, and ccache serves every worktree")
set_property(CACHE WEFT_PRECOMPILE PROPERTY STRINGS nothing programs all)
function(weft_precompile target group)
  if(WEFT_PRECOMPILE STREQUAL "nothing" OR (group MATCHES "library|kernels" AND NOT WEFT_PRECOMPILE STREQUAL "all"))
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  get_property(first GLOBAL PROPERTY WEFT_PRECOMPILED_${group})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(
      ${target} PRIVATE ${ARGN} <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring>
      <deque> <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string>
      <string_view> <thread> <type_traits> <utility> <variant> <vector>)
    set_property(GLOBAL PROPERTY WEFT_PRECOMPILED_${group} ${target})
  endif()
endfunction()

# weft_unite(target size): compiles the target's files in batches of about `size`, so that headers which they share are
# read once a batch. Files of a room therefore share their anonymous namespaces: tools/check_unity.py finds names that
# stand in two of them, before a compiler does. A file that would change how others read a header stays alone.
option(WEFT_UNITY "Compile the files of a room in batches (tools/run.sh, tools/test.sh); else each alone, as ccache and an \
edit like it" OFF)
function(weft_unite target size)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(LENGTH sources count)
  if(NOT WEFT_UNITY OR count LESS 2)
    return()
  endif()
  # Batches of one size each: the last one would else be small, or large enough to be waited for.
  math(EXPR batches "(${count} + ${size} - 1) / ${size}")
  math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  # Meant for headers: a class with a member of a type without linkage. In a batch each file is included.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source ${sources})
    file(STRINGS ${source} alone REGEX "^#define ([A-Z]+_IMPLEMENTATION|WEFT_THIS_FILE)" LIMIT_COUNT 1)
    if(alone)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# Code that is not hot, tests and the program around the libraries, is optimised less; with a sanitizer's checks in it,
# not at all: clang 14 takes 45 s for a batch of tests of the mesh with -O1, 19 s without (g++, no sanitizer: 23 and 15 s).
function(weft_compile_fast target)
  if(WEFT_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# Tests of a program wait for it: they are not optimised at all (CPU seconds: docs/building.md). Those of the mesh and of
# learning compute much themselves, and take longer so than they save.
set(WEFT_TESTS_WAIT "^(cli)$")

# Reads tools/layers.txt: WEFT_ROOMS, in order, those that have a folder; WEFT_LINKS_<room>, its rooms and packages.
macro(weft_read_rooms)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/layers.txt)
  set(WEFT_ROOMS "")
  file(STRINGS ${PROJECT_SOURCE_DIR}/tools/layers.txt rows REGEX "^[a-z]+:")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([a-z]+):([^|]*)[|]?([^|]*)" row "${row}")
    set(name ${CMAKE_MATCH_1})
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${name})
      set(allowed "${CMAKE_MATCH_2}")
      string(REGEX MATCHALL "[a-z0-9]+" packages "${CMAKE_MATCH_3}")
      string(REGEX MATCHALL "[a-z]+" WEFT_LINKS_${name} "${allowed}")
      list(FILTER WEFT_LINKS_${name} INCLUDE REGEX "^(${WEFT_ROOM_NAMES})$")
      list(APPEND WEFT_LINKS_${name} ${packages})
      list(APPEND WEFT_ROOMS ${name})
      string(JOIN "|" WEFT_ROOM_NAMES ${WEFT_ROOMS})
    endif()
  endforeach()
endmacro()

# weft_add_module(kernels DEPENDS core hwy): library weft_kernels (weft::kernels), its tests and benchmarks.
# ONLY: these sources alone, without internal headers, tests and benchmarks (a room that this machine cannot build).
function(weft_add_module module)
  cmake_parse_arguments(arg "" "" "DEPENDS;ONLY" ${ARGN})
  if(WEFT_MODULES AND NOT module IN_LIST WEFT_MODULES)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${module}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${module}/*.hpp ${module}/*.h ${module}/*.def
       ${module}/*.inc)
  if(arg_ONLY)
    set(sources ${arg_ONLY})
  endif()
  if(NOT sources)
    return()
  endif()
  add_library(weft_${module} STATIC ${sources})
  add_library(weft::${module} ALIAS weft_${module})
  set_target_properties(weft_${module} PROPERTIES EXPORT_NAME ${module})
  target_compile_features(weft_${module} PUBLIC cxx_std_20)
  target_include_directories(weft_${module} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weft>)
  weft_link(weft_${module} PUBLIC ${arg_DEPENDS})
  if(module STREQUAL "kernels" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    weft_precompile(weft_kernels kernels ${PROJECT_SOURCE_DIR}/kernels/internal/precompiled_highway.hpp)
    if(WEFT_PRECOMPILE STREQUAL "all")
      # g++ 12 warns of its own intrinsics once they come from a precompiled header.
      target_compile_options(weft_kernels PRIVATE -Wno-maybe-uninitialized)
    endif()
  elseif(WEFT_FUZZ AND NOT module MATCHES "${WEFT_FUZZED_BY_VALUES}")
    weft_precompile(weft_${module} plain_library)  # without the fuzzer's options
  elseif(module MATCHES "${WEFT_COMPILED_SMALL}")
    target_compile_options(weft_${module} PRIVATE $<$<CONFIG:Release>:-Os>)
    weft_precompile(weft_${module} small_library)  # g++ takes no header that was precompiled under another -O
  else()
    weft_precompile(weft_${module} library)
  endif()
  weft_unite(weft_${module} 8)
  install(TARGETS weft_${module} EXPORT weft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  foreach(header ${headers})
    get_filename_component(folder ${header} DIRECTORY)
    if(NOT folder MATCHES "/(internal|shaders)(/|$)")
      install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft/${folder})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY WEFT_BUILT_MODULES ${module})
  if(NOT arg_ONLY)
    weft_add_tests(${module})
    weft_add_benchmarks(${module})
  endif()
endfunction()

# tests/support: file systems in memory, that fail, that record; linked to the tests and benchmarks of all modules.
# weft_source_path is a library of its own: what knows where the tree lies, for programs that link no module too.
function(weft_add_test_support module)
  if(TARGET weft_${module} AND (WEFT_TESTS OR WEFT_BENCH OR WEFT_FUZZ))
    add_library(weft_source_path STATIC tests/support/source_path.cpp)
    target_include_directories(weft_source_path PUBLIC ${PROJECT_SOURCE_DIR})
    target_compile_definitions(weft_source_path PRIVATE WEFT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    file(GLOB sources CONFIGURE_DEPENDS tests/support/*.cpp)
    list(FILTER sources EXCLUDE REGEX "/(main|source_path).cpp$")
    add_library(weft_test_support STATIC ${sources})
    target_link_libraries(weft_test_support PUBLIC weft_${module} weft_source_path)
  endif()
endfunction()

# tests/<module>/rope_test.cpp -> a part of program <module>_tests, ctest <module>.rope, label <module>.
function(weft_add_tests module)
  if(NOT WEFT_TESTS)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS tests/${module}/*_test.cpp)
  # Other files there are for the tests of this module and of those after it.
  file(GLOB shared CONFIGURE_DEPENDS tests/${module}/*.cpp)
  list(FILTER shared EXCLUDE REGEX "_test\\.cpp$")
  if(shared)
    add_library(weft_${module}_testing STATIC ${shared})
    target_link_libraries(weft_${module}_testing PUBLIC weft_${module} GTest::gtest)
    weft_compile_fast(weft_${module}_testing)
    weft_unite(weft_${module}_testing 4)
    set_property(GLOBAL APPEND PROPERTY WEFT_TESTING weft_${module}_testing)
  endif()
  get_property(testing GLOBAL PROPERTY WEFT_TESTING)
  weft_add_test_programs(${module} "${sources}" $<TARGET_NAME_IF_EXISTS:weft_test_support> ${testing} weft_${module})
  weft_add_header_test(${module})
endfunction()

# weft_add_test_programs(kernels "<sources>" libraries...): one program of all files, kernels_tests, since linking one for
# each costs more than it saves; a ctest for each file. Files that say in a comment that they are "a program of their
# own" (they replace operator new, say) are that, and with WEFT_TESTS_APART all are: to build one test alone.
option(WEFT_TESTS_APART "A program for each test file" OFF)
function(weft_add_test_programs module sources)
  set(together "")
  set(apart "")
  foreach(source ${sources})
    file(STRINGS ${source} own REGEX "// A program of its own" LIMIT_COUNT 1)
    get_filename_component(test ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" short ${test})
    if(own OR WEFT_TESTS_APART)
      weft_add_test_program(${module}_${test} ${module} ${source} "${ARGN}")
      list(APPEND apart ${module}_${test})
      add_test(NAME ${module}.${short} COMMAND ${module}_${test})
    else()
      list(APPEND together ${source})
      add_test(NAME ${module}.${short} COMMAND ${module}_tests --source=${test}.cpp)
    endif()
    set_tests_properties(${module}.${short} PROPERTIES LABELS ${module} TIMEOUT 1800 SKIP_RETURN_CODE 77)
    if("${module}.${short}" MATCHES "^gpu[.](op_cases|stream_linear|stream_window)$")
      # Groups beside each other, as on a device, where tools/test.sh does without; their kin gpu.*.small do without too.
      set_tests_properties(${module}.${short} PROPERTIES ENVIRONMENT_MODIFICATION LP_NUM_THREADS=unset:)
    endif()
  endforeach()
  if(together)
    weft_add_test_program(${module}_tests ${module} "${together}" "${ARGN}")
  else()
    add_custom_target(${module}_tests)
  endif()
  if(apart)
    add_dependencies(${module}_tests ${apart})
  endif()
endfunction()

function(weft_add_test_program target module sources libraries)
  if(NOT TARGET weft_test_main)
    add_library(weft_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/main.cpp)
    target_link_libraries(weft_test_main PUBLIC GTest::gtest)
    target_compile_features(weft_test_main PUBLIC cxx_std_20)
  endif()
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${libraries} weft_test_main)
  if(module MATCHES "${WEFT_TESTS_WAIT}" AND NOT WEFT_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
    weft_precompile(${target} waiting_test <gtest/gtest.h>)
  else()
    weft_compile_fast(${target})
    weft_precompile(${target} test <gtest/gtest.h>)
  endif()
  weft_unite(${target} 6)
endfunction()

# Each header is shown to compile alone: by the .cpp of its name where that includes it first, else by a generated one.
# tools/check.sh asks for them; a build in batches, for tests, does without (136 files, a twelfth of its time).
function(weft_add_header_test module)
  if(WEFT_UNITY)
    return()
  endif()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${module}/*.hpp)
  get_target_property(built weft_${module} SOURCES)
  set(sources "")
  foreach(header ${headers})
    file(STRINGS ${header} first_lines LIMIT_COUNT 6)
    if(first_lines MATCHES "re-included once per ISA")
      continue()  # no header of its own: text that a .cpp includes several times
    endif()
    string(REGEX REPLACE "hpp$" "cpp" own ${header})
    if(EXISTS ${PROJECT_SOURCE_DIR}/${own} AND "${PROJECT_SOURCE_DIR}/${own}" IN_LIST built)
      file(STRINGS ${own} first_include REGEX "^#include" LIMIT_COUNT 1)
      if(first_include STREQUAL "#include \"${header}\"")
        continue()
      endif()
    endif()
    string(MAKE_C_IDENTIFIER ${header} identifier)
    set(source ${PROJECT_BINARY_DIR}/headers/${identifier}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(${module}_headers OBJECT ${sources})
    target_link_libraries(${module}_headers PRIVATE weft_${module})
  endif()
endfunction()

# bench/<module>/softmax_bench.cpp -> program <module>_softmax_bench (Google Benchmark).
function(weft_add_benchmarks module)
  if(NOT WEFT_BENCH OR NOT TARGET benchmark::benchmark)
    return()
  endif()
  file(GLOB benches CONFIGURE_DEPENDS bench/${module}/*_bench.cpp)
  foreach(source ${benches})
    get_filename_component(bench ${source} NAME_WE)
    add_executable(${module}_${bench} ${source})
    target_link_libraries(${module}_${bench} PRIVATE $<TARGET_NAME_IF_EXISTS:weft_test_support> weft_${module}
                                                     benchmark::benchmark_main)
    weft_link_bench_peers(${module}_${bench})
  endforeach()
endfunction()

# weft_add_program(weft FROM cli DEPENDS ...): every .cpp of the folder into one program. PEERS: links the rivals too.
function(weft_add_program program)
  cmake_parse_arguments(arg "PEERS" "FROM" "DEPENDS" ${ARGN})
  if(WEFT_MODULES AND NOT arg_FROM IN_LIST WEFT_MODULES)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${arg_FROM}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${program} ${sources})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${program} PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
  weft_link(${program} PRIVATE ${arg_DEPENDS})
  if(NOT WEFT_UNITY)  # else it has few batches, which would not make good what the header takes
    weft_precompile(${program} ${program})
  endif()
  weft_unite(${program} 6)
  if(arg_PEERS)
    weft_link_bench_peers(${program})
  endif()
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# The export set, the package config and the tests that span modules.
function(weft_finish)
  install(EXPORT weft NAMESPACE weft:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
  configure_package_config_file(cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
                                INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
                ${PROJECT_SOURCE_DIR}/cmake/WeftDependencies.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
  if(WEFT_TESTS AND EXISTS ${PROJECT_SOURCE_DIR}/tests/CMakeLists.txt)
    add_subdirectory(tests)
  endif()
endfunction()
