// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "capi/weft.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace weft::capi::testing_support {

/// A chain with a feedback loop, one input and one output.
inline constexpr const char* kXor = R"({"weft": 2, "name": "xor", "seed": 3, "grid": {"x": 3}, "inputs": {"bits": [2]},
  "layers": [{"type": "dense", "at": [0,0,0,0], "out": 16, "activation": "tanh", "from": ["bits", [0,0,2,0]]},
             {"type": "dense", "at": [0,0,1,0], "out": 2},
             {"type": "dense", "at": [0,0,2,0], "out": 8, "activation": "tanh", "from": [[0,0,0,0]]}],
  "outputs": {"answer": [0,0,1,0]}, "learning": {"optimizer": {"type": "sgd", "lr": 0.1}}})";

#define WEFT_EXPECT_OK(call) EXPECT_EQ((call), WEFT_OK) << weft_last_error()->message
#define WEFT_ASSERT_OK(call) ASSERT_EQ((call), WEFT_OK) << weft_last_error()->message
/// A call that fails with a status, and whose text has some words.
#define WEFT_EXPECT_FAILS(call, status, words)                                                                       \
  do {                                                                                                               \
    EXPECT_EQ((call), (status)) << weft_last_error()->message;                                                       \
    EXPECT_EQ(weft_last_error()->code, (status));                                                                    \
    EXPECT_NE(std::string(weft_last_error()->message).find(words), std::string::npos) << weft_last_error()->message; \
  } while (false)

inline weft_mesh* make_mesh(const char* json = kXor, std::size_t threads = 1) {
  weft_network* network = nullptr;
  WEFT_EXPECT_OK(weft_network_read(json, std::strlen(json), "test", &network));
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = threads;
  weft_mesh* mesh = nullptr;
  WEFT_EXPECT_OK(weft_mesh_build(network, &options, &mesh));
  WEFT_EXPECT_OK(weft_network_destroy(network));
  return mesh;
}

inline std::string hash_of(weft_mesh* mesh, std::size_t session = 0) {
  char text[33] = "";
  WEFT_EXPECT_OK(weft_mesh_state_hash(mesh, session, text, sizeof text, nullptr));
  return text;
}

/// A text of whatever length: `ask(buffer, capacity, out_needed)`.
template <class Ask>
std::string text_of_call(Ask&& ask) {
  std::size_t needed = 0;
  WEFT_EXPECT_OK(ask(nullptr, 0, &needed));
  std::vector<char> text(needed);
  WEFT_EXPECT_OK(ask(text.data(), text.size(), &needed));
  return text.data();
}

}  // namespace weft::capi::testing_support
