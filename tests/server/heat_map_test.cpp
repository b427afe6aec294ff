// SPDX-License-Identifier: Apache-2.0
// Pictures of cells against values worked out by hand, and their routes and the page as clients see them.

#include "server/heat_map.hpp"

#include "server/page.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

namespace {

using namespace weft;
using namespace weft::testing;
using server::CellMetric;
using server::CellPlaces;
using server::CellQuery;

/// A head's fields and its bytes.
struct Picture {
  std::uint32_t width = 0, height = 0, z = 0, metric = 0, flags = 0;
  std::uint64_t tick = 0;
  float low = 0, high = 0;
  std::vector<int> codes;
};

template <class Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);  // hosts of these tests are little-endian
  return value;
}

Picture read_picture(const std::string& bytes) {
  Picture picture;
  if (bytes.size() < 32 || !bytes.starts_with("WHM1")) return picture;
  picture.width = number_at<std::uint16_t>(bytes, 4);
  picture.height = number_at<std::uint16_t>(bytes, 6);
  picture.z = number_at<std::uint16_t>(bytes, 8);
  picture.metric = number_at<std::uint8_t>(bytes, 10);
  picture.flags = number_at<std::uint8_t>(bytes, 11);
  picture.tick = number_at<std::uint64_t>(bytes, 16);
  picture.low = number_at<float>(bytes, 24);
  picture.high = number_at<float>(bytes, 28);
  for (std::size_t i = 32; i < bytes.size(); ++i) picture.codes.push_back(number_at<std::uint8_t>(bytes, i));
  return picture;
}

Picture draw(const CellQuery& query, const CellPlaces& places, const std::vector<float>& values) {
  return read_picture(server::draw_heat_map(query, places, 0x0102030405060708, values));
}

using Codes = std::vector<int>;
const CellPlaces kPlaces{{2, 2, 4, 1}, {0, 1, 2, 3, 4, 5, 6, 7}};  // all of z 0, none of z 1

TEST(HeatMap, PoolsActivityByItsMean) {
  CellQuery query;
  query.width = 2;
  query.height = 1;
  const Picture picture = draw(query, kPlaces, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(std::pair(picture.width, picture.height), std::pair(2u, 1u));
  EXPECT_EQ(picture.flags, 2u);
  EXPECT_EQ(picture.tick, 0x0102030405060708u);
  EXPECT_EQ(picture.low, 2.5f) << "(0 + 1 + 4 + 5) / 4";
  EXPECT_EQ(picture.high, 4.5f) << "(2 + 3 + 6 + 7) / 4";
  EXPECT_EQ(picture.codes, (Codes{0, 254}));
}

TEST(HeatMap, PoolsValuesByWhatIsFarthestFromZero) {
  CellQuery query;
  query.metric = CellMetric::value;
  query.width = 2;
  query.height = 1;
  const Picture picture = draw(query, kPlaces, {1, -4, 0, 0, 2, 3, 0, 2});
  EXPECT_EQ(picture.flags, 3u);
  EXPECT_EQ(std::pair(picture.low, picture.high), std::pair(-4.0f, 4.0f));
  EXPECT_EQ(picture.codes, (Codes{0, 191})) << "(2 + 4) / 8 * 254 = 190.5";
}

TEST(HeatMap, ShowsPlacesWithoutCellsAndFlatFields) {
  const CellPlaces two{{1, 1, 3, 1}, {0, 2}};
  const Picture picture = draw({}, two, {5, 5});
  EXPECT_EQ(picture.codes, (Codes{0, 255, 0}));
  EXPECT_EQ(picture.flags, 0u);
  CellQuery above;
  above.z = 1;
  const Picture empty = draw(above, kPlaces, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(empty.z, 1u);
  EXPECT_EQ(empty.codes, Codes(8, 255));
  EXPECT_EQ(std::pair(empty.low, empty.high), std::pair(0.0f, 0.0f));
}

TEST(HeatMap, CountsFaultsFromZeroAndGivesStatusesAsTheyAre) {
  const CellPlaces places{{1, 1, 3, 1}, {0, 1, 2}};
  CellQuery query;
  query.metric = CellMetric::faults;
  const Picture faults = draw(query, places, {1, 2, 4});
  EXPECT_EQ(std::pair(faults.low, faults.high), std::pair(0.0f, 4.0f));
  EXPECT_EQ(faults.codes, (Codes{64, 127, 254})) << "63.5 is rounded away from zero";
  query.metric = CellMetric::status;
  EXPECT_EQ(draw(query, places, {0, 3, 1}).codes, (Codes{0, 3, 1}));
}

TEST(HeatMap, AFullGridIsDrawnAsAnyOther) {
  std::mt19937 random(4);
  std::uniform_real_distribution<float> value(-3, 5);
  CellPlaces places{{2, 7, 19, 1}, {}};
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 2 * 7 * 19; ++i) places.places.push_back(i), values.push_back(value(random));
  for (const CellMetric metric : {CellMetric::activity, CellMetric::value, CellMetric::faults}) {
    CellQuery query;
    query.metric = metric, query.z = 1;
    places.is_full = false;
    const Picture slow = draw(query, places, values);
    places.is_full = true;
    const Picture fast = draw(query, places, values);
    EXPECT_EQ(std::pair(fast.low, fast.high), std::pair(slow.low, slow.high));
    EXPECT_EQ(fast.flags, slow.flags);
    EXPECT_EQ(fast.codes, slow.codes) << static_cast<int>(metric);
  }
}

TEST(HeatMap, QueriesAreReadWithinTheirLimits) {
  server::MeshDescription mesh;
  mesh.grid = {2, 8, 8};
  server::HttpRequest request;
  request.query = "metric=faults&z=1&w=1024&h=1&most=1000&session=s";
  const auto read = server::read_cell_query(request, mesh);
  ASSERT_TRUE(read.has_value()) << read.error().text();
  EXPECT_EQ(read->metric, CellMetric::faults);
  EXPECT_EQ(std::pair(read->width, read->height), std::pair(1024u, 1u));
  EXPECT_EQ(std::pair(read->z, read->most), std::pair(1u, std::size_t{1000}));
  EXPECT_EQ(read->session, "s");
  for (const std::string key : {"metric=gossip", "z=2", "z=-1", "w=0", "w=1025", "h=0", "h=1025", "most=0", "most=1001",
                                "w=wide", "color=red"}) {
    request.query = key;
    const auto refused = server::read_cell_query(request, mesh);
    ASSERT_FALSE(refused.has_value()) << key;
    EXPECT_NE(refused.error().text().find(key.substr(0, key.find('='))), std::string::npos) << refused.error().text();
  }
}

TEST(Cells, ListsAndDescribesWhatTheMeshComputed) {
  Serving serving;
  serving.make("a", false);
  const std::string mesh = "/api/v1/meshes/a";
  const Json after = serving.ask("POST", mesh + "/tick", R"({"n":2,"inputs":{"x":[1,2,3,0.5]}})").json();
  const Json list = serving.ask("GET", mesh + "/cells?most=1&metric=activity").json();
  ASSERT_EQ(list["cells"].size(), 1u);
  const Json one = serving.ask("GET", mesh + "/cells/0,0,1").json();
  EXPECT_EQ(one["tick"].get<int>(), 2);
  ASSERT_EQ(one["outputs"].size(), 3u);
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one["outputs"][i].get<double>(), after["outputs"]["y"][i].get<double>());
    sum += std::fabs(one["outputs"][i].get<double>());
  }
  for (const auto& row : {serving.ask("GET", mesh + "/cells").json()["cells"]}) {
    ASSERT_EQ(row.size(), 2u);
    EXPECT_GE(row[0]["value"].get<double>(), row[1]["value"].get<double>());
    const std::size_t last = row[0]["cell"][2].get<int>() == 1 ? 0 : 1;
    EXPECT_NEAR(row[last]["value"].get<double>(), sum / 3, 1e-6);
  }
  const Reply picture = serving.ask("GET", mesh + "/heatmap");
  EXPECT_EQ(picture.headers.at("x-weft-tick"), "2");
  EXPECT_EQ(read_picture(picture.body).tick, 2u);
  EXPECT_EQ(read_picture(picture.body).codes.size(), 2u);
}

