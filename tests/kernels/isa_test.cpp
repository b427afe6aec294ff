// SPDX-License-Identifier: Apache-2.0

#include "kernels/isa.hpp"

#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/general_isa.hpp"
#include <cstdlib>
#include <string>

namespace weft::kernels::isa_test {
namespace {

class WithIsa : public testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("WEFT_ISA");
    ASSERT_TRUE(set_active_isa(best_isa()));
  }
};
using Environment = WithIsa;
using Dispatching = WithIsa;

TEST(Isa, NamesReadBack) {
  for (int i = 0; i < kIsaCount; ++i) EXPECT_EQ(parse_isa(name(static_cast<Isa>(i))), static_cast<Isa>(i));
  EXPECT_FALSE(parse_isa("AVX2"));
  EXPECT_FALSE(parse_isa(""));
}

TEST(Isa, ScalarIsAlwaysThereAndTheBestIsListedLast) {
  const auto all = available_isas();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), Isa::scalar);
  EXPECT_EQ(all.back(), best_isa());
#if defined(__x86_64__)
  // The compiler's own detector, written apart from ours.
  EXPECT_EQ(is_supported(Isa::avx2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(is_supported(Isa::avx512), __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                                           __builtin_cpu_supports("avx512cd"));
  EXPECT_EQ(is_supported(Isa::avx512_vnni), is_supported(Isa::avx512) && __builtin_cpu_supports("avx512vnni"));
  EXPECT_TRUE(!is_supported(Isa::amx) || is_supported(Isa::avx512_vnni));
#elif defined(__aarch64__)
  EXPECT_TRUE(is_supported(Isa::neon));
  // tools/check_kernels.sh says what the CPU that it emulates has.
  const char* const wanted = std::getenv("WEFT_TEST_BEST_ISA");
  EXPECT_EQ(name(best_isa()), wanted ? wanted : name(best_isa()));
#endif
}

TEST_F(Environment, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  ::setenv("WEFT_ISA", "avx99", 1);
  const Status status = check_isa_environment();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Errc::unknown_name);
  EXPECT_EQ(status.error().text(),
            "WEFT_ISA='avx99' is not one of scalar, avx2, avx512, neon, avx512_vnni, amx, neon_dotprod, wasm128");
}

TEST_F(Environment, AnUnsupportedNameIsAnErrorThatSaysWhatItNeeds) {
  const Isa foreign = is_supported(Isa::neon) ? Isa::avx2 : Isa::neon;
  ::setenv("WEFT_ISA", std::string(name(foreign)).c_str(), 1);
  const Status status = check_isa_environment();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Errc::unsupported);
  EXPECT_NE(status.error().text().find(needs(foreign)), std::string::npos);
  EXPECT_EQ(set_active_isa(foreign).error().code(), Errc::unsupported);
  EXPECT_NE(active_isa(), foreign);
}

TEST_F(Environment, UnsetEmptyAndSupportedNamesAreFine) {
  ::unsetenv("WEFT_ISA");
  EXPECT_TRUE(check_isa_environment());
  ::setenv("WEFT_ISA", "", 1);
  EXPECT_TRUE(check_isa_environment());
  ::setenv("WEFT_ISA", "scalar", 1);
  EXPECT_TRUE(check_isa_environment());
}

TEST_F(Environment, ForcesThePathOfANewProcess) {
  // The child is started below.
  if (const char* forced = std::getenv("WEFT_TEST_CHILD")) {
    EXPECT_EQ(name(active_isa()), forced);
    return;
  }
  // Under an emulator (tools/check_kernels.sh) a child needs the emulator too.
  const char* runner = std::getenv("WEFT_TEST_RUNNER");
  for (const Isa isa : available_isas()) {
    const std::string named(name(isa));
    const std::string command = "WEFT_ISA=" + named + " WEFT_TEST_CHILD=" + named + " " + (runner ? runner : "") +
                                " '" + testing::internal::GetArgvs()[0] +
                                "' --gtest_filter=*ForcesThePath* > /dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << named;
  }
}

TEST_F(Dispatching, TheCodeThatRanIsTheOneThatWasForced) {
  alignas(64) const float w[16] = {1};  // a panel begins where a cache line does
  const float x[1] = {2};
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    float y[1] = {};
    linear({w, 1, 1}, nullptr, {x, 1, 1, 1}, Activation::linear, {}, {y, 1, 1, 1});
    EXPECT_EQ(y[0], 2.0f);
    EXPECT_EQ(last_isa_run(), general_isa(isa));
  }
}

}  // namespace
}  // namespace weft::kernels::isa_test
