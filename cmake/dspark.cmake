# Flags and helpers that every folder shares.

# The bits (docs/numerics.md): no contraction, no fast-math, anywhere. Instruction sets are enabled only in the
# kernel files that own them, so that one binary runs on any x86-64.
add_compile_options(-ffp-contract=off -fno-fast-math -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter)
if(DSPARK_WERROR)
  add_compile_options(-Werror)
endif()

# dspark_library(NAME deps... [SUBFOLDERS folders...]): one static library of all *.cc of this folder and the given
# subfolders but tests, fuzzers and benchmarks, and one test program of all their *_test.cc.
function(dspark_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" SUBFOLDERS)
  list(TRANSFORM arg_SUBFOLDERS APPEND /*.cc OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS *.cc ${patterns})
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  add_library(dspark_${name} STATIC ${sources})
  target_include_directories(dspark_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(dspark_${name} PUBLIC ${arg_UNPARSED_ARGUMENTS})
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test dspark_${name} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE DSPARK_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
    gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
  endif()
  if(DSPARK_FUZZ)
    foreach(fuzzer ${fuzzers})
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} ${fuzzer})
      target_link_libraries(${target} dspark_${name})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()
