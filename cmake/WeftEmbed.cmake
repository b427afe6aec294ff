# SPDX-License-Identifier: Apache-2.0
# weft_embed_files(weft_server server/page HEADER NAMESPACE FUNCTION): the folder's pages, styles and scripts become part
# of the library (tools/embed_files.py). A new file touches no CMake.
function(weft_embed_files target folder header namespace function)
  find_program(WEFT_PYTHON python3 HINTS /usr/bin REQUIRED)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.html ${PROJECT_SOURCE_DIR}/${folder}/*.css
       ${PROJECT_SOURCE_DIR}/${folder}/*.mjs)
  set(out ${PROJECT_BINARY_DIR}/embedded)
  file(MAKE_DIRECTORY ${out})
  add_custom_command(
    OUTPUT ${out}/${function}.cpp
    COMMAND ${WEFT_PYTHON} -B -E -S ${PROJECT_SOURCE_DIR}/tools/embed_files.py ${out}/${function}.cpp ${header}
            ${namespace} ${function} ${files}
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/tools/embed_files.py
    COMMENT "Files of ${folder}"
    VERBATIM)
  set_source_files_properties(${out}/${function}.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${out}/${function}.cpp)
endfunction()
