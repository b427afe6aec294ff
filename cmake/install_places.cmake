# SPDX-License-Identifier: Apache-2.0
# Run by `cmake --install`: writes the files that name places. WEFT_BINDIR and its like are relative to the prefix, or
# absolute where the build was told so.
set(prefix "${CMAKE_INSTALL_PREFIX}")
set(root "$ENV{DESTDIR}")

# The path of an installed file later, and the path where it is written now.
function(place variable relative)
  cmake_path(ABSOLUTE_PATH relative BASE_DIRECTORY "${prefix}" NORMALIZE OUTPUT_VARIABLE absolute)
  set(${variable} "${absolute}" PARENT_SCOPE)
endfunction()
function(write_configured template target)
  message(STATUS "Installing: ${root}${target}")
  configure_file("${template}" "${root}${target}" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${root}${target}")
  set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
endfunction()

place(pkgconfig "${WEFT_LIBDIR}/pkgconfig")
file(RELATIVE_PATH WEFT_PREFIX_FROM_PC "${pkgconfig}" "${prefix}")
write_configured("${WEFT_SOURCE}/packaging/weft.pc.in" "${pkgconfig}/weft.pc")
if(WEFT_HAS_C)
  write_configured("${WEFT_SOURCE}/packaging/weft-c.pc.in" "${pkgconfig}/weft-c.pc")
endif()

if(WEFT_HAS_PROGRAM)
  place(WEFT_BINDIR "${WEFT_BINDIR}")
  place(WEFT_DOCDIR "${WEFT_DOCDIR}")
  # systemd and logrotate look below /usr and /etc, systemd below /usr/local too.
  set(configuration "${prefix}/etc")
  if(prefix STREQUAL "/usr")
    set(configuration "/etc")
  endif()
  write_configured("${WEFT_SOURCE}/packaging/weft@.service.in" "${prefix}/lib/systemd/system/weft@.service")
  write_configured("${WEFT_SOURCE}/packaging/weft-serve.service.in" "${prefix}/lib/systemd/system/weft-serve.service")
  write_configured("${WEFT_SOURCE}/packaging/weft.logrotate" "${configuration}/logrotate.d/weft")
endif()

# Links that leave the documents' directory lead to the installed headers.
place(include "${WEFT_INCLUDEDIR}/weft")
place(documents "${WEFT_DOCDIR}")
file(GLOB_RECURSE texts "${root}${documents}/*.md")
foreach(text IN LISTS texts)
  cmake_path(GET text PARENT_PATH folder)
  file(RELATIVE_PATH to_headers "${folder}" "${root}${include}")
  file(RELATIVE_PATH to_documents "${folder}" "${root}${documents}")
  if(to_documents)
    string(APPEND to_documents "/")
  endif()
  file(READ "${text}" content)
  string(REGEX REPLACE "\\]\\((\\.\\./)*(core|topology|kernels|gpu|storage|formats|scheduler|actors|mesh|learning|agent|capi)/([^)]*)\\.(hpp|def|h)"
         "](${to_headers}/\\2/\\3.\\4" content "${content}")
  # The README stands among the documents here, and speaks of the source tree.
  string(REPLACE "](docs/formats/)" "](formats/entity.md)" content "${content}")
  string(REGEX REPLACE "\\]\\((\\.\\./)*docs/" "](${to_documents}" content "${content}")
  string(REGEX REPLACE "\\]\\((\\.\\./)+examples/" "](${to_documents}examples/" content "${content}")
  string(REGEX REPLACE "\\[([^]]+)\\]\\((\\.\\./)*(CONTRIBUTING|[a-z]+/README|tests/|bench/|tools/|cmake/)[^)]*\\)" "\\1"
         content "${content}")
  file(WRITE "${text}" "${content}")
endforeach()
