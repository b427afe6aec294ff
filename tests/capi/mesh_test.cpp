// SPDX-License-Identifier: Apache-2.0
// Meshes through C: the same bits as in C++, at every way in and out.

#include "mesh/mesh.hpp"

#include "mesh/network/network_json.hpp"

#include "core/log.hpp"

#include "calls.hpp"
#include <array>
#include <filesystem>

namespace weft::capi::mesh_test {
namespace {

using namespace testing_support;

mesh::Mesh native(const char* json = kXor) {
  return mesh::Mesh::build(mesh::read_network(json, "test").value(), {.threads = 1}).value();
}

/// Answers of weft_take_flushed_results after a tick without a flushed result, and of one with some.
struct Told {
  int without, with;
};
#if defined(__x86_64__)
constexpr Told kTold{0, 0};
#elif defined(__aarch64__)
constexpr Told kTold{0, 1};
#else
constexpr Told kTold{1, 1};
#endif

TEST(CMesh, TicksAreTheBitsOfCpp) {
  mesh::Mesh expected = native();
  for (const std::size_t threads : {1, 2}) {
    weft_mesh* const mesh = make_mesh(kXor, threads);
    const std::array<float, 2> bits{0.25f, -1.0f};
    WEFT_ASSERT_OK(weft_mesh_set_input(mesh, "bits", 0, bits.data(), 2));
    WEFT_ASSERT_OK(weft_mesh_tick(mesh, 37));
    if (threads == 1) {
      ASSERT_TRUE(expected.set_input("bits", bits) && expected.tick(37));
    }
    EXPECT_EQ(hash_of(mesh), to_string(expected.state_hash()));
    std::array<float, 2> answer{}, same{};
    WEFT_ASSERT_OK(weft_mesh_output(mesh, "answer", 0, answer.data(), 2, nullptr));
    WEFT_ASSERT_OK(weft_mesh_output_at(mesh, {0, 0, 1, 0}, 0, same.data(), 2, nullptr));
    const auto wanted = expected.output("answer").value();
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), answer.begin()));
    EXPECT_EQ(answer, same);
    WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  }
}

TEST(CMesh, NetworksBuiltLayerByLayerAreThoseOfFiles) {
  weft_network *built = nullptr, *read = nullptr;
  WEFT_ASSERT_OK(weft_network_create("xor", 1, 1, 3, 1, &built));
  const std::size_t width = 2;
  WEFT_ASSERT_OK(weft_network_add_input(built, "bits", &width, 1));
  for (const char* layer :
       {R"({"type": "dense", "at": [0,0,0,0], "out": 16, "activation": "tanh", "from": ["bits", [0,0,2,0]]})",
        R"({"type": "dense", "at": [0,0,1,0], "out": 2})",
        R"({"type": "dense", "at": [0,0,2,0], "out": 8, "activation": "tanh", "from": [[0,0,0,0]]})"})
    WEFT_ASSERT_OK(weft_network_add_layer(built, layer));
  WEFT_ASSERT_OK(weft_network_add_output(built, "answer", {0, 0, 1, 0}));
  WEFT_ASSERT_OK(weft_network_set(built, "seed", "3"));
  WEFT_ASSERT_OK(weft_network_set(built, "learning", R"({"optimizer": {"type": "sgd", "lr": 0.1}})"));
  WEFT_ASSERT_OK(weft_network_read(kXor, std::strlen(kXor), nullptr, &read));
  const auto text = [](weft_network* of) {
    return text_of_call(
        [&](char* to, std::size_t size, std::size_t* needed) { return weft_network_text(of, to, size, needed); });
  };
  EXPECT_EQ(text(built), text(read));
  WEFT_EXPECT_FAILS(weft_network_add_layer(built, "{"), WEFT_PARSE_FAILED, "layer:1");
  WEFT_EXPECT_FAILS(weft_network_add_layer(built, R"({"type": "dense", "at": [0,0,0,0], "wdth": 1, "out": 0})"),
                    WEFT_OUT_OF_RANGE, "out");
  WEFT_EXPECT_FAILS(weft_network_set(built, "sed", "3"), WEFT_UNKNOWN_NAME, "'sed'");
  WEFT_EXPECT_FAILS(weft_network_set(built, "seed", "-3"), WEFT_OUT_OF_RANGE, "seed");
  const std::size_t zero = 0;
  WEFT_EXPECT_FAILS(weft_network_add_input(built, "z", &zero, 1), WEFT_OUT_OF_RANGE, "extent of 0");
  EXPECT_EQ(text(built), text(read));  // what failed changed nothing
  WEFT_EXPECT_OK(weft_network_destroy(built));
  WEFT_EXPECT_OK(weft_network_destroy(read));
}

