// SPDX-License-Identifier: Apache-2.0

#include "tests/models/imported.hpp"
#include <ostream>

namespace weft::models::family_golden_test {
namespace {

struct Row {
  const char* name;
  bool has_gguf;
};
std::ostream& operator<<(std::ostream& to, const Row& row) { return to << row.name; }

const Row kRows[] = {{"llama", true},  {"llama-3", false}, {"llama-linear", false}, {"llama-yarn", false},
                     {"qwen2", false}, {"qwen3", true},    {"gemma", false},        {"gemma2", true},
                     {"phi3", true},   {"gpt2", true},     {"bitnet", true},        {"bitnet-2b4t-style", false}};

class Family : public ::testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    folder_ = shared_data("language/families/" + std::string(GetParam().name));
    if (folder_.empty()) GTEST_SKIP() << "no ../shared/data";
  }
  std::string folder_;
};

TEST_P(Family, GivesTheLogitsOfABinary64Reference) {
  const Golden golden = read_golden(folder_ + "/golden.json");
  const auto mesh = imported_mesh(folder_, {.tokens = golden.ids.size()});
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_LT(largest_error(logits_of(*mesh, golden.ids, golden.logits[0].size()), golden.logits), 2e-5);
}

TEST_P(Family, IsTheSameFromGguf) {
  if (!GetParam().has_gguf) GTEST_SKIP() << "no model-f32.gguf among the shared data";
  const auto folder = imported_mesh(folder_, {.tokens = 12});
  const auto gguf = imported_mesh(folder_ + "/model-f32.gguf", {.tokens = 12});
  ASSERT_TRUE(folder) << folder.error().text();
  ASSERT_TRUE(gguf) << gguf.error().text();
  EXPECT_EQ(to_string(folder->state_hash()), to_string(gguf->state_hash()));
  EXPECT_EQ(folder->network_digest(), gguf->network_digest());
  const std::vector<float> ids{3, 17, 5, 90, 41, 8, 8, 60, 2, 33, 71, 12};
  EXPECT_EQ(logits_of(*folder, ids, 96), logits_of(*gguf, ids, 96));
}

INSTANTIATE_TEST_SUITE_P(All, Family, ::testing::ValuesIn(kRows), [](const auto& row) {
  std::string name = row.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace weft::models::family_golden_test
