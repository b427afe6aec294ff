# SPDX-License-Identifier: Apache-2.0
# Files installed besides programs, libraries and headers. Files that name places are written while installing, for
# the prefix that counts then (`cmake --install --prefix`).

# Manual pages and completions, made of what the program's --help says; a second after each link of it.
function(weft_install_cli_pages program)
  find_package(Python3 COMPONENTS Interpreter)
  if(NOT Python3_FOUND)
    message(STATUS "no python3: neither manual pages nor completions are made")
    return()
  endif()
  set(pages ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(OUTPUT ${pages}/done
                     COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
                     COMMAND Python3::Interpreter -B ${PROJECT_SOURCE_DIR}/tools/make_cli_pages.py
                             $<TARGET_FILE:${program}> ${pages}
                     COMMAND ${CMAKE_COMMAND} -E touch ${pages}/done
                     DEPENDS ${program} ${PROJECT_SOURCE_DIR}/tools/make_cli_pages.py ${PROJECT_SOURCE_DIR}/CHANGELOG.md
                     COMMENT "Manual pages and completions of ${program}" VERBATIM)
  add_custom_target(${program}_pages ALL DEPENDS ${pages}/done)
  install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/bash/weft DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/zsh/_weft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${pages}/fish/weft.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()

# Documents, examples and the network file's schema.
function(weft_install_documents)
  install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
  install(FILES README.md CHANGELOG.md SECURITY.md LICENSE CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES packaging/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/packaging)
  install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  # Made of the rows that the readers use, as the program lists them, so these are no files of the tree.
  if(NOT TARGET weft)
    return()
  endif()
  find_program(WEFT_PYTHON python3 HINTS /usr/bin REQUIRED)
  set(schema ${PROJECT_BINARY_DIR}/docs/network.schema.json)
  set(page ${PROJECT_BINARY_DIR}/docs/layer_options.md)
  set(script ${PROJECT_SOURCE_DIR}/tools/make_network_schema.py)
  add_custom_command(
    OUTPUT ${schema} ${page}
    COMMAND ${WEFT_PYTHON} -B ${script} --schema ${schema} $<TARGET_FILE:weft>
    COMMAND ${WEFT_PYTHON} -B ${script} --page ${page} $<TARGET_FILE:weft>
    DEPENDS weft ${script} tools/option_tables.py tools/network_schema_template.json
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    VERBATIM)
  add_custom_target(weft_schema ALL DEPENDS ${schema} ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${schema} DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
endfunction()

# weft.pc, for the libraries built; the unit and its log rotation.
function(weft_install_places)
  get_property(modules GLOBAL PROPERTY WEFT_BUILT_MODULES)
  list(REVERSE modules)  # a static library stands before those that it needs
  list(TRANSFORM modules PREPEND -lweft_)
  list(JOIN modules " " WEFT_LIBS)
  foreach(name BINDIR LIBDIR INCLUDEDIR DOCDIR)
    string(APPEND set_places "set(WEFT_${name} \"${CMAKE_INSTALL_${name}}\")\n")
  endforeach()
  install(CODE "${set_places}set(WEFT_VERSION \"${PROJECT_VERSION}\")\nset(WEFT_LIBS \"${WEFT_LIBS}\")\n
set(WEFT_HAS_PROGRAM \"$<TARGET_EXISTS:weft>\")
set(WEFT_HAS_C \"$<TARGET_EXISTS:weft_shared>\")\nset(WEFT_SOURCE \"${PROJECT_SOURCE_DIR}\")")
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_places.cmake)
endfunction()

# weft::weft and weft.hpp: all that a program needs which embeds Weft.
function(weft_add_umbrella)
  if(NOT TARGET weft_agent)
    return()
  endif()
  add_library(weft_weft INTERFACE)
  add_library(weft::weft ALIAS weft_weft)
  set_target_properties(weft_weft PROPERTIES EXPORT_NAME weft)
  target_link_libraries(weft_weft INTERFACE weft_agent weft_learning weft_mesh)
  # As "weft.hpp" and as <weft/weft.hpp>.
  target_include_directories(weft_weft INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS weft_weft EXPORT weft)
  install(FILES weft.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft)
endfunction()

function(weft_install)
  if(TARGET weft)
    weft_install_cli_pages(weft)
  endif()
  weft_install_documents()
  weft_install_places()
endfunction()
