// SPDX-License-Identifier: Apache-2.0
// All layers and types through C: the rows of the file that WEFT_CONFORMANCE_ROWS names
// (tests/bindings/conformance_rows.py).

#include "core/json.hpp"

#include "calls.hpp"
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace weft::capi::conformance_test {
namespace {

using namespace testing_support;

std::string replay(const Json& row) {
  weft_mesh* const mesh = make_mesh(row["network"].dump().c_str());
  std::vector<float> x;
  for (const Json& value : row["x"]) x.push_back(value.get<float>());
  const weft_input input{"x", x.data(), x.size()};
  if (!row.contains("learning")) {
    const std::string text = text_of_call([&](char* to, std::size_t capacity, std::size_t* needed) {
      return weft_mesh_describe(mesh, to, capacity, needed);
    });
    const Json described = parse_json(text, "description").value();
    const std::size_t ticks = x.size() / described["inputs"][0]["width"].get<std::size_t>();
    WEFT_EXPECT_OK(weft_mesh_run(mesh, &input, 1, ticks, nullptr, 0));
  } else {
    weft_learner* learner = nullptr;
    WEFT_EXPECT_OK(weft_learner_build(mesh, row["learning"].dump().c_str(), &learner));
    std::vector<std::uint32_t> labels;
    for (const Json& label : row["labels"]) labels.push_back(label.get<std::uint32_t>());
    weft_target target{};
    target.size = sizeof target;
    target.output = "y";
    target.labels = labels.data();
    target.label_count = labels.size();
    WEFT_EXPECT_OK(weft_learner_learn(learner, &input, 1, &target, 1, labels.size()));
    WEFT_EXPECT_OK(weft_learner_drain(learner));
    const std::string hash = hash_of(mesh);
    WEFT_EXPECT_OK(weft_learner_destroy(learner));
    WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
    return hash;
  }
  const std::string hash = hash_of(mesh);
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  return hash;
}

TEST(CConformance, EndsInTheStatesOfCpp) {
  const char* const path = std::getenv("WEFT_CONFORMANCE_ROWS");
  if (!path) GTEST_SKIP() << "WEFT_CONFORMANCE_ROWS names no file: ctest bindings.conformance does";
  std::ifstream file(path);
  std::size_t rows = 0, mismatches = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const Json row = parse_json(line, "row").value();
    const std::string hash = replay(row);
    EXPECT_EQ(hash, row["hash"].get<std::string>()) << row["name"].get<std::string>();
    mismatches += hash != row["hash"].get<std::string>();
  }
  std::printf("%zu rows, %zu mismatches\n", rows, mismatches);
}

}  // namespace
}  // namespace weft::capi::conformance_test
