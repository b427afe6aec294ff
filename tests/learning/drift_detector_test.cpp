// SPDX-License-Identifier: Apache-2.0
// Detectors of drift: the alarms of river's documentation, of CapyMOA's, and those of a reference in Python
// (tools/make_drift_goldens.py), and that a detector that was saved in the middle of a window goes on as if it were
// not.

#include "learning/drift/drift_options.hpp"
#include "learning/options.hpp"

#include "mesh/memory/byte_archive.hpp"

#include "kernels/float_environment.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace weft::learning::drift_detector_test {
namespace {

using mesh::testing_support::must;

constexpr Scopes kAll{Scope::messages};

Json goldens() {
  std::ifstream file(source_path("tests/data/drift.json"));
  std::stringstream text;
  text << file.rdbuf();
  return must(parse_json(text.str(), "drift.json"));
}

std::vector<double> stream(const Json& all, const std::string& name) {
  std::vector<double> values;
  for (const Json& value : all["streams"][name]) values.push_back(value.get<double>());
  return values;
}

/// Options by their names in network files.
DetectorOptions options_of(const std::string& detector, Json options) {
  options["detector"] = detector;
  return must(read_learning(Json{{"drift", options}}.dump())).drift.detector;
}

struct Alarms {
  std::vector<std::size_t> warnings, changes;  // of warnings in a row the first
};

Alarms alarms(DriftDetector& detector, const std::vector<double>& values) {
  Alarms found;
  bool is_warned = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const DriftLevel level = detector.add(values[i]);
    if (level == DriftLevel::warning && !is_warned) {
      found.warnings.push_back(i);
      is_warned = true;
    }
    if (level != DriftLevel::change && level != DriftLevel::improvement) continue;
    found.changes.push_back(i);
    is_warned = false;
  }
  return found;
}

TEST(DriftDetector, RaisesTheAlarmsOfTheReferences) {
  const Json all = goldens();
  std::size_t is_public = 0;  // of river's documentation seven, of CapyMOA's four
  std::set<std::string> documented;
  for (const Json& row : all["alarms"]) {
    const std::string name = row["detector"];
    const auto detector = make_detector(options_of(name, row["options"]));
    const Alarms found = alarms(*detector, stream(all, row["stream"]));
    EXPECT_EQ(found.warnings, row["warnings"].get<std::vector<std::size_t>>()) << name << row["stream"].dump();
    EXPECT_EQ(found.changes, row["changes"].get<std::vector<std::size_t>>()) << name << row["stream"].dump();
    is_public += row["public"].get<bool>();
    if (row["public"].get<bool>()) documented.insert(name);
  }
  EXPECT_EQ(is_public, 7u + 4u);
  EXPECT_EQ(documented.size() + 1, detector_names().size());  // each of them
}

std::vector<std::byte> saved(const DriftDetector& detector) {
  mesh::ByteArchive bytes;
  mesh::WriteArchive archive(bytes, kAll);
  detector.visit(archive);
  return {bytes.bytes().begin(), bytes.bytes().end()};
}

bool load(DriftDetector& detector, const std::vector<std::byte>& bytes) {
  mesh::ReadArchive archive(bytes, kAll);
  return detector.visit(archive);
}

std::vector<DetectorOptions> each_detector() {
  std::vector<DetectorOptions> all;
  for (std::size_t i = 1; i < detector_names().size(); ++i) all.push_back({.kind = static_cast<DetectorKind>(i)});
  return all;
}

TEST(DriftDetector, GoesOnFromTheMiddleOfAWindow) {
  const Json all = goldens();
  for (const DetectorOptions& options : each_detector()) {
    const auto values = stream(all, takes_errors_only(options.kind) ? "slow_errors" : "walk");
    const auto whole = make_detector(options);
    std::vector<DriftLevel> levels;
    for (const double value : values) levels.push_back(whole->add(value));
    auto detector = make_detector(options);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % 37 == 0) {
        auto other = make_detector(options);
        ASSERT_TRUE(load(*other, saved(*detector))) << name(options.kind) << " " << i;
        detector = std::move(other);
      }
      ASSERT_EQ(detector->add(values[i]), levels[i]) << name(options.kind) << " " << i;
    }
    EXPECT_EQ(saved(*detector), saved(*whole)) << name(options.kind);
  }
}