TEST(Cells, RefuseWhatIsNotThere) {
  Serving serving;
  serving.make("a", false);
  const std::string mesh = "/api/v1/meshes/a";
  EXPECT_EQ(serving.ask("GET", mesh + "/heatmap?metric=gossip").status, 422);
  EXPECT_EQ(serving.ask("GET", mesh + "/heatmap?z=1").status, 422);
  EXPECT_EQ(serving.ask("GET", mesh + "/heatmap?session=none").status, 404);
  EXPECT_EQ(serving.ask("GET", mesh + "/cells?session=none").status, 404);
  EXPECT_EQ(serving.ask("GET", mesh + "/cells/0,0,2").status, 404);
  EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/none/heatmap").status, 404);
}

TEST(Page, ServesItsFilesWithTagsTypesAndAPolicy) {
  server::Service::Options options;
  options.assets = server::page_asset;
  Serving serving(std::move(options));
  const std::vector<std::pair<std::string, std::string>> files{{"/", "text/html; charset=utf-8"},
                                                               {"/assets/page.css", "text/css; charset=utf-8"},
                                                               {"/assets/page.mjs", "text/javascript; charset=utf-8"}};
  for (const auto& [path, type] : files) {
    const Reply reply = serving.ask("GET", path);
    ASSERT_EQ(reply.status, 200) << path;
    EXPECT_EQ(reply.headers.at("content-type"), type);
    EXPECT_TRUE(reply.headers.at("content-security-policy").starts_with("default-src 'none'; script-src 'self'"));
    const std::string tag = reply.headers.at("etag");
    const Reply again = serving.ask("GET", path, {}, {{"If-None-Match", tag}});
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(serving.ask("GET", path, {}, {{"If-None-Match", "\"other\""}}).status, 200);
    EXPECT_NE(serving.ask("GET", path, {}, {{"Accept-Encoding", "gzip"}}).headers.at("etag"), tag);
  }
  EXPECT_EQ(serving.ask("GET", "/assets/none.mjs").status, 404);
  EXPECT_EQ(serving.ask("GET", "/assets/../page.css").status, 404);
  EXPECT_EQ(serving.ask("POST", "/", "{}").status, 405);
}

}  // namespace