TEST(CMesh, RunsAndPasses) {
  mesh::Mesh expected = native();
  weft_mesh* const mesh = make_mesh();
  std::vector<float> bits(2 * 20), got(2 * 20), wanted(2 * 20);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = 0.1f * static_cast<float>(i) - 1;
  const weft_input input{"bits", bits.data(), bits.size()};
  const weft_output output{"answer", got.data(), got.size()};
  const mesh::RunInput native_input{"bits", bits};
  const mesh::RunOutput native_output{"answer", wanted};
  WEFT_ASSERT_OK(weft_mesh_run(mesh, &input, 1, 20, &output, 1));
  ASSERT_TRUE(expected.run({&native_input, 1}, 20, {&native_output, 1}));
  EXPECT_EQ(got, wanted);
  WEFT_ASSERT_OK(weft_mesh_forward(mesh, &input, 1, 20, &output, 1));
  ASSERT_TRUE(expected.forward({&native_input, 1}, 20, {&native_output, 1}));
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(hash_of(mesh), to_string(expected.state_hash()));
  WEFT_EXPECT_FAILS(weft_mesh_run(mesh, &input, 1, 19, &output, 1), WEFT_SHAPE_MISMATCH, "40");
  WEFT_EXPECT_FAILS(weft_mesh_run(mesh, &input, 1, UINT64_MAX, nullptr, 0), WEFT_OUT_OF_RANGE, "ticks");
  std::uint64_t ticks = 0;
  WEFT_ASSERT_OK(weft_mesh_tick_for(mesh, 2'000'000, &ticks));
  EXPECT_GE(ticks, 1u);
  std::uint64_t now = 0;
  WEFT_ASSERT_OK(weft_mesh_ticks(mesh, &now));
  EXPECT_EQ(now, 20 + ticks);
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(CMesh, SavedLoadedAndRolledBack) {
  weft_mesh* const mesh = make_mesh();
  const float bits[2] = {1, -1};
  WEFT_ASSERT_OK(weft_mesh_set_input(mesh, "bits", 0, bits, 2));
  WEFT_ASSERT_OK(weft_mesh_tick(mesh, 9));
  const std::string there = hash_of(mesh);

  weft_snapshot* snapshot = nullptr;
  WEFT_ASSERT_OK(weft_snapshot_create(&snapshot));
  WEFT_EXPECT_FAILS(weft_mesh_restore_snapshot(mesh, snapshot), WEFT_INVALID_ARGUMENT, "");
  WEFT_ASSERT_OK(weft_mesh_take_snapshot(mesh, snapshot));
  std::size_t size = 0;
  WEFT_ASSERT_OK(weft_mesh_save_bytes(mesh, 1, nullptr, 0, &size));
  std::vector<char> file(size);
  WEFT_ASSERT_OK(weft_mesh_save_bytes(mesh, 1, file.data(), file.size(), &size));
  const std::string path = ::testing::TempDir() + "/weft_capi_mesh.entity";
  WEFT_ASSERT_OK(weft_mesh_save(mesh, path.c_str(), 1));

  WEFT_ASSERT_OK(weft_mesh_tick(mesh, 5));
  EXPECT_NE(hash_of(mesh), there);
  WEFT_ASSERT_OK(weft_mesh_restore_snapshot(mesh, snapshot));
  EXPECT_EQ(hash_of(mesh), there);

  weft_mesh *from_bytes = nullptr, *from_file = nullptr;
  WEFT_ASSERT_OK(weft_mesh_load_bytes(file.data(), file.size(), nullptr, &from_bytes));
  WEFT_ASSERT_OK(weft_mesh_load(path.c_str(), nullptr, &from_file));
  for (weft_mesh* const other : {mesh, from_bytes, from_file}) WEFT_ASSERT_OK(weft_mesh_tick(other, 3));
  EXPECT_EQ(hash_of(from_bytes), hash_of(mesh));
  EXPECT_EQ(hash_of(from_file), hash_of(mesh));
  file[file.size() / 2] ^= 1;
  weft_mesh* none = nullptr;
  WEFT_EXPECT_FAILS(weft_mesh_load_bytes(file.data(), file.size(), nullptr, &none), WEFT_CORRUPT, "bytes");
  WEFT_EXPECT_FAILS(weft_mesh_load("/nowhere/at.all", nullptr, &none), WEFT_NOT_FOUND, "/nowhere/at.all");
  EXPECT_EQ(none, nullptr);
  weft_network* network = nullptr;
  WEFT_ASSERT_OK(weft_network_load(path.c_str(), &network));
  WEFT_ASSERT_OK(weft_mesh_load_bytes(kXor, std::strlen(kXor), nullptr, &none));  // a network file's text
  for (weft_mesh* const each : {mesh, from_bytes, from_file, none}) WEFT_EXPECT_OK(weft_mesh_destroy(each));
  WEFT_EXPECT_OK(weft_network_destroy(network));
  WEFT_EXPECT_OK(weft_snapshot_destroy(snapshot));
  std::filesystem::remove(path);
}

TEST(CMesh, WeightsAreReadWrittenAndMorphed) {
  weft_mesh* const mesh = make_mesh();
  const weft_coord at{0, 0, 1, 0};
  std::vector<float> weights(2 * 16);
  std::size_t needed = 0;
  WEFT_ASSERT_OK(weft_mesh_read_weights(mesh, at, 0, nullptr, 0, &needed));
  ASSERT_EQ(needed, weights.size());
  WEFT_ASSERT_OK(weft_mesh_read_weights(mesh, at, 0, weights.data(), weights.size(), nullptr));
  for (float& weight : weights) weight *= 2;
  WEFT_ASSERT_OK(weft_mesh_write_weights(mesh, at, 0, weights.data(), weights.size()));
  std::vector<float> again(weights.size());
  WEFT_ASSERT_OK(weft_mesh_read_weights(mesh, at, 0, again.data(), again.size(), nullptr));
  EXPECT_EQ(again, weights);
  WEFT_EXPECT_FAILS(weft_mesh_write_weights(mesh, at, 0, weights.data(), 5), WEFT_SHAPE_MISMATCH, "5");
  WEFT_EXPECT_FAILS(weft_mesh_write_weights(mesh, at, 9, weights.data(), 5), WEFT_OUT_OF_RANGE, "parameter 9");
  WEFT_EXPECT_FAILS(weft_mesh_read_weights(mesh, {0, 0, 1, 7}, 0, nullptr, 0, &needed), WEFT_UNKNOWN_NAME, "[0,0,1,7]");
  WEFT_ASSERT_OK(weft_mesh_morph(mesh, at, "int8", nullptr));
  WEFT_EXPECT_FAILS(weft_mesh_morph(mesh, at, "int9", nullptr), WEFT_UNKNOWN_NAME, "int9");
  WEFT_EXPECT_FAILS(weft_mesh_morph(mesh, at, "int8", "rows"), WEFT_UNKNOWN_NAME, "rows");
  const std::string described = text_of_call(
      [&](char* to, std::size_t size, std::size_t* out) { return weft_mesh_describe(mesh, to, size, out); });
  EXPECT_NE(described.find("\"dtype\":\"int8\""), std::string::npos) << described;
  EXPECT_NE(described.find("{\"name\":\"weight\",\"shape\":[2,16]}"), std::string::npos) << described;
  const std::string statistics = text_of_call(
      [&](char* to, std::size_t size, std::size_t* out) { return weft_mesh_statistics(mesh, to, size, out); });
  EXPECT_NE(statistics.find("\"running\":3"), std::string::npos) << statistics;
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(CMesh, CommandsAreAnswered) {
  weft_mesh* const mesh = make_mesh();
  weft_command command{};
  command.size = sizeof command;
  command.kind = WEFT_COMMAND_PROBE;
  command.at = {0, 0, 1, 0};
  weft_answer* answer = nullptr;
  WEFT_ASSERT_OK(weft_mesh_command(mesh, &command, &answer));
  int is_done = 7;
  std::uint64_t tick = 7;
  WEFT_ASSERT_OK(weft_answer_status(answer, &is_done, &tick));
  EXPECT_EQ(is_done, 0);
  std::array<float, 2> values{};
  WEFT_EXPECT_FAILS(weft_answer_values(answer, values.data(), 2, nullptr), WEFT_NOT_FOUND, "tick");
  WEFT_ASSERT_OK(weft_mesh_tick(mesh, 1));
  WEFT_ASSERT_OK(weft_answer_status(answer, &is_done, &tick));
  EXPECT_EQ(is_done, 1);
  EXPECT_EQ(tick, 0u);
  WEFT_ASSERT_OK(weft_answer_values(answer, values.data(), 2, nullptr));
  WEFT_EXPECT_OK(weft_answer_destroy(answer));

  command.kind = WEFT_COMMAND_SET_PERIOD;
  command.number = 0;
  WEFT_ASSERT_OK(weft_mesh_command(mesh, &command, &answer));
  WEFT_ASSERT_OK(weft_mesh_tick(mesh, 1));
  WEFT_EXPECT_FAILS(weft_answer_status(answer, &is_done, nullptr), WEFT_INVALID_ARGUMENT, "period");
  EXPECT_EQ(is_done, 1);
  WEFT_EXPECT_OK(weft_answer_destroy(answer));
  for (const int kind : {WEFT_COMMAND_DISABLE, WEFT_COMMAND_ENABLE, WEFT_COMMAND_RESET}) {
    command.kind = kind;
    WEFT_EXPECT_OK(weft_mesh_command(mesh, &command, nullptr));
  }
  command.kind = WEFT_COMMAND_SET_RATE + 1;
  WEFT_EXPECT_FAILS(weft_mesh_command(mesh, &command, nullptr), WEFT_OUT_OF_RANGE, "kind");
  command.kind = WEFT_COMMAND_ENABLE;
  command.at = {9, 0, 0, 0};
  WEFT_EXPECT_FAILS(weft_mesh_command(mesh, &command, &answer), WEFT_OUT_OF_RANGE, "grid");
  WEFT_EXPECT_OK(weft_mesh_tick(mesh, 1));
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(CMesh, SessionsComeGoAndMove) {
  weft_mesh* const mesh = make_mesh();
  std::size_t session = 0, count = 0;
  WEFT_ASSERT_OK(weft_mesh_add_session(mesh, &session));
  EXPECT_EQ(session, 1u);
  const float bits[2] = {0.5f, 0.5f};
  WEFT_ASSERT_OK(weft_mesh_set_input(mesh, "bits", 1, bits, 2));
  WEFT_ASSERT_OK(weft_mesh_tick(mesh, 4));
  std::size_t needed = 0;
  WEFT_ASSERT_OK(weft_mesh_detach_session(mesh, 1, nullptr, 0, &needed));
  std::vector<char> file(needed);
  WEFT_ASSERT_OK(weft_mesh_detach_session(mesh, 1, file.data(), file.size(), &needed));
  WEFT_ASSERT_OK(weft_mesh_attach_session(mesh, file.data(), file.size(), 0, &session));
  EXPECT_EQ(session, 2u);
  std::array<float, 2> a{}, b{};
  WEFT_ASSERT_OK(weft_mesh_output(mesh, "answer", 1, a.data(), 2, nullptr));
  WEFT_ASSERT_OK(weft_mesh_output(mesh, "answer", 2, b.data(), 2, nullptr));
  EXPECT_EQ(a, b);
  WEFT_ASSERT_OK(weft_mesh_reset_session(mesh, 0));
  WEFT_ASSERT_OK(weft_mesh_remove_session(mesh, 2));
  WEFT_ASSERT_OK(weft_mesh_sessions(mesh, &count));
  EXPECT_EQ(count, 2u);
  WEFT_EXPECT_FAILS(weft_mesh_set_input(mesh, "bits", 2, bits, 2), WEFT_OUT_OF_RANGE, "session 2 of 2");
  char hash[33];
  WEFT_EXPECT_FAILS(weft_mesh_state_hash(mesh, 2, hash, 33, nullptr), WEFT_OUT_OF_RANGE, "session 2 of 2");
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

TEST(CMesh, LogLinesGoToAFunction) {
  std::vector<std::string> lines;
  const auto keep = [](void* user, int level, const char* text) {
    static_cast<std::vector<std::string>*>(user)->push_back(std::to_string(level) + " " + text);
  };
  WEFT_ASSERT_OK(weft_set_log(keep, &lines, WEFT_LOG_WARN));
  log_info("not told");
  log_warn("told");
  log_error("told too");
  WEFT_ASSERT_OK(weft_set_log(nullptr, nullptr, WEFT_LOG_OFF));
  log_error("nobody is told");
  WEFT_ASSERT_OK(weft_set_log(nullptr, nullptr, WEFT_LOG_WARN));
  WEFT_EXPECT_FAILS(weft_set_log(keep, &lines, 7), WEFT_OUT_OF_RANGE, "level");
  EXPECT_EQ(lines, (std::vector<std::string>{"3 told", "4 told too"}));
}

TEST(CMesh, LogLinesAreKeptUntilTheyAreRead) {
  const auto next = [](std::uint64_t nanoseconds = 0) {
    char text[64] = "";
    int level = -1;
    const weft_status status = weft_next_log(nanoseconds, &level, text, sizeof text, nullptr);
    return status == WEFT_OK ? std::to_string(level) + " " + text : weft_status_name(status);
  };
  WEFT_ASSERT_OK(weft_keep_log(WEFT_LOG_WARN));
  EXPECT_EQ(next(), "timed_out");
  EXPECT_EQ(next(1'000'000), "timed_out");
  log_info("not told");
  log_warn("told");
  log_error("told too");
  std::size_t needed = 0;
  char small[4] = "abc";
  WEFT_EXPECT_OK(weft_next_log(0, nullptr, nullptr, 0, &needed));
  EXPECT_EQ(needed, 5u);
  WEFT_EXPECT_FAILS(weft_next_log(0, nullptr, small, sizeof small, nullptr), WEFT_TOO_SMALL, "5");
  EXPECT_EQ(next(), "3 told");
  EXPECT_EQ(next(), "4 told too");
  std::thread late([] { log_warn("late"); });
  EXPECT_EQ(next(std::uint64_t{60} * 1'000'000'000), "3 late");
  late.join();
  for (int i = 0; i < 4100; ++i) log_warn(std::to_string(i));
  WEFT_ASSERT_OK(weft_set_log(nullptr, nullptr, WEFT_LOG_OFF));
  log_error("nobody is told");
  EXPECT_EQ(next(), "3 4 log lines were not read in time and are lost");
  for (int i = 4; i < 4100; ++i) ASSERT_EQ(next(), "3 " + std::to_string(i));
  EXPECT_EQ(next(), "timed_out");

  // Lines lost while the notice of lost ones was asked for its size, or did not fit, count too.
  WEFT_ASSERT_OK(weft_keep_log(WEFT_LOG_WARN));
  for (int i = 0; i < 4098; ++i) log_warn(std::to_string(i));
  WEFT_EXPECT_OK(weft_next_log(0, nullptr, nullptr, 0, &needed));
  log_warn("4098");
  WEFT_EXPECT_FAILS(weft_next_log(0, nullptr, small, sizeof small, nullptr), WEFT_TOO_SMALL, "");
  log_warn("4099");
  EXPECT_EQ(next(), "3 4 log lines were not read in time and are lost");
  log_warn("4100");
  EXPECT_EQ(next(), "3 1 log lines were not read in time and are lost");
  for (int i = 5; i < 4101; ++i) ASSERT_EQ(next(), "3 " + std::to_string(i));
  EXPECT_EQ(next(), "timed_out");
  WEFT_ASSERT_OK(weft_set_log(nullptr, nullptr, WEFT_LOG_WARN));
  WEFT_EXPECT_FAILS(weft_keep_log(6), WEFT_OUT_OF_RANGE, "6");
}

TEST(CMesh, MoreMemoryThanAllowedIsRefusedWithBothNumbers) {
  constexpr const char* kLarge =
      R"({"weft": 2, "inputs": {"x": [1000]}, "chain": [{"type": "dense", "out": 1000}], "learning": {}})";
  weft_network* network = nullptr;
  WEFT_ASSERT_OK(weft_network_read(kLarge, std::strlen(kLarge), nullptr, &network));
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = 1;
  options.max_memory = 1 << 20;
  weft_mesh* mesh = nullptr;
  WEFT_EXPECT_FAILS(weft_mesh_build(network, &options, &mesh), WEFT_TOO_LARGE, ", 1.0 MiB are allowed");
  // A million weights of 4 bytes among it.
  EXPECT_NE(std::string(weft_last_error()->message).find(" MiB of memory (weights 3.8 MiB, "), std::string::npos)
      << weft_last_error()->message;
  EXPECT_EQ(mesh, nullptr);
  WEFT_EXPECT_FAILS(weft_mesh_load_bytes(kLarge, std::strlen(kLarge), &options, &mesh), WEFT_TOO_LARGE, "max_memory");
  options.max_memory = 64 << 20;
  WEFT_ASSERT_OK(weft_mesh_build(network, &options, &mesh));
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  WEFT_EXPECT_OK(weft_network_destroy(network));
}

// On x86-64 nothing differs whatever is flushed; on AArch64 a product below 2^-126 is told, once.
TEST(CMesh, FlushedResultsAreTold) {
  int flushed = 7;
  WEFT_ASSERT_OK(weft_take_flushed_results(&flushed));  // those of tests before
  weft_mesh* const mesh = make_mesh(R"({"weft": 2, "inputs": {"bits": [2]}, "chain": [{"type": "dense", "out": 2}]})");
  const auto tick = [&](float value) {
    const float bits[2] = {value, -value};
    WEFT_EXPECT_OK(weft_mesh_set_input(mesh, "bits", 0, bits, 2));
    WEFT_EXPECT_OK(weft_mesh_tick(mesh, 1));
    WEFT_EXPECT_OK(weft_take_flushed_results(&flushed));
    return flushed;
  };
  EXPECT_EQ(tick(1), kTold.without);
  EXPECT_EQ(tick(0x1p-126f), kTold.with);
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  WEFT_EXPECT_FAILS(weft_take_flushed_results(nullptr), WEFT_INVALID_ARGUMENT, "out_flushed");
}

TEST(CMesh, DevicesAreListed) {
  const std::string list = text_of_call(weft_devices);
  EXPECT_EQ(list.find(R"([{"missing":"","name":"cpu","selector":"cpu"})"), 0u) << list;
}

}  // namespace
}  // namespace weft::capi::mesh_test
