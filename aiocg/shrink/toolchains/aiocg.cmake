# A toolchain file: compilers that `aiocg shrink` can record, and targets that it makes smaller.

set(CMAKE_C_COMPILER aiocg cc)
set(CMAKE_CXX_COMPILER aiocg c++)
set(ENV{AIOCG_CC_SEARCH} none) # while compilers are tested

# aiocg_optimize(<target> [<option of aiocg shrink>...])
#
# Adds a target `shrink-<target>`, which builds <target> anew and makes it smaller. What is found is remembered in
# `aiocg.lock` beside the top-level CMakeLists.txt.
function(aiocg_optimize target)
  set(name "$<TARGET_FILE_NAME:${target}>")
  add_custom_target(shrink-${target}
    COMMAND aiocg shrink --only "${name}" --only "*/${name}" ${ARGN}
            -- "${CMAKE_COMMAND}" --build "${CMAKE_BINARY_DIR}" --target ${target} --clean-first
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
    VERBATIM USES_TERMINAL)
endfunction()
