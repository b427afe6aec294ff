# SPDX-License-Identifier: Apache-2.0
# weft_add_shaders(weft_gpu gpu/shaders): every .comp and every row of variants.txt becomes SPIR-V in the library, once for
# devices whose fma is fused and once with the emulated one (docs/gpu.md). A new shader or row touches no CMake.
function(weft_add_shaders target folder)
  find_program(WEFT_GLSLANG glslangValidator REQUIRED)
  find_program(WEFT_PYTHON python3 HINTS /usr/bin REQUIRED)
  set(out ${PROJECT_BINARY_DIR}/shaders)
  file(MAKE_DIRECTORY ${out})
  set(constants ${out}/math_constants.glsl ${out}/activation_rows.glsl)
  set(sources ${PROJECT_SOURCE_DIR}/kernels/math_constants.hpp ${PROJECT_SOURCE_DIR}/kernels/activations.def)
  add_custom_command(
    OUTPUT ${constants}
    COMMAND ${WEFT_PYTHON} -B ${PROJECT_SOURCE_DIR}/tools/make_shader_constants.py
            ${PROJECT_SOURCE_DIR}/kernels/math_constants.hpp ${out}/math_constants.glsl
            ${PROJECT_SOURCE_DIR}/kernels/activations.def ${out}/activation_rows.glsl
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/tools/make_shader_constants.py
    VERBATIM)
  # Rows of all shaders: name, source, macros.
  set(variants ${PROJECT_SOURCE_DIR}/${folder}/variants.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${variants})
  file(STRINGS ${variants} all REGEX "^[^#]")
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.comp)
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    list(APPEND all "${name} ${name}")
  endforeach()
  list(SORT all)  # by name, so that the table can be searched by halves
  set(arrays "")
  set(rows "")
  set(included "")
  foreach(row ${all})
    separate_arguments(macros UNIX_COMMAND "${row}")
    list(POP_FRONT macros name source)
    list(TRANSFORM macros PREPEND -D)
    set(shader ${PROJECT_SOURCE_DIR}/${folder}/${source}.comp)
    foreach(variant fused emulated)
      set(module ${out}/${name}.${variant})
      string(TOUPPER WEFT_${variant} define)
      add_custom_command(
        OUTPUT ${module}.spv ${module}.inc  # the first is what the file of dependencies names
        COMMAND ${WEFT_GLSLANG} --quiet -V --target-env vulkan1.2 -g0 -D${define} ${macros}
                -I${PROJECT_SOURCE_DIR}/${folder} -I${PROJECT_SOURCE_DIR} -I${out}
                --depfile ${module}.d -o ${module}.spv ${shader}
        COMMAND ${WEFT_PYTHON} -B -E -S ${PROJECT_SOURCE_DIR}/tools/embed_shader.py ${module}.spv ${module}.inc
        DEPENDS ${shader} ${constants} ${PROJECT_SOURCE_DIR}/tools/embed_shader.py
        DEPFILE ${module}.d
        COMMENT "Shader ${name} (${variant})"
        VERBATIM)
      list(APPEND included ${module}.inc)
      string(APPEND arrays "const unsigned char ${name}_${variant}[] = {\n#include \"${name}.${variant}.inc\"\n};\n")
    endforeach()
    string(APPEND rows "    {\"${name}\", {${name}_fused}, {${name}_emulated}},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out}/shaders.cpp CONTENT
       "#include \"gpu/internal/shader.hpp\"\n\nnamespace weft::gpu {\nnamespace {\n${arrays}const Shader kShaders[] = {\n${rows}};\n}  // namespace\nstd::span<const Shader> shaders() noexcept { return kShaders; }\n}  // namespace weft::gpu\n"
       @ONLY)
  set_source_files_properties(${out}/shaders.cpp PROPERTIES OBJECT_DEPENDS "${included}" INCLUDE_DIRECTORIES ${out})
  target_sources(${target} PRIVATE ${out}/shaders.cpp)
endfunction()