TEST(DriftDetector, HasTheSameBitsWhateverTheCallersRounding) {
  const Json all = goldens();
  for (const DetectorOptions& options : each_detector()) {
    const auto values = stream(all, "errors");
    const auto plain = make_detector(options), flushed = make_detector(options);
    for (const double value : values) plain->add(value);
    const kernels::FlushSubnormals scope;
    for (const double value : values) flushed->add(value);
    EXPECT_EQ(saved(*flushed), saved(*plain)) << name(options.kind);
  }
}

TEST(DriftDetector, PassesOverWhatIsNoNumber) {
  for (const DetectorOptions& options : each_detector()) {
    const auto detector = make_detector(options);
    detector->add(1.0);
    const auto before = saved(*detector);
    EXPECT_EQ(detector->add(std::numeric_limits<double>::quiet_NaN()), DriftLevel::none);
    EXPECT_EQ(detector->add(std::numeric_limits<double>::infinity()), DriftLevel::none);
    EXPECT_EQ(saved(*detector), before) << name(options.kind);
  }
}

// Numbers at each place in turn: refused, or a state that the next numbers do not break.
TEST(DriftDetector, TakesNoStateThatCannotBe) {
  const Json all = goldens();
  const auto values = stream(all, "errors");
  for (const DetectorOptions& options : each_detector()) {
    const auto detector = make_detector(options);
    for (std::size_t i = 0; i < 500; ++i) detector->add(values[i]);
    const auto good = saved(*detector);
    for (std::size_t at = 8; at < good.size(); at += 8)
      for (const double value : {-1.0, 0.5, 7.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
        auto bytes = good;
        std::memcpy(bytes.data() + at, &value, sizeof value);
        auto other = make_detector(options);
        if (!load(*other, bytes)) continue;
        for (std::size_t i = 0; i < 200; ++i) other->add(values[i]);
      }
    auto bytes = good;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    std::memcpy(bytes.data() + 8, &nan, sizeof nan);
    EXPECT_FALSE(load(*make_detector(options), bytes)) << name(options.kind);
  }
}

TEST(DriftDetector, RefusesOptionsThatContradictEachOther) {
  const auto text = [](const char* drift, const char* loss = "cross_entropy") {
    const auto read = read_learning(R"({"loss": ")" + std::string(loss) + R"(", "drift": )" + drift + "}");
    return read ? std::string("none") : read.error().text();
  };
  EXPECT_EQ(text(R"({"detector": "adwin"})"), "none");
  EXPECT_EQ(text(R"({"detector": "awin"})"),
            "learning.drift.detector: found \"awin\", expected one of none, adwin, kswin, page_hinkley, ddm, eddm, "
            "hddm_a, hddm_w; did you mean 'adwin'?");
  EXPECT_EQ(text(R"({"detector": "ddm", "clock": 3})"),
            "learning.drift.clock: counts only with detector adwin; it is ddm");
  EXPECT_EQ(text(R"({"detector": "ddm", "input": "loss"})"),
            "learning.drift.input: 'loss' with learning.drift.detector 'ddm', which takes errors of 0 or 1; give "
            "'error', or 'adwin', 'kswin' or 'page_hinkley'");
  EXPECT_EQ(text(R"({"detector": "kswin", "window": 50})"),
            "learning.drift.window: 50 does not hold learning.drift.recent 30 twice; give 60 or more");
  EXPECT_EQ(text(R"({"detector": "ddm", "warning_level": 5, "change_level": 3})"),
            "learning.drift.warning_level: 5 is above learning.drift.change_level 3, so a change would come before its "
            "warning");
  EXPECT_EQ(
      text(R"({"detector": "eddm", "warning_ratio": 0.5, "change_ratio": 0.75})"),
      "learning.drift.warning_ratio: 0.5 is below learning.drift.change_ratio 0.75, so a change would come before "
      "its warning");
  EXPECT_EQ(text(R"({"detector": "adwin", "rate_boost": 3})"),
            "learning.drift.rate_boost: 3 is no power of two, so it cannot be halved until it is 1; give 1, 2, 4, 8, "
            "...");
  EXPECT_EQ(text(R"({"detector": "adwin", "input": "loss"})", "mse"), "none");
  EXPECT_NE(text(R"({"detector": "adwin"})", "mse").find("knows no wrong answers"), std::string::npos);
  EXPECT_NE(text(R"({"detector": "ddm"})", "mse").find("takes wrong answers"), std::string::npos);
}

}  // namespace
}  // namespace weft::learning::drift_detector_test
