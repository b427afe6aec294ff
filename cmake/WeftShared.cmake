# SPDX-License-Identifier: Apache-2.0
# libweft.so: the C ABI (capi/weft.h) and nothing else of the library. All objects are compiled once, position-independent,
# for the program and for this.

# A node of the linker's script for each version in capi/exports.txt; all other symbols are hidden.
function(weft_write_version_script path)
  set(exports ${PROJECT_SOURCE_DIR}/capi/exports.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exports})
  file(STRINGS ${exports} lines REGEX "^(WEFT|weft)_")
  set(script)
  set(version)
  set(end "  local:\n    *;\n};\n")  # of the first node; later ones build upon the one before
  foreach(line ${lines})
    if(line MATCHES "^WEFT_")
      if(version)
        string(APPEND script "${end}\n")
        set(end "} ${version};\n")
      endif()
      set(version ${line})
      string(APPEND script "${version} {\n  global:\n")
    elseif(version)
      string(APPEND script "    ${line};\n")
    else()
      message(FATAL_ERROR "capi/exports.txt: ${line} stands under no version")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${path} CONTENT "${script}${end}" @ONLY)
endfunction()

function(weft_add_shared_library)
  if(NOT TARGET weft_capi)
    return()
  endif()
  target_compile_definitions(weft_capi PRIVATE WEFT_VERSION="${PROJECT_VERSION}")
  # WEFT_CHECK (core/result.hpp) has a variable with the name of weft.h's type.
  foreach(target weft_capi capi_headers)
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE -Wno-shadow)
    endif()
  endforeach()
  if(WEFT_FUZZ)
    return()  # its objects need a fuzzer to link with
  endif()
  set(script ${PROJECT_BINARY_DIR}/weft.map)
  weft_write_version_script(${script})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/weft_shared.cpp CONTENT "// A shared library is made of a source at least.\n")
  add_library(weft_shared SHARED ${PROJECT_BINARY_DIR}/weft_shared.cpp)
  add_library(weft::c ALIAS weft_shared)
  set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft VERSION ${PROJECT_VERSION} SOVERSION
                        ${PROJECT_VERSION_MAJOR} EXPORT_NAME c LINK_DEPENDS ${script}
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_link_libraries(weft_shared PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,weft_capi>)
  # Threads and their thread-local data outlive a dlclose, hence nodelete.
  target_link_options(weft_shared PRIVATE LINKER:--version-script=${script} LINKER:-z,nodelete LINKER:--gc-sections)
  if(NOT WEFT_SANITIZE)  # a sanitizer's functions are the program's
    target_link_options(weft_shared PRIVATE LINKER:-z,defs)
  endif()
  target_include_directories(weft_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/capi>
                                                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weft>)
  install(TARGETS weft_shared EXPORT weft LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  # As <weft/weft.h>, and as "weft.h" for those who look inside.
  install(FILES capi/weft.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft)
endfunction()
