// SPDX-License-Identifier: Apache-2.0
// Networks: read, loaded, built layer by layer.

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/mesh_load.hpp"

#include "core/json.hpp"

#include <limits>
#include <utility>

namespace weft::capi {
namespace {

constexpr std::size_t kMostWidth = std::numeric_limits<std::uint32_t>::max();

Outcome hand_out_network(mesh::NetworkSpec spec, weft_network** out_network) {
  auto network = std::make_unique<NetworkObject>();
  network->spec = std::move(spec);
  return hand_out(std::move(network), out_network);
}

/// A network file of nothing but `grid` and `layers`, with which parts of one are read.
Json frame_of(const GridShape& grid, Json layers) {
  return Json{{"weft", 2},
              {"grid", {{"z", grid.z}, {"y", grid.y}, {"x", grid.x}, {"layers", grid.layers}}},
              {"layers", std::move(layers)}};
}

Result<mesh::NetworkSpec> read_part(const Json& frame) {
  WEFT_TRY(const std::string text, write_json(frame));
  return mesh::read_network(text, "network");
}

/// A network with one key set, as a file's reader reads it.
Status set_key(mesh::NetworkSpec& spec, std::string_view key, std::string_view json) {
  WEFT_TRY(Json value, parse_json(json, key));
  Json frame = frame_of({}, Json::array({Json{{"type", "dense"}, {"at", Json::array({0, 0, 0, 0})}, {"out", 1}}}));
  frame[key] = std::move(value);
  const auto set = [&](auto mesh::NetworkSpec::*member) -> Status {
    WEFT_TRY(mesh::NetworkSpec read, read_part(frame));
    spec.*member = std::move(read.*member);
    return {};
  };
  if (key == "name") return set(&mesh::NetworkSpec::name);
  if (key == "seed") return set(&mesh::NetworkSpec::seed);
  if (key == "device") return set(&mesh::NetworkSpec::device);
  if (key == "supervision") return set(&mesh::NetworkSpec::supervision);
  if (key == "learning") return set(&mesh::NetworkSpec::learning);
  if (key == "stream") return set(&mesh::NetworkSpec::stream);
  if (key == "reinforcement") return set(&mesh::NetworkSpec::reinforcement);
  return fail(Errc::unknown_name, "key '" + std::string(key) +
                                      "' is none of name, seed, device, supervision, learning, stream, reinforcement");
}

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_network_read(const char* json, size_t bytes, const char* source, weft_network** out_network) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_network, "out_network"));
    WEFT_TRY(const ByteSpan text, bytes_of(json, bytes, "json"));
    WEFT_TRY(mesh::NetworkSpec spec, mesh::read_network(as_text(text), source ? source : "network"));
    return hand_out_network(std::move(spec), out_network);
  });
}

weft_status weft_network_load(const char* path, weft_network** out_network) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_network, "out_network"));
    WEFT_TRY(const std::string_view place, text_of(path, "path"));
    WEFT_TRY(mesh::NetworkSpec spec, mesh::load_network(std::string(place)));
    return hand_out_network(std::move(spec), out_network);
  });
}

weft_status weft_network_create(const char* name, uint32_t z, uint32_t y, uint32_t x, uint32_t layers,
                                weft_network** out_network) {
  return guarded([&]() -> Outcome {
    WEFT_CHECK(check_out(out_network, "out_network"));
    WEFT_TRY(const std::string_view called, text_of(name, "name"));
    mesh::NetworkSpec spec;
    spec.grid = {z, y, x, layers};
    WEFT_CHECK(spec.grid.check());
    WEFT_TRY(const std::string json, write_json(Json(called)));
    WEFT_CHECK(set_key(spec, "name", json));
    return hand_out_network(std::move(spec), out_network);
  });
}

weft_status weft_network_add_input(weft_network* network, const char* name, const size_t* shape, size_t axes) {
  return with<NetworkObject>(network, [&](NetworkObject& to) -> Outcome {
    WEFT_TRY(const std::string_view port, text_of(name, "name"));
    WEFT_TRY(const auto extents, array_of(shape, axes, "shape"));
    const std::string object = "input '" + std::string(port) + "': ";
    if (axes == 0 || axes > 8) return fail(Errc::out_of_range, object + std::to_string(axes) + " axes; 1 to 8 may be");
    mesh::PortSpec made{std::string(port), {}};
    for (const std::size_t extent : extents) {
      if (extent == 0 || extent > kMostWidth)
        return fail(Errc::out_of_range, object + "an extent of " + std::to_string(extent));
      made.shape.push_back(extent);
    }
    to.spec.inputs.push_back(std::move(made));
    return {};
  });
}

weft_status weft_network_add_layer(weft_network* network, const char* json) {
  return with<NetworkObject>(network, [&](NetworkObject& to) -> Outcome {
    WEFT_TRY(const std::string_view text, text_of(json, "json"));
    WEFT_TRY(Json layer, parse_json(text, "layer"));
    WEFT_TRY(mesh::NetworkSpec read, read_part(frame_of(to.spec.grid, Json::array({std::move(layer)}))));
    to.spec.layers.insert(to.spec.layers.end(), std::make_move_iterator(read.layers.begin()),
                          std::make_move_iterator(read.layers.end()));
    return {};
  });
}

weft_status weft_network_add_output(weft_network* network, const char* name, weft_coord at) {
  return with<NetworkObject>(network, [&](NetworkObject& to) -> Outcome {
    WEFT_TRY(const std::string_view output, text_of(name, "name"));
    to.spec.outputs.push_back({std::string(output), coord_of(at)});
    return {};
  });
}

weft_status weft_network_set(weft_network* network, const char* key, const char* json) {
  return with<NetworkObject>(network, [&](NetworkObject& to) -> Outcome {
    WEFT_TRY(const std::string_view called, text_of(key, "key"));
    WEFT_TRY(const std::string_view text, text_of(json, "json"));
    return set_key(to.spec, called, text);
  });
}

weft_status weft_network_text(weft_network* network, char* buffer, size_t capacity, size_t* out_needed) {
  return with<NetworkObject>(network, [&](NetworkObject& of) -> Outcome {
    WEFT_TRY(const std::string text, mesh::write_network(of.spec));
    return copy_text(text, buffer, capacity, out_needed);
  });
}

weft_status weft_network_destroy(weft_network* network) { return destroy<NetworkObject>(network); }
