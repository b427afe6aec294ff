// SPDX-License-Identifier: Apache-2.0
// The main of a module's test program: runs all tests, or with --source=rope_test.cpp those of one file.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

#ifdef WEFT_SANITIZED
// Leaks of drivers and layers, and memory whose pointers the leak checker does not see, are not ours. Nor what oneTBB's
// workers still hold of an observer when the process ends: they let go of it when they next look for work.
extern "C" __attribute__((visibility("default"), used)) const char* __lsan_default_suppressions() {
  return "leak:libvulkan_lvp.so\nleak:libVkLayer_khronos_validation.so\nleak:tbb::detail::r1::observe\n";
}
#endif

namespace {

/// A filter of GoogleTest for the tests of one file.
std::string tests_of(std::string_view source) {
  std::string names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i)
    for (int j = 0; j < all.GetTestSuite(i)->total_test_count(); ++j) {
      const testing::TestInfo& test = *all.GetTestSuite(i)->GetTestInfo(j);
      const std::string_view file = test.file();
      if (file.substr(file.rfind('/') + 1) == source)
        names += std::string(test.test_suite_name()) + "." + test.name() + ":";
    }
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kSource = "--source=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string names = word.starts_with(kSource) ? tests_of(word.substr(kSource.size())) : "";
    if (names.empty()) {
      std::fprintf(stderr, "%s: no tests: expected --source=<file>_test.cpp, of a file of this program\n", argv[i]);
      return 2;
    }
    const std::string given = GTEST_FLAG_GET(filter);  // what it leaves out stays out
    const std::size_t without = given.find('-');
    GTEST_FLAG_SET(filter, names + (without == std::string::npos ? "" : given.substr(without)));
  }
  return RUN_ALL_TESTS();
}
